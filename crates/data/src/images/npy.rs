//! Whole numbers as NumPy saves them (`.npy`): images and labels.

use std::path::Path;

use lessen_base::{Error, Result};

use crate::arrays::header::Header;
use crate::arrays::{Array, Dtype};
use crate::files::quoted;

/// An array of whole numbers in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Npy {
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub elements: Elements,
}

/// The elements of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Bytes without sign, and truth values as 0 and 1.
    Bytes(Vec<u8>),
    /// Other whole numbers.
    Integers(Vec<i64>),
}

impl Npy {
    /// The elements as bytes; the first one that is none otherwise.
    pub(super) fn into_bytes(self) -> std::result::Result<Vec<u8>, i64> {
        match self.elements {
            Elements::Bytes(bytes) => Ok(bytes),
            Elements::Integers(integers) => integers
                .into_iter()
                .map(|value| u8::try_from(value).map_err(|_| value))
                .collect(),
        }
    }

    /// The elements as integers.
    pub(super) fn into_integers(self) -> Vec<i64> {
        match self.elements {
            Elements::Bytes(bytes) => bytes.into_iter().map(i64::from).collect(),
            Elements::Integers(integers) => integers,
        }
    }
}

/// Reads a file.
///
/// # Errors
/// A file that cannot be read, is of another format, has other elements than whole numbers, or is longer or shorter
/// than it says.
pub fn read(path: &Path) -> Result<Npy> {
    let bytes = super::unpack::content(path)?;
    parse(&bytes).map_err(|fault| Error::user(format!("{} {fault}", path.display())))
}

/// Reads the content of a file; an error is the end of a sentence.
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Npy, String> {
    let header = Header::parse(bytes)?;
    let dtype = Dtype::of(&header.descr).filter(|dtype| !matches!(dtype, Dtype::Float(_)));
    let dtype = dtype.ok_or_else(|| {
        format!(
            "has elements of the type {}; save images with values from 0 to 255 and labels, both as \
             array.astype(\"uint8\") or wider integers",
            quoted(&header.descr)
        )
    })?;
    if header.is_fortran && header.shape.iter().filter(|size| **size > 1).count() > 1 {
        return Err("has its first axis innermost; save numpy.ascontiguousarray(array)".to_string());
    }
    let data = &bytes[header.end..];
    header.check(dtype, data.len())?;
    let elements = match dtype {
        Dtype::Unsigned(1) | Dtype::Bool => Elements::Bytes(data.to_vec()),
        _ => {
            let array = Array::of_bytes(header.shape.clone(), dtype, data.to_vec());
            Elements::Integers(array.integers().ok_or("has numbers beyond 2^63; save smaller ones")?)
        }
    };
    let shape = header.shape;
    Ok(Npy { shape, elements })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file of version 1.
    pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn header(descr: &str, shape: &str) -> String {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}   \n")
    }

    #[test]
    fn whole_numbers_are_read() {
        let bytes = parse(&file(&header("|u1", "(2, 3)"), &[1, 2, 3, 4, 5, 255])).unwrap();
        assert_eq!(
            (bytes.shape, bytes.elements),
            (vec![2, 3], Elements::Bytes(vec![1, 2, 3, 4, 5, 255]))
        );
        let signed = parse(&file(&header("<i2", "(2,)"), &[0xFE, 0xFF, 1, 2])).unwrap();
        assert_eq!(signed.into_integers(), [-2, 513]);
        let wide = parse(&file(&header("<i8", "(1,)"), &[7, 0, 0, 0, 0, 0, 0, 0])).unwrap();
        assert_eq!(wide.clone().into_bytes(), Ok(vec![7]));
        assert_eq!(wide.shape, [1]);
        let scalar = parse(&file(&header("|b1", "()"), &[1])).unwrap();
        assert_eq!((scalar.shape.len(), scalar.elements), (0, Elements::Bytes(vec![1])));
        let large = parse(&file(&header("<u2", "(1,)"), &[0, 1])).unwrap();
        assert_eq!(large.into_bytes(), Err(256));
        // Version 2 has a longer length.
        let mut second = b"\x93NUMPY\x02\x00".to_vec();
        let text = header("|u1", "(1,)");
        second.extend((text.len() as u32).to_le_bytes());
        second.extend(text.as_bytes());
        second.push(9);
        assert_eq!(parse(&second).unwrap().elements, Elements::Bytes(vec![9]));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_remedy() {
        let refused = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert!(refused(b"hello").contains("is no NumPy array"));
        assert!(refused(b"\x93NUMPY\x01").contains("cut off"));
        assert!(refused(b"\x93NUMPY\x01\x00\xFF\xFF{").contains("cut off"));
        assert!(refused(&file("{}", &[])).contains("cannot be understood"));
        assert!(refused(&file(&header("<f4", "(1,)"), &[0; 4])).contains("of the type '<f4'; save images"));
        assert!(refused(&file(&header("|u1", "(9999999999, 9999999999)"), &[1])).contains("1 bytes follow"));
        assert!(refused(&file(&header("|u1", "(-1,)"), &[1])).contains("cannot be understood"));
        assert!(refused(&file(&header("<u8", "(1,)"), &[0xFF; 8])).contains("beyond 2^63"));
        let records = "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }";
        assert!(refused(&file(records, &[0; 4])).contains("records"));
        let fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }";
        assert!(refused(&file(fortran, &[0; 4])).contains("ascontiguousarray"));
    }
}

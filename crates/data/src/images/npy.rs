//! Arrays as NumPy saves them (`.npy`): a magic word, a version, a header in the form of a Python dictionary, the
//! elements. Integers and truth values are read.

use std::path::Path;

use lessen_base::{Error, Result};

use super::idx::product;
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

/// Reads the content of a file; what is wrong with it otherwise, as the end of a sentence.
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Npy, String> {
    let other = || "is no NumPy array; save it with numpy.save".to_string();
    let cut_off = || "ends within its header; it is cut off, so save it again".to_string();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(other)?;
    let (size, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [1..=3, ..] | [] => return Err(cut_off()),
        _ => return Err(other()),
    };
    let (header, data) = rest.split_at_checked(size).ok_or_else(cut_off)?;
    let header = std::str::from_utf8(header).map_err(|_| other())?;
    let Header { kind, size, shape } = Header::parse(header)?;
    let said = product(&shape).and_then(|count| count.checked_mul(size));
    if said != Some(data.len()) {
        return Err(format!(
            "says that it holds an array of shape {shape:?} with {size} bytes for each element, but {} bytes follow; save it \
             again",
            data.len()
        ));
    }
    let elements = match (kind, size) {
        (Kind::Unsigned, 1) => Elements::Bytes(data.to_vec()),
        _ => Elements::Integers(
            data.chunks_exact(size)
                .map(|element| integer(kind, element))
                .collect::<Option<_>>()
                .ok_or("has numbers beyond 2^63; save smaller ones")?,
        ),
    };
    Ok(Npy { shape, elements })
}

/// A kind of whole numbers. Bytes of more than one have their lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
}

/// A number of up to 8 bytes, the lowest first; none above the greatest one with sign.
fn integer(kind: Kind, bytes: &[u8]) -> Option<i64> {
    let negative = kind == Kind::Signed && bytes.last().is_some_and(|last| last >> 7 == 1);
    let mut all = [if negative { 0xFF } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let value = i64::from_le_bytes(all);
    (negative || value >= 0).then_some(value)
}

/// What the header says.
struct Header {
    kind: Kind,
    /// Bytes of an element.
    size: usize,
    shape: Vec<usize>,
}

impl Header {
    /// Reads `{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }`.
    fn parse(text: &str) -> std::result::Result<Header, String> {
        let unclear = || "has a header that cannot be understood; save it with numpy.save".to_string();
        let value = |key: &str| -> Option<&str> {
            let after = text.split_once(&format!("'{key}'"))?.1;
            Some(after.trim_start().strip_prefix(':')?.trim_start())
        };
        let descr = value("descr").ok_or_else(unclear)?;
        let descr = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let descr = descr.ok_or("is an array of records; save an array of plain numbers")?.0;
        let is_fortran = value("fortran_order").ok_or_else(unclear)?.starts_with("True");
        let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
        let sizes = shape.ok_or_else(unclear)?.0.split(',').map(str::trim);
        let sizes = sizes.filter(|size| !size.is_empty());
        let shape: Vec<usize> = sizes
            .map(|size| size.parse().map_err(|_| unclear()))
            .collect::<std::result::Result<_, _>>()?;
        let (kind, size) = match descr {
            "|u1" | "|b1" => (Kind::Unsigned, 1),
            "|i1" => (Kind::Signed, 1),
            "<u2" => (Kind::Unsigned, 2),
            "<i2" => (Kind::Signed, 2),
            "<u4" => (Kind::Unsigned, 4),
            "<i4" => (Kind::Signed, 4),
            "<u8" => (Kind::Unsigned, 8),
            "<i8" => (Kind::Signed, 8),
            _ => {
                return Err(format!(
                    "has elements of the type {}; save images with values from 0 to 255 and labels, both as \
                     array.astype(\"uint8\") or wider integers",
                    quoted(descr)
                ));
            }
        };
        if is_fortran && shape.iter().filter(|size| **size > 1).count() > 1 {
            return Err("has its first axis innermost; save numpy.ascontiguousarray(array)".to_string());
        }
        Ok(Header { kind, size, shape })
    }
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

//! One array as NumPy saves it (`.npy`): a header, and the elements.

use std::io::Read;
use std::path::Path;

use lessen_base::atomic::write_with;
use lessen_base::{Error, Result};

use super::array::Array;
use super::dtype::Dtype;
use super::header::{Header, written};
use crate::files::unreadable;

/// Reads a file. Elements with the first axis innermost are transposed.
///
/// # Errors
/// A file that cannot be read, is of another format, has elements of a type that is no [`Dtype`], or is longer or
/// shorter than it says.
pub fn read(path: &Path) -> Result<Array> {
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    parse(bytes).map_err(|fault| Error::user(format!("{} {fault}", path.display())))
}

/// Writes a file of version 1.0 atomically.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
pub fn write(path: &Path, array: &Array) -> Result<()> {
    let header = header(array)?;
    write_with(path, |out| {
        out.write_all(&header)?;
        out.write_all(array.bytes())
    })
}

/// Writes a file of version 1.0 atomically whose elements, `f32` in rows of one length, `from` gives as little-endian
/// bytes, so that the array need not be in memory.
///
/// # Errors
/// A folder that cannot be written to, a full disk, and a `from` that ends before the array does.
pub fn write_rows(path: &Path, [rows, width]: [usize; 2], from: &mut dyn Read) -> Result<()> {
    let header = written(Dtype::Float(4), &[rows, width]);
    let header = header.ok_or_else(|| Error::internal("a header of two axes does not fit"))?;
    write_with(path, |out| {
        out.write_all(&header)?;
        let bytes = rows.checked_mul(width).and_then(|count| count.checked_mul(4));
        let bytes = bytes.ok_or_else(|| std::io::Error::other("the array has more bytes than a file"))?;
        match std::io::copy(&mut from.take(bytes as u64), out)? {
            copied if copied == bytes as u64 => Ok(()),
            _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    })
}

/// The bytes before an array's elements.
pub(super) fn header(array: &Array) -> Result<Vec<u8>> {
    let header = written(array.dtype(), array.shape());
    header.ok_or_else(|| Error::user(format!("an array of {} axes cannot be saved", array.shape().len())))
}

/// Reads the content of a file; an error is the end of a sentence.
pub(super) fn parse(mut bytes: Vec<u8>) -> std::result::Result<Array, String> {
    let header = Header::parse(&bytes)?;
    let dtype = header.dtype()?;
    bytes.drain(..header.end);
    header.check(dtype, bytes.len())?;
    if dtype == Dtype::Bool {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    if header.is_fortran {
        bytes = transposed(&bytes, &header.shape, dtype.bytes());
    }
    Ok(Array::of_bytes(header.shape, dtype, bytes))
}

/// Elements of so many bytes whose first axis is the innermost one, in row-major order.
fn transposed(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut to = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    for _ in 0..bytes.len() / size {
        let at = shape
            .iter()
            .zip(&index)
            .rev()
            .fold(0, |at, (extent, i)| at * extent + i);
        to.extend(&bytes[at * size..][..size]);
        // The next index, the last axis first.
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Scalar;
    use half::f16;

    /// A file of version 1.0 as NumPy 2 writes it.
    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{text:<117}\n").as_bytes());
        assert_eq!(bytes.len(), 128);
        bytes.extend(data);
        bytes
    }

    fn round_trip<T: Scalar>(shape: &[usize], elements: &[T]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let array = Array::new(shape, elements.iter().copied());
        write(&path, &array).unwrap();
        assert_eq!(read(&path).unwrap(), array);
        let bytes = std::fs::read(&path).unwrap();
        let end = Header::parse(&bytes).unwrap().end;
        assert!(end.is_multiple_of(64) && bytes[end - 1] == b'\n' && bytes[6..8] == [1, 0]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn arrays_of_every_dtype_and_rank_come_back() {
        round_trip(
            &[2, 3],
            &[1.5f32, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, 3e38],
        );
        round_trip(&[2], &[0.1f64, -1e300]);
        round_trip(&[1, 1, 3], &[f16::from_f32(0.1), f16::NEG_INFINITY, f16::ZERO]);
        round_trip(&[4], &[i64::MIN, -1, 0, i64::MAX]);
        round_trip(&[2], &[i32::MIN, i32::MAX]);
        round_trip(&[2], &[0, u32::MAX]);
        round_trip(&[3], &[0u8, 1, 255]);
        round_trip(&[2], &[true, false]);
        round_trip(&[], &[7.0f32]);
        round_trip::<f32>(&[0, 3], &[]);
        round_trip(&[1; 32], &[1u8]);
    }

    #[test]
    fn a_file_is_written_byte_by_byte_as_numpy_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        for (shape, text) in [(&[2, 1][..], "(2, 1)"), (&[2], "(2,)"), (&[1, 1, 2], "(1, 1, 2)")] {
            write(&path, &Array::new(shape, [1i32, -2])).unwrap();
            let expected = file("<i4", "False", text, &[1, 0, 0, 0, 254, 255, 255, 255]);
            assert_eq!(std::fs::read(&path).unwrap(), expected);
        }
        write(&path, &Array::new(&[], [true])).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), file("|b1", "False", "()", &[1]));
    }

    #[test]
    fn elements_are_read_as_numbers() {
        let read = |descr: &str, data: &[u8]| parse(file(descr, "False", "(2,)", data)).unwrap();
        let floats = |descr: &str, data: &[u8]| read(descr, data).floats().collect::<Vec<_>>();
        assert_eq!(floats("<f2", &[0, 0x3C, 0, 0xC0]), [1.0, -2.0]);
        assert_eq!(floats("<f4", &[0, 0, 0xC0, 0x3F, 0, 0, 0, 0x80]), [1.5, 0.0]);
        assert_eq!(floats("|u1", &[1, 255]), [1.0, 255.0]);
        assert_eq!(floats("|b1", &[0, 9]), [0.0, 1.0]);
        let integers = |descr: &str, data: &[u8]| read(descr, data).integers();
        assert_eq!(integers("|i1", &[0x80, 0x7F]), Some(vec![-128, 127]));
        assert_eq!(integers("<i2", &[0xFE, 0xFF, 1, 2]), Some(vec![-2, 513]));
        assert_eq!(integers("<u2", &[0xFE, 0xFF, 1, 2]), Some(vec![0xFFFE, 513]));
        assert_eq!(
            integers("<i4", &[0, 0, 0, 0x80, 1, 0, 0, 0]),
            Some(vec![i32::MIN.into(), 1])
        );
        assert_eq!(integers("<u8", &[0xFF; 16]), None);
        assert_eq!(integers("<i8", &[0xFF; 16]), Some(vec![-1, -1]));
        assert_eq!(integers("<f4", &[0; 8]), None);
        assert_eq!(floats("<f8", &[[0; 8], 2f64.to_le_bytes()].concat()), [0.0, 2.0]);
    }

    #[test]
    fn elements_with_the_first_axis_innermost_are_transposed() {
        let data: Vec<u8> = [1i16, 2, 3, 4, 5, 6].iter().flat_map(|x| x.to_le_bytes()).collect();
        let array = parse(file("<i2", "True", "(2, 3)", &data)).unwrap();
        assert_eq!(array.integers().unwrap(), [1, 3, 5, 2, 4, 6]);
        assert_eq!(array.shape(), [2, 3]);
        let array = parse(file("|i1", "True", "(2, 1, 2, 2)", &[0, 1, 2, 3, 4, 5, 6, 7])).unwrap();
        assert_eq!(array.integers().unwrap(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(parse(file("|i1", "True", "()", &[3])).unwrap().integers().unwrap(), [3]);
        assert_eq!(parse(file("|i1", "True", "(0, 2)", &[])).unwrap().shape(), [0, 2]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_remedy() {
        let refused = |bytes: Vec<u8>| parse(bytes).unwrap_err();
        let whole = file("<f4", "False", "(2,)", &[0; 8]);
        for end in 0..whole.len() {
            let sentence = refused(whole[..end].to_vec());
            let expected = match end {
                ..6 => "is no NumPy array",
                6..128 => "is cut off",
                _ => "bytes follow; save it again",
            };
            assert!(sentence.contains(expected), "{end}: {sentence}");
        }
        assert!(refused([&whole[..], &[0]].concat()).contains("but 9 bytes follow"));
        let largest = usize::MAX;
        for shape in [
            "(4000000000,)",
            "(9999999999, 9999999999)",
            &format!("({largest},)"),
            &format!("(2, {largest})"),
        ] {
            assert!(
                refused(file("<f4", "True", shape, &[0; 4])).contains("but 4 bytes follow"),
                "{shape}"
            );
        }
        for descr in [">f4", "<U3", "<c8", "|O", "<M8[ns]", "<f16"] {
            let sentence = refused(file(descr, "False", "(1,)", &[0; 4]));
            assert!(
                sentence.contains(&format!("of the type '{descr}'; save numbers")),
                "{sentence}"
            );
        }
        assert!(refused(file("<f4", "False", "(-1,)", &[0; 4])).contains("cannot be understood"));
    }
}

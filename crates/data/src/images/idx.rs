//! Files of the format idx, in which MNIST and data sets like it come: two zero bytes, one for the type of elements,
//! one for the number of axes, the size of each axis (32 bits, the highest byte first), then the elements.

use std::path::Path;

use lessen_base::{Error, Result};

use super::unpack;

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub bytes: Vec<u8>,
}

/// The byte that stands for elements of one byte without sign.
const BYTES: u8 = 8;

/// Reads a file of bytes, packed by gzip or not.
///
/// # Errors
/// A file that cannot be read, is of another format, has other elements than bytes, or is longer or shorter than it
/// says.
pub fn read(path: &Path) -> Result<Idx> {
    let wrong = |what: &str| Error::user(format!("{} {what}", path.display()));
    let mut bytes = unpack::content(path)?;
    let axes = match bytes[..] {
        [0, 0, BYTES, axes, ..] => usize::from(axes),
        [0, 0, 9 | 11..=14, ..] => {
            return Err(wrong(
                "is an idx file of other elements than bytes; save it with unsigned bytes, 0 to 255",
            ));
        }
        _ => {
            return Err(wrong(
                "is no idx file; name one that begins as MNIST's do, packed by gzip or not",
            ));
        }
    };
    let header = 4 + 4 * axes;
    if bytes.len() < header {
        return Err(wrong(
            "ends within its header; it is cut off, so copy or download it again",
        ));
    }
    let size = |bytes: &[u8]| bytes.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
    let shape: Vec<usize> = bytes[4..header].chunks(4).map(size).collect();
    let (found, said) = (bytes.len() - header, product(&shape));
    if said != Some(found) {
        let fault = match said {
            Some(said) if said < found => "is longer than it says",
            _ => "is cut off",
        };
        return Err(wrong(&format!(
            "says that it holds an array of shape {shape:?}, but {found} bytes follow; it {fault}, so copy or download it again"
        )));
    }
    bytes.drain(..header);
    Ok(Idx { shape, bytes })
}

/// The product of sizes, unless it is too large.
pub(super) fn product(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn an_array_is_read_packed_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-idx2-ubyte");
        let sound = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        let expected = Idx {
            shape: vec![2, 3],
            bytes: vec![1, 2, 3, 4, 5, 6],
        };
        fs::write(&path, sound).unwrap();
        assert_eq!(read(&path).unwrap(), expected);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&sound).unwrap();
        let packed = packer.finish().unwrap();
        fs::write(&path, &packed).unwrap();
        assert_eq!(read(&path).unwrap(), expected);
        fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        let sentence = read(&path).unwrap_err().to_string();
        assert!(sentence.contains("a-idx2-ubyte cannot be unpacked") && sentence.contains("download it again"));
    }

    #[test]
    fn lies_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(refused(b"hello").contains("is no idx file"));
        assert!(refused(&[0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]).contains("other elements than bytes"));
        assert!(refused(&[0, 0, 8, 3, 0, 0]).contains("ends within its header"));
        let short = refused(&[0, 0, 8, 1, 0, 0, 0, 3, 1, 2]);
        assert!(
            short.contains("an array of shape [3], but 2 bytes follow; it is cut off"),
            "{short}"
        );
        assert!(refused(&[0, 0, 8, 1, 0, 0, 0, 1, 1, 2]).contains("is longer than it says"));
        // A product beyond 64 bits.
        let mut claim = vec![0, 0, 8, 3];
        claim.extend([0xFF; 12]);
        assert!(refused(&claim).contains("is cut off"));
        fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().to_string().starts_with("there is no file"));
    }
}

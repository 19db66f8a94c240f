//! The header of an array as NumPy saves it: a magic word, a version, the text of a Python dictionary.

use super::dtype::Dtype;
use crate::files::quoted;

/// Headers end at a multiple of so many bytes.
const ALIGNMENT: usize = 64;

const MAGIC: &[u8] = b"\x93NUMPY";

/// What a header says.
pub(crate) struct Header {
    /// The name of the dtype in the file.
    pub(crate) descr: String,
    /// Whether the first axis is the innermost one.
    pub(crate) is_fortran: bool,
    pub(crate) shape: Vec<usize>,
    /// Where the elements begin.
    pub(crate) end: usize,
}

impl Header {
    /// Reads the header of a file; an error is the end of a sentence.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, String> {
        let other = || "is no NumPy array; save it with numpy.save".to_string();
        let cut_off = || "ends within its header; it is cut off, so save it again".to_string();
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(other)?;
        let (size, rest) = match rest {
            [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
            [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
            [1..=3, ..] | [] => return Err(cut_off()),
            _ => return Err(other()),
        };
        let (text, data) = rest.split_at_checked(size).ok_or_else(cut_off)?;
        let text = std::str::from_utf8(text).map_err(|_| other())?;
        Header::of_text(text, bytes.len() - data.len())
    }

    /// Reads `{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }`.
    fn of_text(text: &str, end: usize) -> Result<Header, String> {
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
        let shape = sizes.map(|size| size.parse().map_err(|_| unclear()));
        Ok(Header {
            descr: descr.to_string(),
            is_fortran,
            shape: shape.collect::<Result<_, _>>()?,
            end,
        })
    }

    /// Checks that so many bytes follow as the shape says.
    pub(crate) fn check(&self, dtype: Dtype, follow: usize) -> Result<(), String> {
        let (shape, size) = (&self.shape, dtype.bytes());
        let said = shape.iter().try_fold(size, |bytes, extent| bytes.checked_mul(*extent));
        if said == Some(follow) {
            Ok(())
        } else {
            Err(format!(
                "says that it holds an array of shape {shape:?} with {size} bytes for each element, but {follow} bytes \
                 follow; save it again"
            ))
        }
    }

    /// The dtype; an error is the end of a sentence.
    pub(super) fn dtype(&self) -> Result<Dtype, String> {
        Dtype::of(&self.descr).ok_or_else(|| {
            format!(
                "has elements of the type {}; save numbers or truth values of this machine's byte order, such as \
                 array.astype(\"float32\")",
                quoted(&self.descr)
            )
        })
    }
}

/// The bytes of a header of version 1.0, for elements in row-major order; none for more axes than it holds.
pub(super) fn written(dtype: Dtype, shape: &[usize]) -> Option<Vec<u8>> {
    let mut sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    // A tuple of one element ends with a comma.
    sizes.truncate(sizes.len().saturating_sub(if shape.len() == 1 { 1 } else { 2 }));
    let descr = dtype.descr();
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let before = MAGIC.len() + 4;
    let end = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    text += &" ".repeat(end - before - text.len() - 1);
    text.push('\n');
    let size = u16::try_from(text.len()).ok()?.to_le_bytes();
    Some([MAGIC, &[1, 0], &size, text.as_bytes()].concat())
}

//! A safetensors file, read in blocks so that a model is never in memory twice.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use lessen_graph::{DType, Type};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use super::save::{Entry, Stored, stored};
use lessen_base::lfs::refuse_pointer;
use lessen_base::{Error, Result};

/// The largest accepted header, that of the safetensors library.
const LONGEST_HEADER: u64 = 100_000_000;

/// Bytes that are read at once: a multiple of every element's size.
const BLOCK: usize = 1 << 18;

/// Makes elements of bytes.
type Conversion = fn(&[u8]) -> Vec<f32>;

/// A safetensors file with its parsed header, which agrees with the file's length.
pub struct TensorFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// Offset of the tensors' bytes in the file.
    start: u64,
}

impl TensorFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// A file that cannot be read, is a pointer of Git LFS, is no safetensors file, or is shorter or longer than its
    /// header says.
    pub fn open(path: &Path) -> Result<TensorFile> {
        refuse_pointer(path)?;
        let broken = |what: String| Error::user(format!("{} is no valid safetensors file: {what}", path.display()));
        let unread = |e| Error::user(format!("{} cannot be read: {e}", path.display()));
        let mut file = File::open(path).map_err(unread)?;
        let length = file.metadata().map_err(unread)?.len();
        if length < 8 {
            return Err(broken(format!("it has {length} bytes, too few for a header")));
        }
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(unread)?;
        let size = u64::from_le_bytes(size);
        if size > LONGEST_HEADER || size > length - 8 {
            return Err(broken(format!(
                "its header claims {size} bytes, and the file has {length}"
            )));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header).map_err(unread)?;
        let metadata = parse_header(&header).map_err(broken)?;
        let (start, needed) = (8 + size, metadata.data_len() as u64);
        if length - start != needed {
            return Err(broken(format!(
                "its tensors need {needed} bytes, and {} follow the header; it is truncated or damaged",
                length - start
            )));
        }
        Ok(TensorFile {
            path: path.to_path_buf(),
            file,
            metadata,
            start,
        })
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// Returns the shape of a tensor, if the file has it.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.metadata.info(name).map(|info| info.shape.as_slice())
    }

    /// A tensor with its stored dtype, if the file has it.
    pub(super) fn stored(&self, name: &str) -> Option<Stored> {
        let info = self.metadata.info(name)?;
        Some(Stored {
            name: name.to_string(),
            dtype: info.dtype,
            shape: info.shape.clone(),
        })
    }

    /// The tensors whose dtype a state can have.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let known = |name: String| {
            let info = self.metadata.info(&name)?;
            let dtype = DType::ALL.into_iter().find(|&dtype| stored(dtype) == info.dtype)?;
            let ty = Type::new(dtype, &info.shape);
            Some(Entry { name, ty })
        };
        self.names().into_iter().filter_map(known)
    }

    /// Shows the bytes of a tensor's elements to `visit`, some after others, each time whole elements.
    ///
    /// # Errors
    /// A tensor that is missing, a file that cannot be read, and the errors of `visit`.
    pub fn visit(&mut self, name: &str, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (begin, end) = match self.metadata.info(name) {
            Some(info) => info.data_offsets,
            None => return Err(self.wrong(name, "is missing")),
        };
        let mut block = vec![0; BLOCK.min(end - begin)];
        for at in (begin..end).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(end - at)];
            self.read_at(name, at, block)?;
            visit(block)?;
        }
        if begin == end {
            visit(&[])?;
        }
        Ok(())
    }

    /// Shows the elements of a tensor of the given shape as `f32` to `visit`, some after others.
    ///
    /// # Errors
    /// As [`TensorFile::visit`], another shape, and a dtype that is no floating-point type of at most 64 bits.
    pub(super) fn visit_f32(
        &mut self,
        name: &str,
        shape: &[usize],
        visit: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let convert = self.conversion(name, shape)?;
        self.visit(name, &mut |bytes| visit(&convert(bytes)))
    }

    /// Checks that a tensor has the given shape and can be read as `f32`.
    ///
    /// # Errors
    /// Another shape, and a dtype that is no floating-point type of at most 64 bits.
    pub(super) fn check_f32(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.conversion(name, shape).map(|_| ())
    }

    /// Elements of a tensor from number `first` on, at most `count`, as `f32`.
    pub(super) fn read_part(&mut self, name: &str, shape: &[usize], first: usize, count: usize) -> Result<Vec<f32>> {
        let convert = self.conversion(name, shape)?;
        let (begin, end) = self.metadata.info(name).map_or((0, 0), |info| info.data_offsets);
        let size = (end - begin) / shape.iter().product::<usize>().max(1);
        let (from, to) = (
            (begin + first * size).min(end),
            (begin + (first + count) * size).min(end),
        );
        let mut bytes = vec![0; to - from];
        self.read_at(name, from, &mut bytes)?;
        Ok(convert(&bytes))
    }

    /// How a tensor of the given shape is converted to `f32`.
    fn conversion(&self, name: &str, shape: &[usize]) -> Result<Conversion> {
        let Some(info) = self.metadata.info(name) else {
            return Err(self.wrong(name, "is missing"));
        };
        if info.shape != shape {
            let fault = "the checkpoint and the model's configuration do not fit together";
            let what = format!("has the shape {:?}, the model needs {shape:?}; {fault}", info.shape);
            return Err(self.wrong(name, &what));
        }
        Ok(match info.dtype {
            Dtype::F32 => |bytes| elements(bytes, f32::from_le_bytes),
            Dtype::F64 => |bytes| elements(bytes, |b| f64::from_le_bytes(b) as f32),
            Dtype::BF16 => |bytes| elements(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => |bytes| elements(bytes, |b| f16::from_le_bytes(b).to_f32()),
            other => {
                let what = format!(
                    "holds {other}, and Lessen reads F32, F64, F16 and BF16, and I8 with scales; convert it to one of these"
                );
                return Err(self.wrong(name, &what));
            }
        })
    }

    /// Fills `block` with the tensors' bytes from number `at` on.
    fn read_at(&mut self, name: &str, at: usize, block: &mut [u8]) -> Result<()> {
        let found = self.file.seek(SeekFrom::Start(self.start + at as u64));
        let read = found.and_then(|_| self.file.read_exact(block));
        read.map_err(|e| self.wrong(name, &format!("cannot be read: {e}")))
    }

    /// An error about a tensor.
    pub(super) fn wrong(&self, name: &str, what: &str) -> Error {
        Error::user(format!("{}: the tensor `{name}` {what}", self.path.display()))
    }
}

/// Parses a header; the error names the tensor whose entry is inconsistent.
fn parse_header(header: &[u8]) -> std::result::Result<Metadata, String> {
    let parsed: std::result::Result<Metadata, _> = serde_json::from_slice(header);
    parsed.map_err(|e| {
        let Ok(map) = serde_json::from_slice::<Map<String, Value>>(header) else {
            return format!("its header is damaged ({e})");
        };
        let entries = map.into_iter().filter(|(name, _)| name != "__metadata__");
        let inconsistent = entries.into_iter().find(|(_, entry)| !is_consistent(entry));
        match inconsistent {
            Some((name, entry)) => {
                format!("its header contradicts itself about the tensor `{name}`: {entry}")
            }
            None => format!("its header contradicts itself ({e})"),
        }
    })
}

/// Whether a tensor's byte range has the size that its dtype and shape need.
fn is_consistent(entry: &Value) -> bool {
    let Ok(info) = serde_json::from_value::<TensorInfo>(entry.clone()) else {
        return false;
    };
    let bits = info
        .shape
        .iter()
        .try_fold(info.dtype.bitsize(), |bits, &n| bits.checked_mul(n));
    let (begin, end) = info.data_offsets;
    bits.is_some_and(|bits| begin.checked_add(bits / 8) == Some(end))
}

fn elements<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _) = bytes.as_chunks::<N>();
    elements.iter().map(|&element| convert(element)).collect()
}

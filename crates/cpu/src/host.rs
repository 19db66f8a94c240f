//! Data that a caller hands to a run.

use lessen_graph::DType;

/// Data given to a run.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// `f32` elements.
    F32(&'a [f32]),
    /// `i32` elements.
    I32(&'a [i32]),
    /// `u32` elements.
    U32(&'a [u32]),
    /// Truth values, 0 or 1.
    Bool(&'a [u8]),
}

impl Host<'_> {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Host::F32(_) => DType::F32,
            Host::I32(_) => DType::I32,
            Host::U32(_) => DType::U32,
            Host::Bool(_) => DType::Bool,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Host::F32(x) => x.len(),
            Host::I32(x) => x.len(),
            Host::U32(x) => x.len(),
            Host::Bool(x) => x.len(),
        }
    }

    pub(crate) fn ptr(&self) -> *const u8 {
        match self {
            Host::F32(x) => x.as_ptr().cast(),
            Host::I32(x) => x.as_ptr().cast(),
            Host::U32(x) => x.as_ptr().cast(),
            Host::Bool(x) => x.as_ptr(),
        }
    }
}

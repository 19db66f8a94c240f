//! Arrays of the host and the bytes that they are.

use lessen_device::{Host, HostArray};
use lessen_graph::{DType, Type};

/// The dense elements of a type in memory.
///
/// # Safety
/// `ptr` is readable for the type's bytes for the lifetime `'a`, aligned to the element's size, and holds valid
/// elements.
pub(crate) unsafe fn host_array<'a>(ty: &Type, ptr: *const u8) -> Host<'a> {
    let n = ty.numel();
    // SAFETY: the caller's promise.
    unsafe {
        match ty.dtype {
            DType::F32 => Host::F32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::F64 => Host::F64(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::BF16 => Host::BF16(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::I32 => Host::I32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::U32 => Host::U32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::U8 => Host::U8(std::slice::from_raw_parts(ptr, n)),
            DType::Bool => Host::Bool(std::slice::from_raw_parts(ptr, n)),
        }
    }
}

/// The address of an array's elements.
pub(crate) fn host_ptr(host: &Host<'_>) -> *const u8 {
    match host {
        Host::F32(x) => x.as_ptr().cast(),
        Host::F64(x) => x.as_ptr().cast(),
        Host::BF16(x) => x.as_ptr().cast(),
        Host::I32(x) => x.as_ptr().cast(),
        Host::U32(x) => x.as_ptr().cast(),
        Host::U8(x) | Host::Bool(x) => x.as_ptr(),
    }
}

/// The address of an array's elements, to be written.
pub(crate) fn host_mut_ptr(array: &mut HostArray) -> *mut u8 {
    match array {
        HostArray::F32(x) => x.as_mut_ptr().cast(),
        HostArray::F64(x) => x.as_mut_ptr().cast(),
        HostArray::BF16(x) => x.as_mut_ptr().cast(),
        HostArray::I32(x) => x.as_mut_ptr().cast(),
        HostArray::U32(x) => x.as_mut_ptr().cast(),
        HostArray::U8(x) | HostArray::Bool(x) => x.as_mut_ptr(),
    }
}

/// Bytes of an array's elements.
pub(crate) fn host_bytes(host: &Host<'_>) -> usize {
    host.len() * host.dtype().bytes()
}

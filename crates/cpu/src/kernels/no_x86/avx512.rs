//! Machines without AVX-512: nothing is packed by it.

/// Pairs of pixels, which are never made.
pub(crate) mod pair {
    use crate::kernels::elementwise::cast::Bf16;

    /// Does nothing.
    ///
    /// # Safety
    /// Nothing is required.
    pub(crate) unsafe fn pair(_n: usize, _padded: usize, _from: [Option<*const Bf16>; 2], _to: *mut [Bf16; 2]) {}
}

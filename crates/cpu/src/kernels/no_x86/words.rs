//! Machines without AVX-512: no product runs on words.

/// A number that would be part of a word.
pub(crate) trait Word: Copy + 'static {
    /// Numbers of a word.
    const NUMBERS: usize = 1;

    /// Whether products are computed here.
    fn is_used() -> bool {
        false
    }

    /// Whether products with a factor that never changes are computed here.
    fn is_packed(_rows: usize) -> bool {
        false
    }
}

impl<T: Copy + 'static> Word for T {}

/// A packed right factor, which there is none of.
pub(crate) mod right {
    use std::ops::Range;

    use super::Word;

    /// See the module of the same name for x86-64.
    #[derive(Clone, Copy)]
    pub(crate) struct Right;

    impl Right {
        pub(crate) fn new<N: Word>(_runs: usize, _k: usize, _columns: usize) -> Option<Right> {
            None
        }

        pub(crate) fn panels(&self) -> usize {
            0
        }

        pub(crate) fn bytes(&self) -> usize {
            0
        }

        pub(crate) fn at(&self, _word: usize, _column: usize) -> usize {
            0
        }

        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn pack<N: Word>(
            &self,
            _panels: (usize, Range<usize>),
            _numbers: (usize, usize),
            _from: *const N,
            _strides: (usize, usize),
            _to: *mut u8,
        ) {
        }

        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn multiply<N: Word>(
            &self,
            _left: Left,
            _columns: (*const u8, Range<usize>),
            _c: *const *mut f32,
            _accumulate: bool,
        ) {
        }
    }

    /// The rows that would be multiplied.
    #[derive(Clone, Copy)]
    pub(crate) struct Left {
        pub(crate) pointers: *const *const u8,
        pub(crate) apart: usize,
        pub(crate) rows: usize,
        pub(crate) zeros: *const u8,
    }
}

/// Products of a convolution's gradient of the weight, which are never computed.
pub(crate) mod outer {
    use super::Word;

    /// See the module of the same name for x86-64.
    #[derive(Clone, Copy)]
    pub(crate) struct Outer {
        pub(crate) pixels: usize,
        pub(crate) inputs: usize,
        pub(crate) outputs: usize,
    }

    impl Outer {
        pub(crate) fn scratch<N: Word>(&self) -> usize {
            0
        }
    }

    /// See the module of the same name for x86-64.
    #[derive(Clone, Copy)]
    pub(crate) struct Cotangents;

    impl Cotangents {
        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn new<N: Word>(_outer: Outer, _dy: *const N, _row: usize, _scratch: *mut u8) -> Cotangents {
            Cotangents
        }

        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn add<N: Word>(&self, _read: &[*const N], _sums: *mut f32, _accumulate: bool) {}

        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn add_words<N: Word>(&self, _read: *const *const u8, _sums: *mut f32, _accumulate: bool) {}
    }
}

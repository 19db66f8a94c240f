//! Machines without tiles: no product runs on packed panels.

/// Numbers of factors.
pub(crate) mod number {
    /// A number that tiles would hold.
    pub(crate) trait Number: Copy + 'static {}

    impl<T: Copy + 'static> Number for T {}
}

/// A packed right factor, which takes no memory and is never used.
pub(crate) mod right {
    use super::number::Number;

    /// See the module of the same name for x86-64.
    #[derive(Clone, Copy)]
    pub(crate) struct Right;

    impl Right {
        pub(crate) fn new<N: Number>(_k: usize, _columns: usize) -> Right {
            Right
        }

        pub(crate) fn is_used() -> bool {
            false
        }

        pub(crate) fn bytes(&self) -> usize {
            0
        }

        pub(crate) fn scratch(&self, _rows: usize) -> usize {
            0
        }

        /// Does nothing.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn pack<N: Number>(&self, _b: *const N, _to: *mut u8) {}

        /// Leaves the product to another kernel.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn multiply<N: Number>(
            &self,
            _a: (*const N, usize),
            _packed: *const u8,
            _c: (*mut f32, usize),
            _accumulate: bool,
            _scratch: *mut u8,
        ) -> bool {
            false
        }
    }
}

/// A product of two factors, which takes no memory and is never computed.
pub(crate) mod both {
    use super::number::Number;

    /// See the module of the same name for x86-64.
    pub(crate) struct Both {
        pub(crate) m: usize,
        pub(crate) k: usize,
        pub(crate) n: usize,
    }

    impl Both {
        pub(crate) fn is_used() -> bool {
            false
        }

        pub(crate) fn scratch<N: Number>(&self) -> usize {
            0
        }

        /// Leaves the product to another kernel.
        ///
        /// # Safety
        /// Nothing is required.
        pub(crate) unsafe fn multiply<N: Number>(
            &self,
            _a: (*const N, usize, usize),
            _b: (*const N, usize, usize),
            _c: (*mut f32, usize),
            _accumulate: bool,
            _scratch: *mut u8,
        ) -> bool {
            false
        }
    }
}

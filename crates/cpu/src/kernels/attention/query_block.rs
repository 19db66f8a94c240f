//! How attention is cut: blocks of queries and tiles of keys.

/// Queries in a block at most, one in each lane.
pub(super) const BLOCK: usize = 64;

/// Keys in a tile at most.
pub(super) const TILE: usize = 64;

/// Queries that lie in the lanes of a vector.
#[derive(Clone, Copy)]
pub(super) struct QueryBlock {
    /// The first query.
    pub(super) first: usize,
    /// Number of queries.
    pub(super) n: usize,
}

/// Defines a function whose body is compiled for every CPU level, for blocks of [`BLOCK`] lanes and for blocks of half
/// of them: `dispatch_lanes! { unsafe fn name(wide; args) = body; }` calls `body::<L, BLOCK>(args)` where `wide` is
/// true.
macro_rules! dispatch_lanes {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($wide:ident; $($arg:ident: $ty:ty),* $(,)?) = $body:ident;) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name($wide: bool, $($arg: $ty),*) {
            $crate::simd::dispatch! {
                unsafe fn all_lanes($($arg: $ty),*) = all_lanes_body;
                unsafe fn half_lanes($($arg: $ty),*) = half_lanes_body;
            }

            #[inline(always)]
            unsafe fn all_lanes_body<L: $crate::simd::Level>($($arg: $ty),*) {
                // SAFETY: passed on.
                unsafe { $body::<L, { $crate::kernels::attention::query_block::BLOCK }>($($arg),*) }
            }

            #[inline(always)]
            unsafe fn half_lanes_body<L: $crate::simd::Level>($($arg: $ty),*) {
                // SAFETY: passed on.
                unsafe { $body::<L, { $crate::kernels::attention::query_block::BLOCK / 2 }>($($arg),*) }
            }

            // SAFETY: passed on.
            unsafe { if $wide { all_lanes($($arg),*) } else { half_lanes($($arg),*) } }
        }
    };
}
pub(super) use dispatch_lanes;

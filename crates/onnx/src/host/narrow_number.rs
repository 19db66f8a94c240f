//! Elements of at most eight bits.

use std::cmp::Ordering;

use crate::narrow::Narrow;

/// A number of the narrow type that has the number `TYPE` in the schema, by its low bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct NarrowNumber<const TYPE: i32>(pub u8);

impl<const TYPE: i32> NarrowNumber<TYPE> {
    /// The type.
    pub(crate) const KIND: Narrow = match Narrow::of(TYPE) {
        Some(kind) => kind,
        None => panic!("a narrow type has a number in the schema"),
    };

    /// The number.
    pub fn to_f64(self) -> f64 {
        Self::KIND.read(self.0)
    }
}

impl<const TYPE: i32> PartialEq for NarrowNumber<TYPE> {
    fn eq(&self, other: &Self) -> bool {
        self.to_f64() == other.to_f64()
    }
}

impl<const TYPE: i32> PartialOrd for NarrowNumber<TYPE> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.to_f64().partial_cmp(&other.to_f64())
    }
}

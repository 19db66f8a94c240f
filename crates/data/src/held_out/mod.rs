//! The examples that are kept for validation where data has no split for it: a share of each class, whole groups of
//! rows, or the latest rows.

mod deal;
mod groups;
mod share;
mod times;

#[cfg(test)]
mod tests;

pub(crate) use self::deal::Deal;
pub(crate) use self::share::chosen;

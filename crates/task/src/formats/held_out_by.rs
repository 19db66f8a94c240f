//! The column by which rows are held out.

use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_data::HeldOutBy;

/// The key that names the column of groups.
pub const GROUP: &str = "data.group_by";

/// The key that names the column of times.
pub const TIME: &str = "data.time_by";

/// What decides which rows are held out.
pub(super) fn held_out_by(config: &Config) -> HeldOutBy {
    match columns(config) {
        (Some(column), _) => HeldOutBy::Group(column),
        (None, Some(column)) => HeldOutBy::Time(column),
        (None, None) => HeldOutBy::Share,
    }
}

/// The columns of groups and of times. An empty name is none.
fn columns(config: &Config) -> (Option<String>, Option<String>) {
    let named = |name: &Option<String>| name.clone().filter(|name| !name.trim().is_empty());
    (named(&config.data.group_by), named(&config.data.time_by))
}

/// Refuses two columns.
///
/// # Errors
/// Both keys.
pub(super) fn check(config: &Config) -> Result<()> {
    match columns(config) {
        (Some(_), Some(_)) => Err(Error::user(format!(
            "{} does not go with {TIME}, as rows are held out by one column; leave one of them out",
            config.place(GROUP)
        ))),
        _ => Ok(()),
    }
}

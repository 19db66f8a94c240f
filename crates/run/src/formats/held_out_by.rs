//! The column by which rows are held out.

use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_data::HeldOutBy;

/// The keys that name the column.
pub(super) const GROUP: &str = "data.group_by";
pub(super) const TIME: &str = "data.time_by";

/// What decides which rows are held out.
pub(super) fn held_out_by(config: &Config) -> HeldOutBy {
    let data = &config.data;
    match (&data.group_by, &data.time_by) {
        (Some(column), _) => HeldOutBy::Group(column.clone()),
        (None, Some(column)) => HeldOutBy::Time(column.clone()),
        (None, None) => HeldOutBy::Share,
    }
}

/// Refuses two columns.
///
/// # Errors
/// Both keys.
pub(super) fn check(config: &Config) -> Result<()> {
    match (&config.data.group_by, &config.data.time_by) {
        (Some(_), Some(_)) => Err(Error::user(format!(
            "{} does not go with {TIME}, as rows are held out by one column; leave one of them out",
            config.place(GROUP)
        ))),
        _ => Ok(()),
    }
}

//! The columns that labels are in.

use lessen_base::{Error, Result};
use std::str::FromStr;

/// Names of columns, with commas between.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnNames(pub String);

impl ColumnNames {
    /// What to write, for messages.
    pub fn words() -> String {
        "names of columns".to_string()
    }
}

impl FromStr for ColumnNames {
    type Err = Error;

    /// Takes any text that is not blank.
    ///
    /// # Errors
    /// A blank text.
    fn from_str(text: &str) -> Result<ColumnNames> {
        match text.trim() {
            "" => Err(Error::user(format!("'{text}' is no list of {}", ColumnNames::words()))),
            _ => Ok(ColumnNames(text.to_string())),
        }
    }
}

//! One's own data: a look at it, choices that follow, a linear model and a network that are trained and compared, and
//! the better one as the result.

mod advice;
mod choice;
mod course;
mod doubtful;
mod draft;
mod ending;
mod errors;
mod facts;
mod images;
mod placing;
mod plan;
mod progress;
mod report;
mod request;
mod scoreboard;
mod settling;
mod tables;
mod tags;
mod text_alone;
mod texts;

pub use self::choice::DataChoice;
pub use self::course::choose;
pub use self::draft::name_of;
pub use self::progress::{CHOICE, is_under_way, last_under_way};
pub use self::report::ChoiceReport;
pub use self::request::{ChoiceRequest, Part};
pub use lessen_data::look::{Look, LookOptions};

use lessen_base::Result;
use std::path::Path;

/// Looks at data.
///
/// # Errors
/// Data that is missing or damaged.
pub fn look(path: &Path, options: &LookOptions) -> Result<Look> {
    Look::of(path, options)
}

//! The keys of questions about texts.

use super::Config;
use crate::recipe::keys::DataFormat;
use lessen_base::{Error, Result};
use lessen_data::Asking;

impl Config {
    /// How questions about texts are cut into windows and answered.
    pub(crate) fn asking(&self) -> Asking {
        let (data, default) = (&self.data, Asking::default());
        Asking {
            max_length: data.max_length,
            stride: data.stride.unwrap_or(data.max_length / 3),
            longest: data.answer_length.unwrap_or(default.longest),
            null_threshold: data.null_threshold,
        }
    }

    /// Checks the keys of questions about texts.
    pub(super) fn check_questions(&self) -> Result<()> {
        let data = &self.data;
        let given = [
            ("data.stride", data.stride.is_some()),
            ("data.answer_length", data.answer_length.is_some()),
            ("data.null_threshold", data.null_threshold.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given)
            && data.format != DataFormat::Squad
        {
            return Err(Error::user(format!(
                "{} is for data.format = squad, and this is {}; leave it out",
                self.place(key),
                data.format
            )));
        }
        match data.stride {
            Some(stride) if stride >= data.max_length => Err(Error::user(format!(
                "{} is not less than the {} tokens of data.max_length, so that windows would never move on; choose less",
                self.place("data.stride"),
                data.max_length
            ))),
            _ => Ok(()),
        }
    }
}

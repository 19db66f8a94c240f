//! Numbers of a paper, which stand beside the measured ones.

use super::reader::Reader;
use lessen_base::Result;

/// A number of a paper.
#[derive(Clone, Debug)]
pub(super) struct Paper {
    pub point: String,
    /// The name of the measure.
    pub measure: String,
    pub value: f64,
    /// Where it is written, for messages.
    pub place: String,
}

impl Paper {
    /// Reads a `[[paper]]`.
    ///
    /// # Errors
    /// A key that is unknown, missing or has a wrong value.
    pub(super) fn read(mut reader: Reader<'_, '_>) -> Result<Paper> {
        let point = reader.required("point", "point = \"softmax\"")?;
        let measure = reader.required("measure", "measure = \"dev_loss\"")?;
        let value = reader.number("value")?;
        let value = value.ok_or_else(|| reader.missing("value", "value = 1.25"))?;
        let place = reader.origin().to_string();
        reader.finish()?;
        Ok(Paper {
            point,
            measure,
            value,
            place,
        })
    }
}

//! Predictions for the rows of a table.

use super::answer_format::AnswerFormat;
use super::asking::fields;
use super::output::Format;
use super::records::Records;
use super::{Predict, shown};
use lessen_base::{Error, Result};
use lessen_data::table::{TableRow, TableRows};
use lessen_saved::saved_run::SavedRun;
use std::path::Path;

/// Asks about a row (`--text` with an object of JSON), or about all rows of a file.
///
/// # Errors
/// A file without a column of the model, a damaged one, and flags for texts.
pub(super) fn predict(asked: &Predict, run: &SavedRun) -> Result<()> {
    let predictor = run.row_predictor()?;
    if let Some(text) = &asked.what.text {
        let row = TableRows::of_json(Path::new("--text"), 1, text, predictor.schema())?;
        for prediction in predictor.ask(&[row.values])? {
            let (words, object) = shown(run.labels(), prediction?);
            asked.say_answer(&object, &words)?;
        }
        return Ok(());
    }
    let Some(input) = &asked.what.input else {
        return Err(Error::user(
            "the model reads tables; give it a file with its columns (--input FILE.csv), or a row as JSON (--text)",
        ));
    };
    let format = asked.answer_format()?.map_or(Ok(Format::Csv), AnswerFormat::of_rows)?;
    let options = asked.options(run, format);
    let mut rows = TableRows::open(input, predictor.schema())?;
    asked.write(|out| {
        let mut records = Records::new(out, format);
        loop {
            let some: Vec<TableRow> = rows.by_ref().take(predictor.at_once()).collect::<Result<_>>()?;
            if some.is_empty() {
                break;
            }
            let values: Vec<Vec<f32>> = some.iter().map(|row| row.values.clone()).collect();
            for (row, prediction) in some.iter().zip(predictor.ask(&values)?) {
                let prediction = prediction.map_err(|error| error.at(input.display()))?;
                let answer = fields(options, run.labels(), prediction);
                records
                    .write(Some(&row.record), answer)
                    .map_err(|error| error.at(input.display()))?;
            }
        }
        records.flush()
    })
}

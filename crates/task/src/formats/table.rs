//! Tables of numbers and categories, with a class or a number in each row.

use super::corpus::{Corpus, check_vocabulary, order_of, place};
use super::labelled::assumed_goal;
use super::{Format, HeldOut, KnownModel, held_out_by};
use crate::folder::manifest::{DataDigest, DataDigests};
use crate::goal::{self, SharedGoal};
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::column_names::ColumnNames;
use crate::recipe::config::Config;
use crate::recipe::keys::THRESHOLD;
use lessen_base::Result;
use lessen_data::memory::DataInMemory;
use lessen_data::table::{Table, TableBatches, TableOptions, TableSchema};
use lessen_data::{Order, Source};
use lessen_nn::{BatchShape, Model};
use std::sync::Arc;

/// Columns that `plan` assumes when it is given no data.
const ASSUMED_COLUMNS: usize = 16;

/// Tables of numbers and categories: CSV, TSV, JSON lines, Parquet. A row is an array `[1, N, 1]`, as networks read
/// images.
pub(super) struct TableFormat;

impl Format for TableFormat {
    fn own_keys(&self) -> &'static [&'static str] {
        &[
            "data.problem",
            "data.label",
            "data.inputs",
            held_out_by::GROUP,
            held_out_by::TIME,
        ]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::ClassifiesImages
    }

    fn is_of_images(&self) -> bool {
        true
    }

    fn is_of_tables(&self) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn check(&self, config: &Config) -> Result<()> {
        held_out_by::check(config)
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.table().is_some()
    }

    fn read(&self, config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let data = &config.data;
        let list = |names: &ColumnNames| names.0.split(',').map(|name| name.trim().to_string()).collect();
        let options = TableOptions {
            target: data.label.as_ref().map(|names| names.0.clone()),
            inputs: data.inputs.as_ref().map(list),
            problem: data.problem,
            dev: data.dev.clone(),
            test: data.test.clone(),
            held_out: data.held_out,
            held_out_seed: data.held_out_seed,
            held_out_by: held_out_by::held_out_by(config),
            whole: config.is_whole,
            classes: known.classes.clone(),
            schema: known.schema.clone(),
        };
        let place = place(config, given.and_then(DataInMemory::table))?;
        Ok(Arc::new(TableRows(Table::read_from(place, &options)?)))
    }

    fn assumed_goal(&self, config: &Config) -> SharedGoal {
        assumed_goal(config)
    }

    fn assumed_shapes(&self, config: &Config, model: &Model) -> [BatchShape; 2] {
        let image = model.image().unwrap_or([1, ASSUMED_COLUMNS, 1]);
        [BatchShape::Images {
            size: config.train.batch,
            image,
            mixed: false,
        }; 2]
    }
}

/// The rows of a table as they were read.
struct TableRows(Table);

impl TableRows {
    /// The schema without the scale of the numbers, which the model has.
    fn plain(schema: &TableSchema) -> TableSchema {
        TableSchema {
            target: None,
            ..schema.clone()
        }
    }
}

impl Corpus for TableRows {
    fn goal(&self) -> SharedGoal {
        goal::of_labels(self.0.target.clone(), self.0.metrics.clone(), THRESHOLD)
    }

    fn reader(&self, config: &Config) -> Result<Reader> {
        check_vocabulary(config)?;
        Ok(Reader::Table(self.0.schema.clone()))
    }

    fn remarks(&self) -> &[String] {
        &self.0.remarks
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn example(&self) -> &'static str {
        "row"
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.0.train, &self.0.dev], |part| {
            Ok(DataDigest {
                size: part.len() as u64,
                crc: part.digest(),
            })
        })
    }

    fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        self.0.train.labels().class_counts(classes)
    }

    fn has_weights(&self) -> bool {
        self.0.train.weights().is_some()
    }

    fn mean_target(&self) -> Option<f64> {
        self.0.train.labels().mean_score()
    }

    fn show(&self, split: &str, examples: &[usize]) -> Result<Vec<String>> {
        let part = self.0.split(split)?;
        Ok(examples.iter().map(|row| format!("line {}", part.line(*row))).collect())
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, _order: Order) -> Result<Arc<dyn Source>> {
        let schema = TableRows::plain(reader.table()?);
        let batches = TableBatches::evaluation(self.0.split(split)?, &schema, config.train.batch)?;
        Ok(Arc::new(batches))
    }

    fn training(&self, config: &Config, reader: &Reader) -> Result<Arc<dyn Source>> {
        let schema = TableRows::plain(reader.table()?);
        let batches = TableBatches::training(&self.0.train, &schema, config.train.batch, order_of(config))?;
        Ok(Arc::new(batches))
    }
}

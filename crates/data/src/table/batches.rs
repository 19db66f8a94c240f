//! Batches of rows of tables.

use lessen_base::{Error, Result};

use super::part::TablePart;
use super::schema::TableSchema;
use crate::batch::{Batch, Field, IGNORE};
use crate::epoch::{Epochs, Order};
use crate::labels::Labels;
use crate::source::Source;

/// Rows of a table in batches of `B`. A row is an image of one line, whose channel is one: `images` is f32
/// `[B, 1, width, 1]`. Classes come as `labels` (i32 `[B]`), and scores as `targets` (f32 `[B]`, standardized as the
/// schema says). Beside scores, and beside classes where rows have weights, come `weights` (f32 `[B]`, of a row without
/// its own 1).
///
/// - *Training*: all batches are full; the rest at the end of an epoch is left out of it.
/// - *Evaluation*: each row once, in order. After the last one come zeros, labelled [`IGNORE`] or of weight 0.
pub struct TableBatches {
    part: TablePart,
    /// Scores as a model learns them; none of classes.
    targets: Option<Vec<f32>>,
    batch: usize,
    epochs: Epochs,
    drops_rest: bool,
}

impl TableBatches {
    /// Batches of training.
    ///
    /// # Errors
    /// As [`TableBatches::evaluation`], and fewer rows than a batch has.
    pub fn training(part: &TablePart, schema: &TableSchema, batch: usize, order: Order) -> Result<TableBatches> {
        if batch > part.len() {
            return Err(Error::user(format!(
                "train.batch is {batch}, but there are {} rows for training; set it to at most that",
                part.len()
            )));
        }
        let batches = TableBatches::evaluation(part, schema, batch)?;
        Ok(TableBatches {
            epochs: Epochs::new(part.len(), order),
            drops_rest: true,
            ..batches
        })
    }

    /// Batches of all rows in order.
    ///
    /// # Errors
    /// A batch of 0; no rows, or more than can be numbered in 32 bits; rows of another width than the schema says.
    pub fn evaluation(part: &TablePart, schema: &TableSchema, batch: usize) -> Result<TableBatches> {
        if batch == 0 {
            return Err(Error::user("train.batch is 0; set it to at least 1"));
        }
        if part.is_empty() || u32::try_from(part.len()).is_err() {
            return Err(Error::user(format!(
                "there are {} rows, and must be at least one and less than 2^32; add or leave out some",
                part.len()
            )));
        }
        if part.width() != schema.width() {
            return Err(Error::internal(format!(
                "rows of {} elements, and a schema of {}",
                part.width(),
                schema.width()
            )));
        }
        Ok(TableBatches {
            targets: match part.labels() {
                Labels::Scores(scores) => Some(scores.iter().map(|score| schema.standardized(*score)).collect()),
                Labels::Classes(_) | Labels::Sets(_) => None,
            },
            part: part.clone(),
            batch,
            epochs: Epochs::new(part.len(), Order::InOrder),
            drops_rest: false,
        })
    }

    /// Returns the number of rows.
    pub fn examples(&self) -> usize {
        self.part.len()
    }

    /// The batch of these rows, with room for `B` of them.
    fn of(&self, rows: &[u32]) -> Batch {
        let (b, width) = (self.batch, self.part.width());
        let mut images = Vec::with_capacity(b * width);
        rows.iter()
            .for_each(|row| images.extend_from_slice(self.part.row(*row as usize)));
        images.resize(b * width, 0.0);
        let mut fields = vec![("images".to_string(), Field::f32([b, 1, width, 1], images))];
        if let Labels::Classes(classes) = self.part.labels() {
            let mut labels: Vec<i32> = rows.iter().map(|row| classes[*row as usize]).collect();
            labels.resize(b, IGNORE);
            fields.push(("labels".to_string(), Field::i32([b], labels)));
        }
        if let Some(all) = &self.targets {
            let mut targets: Vec<f32> = rows.iter().map(|row| all[*row as usize]).collect();
            targets.resize(b, 0.0);
            fields.push(("targets".to_string(), Field::f32([b], targets)));
        }
        if self.targets.is_some() || self.part.weights().is_some() {
            let weight = |row: &u32| self.part.weights().map_or(1.0, |weights| weights[*row as usize]);
            let mut weights: Vec<f32> = rows.iter().map(weight).collect();
            weights.resize(b, 0.0);
            fields.push(("weights".to_string(), Field::f32([b], weights)));
        }
        Batch {
            fields,
            examples: rows.len(),
            tokens: rows.len(),
        }
    }
}

impl Source for TableBatches {
    fn batch(&self, step: u64) -> Result<Batch> {
        let each = self.batches_per_epoch();
        let (epoch, index) = (step / each, step % each);
        if !self.drops_rest {
            return self.eval_batch(index);
        }
        let (order, first) = (self.epochs.order(epoch), index as usize * self.batch);
        Ok(self.of(&order[first..first + self.batch]))
    }

    fn batches_per_epoch(&self) -> u64 {
        if self.drops_rest {
            (self.part.len() / self.batch) as u64
        } else {
            self.eval_batches()
        }
    }

    fn eval_batches(&self) -> u64 {
        self.part.len().div_ceil(self.batch) as u64
    }

    fn batch_bytes(&self) -> Option<usize> {
        // Elements, and a label, or a target and a weight.
        self.part
            .width()
            .checked_add(2)?
            .checked_mul(self.batch)?
            .checked_mul(size_of::<f32>())
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        let all = self.part.len();
        let first = usize::try_from(index)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.batch)
            .min(all);
        let end = first.saturating_add(self.batch).min(all);
        let rows: Vec<u32> = (first..end).map(|row| row as u32).collect();
        Ok(self.of(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{ColumnKind, TableColumn};
    use super::*;

    fn part(labels: Labels) -> (TablePart, TableSchema) {
        let rows = labels.len();
        let values = (0..rows * 2).map(|i| i as f32).collect();
        let column = TableColumn {
            name: "x".into(),
            kind: ColumnKind::Number {
                mean: 0.0,
                std: 1.0,
                is_missing_marked: true,
            },
        };
        let schema = TableSchema {
            columns: vec![column],
            label: "y".into(),
            target: matches!(labels, Labels::Scores(_)).then_some([10.0, 2.0]),
        };
        (TablePart::new(values, 2, labels, (1..=rows as u32).collect()), schema)
    }

    #[test]
    fn training_batches_are_full_and_rows_keep_their_labels() {
        let (part, schema) = part(Labels::Classes((0..7).collect()));
        let source = TableBatches::training(&part, &schema, 3, Order::Shuffled(4)).unwrap();
        assert_eq!(
            (source.batches_per_epoch(), source.eval_batches(), source.examples()),
            (2, 3, 7)
        );
        let labels = |batch: &Batch| batch.get("labels").unwrap().as_i32().unwrap().to_vec();
        let epoch = |number: u64| -> Vec<i32> {
            (2 * number..2 * number + 2)
                .flat_map(|step| labels(&source.batch(step).unwrap()))
                .collect()
        };
        let mut first = epoch(0);
        assert_ne!(first, epoch(1));
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 6);
        let batch = source.batch(1).unwrap();
        let images = batch.get("images").unwrap();
        assert_eq!((images.shape(), batch.examples), (&[3, 1, 2, 1][..], 3));
        for (label, row) in labels(&batch).iter().zip(images.as_f32().unwrap().chunks(2)) {
            assert_eq!(row, [2.0 * *label as f32, 2.0 * *label as f32 + 1.0]);
        }
        let last = source.eval_batch(2).unwrap();
        assert_eq!((last.examples, labels(&last)), (1, vec![6, IGNORE, IGNORE]));
        assert_eq!(
            last.get("images").unwrap().as_f32().unwrap(),
            [12.0, 13.0, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(source.eval_batch(u64::MAX).unwrap().examples, 0);
    }

    #[test]
    fn scores_are_standardized_targets_with_weights() {
        let (part, schema) = part(Labels::Scores(vec![10.0, 14.0, 8.0]));
        let source = TableBatches::evaluation(&part, &schema, 2).unwrap();
        let of = |index: u64, name: &str| {
            let batch = source.eval_batch(index).unwrap();
            batch.get(name).unwrap().as_f32().unwrap().to_vec()
        };
        assert_eq!((of(0, "targets"), of(0, "weights")), (vec![0.0, 2.0], vec![1.0, 1.0]));
        assert_eq!((of(1, "targets"), of(1, "weights")), (vec![-1.0, 0.0], vec![1.0, 0.0]));
        assert!(source.eval_batch(0).unwrap().get("labels").is_none());
        assert_eq!(source.batch(2).unwrap(), source.eval_batch(0).unwrap());
    }

    #[test]
    fn what_cannot_be_batched_is_refused() {
        let (part, schema) = part(Labels::Classes(vec![0, 1]));
        let refused = |batch| {
            TableBatches::training(&part, &schema, batch, Order::InOrder)
                .err()
                .unwrap()
                .to_string()
        };
        assert!(refused(3).contains("train.batch is 3, but there are 2 rows"));
        assert!(refused(0).contains("train.batch is 0"));
    }
}

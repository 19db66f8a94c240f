//! The rows of a split as a model sees them.

use std::fmt;
use std::sync::Arc;

use crc32c::crc32c_append;

use crate::labels::Labels;

/// Rows of a table as numbers, with their labels: classes or scores.
#[derive(Clone, PartialEq)]
pub struct TablePart {
    values: Arc<[f32]>,
    width: usize,
    labels: Labels,
    lines: Arc<[u32]>,
    /// The weight of each row in the loss of training; none where all count alike.
    weights: Option<Arc<[f32]>>,
}

impl TablePart {
    /// Rows of `width` elements each, one after another, with their labels and the lines that they stand in.
    ///
    /// # Panics
    /// If there are not as many elements, labels and lines as rows.
    pub(super) fn new(values: Vec<f32>, width: usize, labels: Labels, lines: Vec<u32>) -> TablePart {
        assert_eq!(Some(values.len()), labels.len().checked_mul(width), "elements of rows");
        assert_eq!(labels.len(), lines.len(), "lines of rows");
        TablePart {
            values: values.into(),
            width,
            labels,
            lines: lines.into(),
            weights: None,
        }
    }

    /// The same rows with these weights, one for each.
    pub(super) fn with_weights(self, weights: Option<Arc<[f32]>>) -> TablePart {
        TablePart { weights, ..self }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the elements of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// Returns the labels; scores in the unit of the data.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the weight of each row in the loss of training; none where all count alike.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// Returns the line of its file that a row stands in, from 1.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn line(&self, row: usize) -> usize {
        self.lines[row] as usize
    }

    /// Returns a CRC-32C of elements, labels and weights, which tells rows from others.
    pub fn digest(&self) -> u32 {
        let start = crc32c_append(0, &(self.width as u64).to_le_bytes());
        let values = self
            .values
            .iter()
            .fold(start, |crc, value| crc32c_append(crc, &value.to_le_bytes()));
        let weights = self.weights().unwrap_or_default().iter();
        let values = weights.fold(values, |crc, weight| crc32c_append(crc, &weight.to_le_bytes()));
        match &self.labels {
            Labels::Classes(classes) => classes
                .iter()
                .fold(values, |crc, class| crc32c_append(crc, &class.to_le_bytes())),
            Labels::Scores(scores) => scores
                .iter()
                .fold(values, |crc, score| crc32c_append(crc, &score.to_le_bytes())),
            Labels::Sets(sets) => sets
                .iter()
                .flatten()
                .fold(values, |crc, class| crc32c_append(crc, &class.to_le_bytes())),
        }
    }
}

impl fmt::Debug for TablePart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TablePart {{ rows: {}, width: {} }}", self.len(), self.width)
    }
}

//! Batches of rows of one's own arrays: images, measurements, features.

use lessen_base::{Error, Result};

use crate::batch::{Batch, Field, IGNORE};
use crate::epoch::{Epochs, Order};
use crate::source::Source;

/// Named arrays whose first axis counts examples, served in batches of `B` of them.
///
/// - *Training*: all batches are full. The rest at the end of an epoch is left out of it; in another order that is
///   something else in each epoch.
/// - *Evaluation*: each example once, in order. Rows after the last one are zeros, and [`IGNORE`] in an array of
///   integers called `labels`.
///
/// ```
/// use lessen_data::{ArrayBatches, Field, Order, Source};
///
/// let points = Field::f32([5, 2], (0..10).map(|x| x as f32).collect());
/// let labels = Field::i32([5], vec![0, 1, 0, 1, 0]);
/// let source = ArrayBatches::new(vec![("points", points), ("labels", labels)], 2, Order::Shuffled(1))?;
/// assert_eq!((source.batches_per_epoch(), source.eval_batches()), (2, 3));
///
/// let batch = source.batch(0)?;
/// assert_eq!(batch.get("points").unwrap().shape(), [2, 2]);
/// let last = source.eval_batch(2)?;
/// assert_eq!((last.examples, last.get("labels").unwrap().as_i32().unwrap()), (1, &[0, -100][..]));
/// # Ok::<(), lessen_data::Error>(())
/// ```
pub struct ArrayBatches {
    arrays: Vec<(String, Field)>,
    examples: usize,
    batch: usize,
    epochs: Epochs,
}

impl ArrayBatches {
    /// Makes batches of `batch` (`B`) examples.
    ///
    /// # Errors
    /// No array; an array without an axis, or with another number of examples or elements than its shape says; fewer
    /// examples than a batch has, and a batch of 0.
    pub fn new(arrays: Vec<(&str, Field)>, batch: usize, order: Order) -> Result<ArrayBatches> {
        let Some((first, field)) = arrays.first() else {
            return Err(Error::user("there are no arrays to make batches of; name at least one"));
        };
        let examples = field.shape().first().copied().unwrap_or(0);
        for (name, field) in &arrays {
            let (shape, elements) = (field.shape(), elements(field));
            if shape.is_empty() || shape.iter().product::<usize>() != elements {
                return Err(Error::user(format!(
                    "the array `{name}` of shape {shape:?} has {elements} elements; give it a shape of examples and what \
                     each has"
                )));
            }
            if shape[0] != examples {
                return Err(Error::user(format!(
                    "the array `{name}` has {} examples, but `{first}` has {examples}; give both as many",
                    shape[0]
                )));
            }
        }
        if batch == 0 || batch > examples {
            return Err(Error::user(format!(
                "{examples} examples cannot make batches of {batch}; take batches of at least 1 and at most that many"
            )));
        }
        if u32::try_from(examples).is_err() {
            return Err(Error::user(format!(
                "{examples} examples are more than can be numbered in 32 bits; split the data"
            )));
        }
        Ok(ArrayBatches {
            arrays: arrays
                .into_iter()
                .map(|(name, field)| (name.to_string(), field))
                .collect(),
            examples,
            batch,
            epochs: Epochs::new(examples, order),
        })
    }

    /// Returns the number of examples.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// The batch of these examples, filled up to `B` rows.
    fn rows(&self, rows: &[u32]) -> Batch {
        let fields = self.arrays.iter().map(|(name, field)| {
            let filling = if name == "labels" { IGNORE } else { 0 };
            (name.clone(), taken(field, rows, self.batch, filling))
        });
        Batch {
            fields: fields.collect(),
            examples: rows.len(),
            tokens: rows.len(),
        }
    }
}

impl Source for ArrayBatches {
    fn batch(&self, step: u64) -> Result<Batch> {
        let each = self.batches_per_epoch();
        let (order, at) = (self.epochs.order(step / each), (step % each) as usize * self.batch);
        Ok(self.rows(&order[at..at + self.batch]))
    }

    fn batches_per_epoch(&self) -> u64 {
        (self.examples / self.batch) as u64
    }

    fn eval_batches(&self) -> u64 {
        self.examples.div_ceil(self.batch) as u64
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        let first = usize::try_from(index).unwrap_or(usize::MAX).saturating_mul(self.batch);
        let end = first.saturating_add(self.batch).min(self.examples);
        let rows: Vec<u32> = (first.min(end)..end).map(|row| row as u32).collect();
        Ok(self.rows(&rows))
    }
}

fn elements(field: &Field) -> usize {
    match field {
        Field::I32 { data, .. } => data.len(),
        Field::F32 { data, .. } => data.len(),
        Field::Bool { data, .. } => data.len(),
    }
}

/// Rows of an array, filled up to `count` of them.
fn taken(field: &Field, rows: &[u32], count: usize, filling: i32) -> Field {
    fn of<T: Copy>(data: &[T], width: usize, rows: &[u32], count: usize, filling: T) -> Vec<T> {
        let mut taken = Vec::with_capacity(count * width);
        for &row in rows {
            taken.extend_from_slice(&data[row as usize * width..][..width]);
        }
        taken.resize(count * width, filling);
        taken
    }
    let mut shape = field.shape().to_vec();
    shape[0] = count;
    let width = shape[1..].iter().product();
    match field {
        Field::I32 { data, .. } => Field::i32(shape, of(data, width, rows, count, filling)),
        Field::F32 { data, .. } => Field::f32(shape, of(data, width, rows, count, 0.0)),
        Field::Bool { data, .. } => Field::bool(shape, of(data, width, rows, count, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(batch: usize, order: Order) -> Result<ArrayBatches> {
        let ids = Field::i32([7], (0..7).collect());
        let seen = Field::bool([7, 1, 2], (0..14).map(|i| u8::from(i % 4 < 2)).collect());
        ArrayBatches::new(vec![("ids", ids), ("seen", seen)], batch, order)
    }

    fn ids(batch: &Batch) -> Vec<i32> {
        batch.get("ids").unwrap().as_i32().unwrap().to_vec()
    }

    #[test]
    fn an_epoch_has_each_example_at_most_once_and_its_rows_together() {
        let source = source(2, Order::Shuffled(5)).unwrap();
        assert_eq!(source.batches_per_epoch(), 3);
        let epoch = |number: u64| (3 * number..3 * number + 3).flat_map(|step| ids(&source.batch(step).unwrap()));
        let (first, second): (Vec<i32>, Vec<i32>) = (epoch(0).collect(), epoch(1).collect());
        let mut sorted = first.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 6);
        assert_ne!(first, second);
        let batch = source.batch(4).unwrap();
        let seen = batch.get("seen").unwrap();
        assert_eq!(seen.shape(), [2, 1, 2]);
        for (id, seen) in ids(&batch).iter().zip(seen.as_bool().unwrap().chunks(2)) {
            assert_eq!(seen, [u8::from(id % 2 == 0); 2]);
        }
        assert_eq!(source.batch(4).unwrap(), batch);
    }

    #[test]
    fn the_evaluation_has_each_example_once_in_order() {
        let source = source(3, Order::Shuffled(5)).unwrap();
        let batches: Vec<Batch> = (0..source.eval_batches())
            .map(|index| source.eval_batch(index).unwrap())
            .collect();
        let found: Vec<(usize, Vec<i32>)> = batches.iter().map(|batch| (batch.examples, ids(batch))).collect();
        assert_eq!(found, [(3, vec![0, 1, 2]), (3, vec![3, 4, 5]), (1, vec![6, 0, 0])]);
        assert_eq!(source.eval_batch(u64::MAX).unwrap().examples, 0);
    }

    #[test]
    fn what_cannot_be_batched_is_refused() {
        let refused = |result: Result<ArrayBatches>| result.err().unwrap().to_string();
        assert!(refused(source(8, Order::InOrder)).contains("7 examples cannot make batches of 8"));
        assert!(refused(source(0, Order::InOrder)).contains("cannot make batches of 0"));
        assert!(refused(ArrayBatches::new(vec![], 1, Order::InOrder)).contains("no arrays"));
        let of = |shape: &[usize], other: usize| {
            let first = Field::i32([2], vec![1, 2]);
            let second = Field::f32(shape.to_vec(), vec![0.0; other]);
            refused(ArrayBatches::new(vec![("a", first), ("b", second)], 1, Order::InOrder))
        };
        assert!(of(&[3], 3).contains("`b` has 3 examples, but `a` has 2"));
        assert!(of(&[2, 2], 3).contains("the array `b` of shape [2, 2] has 3 elements"));
        assert!(of(&[], 1).contains("the array `b` of shape [] has 1 elements"));
    }
}

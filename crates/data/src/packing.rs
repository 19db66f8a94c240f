//! A row of texts without padding.

use crate::batch::{Batch, Field};
use lessen_base::bucket;
use std::borrow::Borrow;

/// A text, or a pair of texts, as token ids, and token types of the same number.
pub type EncodedText = (Vec<i32>, Vec<i32>);

/// Makes a batch without padding of texts, each its token ids and token types, with room for `size` texts; `pad` fills
/// the row up to its bucket. A text without tokens gets a token of padding, so that every model has a state for it.
///
/// ```
/// let batch = lessen_data::packed_batch(&[(vec![5, 6], vec![0, 0]), (vec![7], vec![0])], 4, 0);
/// assert_eq!(batch.get("tokens").unwrap().shape(), [1, 16]);
/// assert_eq!(batch.get("starts").unwrap().as_i32().unwrap(), [0, 2, 3, 3, 3]);
/// ```
///
/// # Panics
/// If there are more than `size` texts, or a text has not as many types as ids.
pub fn packed_batch<T: Borrow<EncodedText>>(texts: &[T], size: usize, pad: i32) -> Batch {
    let pairs = || texts.iter().map(Borrow::borrow);
    assert!(texts.len() <= size, "{} texts in a batch of {size}", texts.len());
    let real = pairs().map(|(ids, _)| ids.len().max(1)).sum();
    let mut row = Row::new([size, bucket(real)], real, pad);
    for (ids, types) in pairs() {
        let (own_ids, own_types) = row.add(ids.len().max(1));
        own_ids[..ids.len()].copy_from_slice(ids);
        own_types[..ids.len()].copy_from_slice(types);
    }
    Batch {
        fields: row.into_fields(),
        examples: texts.len(),
        tokens: real,
    }
}

/// Texts that follow each other in a row of tokens; see [`Batch`](crate::Batch) for its arrays.
pub(crate) struct Row {
    tokens: Vec<i32>,
    types: Vec<i32>,
    positions: Vec<i32>,
    segments: Vec<i32>,
    starts: Vec<i32>,
    firsts: Vec<i32>,
    /// Number of texts so far.
    texts: usize,
    /// Number of their tokens.
    end: usize,
}

impl Row {
    /// Makes a row with room for `size` texts and `n` tokens; the texts in it have `real` tokens together.
    pub(crate) fn new([size, n]: [usize; 2], real: usize, pad: i32) -> Row {
        Row {
            tokens: vec![pad; n],
            types: vec![0; n],
            positions: vec![0; n],
            segments: vec![size as i32; n],
            starts: vec![real as i32; size + 1],
            firsts: vec![0; size],
            texts: 0,
            end: 0,
        }
    }

    /// Adds a text of so many tokens; returns the places of its ids and of its token types, which are 0.
    pub(crate) fn add(&mut self, length: usize) -> (&mut [i32], &mut [i32]) {
        let places = self.end..self.end + length;
        (self.starts[self.texts], self.firsts[self.texts]) = (self.end as i32, self.end as i32);
        let positions = self.positions[places.clone()].iter_mut().zip(0..);
        positions.for_each(|(place, position)| *place = position);
        self.segments[places.clone()].fill(self.texts as i32);
        (self.texts, self.end) = (self.texts + 1, places.end);
        (&mut self.tokens[places.clone()], &mut self.types[places])
    }

    /// The ids of all tokens.
    pub(crate) fn tokens(&mut self) -> &mut [i32] {
        &mut self.tokens
    }

    /// The arrays of a batch.
    pub(crate) fn into_fields(self) -> Vec<(String, Field)> {
        let (n, size) = (self.tokens.len(), self.firsts.len());
        let fields = [
            ("tokens", vec![1, n], self.tokens),
            ("types", vec![1, n], self.types),
            ("positions", vec![n], self.positions),
            ("segments", vec![n], self.segments),
            ("starts", vec![size + 1], self.starts),
            ("firsts", vec![size], self.firsts),
        ];
        let named = fields.map(|(name, shape, data)| (name.to_string(), Field::i32(shape, data)));
        named.into()
    }
}

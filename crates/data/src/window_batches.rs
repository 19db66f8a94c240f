//! Batches of windows over a long text, for language models.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use lessen_base::{Error, Result, SplitMix64, bucket};

use crate::batch::{Batch, Field, IGNORE};
use crate::epoch::Epochs;
use crate::epoch::Order;
use crate::example_batches::check_sizes;
use crate::source::Source;
use crate::tokens::Tokens;

/// A text as token ids, served in windows. A window that starts at `s` has the tokens `x[s .. s + T]` and the labels
/// `x[s + 1 .. s + T + 1]`, so windows at stride `T` predict each token once.
///
/// - *Training in order*: windows start at 0, T, 2T and so on; an incomplete last window is dropped.
/// - *Training shuffled*: in each epoch the windows are shifted by a random offset below `T`, drawn from seed and
///   epoch, and come in random order. All epochs have the same number of windows.
/// - *Evaluation*: as training in order, with the incomplete last window padded.
///
/// A text shorter than one window is a single padded window.
pub struct WindowBatches {
    tokens: Tokens,
    pad: i32,
    length: usize,
    batch: usize,
    order: Order,
    epochs: Epochs,
    /// The token that a document begins with.
    document: Option<i32>,
    /// For how many documents every evaluation batch has room, once that is asked for.
    eval_room: OnceLock<usize>,
}

impl WindowBatches {
    /// Makes windows of `max_length` (`T`) tokens in batches of `batch` (`B`) rows; `pad` is the padding id.
    ///
    /// # Errors
    /// Fewer than two tokens; a batch or length of 0.
    pub fn new(
        tokens: impl Into<Tokens>,
        pad: i32,
        max_length: usize,
        batch: usize,
        order: Order,
    ) -> Result<WindowBatches> {
        check_sizes(max_length, batch)?;
        let tokens = tokens.into();
        if tokens.len() < 2 {
            return Err(Error::user(format!(
                "a text of {} tokens leaves nothing to predict; give a longer text",
                tokens.len()
            )));
        }
        let spare = if order == Order::InOrder { 1 } else { max_length };
        let windows = (tokens.len().saturating_sub(spare) / max_length).max(1);
        Ok(WindowBatches {
            tokens,
            pad,
            length: max_length,
            batch,
            order,
            epochs: Epochs::new(windows, order),
            document: None,
            eval_room: OnceLock::new(),
        })
    }

    /// Serves windows without padding, in which documents are kept apart: each begins at a token `end`, or where its
    /// window does; see [`Batch`].
    pub fn with_documents(self, end: i32) -> WindowBatches {
        let document = Some(end);
        WindowBatches { document, ..self }
    }

    /// Returns the number of windows in a training epoch.
    pub fn windows(&self) -> usize {
        self.epochs.len()
    }

    /// Returns the number of tokens of the text.
    pub fn text_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the start of an epoch's first window, below `T`; all windows of the epoch are complete.
    fn offset(&self, epoch: u64) -> usize {
        let room = self
            .tokens
            .len()
            .saturating_sub(self.windows() * self.length)
            .clamp(1, self.length);
        match self.order {
            Order::InOrder => 0,
            // The inverted seed makes this independent of the permutation, which is drawn from (seed, epoch).
            Order::Shuffled(seed) => SplitMix64::keyed(!seed, epoch).below(room as u64) as usize,
        }
    }

    /// The batch of the windows with these starts; where documents are told apart, with room for `least` at least.
    fn collect(&self, starts: impl ExactSizeIterator<Item = usize>, least: usize) -> Result<Batch> {
        let (b, t) = (self.batch, self.length);
        let (mut tokens, mut labels) = (vec![self.pad; b * t], vec![IGNORE; b * t]);
        let (examples, mut predicted) = (starts.len(), 0);
        let mut window = vec![0; t + 1];
        for (row, start) in starts.enumerate() {
            let count = t.min(self.tokens.len() - 1 - start);
            let to = row * t..row * t + count;
            self.tokens.read(start, &mut window[..=count])?;
            tokens[to.clone()].copy_from_slice(&window[..count]);
            labels[to].copy_from_slice(&window[1..=count]);
            predicted += count;
        }
        let fields = match self.document {
            None => vec![
                ("tokens".into(), Field::i32([b, t], tokens)),
                ("labels".into(), Field::i32([b, t], labels)),
            ],
            Some(end) => in_documents(tokens, labels, (t, predicted), (end, least)),
        };
        Ok(Batch {
            fields,
            examples,
            tokens: predicted,
        })
    }

    /// Returns the range of batch `index` within `count` windows; empty past the last one.
    fn range(&self, index: u64, count: usize) -> Range<usize> {
        let start = (index as usize).saturating_mul(self.batch).min(count);
        start..start.saturating_add(self.batch).min(count)
    }

    fn eval_windows(&self) -> usize {
        (self.tokens.len() - 1).div_ceil(self.length)
    }

    /// Evaluation batch `index`, with room for `least` documents at least.
    fn evaluation(&self, index: u64, least: usize) -> Result<Batch> {
        let windows = self.range(index, self.eval_windows());
        self.collect(windows.map(|window| window * self.length), least)
    }

    /// For how many documents every evaluation batch has room: room for more takes next to no time, so that they all
    /// have one layout.
    fn eval_room(&self) -> usize {
        let of = |index| room_of(&self.evaluation(index, 0));
        *self
            .eval_room
            .get_or_init(|| (0..self.eval_batches()).map(of).max().unwrap_or(bucket(0)))
    }
}

/// The fields of windows of `length` tokens, `real` in all, whose documents begin at the token `end`, with room for
/// `least` documents at least.
fn in_documents(
    tokens: Vec<i32>,
    labels: Vec<i32>,
    (length, real): (usize, usize),
    (end, least): (i32, usize),
) -> Vec<(String, Field)> {
    let n = tokens.len();
    let mut starts: Vec<i32> = Vec::new();
    let (mut positions, mut segments) = (vec![0; n], vec![0; n]);
    for (place, token) in tokens[..real].iter().enumerate() {
        if *token == end || place % length == 0 {
            starts.push(place as i32);
        }
        segments[place] = starts.len() as i32 - 1;
        positions[place] = place as i32 - starts[starts.len() - 1];
    }
    let room = bucket(starts.len()).max(least);
    let mut firsts = starts.clone();
    firsts.resize(room, 0);
    starts.resize(room + 1, real as i32);
    segments[real..].fill(room as i32);
    vec![
        ("tokens".into(), Field::i32([1, n], tokens)),
        ("labels".into(), Field::i32([1, n], labels)),
        ("positions".into(), Field::i32([n], positions)),
        ("segments".into(), Field::i32([n], segments)),
        ("starts".into(), Field::i32([room + 1], starts)),
        ("firsts".into(), Field::i32([room], firsts)),
    ]
}

/// The number of documents, rounded up, for which a batch has room. What cannot be read is told when it is served.
fn room_of(batch: &Result<Batch>) -> usize {
    let firsts = batch.as_ref().ok().and_then(|batch| batch.get("firsts"));
    firsts.map_or(bucket(0), |firsts| firsts.shape()[0])
}

impl Source for WindowBatches {
    fn batch(&self, step: u64) -> Result<Batch> {
        let (epoch, index) = (step / self.batches_per_epoch(), step % self.batches_per_epoch());
        let (order, offset) = (self.epochs.order(epoch), self.offset(epoch));
        let windows = order[self.range(index, self.windows())].iter();
        self.collect(windows.map(|&window| offset + window as usize * self.length), 0)
    }

    fn batches_per_epoch(&self) -> u64 {
        self.windows().div_ceil(self.batch) as u64
    }

    fn eval_batches(&self) -> u64 {
        self.eval_windows().div_ceil(self.batch) as u64
    }

    fn unknown_tokens(&self) -> Option<(u64, u64)> {
        self.tokens.unknown()
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        let room = self.document.map_or(0, |_| self.eval_room());
        self.evaluation(index, room)
    }

    fn layouts(&self, steps: Range<u64>) -> BTreeSet<(usize, usize)> {
        if self.document.is_none() {
            return BTreeSet::new();
        }
        let tokens = self.batch * self.length;
        let layouts: BTreeSet<_> = steps.map(|step| (room_of(&self.batch(step)), tokens)).collect();
        if layouts.is_empty() {
            return BTreeSet::from([(bucket(0), tokens)]);
        }
        layouts
    }

    fn eval_layouts(&self, _: Range<u64>) -> BTreeSet<(usize, usize)> {
        let layout = |_| (self.eval_room(), self.batch * self.length);
        self.document.map(layout).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(count: i32, length: usize, batch: usize, order: Order) -> WindowBatches {
        WindowBatches::new((0..count).collect::<Vec<_>>(), 99, length, batch, order).unwrap()
    }

    fn field<'a>(batch: &'a Batch, name: &str) -> &'a [i32] {
        batch.get(name).unwrap().as_i32().unwrap()
    }

    #[test]
    fn in_order_windows_are_consecutive_and_whole() {
        let source = windows(12, 3, 2, Order::InOrder);
        assert_eq!((source.windows(), source.batches_per_epoch()), (3, 2));
        let first = source.batch(0).unwrap();
        assert_eq!(field(&first, "tokens"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(field(&first, "labels"), [1, 2, 3, 4, 5, 6]);
        assert_eq!((first.examples, first.tokens), (2, 6));
        let last = source.batch(1).unwrap();
        assert_eq!(field(&last, "tokens"), [6, 7, 8, 99, 99, 99]);
        assert_eq!(field(&last, "labels"), [7, 8, 9, IGNORE, IGNORE, IGNORE]);
        assert_eq!((last.examples, last.tokens), (1, 3));
        assert_eq!(source.batch(2).unwrap(), first);
    }

    #[test]
    fn evaluation_predicts_every_token_once() {
        let source = windows(12, 3, 2, Order::Shuffled(1));
        assert_eq!(source.eval_batches(), 2);
        let labels: Vec<i32> = (0..2)
            .flat_map(|i| field(&source.eval_batch(i).unwrap(), "labels").to_vec())
            .filter(|&l| l != IGNORE)
            .collect();
        assert_eq!(labels, (1..12).collect::<Vec<i32>>());
        assert_eq!(field(&source.eval_batch(1).unwrap(), "tokens"), [6, 7, 8, 9, 10, 99]);
        assert_eq!((0..2).map(|i| source.eval_batch(i).unwrap().tokens).sum::<usize>(), 11);
        assert_eq!(source.eval_batch(2).unwrap().examples, 0);
    }

    #[test]
    fn shuffled_windows_are_whole_disjoint_and_start_at_every_offset() {
        let (length, batch) = (4, 3);
        for count in [9, 30, 31, 32, 33, 34] {
            let source = windows(count, length, batch, Order::Shuffled(5));
            let per_epoch = source.batches_per_epoch();
            let mut offsets = [false; 4];
            for epoch in 0..60 {
                let mut starts = Vec::new();
                for step in epoch * per_epoch..(epoch + 1) * per_epoch {
                    let batch = source.batch(step).unwrap();
                    assert_eq!(
                        batch.tokens,
                        batch.examples * length,
                        "a window of {count} tokens is not whole"
                    );
                    starts.extend(
                        field(&batch, "tokens")
                            .chunks(length)
                            .take(batch.examples)
                            .map(|row| row[0]),
                    );
                }
                starts.sort_unstable();
                offsets[starts[0] as usize] = true;
                let expected: Vec<i32> = (0..source.windows() as i32).map(|w| starts[0] + 4 * w).collect();
                assert_eq!(starts, expected);
            }
            assert_eq!(offsets, [true; 4], "{count} tokens");
        }
    }

    #[test]
    fn documents_in_windows_are_segments_with_positions_of_their_own() {
        // 9 begins a document.
        let text = vec![9, 1, 2, 9, 3, 9, 4, 5, 6, 7, 9, 9, 8];
        let source = WindowBatches::new(text, 0, 5, 2, Order::InOrder)
            .unwrap()
            .with_documents(9);
        let first = source.batch(0).unwrap();
        assert_eq!(first.get("tokens").unwrap().shape(), [1, 10]);
        assert_eq!(field(&first, "tokens"), [9, 1, 2, 9, 3, 9, 4, 5, 6, 7]);
        assert_eq!(field(&first, "labels"), [1, 2, 9, 3, 9, 4, 5, 6, 7, 9]);
        assert_eq!(field(&first, "positions"), [0, 1, 2, 0, 1, 0, 1, 2, 3, 4]);
        assert_eq!(field(&first, "segments"), [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]);
        assert_eq!(field(&first, "starts"), [&[0, 3, 5][..], &[10; 14]].concat());
        assert_eq!(field(&first, "firsts"), [&[0, 3, 5][..], &[0; 13]].concat());
        let last = source.eval_batch(1).unwrap();
        assert_eq!((last.examples, last.tokens), (1, 2));
        assert_eq!(field(&last, "tokens"), [9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(field(&last, "labels")[..3], [9, 8, IGNORE]);
        assert_eq!(field(&last, "segments")[..4], [0, 1, 16, 16]);
        assert_eq!(field(&last, "starts")[..4], [0, 1, 2, 2]);
        assert_eq!(source.eval_batch(7).unwrap().tokens, 0);
        let many = WindowBatches::new(vec![9; 90], 0, 20, 2, Order::InOrder)
            .unwrap()
            .with_documents(9);
        assert_eq!(many.largest_layout(0..2), Some((48, 40)));
        assert_eq!(many.largest_layout(3..3), Some((16, 40)));
        // All evaluation batches have one layout, the last one with few documents too.
        for index in 0..many.eval_batches() {
            let batch = many.eval_batch(index).unwrap();
            let rooms = ["firsts", "tokens"].map(|name| *batch.get(name).unwrap().shape().last().unwrap());
            assert_eq!(many.largest_eval_layout(index..index + 1), Some((48, 40)));
            assert_eq!(rooms, [48, 40]);
        }
    }

    #[test]
    fn a_shuffled_batch_is_a_function_of_seed_and_step() {
        let source = windows(1000, 8, 4, Order::Shuffled(5));
        let late = source.batch(100).unwrap();
        assert_ne!(source.batch(0).unwrap(), late);
        assert_eq!(windows(1000, 8, 4, Order::Shuffled(5)).batch(100).unwrap(), late);
        assert_ne!(windows(1000, 8, 4, Order::Shuffled(6)).batch(100).unwrap(), late);
    }

    #[test]
    fn a_text_shorter_than_a_window_is_filled_up() {
        for order in [Order::InOrder, Order::Shuffled(0)] {
            let source = windows(3, 4, 1, order);
            let batch = source.batch(7).unwrap();
            assert_eq!(field(&batch, "tokens"), [0, 1, 99, 99]);
            assert_eq!(field(&batch, "labels"), [1, 2, IGNORE, IGNORE]);
            assert_eq!(
                (batch.examples, batch.tokens, source.eval_batch(0).unwrap()),
                (1, 2, batch.clone())
            );
        }
        let error = WindowBatches::new(vec![1], 0, 4, 1, Order::InOrder)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("1 tokens"));
    }

    #[test]
    fn texts_about_as_long_as_a_window_or_two_are_served_whole() {
        for count in 2..20 {
            let source = windows(count, 4, 1, Order::Shuffled(2));
            for step in 0..50 {
                let expected = 4.min(count as usize - 1);
                assert_eq!(
                    source.batch(step).unwrap().tokens,
                    expected,
                    "{count} tokens, step {step}"
                );
            }
        }
    }
}

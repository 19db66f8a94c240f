//! Batches of labelled texts.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::encoded::EncodedExamples;
use crate::epoch::Order;
use crate::examples::Examples;
use crate::labels::Labels;
use crate::packed_texts::{PackedTexts, Turn};
use crate::packing::Row;
use crate::tokenizer::Tokenizer;

/// Labelled texts, encoded once and served in batches without padding; see [`Batch`] for the fields.
pub struct ExampleBatches {
    examples: Arc<EncodedExamples>,
    batches: Batches,
}

impl ExampleBatches {
    /// Encodes the examples, truncated to `max_length` tokens, for batches of `batch` texts.
    ///
    /// # Errors
    /// As [`EncodedExamples::new`], and a batch of 0.
    pub fn new(
        examples: &Examples,
        tokenizer: &Tokenizer,
        max_length: usize,
        batch: usize,
        order: Order,
    ) -> Result<ExampleBatches> {
        let examples = EncodedExamples::new(examples, tokenizer, max_length, None)?;
        ExampleBatches::of(Arc::new(examples), Batching::Examples(batch), order)
    }

    /// Serves encoded examples.
    ///
    /// # Errors
    /// A batch of 0 examples, or of fewer tokens than an example has.
    pub fn of(examples: Arc<EncodedExamples>, batching: Batching, order: Order) -> Result<ExampleBatches> {
        let batches = Batches::new(examples.len(), batching, order, |example| examples.tokens_of(example))?;
        Ok(ExampleBatches { examples, batches })
    }

    /// Returns the number of examples.
    pub fn examples(&self) -> usize {
        self.examples.len()
    }

    /// Makes evaluation batches of examples from anywhere in the data, so that they have about equal numbers of tokens
    /// and share a layout. Batches that are bounded by tokens stay in order.
    pub fn with_balanced_evaluations(mut self) -> ExampleBatches {
        self.batches.balance_evaluations();
        self
    }
}

impl PackedTexts for ExampleBatches {
    fn batches(&self) -> &Batches {
        &self.batches
    }

    fn tokens_of(&self, text: usize) -> usize {
        self.examples.tokens_of(text)
    }

    fn unknown(&self) -> Option<(u64, u64)> {
        self.examples.unknown()
    }

    fn cut(&self) -> Option<(u64, u64)> {
        Some(self.examples.cut())
    }

    fn collect(&self, members: &Members, turn: Turn) -> Result<Batch> {
        let (examples, real) = (members.len(), self.tokens_of_all(members));
        let [b, tokens] = self.layout(members, turn);
        let mut row = Row::new([b, tokens], real, self.examples.pad());
        for example in members.iter() {
            let (tokens, types) = row.add(self.examples.tokens_of(example));
            self.examples.read(example, tokens, types)?;
        }
        let mut fields = row.into_fields();
        let (labels, weights) = (self.examples.labels(), self.examples.weights());
        fields.extend(label_fields(labels, weights, members, b));
        Ok(Batch {
            fields,
            examples,
            tokens: real,
        })
    }
}

/// The label fields of a batch with room for `b` texts, and their weights where they have some.
fn label_fields(labels: &Labels, weights: Option<&[f32]>, members: &Members, b: usize) -> Vec<(String, Field)> {
    let weight = |example: usize| weights.map_or(1.0, |weights| weights[example]);
    let mut own_weights: Vec<f32> = members.iter().map(weight).collect();
    own_weights.resize(b, 0.0);
    let (labels, is_weighted) = match labels {
        Labels::Classes(classes) => {
            let mut own: Vec<i32> = members.iter().map(|example| classes[example]).collect();
            own.resize(b, IGNORE);
            (("labels".into(), Field::i32([b], own)), weights.is_some())
        }
        Labels::Scores(scores) => {
            let mut own: Vec<f32> = members.iter().map(|example| scores[example]).collect();
            own.resize(b, 0.0);
            (("targets".into(), Field::f32([b], own)), true)
        }
        Labels::Sets(sets) => {
            let width = sets.classes();
            let mut own = vec![0.0; b * width];
            for (place, example) in members.iter().enumerate() {
                let set = sets.get(example).iter();
                set.for_each(|class| own[place * width + *class as usize] = 1.0);
            }
            (("targets".into(), Field::f32([b, width], own)), true)
        }
    };
    let weights = is_weighted.then(|| ("weights".to_string(), Field::f32([b], own_weights)));
    [labels].into_iter().chain(weights).collect()
}

/// Refuses a batch or length of 0.
pub(crate) fn check_sizes(max_length: usize, batch: usize) -> Result<()> {
    for (name, size) in [("data.max_length", max_length), ("train.batch", batch)] {
        if size == 0 {
            return Err(Error::user(format!("{name} is 0; set it to at least 1")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelKind, LabelSets, Source};

    /// The texts "", "a", "ab", "abc" and so on, truncated to 3 tokens, labelled by their index.
    fn classes(count: usize, batch: usize, order: Order) -> ExampleBatches {
        let texts = (0..count).map(|i| ("abcdefgh"[..i.min(8)].to_string(), None)).collect();
        let labels = Labels::Classes((0..count as i32).collect());
        let tokenizer = Tokenizer::characters(["abcdefgh"], 1);
        ExampleBatches::new(&Examples::new(texts, labels), &tokenizer, 3, batch, order).unwrap()
    }

    fn labels(batch: &Batch) -> Vec<i32> {
        batch.get("labels").unwrap().as_i32().unwrap().to_vec()
    }

    /// The labels of the examples of a batch.
    fn labels_of(batch: &Batch) -> impl Iterator<Item = i32> {
        labels(batch).into_iter().filter(|label| *label != IGNORE)
    }

    #[test]
    fn texts_follow_each_other_without_padding_between() {
        let source = classes(5, 3, Order::InOrder);
        let first = source.batch(0).unwrap();
        let field = |batch: &Batch, name: &str| batch.get(name).unwrap().as_i32().unwrap().to_vec();
        // The first text is empty and gets a token of padding.
        assert_eq!(first.get("tokens").unwrap().shape(), [1, 16]);
        assert_eq!(field(&first, "tokens")[..5], [0, 2, 2, 3, 0]);
        assert_eq!(field(&first, "positions")[..5], [0, 0, 0, 1, 0]);
        assert_eq!(field(&first, "segments")[..6], [0, 1, 2, 2, 3, 3]);
        assert_eq!(field(&first, "starts"), [0, 1, 2, 4]);
        assert_eq!(field(&first, "firsts"), [0, 1, 2]);
        assert_eq!(field(&first, "types"), [0; 16]);
        assert_eq!((labels(&first), first.examples, first.tokens), (vec![0, 1, 2], 3, 4));

        let last = source.batch(1).unwrap();
        assert_eq!(field(&last, "tokens")[..7], [2, 3, 4, 2, 3, 4, 0]);
        assert_eq!(field(&last, "segments")[5..8], [1, 3, 3]);
        assert_eq!(field(&last, "starts"), [0, 3, 6, 6]);
        assert_eq!(field(&last, "firsts"), [0, 3, 0]);
        assert_eq!((labels(&last), last.examples, last.tokens), (vec![3, 4, IGNORE], 2, 6));
        assert_eq!(source.batches_per_epoch(), 2);
        assert_eq!(source.batch(2).unwrap(), first);
        let past = source.eval_batch(9).unwrap();
        assert_eq!((past.examples, past.tokens, field(&past, "starts")), (0, 0, vec![0; 4]));
    }

    #[test]
    fn truncated_texts_are_counted() {
        // "abcd" and longer ones lack tokens.
        for (count, cut) in [(1, 0), (4, 0), (5, 1), (12, 8)] {
            assert_eq!(classes(count, 3, Order::InOrder).cut_texts(), Some((cut, count as u64)));
        }
    }

    #[test]
    fn sets_of_classes_are_rows_of_targets() {
        let texts = ["a", "ab", "b"].map(|text| (text.to_string(), None)).to_vec();
        let mut sets = LabelSets::new(3);
        for set in [&[2, 0][..], &[], &[1]] {
            sets.push(set);
        }
        let tokenizer = Tokenizer::characters(["ab"], 1);
        let examples = Examples::new(texts, Labels::Sets(sets));
        let source = ExampleBatches::new(&examples, &tokenizer, 3, 2, Order::InOrder).unwrap();
        let field = |index: u64, name: &str| {
            let batch = source.eval_batch(index).unwrap();
            let field = batch.get(name).unwrap();
            (field.shape().to_vec(), field.as_f32().unwrap().to_vec())
        };
        assert_eq!(field(0, "targets"), (vec![2, 3], vec![1., 0., 1., 0., 0., 0.]));
        assert_eq!(field(1, "targets"), (vec![2, 3], vec![0., 1., 0., 0., 0., 0.]));
        assert_eq!(
            (field(0, "weights").1, field(1, "weights").1),
            (vec![1., 1.], vec![1., 0.])
        );
        assert!(source.eval_batch(0).unwrap().get("labels").is_none());
    }

    #[test]
    fn no_batch_is_larger_than_the_largest() {
        let texts: Vec<_> = (0..97).map(|i| ("a".repeat(1 + i * i % 41), None)).collect();
        let examples = Examples::unlabelled(texts, &LabelKind::Score);
        let tokenizer = Tokenizer::characters(["a"], 1);
        let source = ExampleBatches::new(&examples, &tokenizer, 30, 8, Order::Shuffled(4)).unwrap();
        let width = |batch: &Batch| batch.get("tokens").unwrap().shape()[1];
        let tokens: Vec<usize> = (0..200).map(|step| width(&source.batch(step).unwrap())).collect();
        for steps in [0..200, 13..14, 60..120] {
            let range = steps.start as usize..steps.end as usize;
            let most = tokens[range].iter().max().copied();
            assert_eq!(source.largest_layout(steps), most.map(|most| (8, most)));
        }
        let all = (0..source.eval_batches()).map(|index| width(&source.eval_batch(index).unwrap()));
        let largest = source.largest_eval_layout(0..source.eval_batches());
        assert_eq!(largest, all.max().map(|most| (8, most)));
        assert_eq!(source.largest_layout(5..5), Some((8, 16)));
    }

    #[test]
    fn a_shuffled_source_sees_every_example_once_an_epoch_and_evaluates_in_order() {
        let source = classes(10, 4, Order::Shuffled(3));
        let epoch = |source: &ExampleBatches, epoch: u64| -> Vec<i32> {
            let seen = (0..3).flat_map(|step| labels(&source.batch(epoch * 3 + step).unwrap()));
            seen.filter(|&label| label != IGNORE).collect()
        };
        let (first, second) = (epoch(&source, 0), epoch(&source, 1));
        assert_ne!(first, second);
        for mut seen in [first, second.clone()] {
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<i32>>());
        }
        // A new source resumes in the second epoch.
        assert_eq!(epoch(&classes(10, 4, Order::Shuffled(3)), 1), second);
        let in_order: Vec<i32> = (0..source.eval_batches())
            .flat_map(|i| labels(&source.eval_batch(i).unwrap()))
            .collect();
        assert_eq!(in_order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, IGNORE, IGNORE]);
        assert_eq!(source.eval_batch(3).unwrap().examples, 0);
        assert_eq!(source.eval_batch(u64::MAX).unwrap().examples, 0);
    }

    #[test]
    fn balanced_evaluations_have_every_example_once_in_batches_of_one_layout() {
        let texts: Vec<_> = (0..60).map(|i| ("a".repeat(1 + i), None)).collect();
        let labels = Labels::Classes((0..60).collect());
        let (examples, tokenizer) = (Examples::new(texts, labels), Tokenizer::characters(["a"], 1));
        let source = || ExampleBatches::new(&examples, &tokenizer, 60, 8, Order::Shuffled(1)).unwrap();
        let (in_order, balanced) = (source(), source().with_balanced_evaluations());
        assert_eq!(balanced.batch(3).unwrap(), in_order.batch(3).unwrap());
        assert_eq!(balanced.eval_batches(), in_order.eval_batches());
        let mut all = Vec::new();
        for index in 0..balanced.eval_batches() {
            let (batch, own) = (
                balanced.eval_batch(index).unwrap(),
                balanced.examples_of(index).unwrap(),
            );
            let lengths = own.iter().map(|example| 1 + example);
            assert_eq!((batch.examples, batch.tokens), (own.len(), lengths.sum()));
            assert!(labels_of(&batch).eq(own.iter().map(|example| *example as i32)));
            all.extend(own);
        }
        all.sort_unstable();
        assert_eq!(all, (0..60).collect::<Vec<usize>>());
        let layouts = |source: &ExampleBatches| source.eval_layouts(0..source.eval_batches()).len();
        assert_eq!((layouts(&balanced), layouts(&in_order)), (1, 4));
        let past = balanced.eval_batch(8).unwrap();
        assert_eq!((past.examples, past.tokens), (0, 0));
    }

    #[test]
    fn regression_has_targets_and_weights() {
        let texts = vec![("a".to_string(), Some("b".to_string())); 2];
        let examples = Examples::new(texts, Labels::Scores(vec![2.5, 0.0]));
        let tokenizer = Tokenizer::characters(["ab"], 1);
        let source = ExampleBatches::new(&examples, &tokenizer, 4, 3, Order::InOrder).unwrap();
        let batch = source.eval_batch(0).unwrap();
        assert_eq!(batch.get("targets").unwrap().as_f32().unwrap(), [2.5, 0.0, 0.0]);
        assert_eq!(batch.get("weights").unwrap().as_f32().unwrap(), [1.0, 1.0, 0.0]);
        assert_eq!(batch.get("types").unwrap().as_i32().unwrap()[..6], [0, 1, 0, 1, 0, 0]);
        assert!(batch.get("labels").is_none());
    }

    #[test]
    fn texts_without_labels_have_ignored_ones() {
        let target = LabelKind::Classes(vec!["x".into(), "y".into()]);
        let examples = Examples::unlabelled(vec![("a".into(), None)], &target);
        let tokenizer = Tokenizer::characters(["a"], 1);
        let source = ExampleBatches::new(&examples, &tokenizer, 4, 1, Order::InOrder).unwrap();
        let batch = source.eval_batch(0).unwrap();
        assert_eq!((labels(&batch), batch.examples), (vec![IGNORE], 1));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let tokenizer = Tokenizer::characters(["a"], 1);
        let new = |count, length, batch| {
            let examples = Examples::unlabelled(vec![("a".into(), None); count], &LabelKind::Score);
            ExampleBatches::new(&examples, &tokenizer, length, batch, Order::InOrder)
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(new(0, 1, 1).contains("no examples"));
        assert!(new(1, 0, 1).contains("data.max_length is 0"));
        assert!(new(1, 1, 0).contains("train.batch is 0"));
    }
}

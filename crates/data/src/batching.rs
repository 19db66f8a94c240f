//! Which examples make a batch.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use lessen_base::{Error, Result, SplitMix64, bucket};

use crate::balance::balanced;
use crate::epoch::{Epochs, Order};
use crate::eval_layouts::EvalLayouts;

/// What a batch of labelled texts holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// So many texts.
    Examples(usize),
    /// So many texts, of similar lengths where they are shuffled: each epoch's order is cut into stretches of 50
    /// batches, which are sorted from long to short.
    Grouped(usize),
    /// As many texts as have at most so many tokens together. Where they are shuffled, batches are of similar lengths
    /// and have the same texts in every epoch: the texts in an order drawn by the seed, sorted by length, and cut.
    /// Epochs differ in the order of batches.
    Tokens(usize),
}

/// Batches in a stretch that [`Batching::Grouped`] sorts.
const STRETCH: usize = 50;

/// The batches of labelled texts as numbers of examples.
pub(crate) struct Batches {
    examples: usize,
    partition: Partition,
    /// Whether evaluation batches of equally many examples have about equal numbers of tokens, too.
    is_balanced: bool,
    /// The evaluation batches, once they are asked for.
    evaluation: OnceLock<Evaluation>,
}

/// What is known of evaluation batches from the lengths of all examples.
struct Evaluation {
    /// The examples of balanced batches, and the places at which batches begin, then the end.
    balanced: Option<(Arc<[u32]>, Vec<usize>)>,
    layouts: EvalLayouts,
}

/// How examples are divided into batches.
enum Partition {
    /// So many examples, in the order of each epoch.
    Equal { size: usize, epochs: Epochs },
    /// Examples from each of the cuts to the next one, in the order of training and in that of the data.
    Bounded {
        members: Arc<[u32]>,
        cuts: Vec<usize>,
        /// The order of batches.
        epochs: Epochs,
        cuts_in_order: Vec<usize>,
    },
}

/// The examples of a batch, in order.
pub(crate) enum Members {
    /// The examples at these places of a list.
    Listed(Arc<[u32]>, Range<usize>),
    /// Consecutive examples of the data.
    InOrder(Range<usize>),
}

impl Members {
    /// The number of examples.
    pub(crate) fn len(&self) -> usize {
        match self {
            Members::Listed(_, range) | Members::InOrder(range) => range.len(),
        }
    }

    /// The examples.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let (list, range) = match self {
            Members::Listed(list, range) => (Some(list), range.clone()),
            Members::InOrder(range) => (None, range.clone()),
        };
        range.map(move |place| list.map_or(place, |list| list[place] as usize))
    }
}

impl Batches {
    /// Cuts `examples` examples into batches; `length` gives the tokens of one.
    ///
    /// # Errors
    /// A batch of 0 examples, or of fewer tokens than an example has.
    pub(crate) fn new(
        examples: usize,
        batching: Batching,
        order: Order,
        length: impl Fn(usize) -> usize,
    ) -> Result<Batches> {
        let partition = match batching {
            Batching::Examples(0) | Batching::Grouped(0) => {
                return Err(Error::user("train.batch is 0; set it to at least 1"));
            }
            Batching::Examples(size) => Partition::Equal {
                size,
                epochs: Epochs::new(examples, order),
            },
            Batching::Grouped(size) => {
                let lengths: Vec<u32> = (0..examples).map(|example| length(example) as u32).collect();
                let arrange = move |order: &mut [u32]| {
                    for stretch in order.chunks_mut(size.saturating_mul(STRETCH)) {
                        stretch.sort_by_key(|example| Reverse(lengths[*example as usize]));
                    }
                };
                let epochs = Epochs::new(examples, order);
                Partition::Equal {
                    size,
                    epochs: if order == Order::InOrder {
                        epochs
                    } else {
                        epochs.arranged(arrange)
                    },
                }
            }
            Batching::Tokens(most) => {
                if let Some(longest) = (0..examples).map(&length).max().filter(|longest| *longest > most) {
                    return Err(Error::user(format!(
                        "train.tokens is {most}, but there is an example of {longest} tokens; raise it to at least that, or \
                         lower data.max_length"
                    )));
                }
                let mut members: Vec<u32> = (0..examples as u32).collect();
                let cuts_in_order = cut(&members, most, &length);
                if let Order::Shuffled(seed) = order {
                    SplitMix64::named(seed, "batches").shuffle(&mut members);
                    members.sort_by_key(|example| length(*example as usize));
                }
                let cuts = cut(&members, most, &length);
                Partition::Bounded {
                    members: members.into(),
                    epochs: Epochs::new(cuts.len() - 1, order),
                    cuts,
                    cuts_in_order,
                }
            }
        };
        Ok(Batches {
            examples,
            partition,
            is_balanced: false,
            evaluation: OnceLock::new(),
        })
    }

    /// Makes evaluation batches of examples from anywhere in the data, so that they have about equal numbers of tokens.
    /// Batches that are bounded by tokens stay as they are.
    pub(crate) fn balance_evaluations(&mut self) {
        self.is_balanced = true;
        self.evaluation = OnceLock::new();
    }

    /// The number of training batches in an epoch.
    pub(crate) fn per_epoch(&self) -> u64 {
        match &self.partition {
            Partition::Equal { size, .. } => self.examples.div_ceil(*size) as u64,
            Partition::Bounded { cuts, .. } => cuts.len() as u64 - 1,
        }
    }

    /// The number of evaluation batches.
    pub(crate) fn evaluations(&self) -> u64 {
        match &self.partition {
            Partition::Equal { .. } => self.per_epoch(),
            Partition::Bounded { cuts_in_order, .. } => cuts_in_order.len() as u64 - 1,
        }
    }

    /// The batch of a training step.
    pub(crate) fn of_step(&self, step: u64) -> Members {
        let (epoch, index) = (step / self.per_epoch(), (step % self.per_epoch()) as usize);
        match &self.partition {
            Partition::Equal { size, epochs } => Members::Listed(epochs.order(epoch), self.stretch(index, *size)),
            Partition::Bounded {
                members, cuts, epochs, ..
            } => {
                let batch = epochs.order(epoch)[index] as usize;
                Members::Listed(members.clone(), cuts[batch]..cuts[batch + 1])
            }
        }
    }

    /// An evaluation batch; empty past the last one. `length` gives the tokens of an example.
    pub(crate) fn of_index(&self, index: u64, length: impl Fn(usize) -> usize) -> Members {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        match &self.evaluation(length).balanced {
            Some((members, cuts)) => Members::Listed(members.clone(), self.cut_of(cuts, index)),
            None => self.in_order(index),
        }
    }

    /// An evaluation batch in the order of the data.
    fn in_order(&self, index: usize) -> Members {
        Members::InOrder(match &self.partition {
            Partition::Equal { size, .. } => self.stretch(index, *size),
            Partition::Bounded { cuts_in_order, .. } => self.cut_of(cuts_in_order, index),
        })
    }

    fn cut_of(&self, cuts: &[usize], index: usize) -> Range<usize> {
        match cuts.get(index..index.saturating_add(2)) {
            Some(cuts) => cuts[0]..cuts[1],
            None => self.examples..self.examples,
        }
    }

    fn evaluation(&self, length: impl Fn(usize) -> usize) -> &Evaluation {
        self.evaluation.get_or_init(|| {
            let tokens = |members: Members| members.iter().map(&length).sum();
            match &self.partition {
                Partition::Equal { size, .. } if self.is_balanced => {
                    let lengths: Vec<usize> = (0..self.examples).map(&length).collect();
                    let batches = balanced(&lengths, *size);
                    let mut cuts = vec![0];
                    batches
                        .iter()
                        .for_each(|batch| cuts.push(cuts[cuts.len() - 1] + batch.len()));
                    let members: Arc<[u32]> = batches.concat().into();
                    let all = cuts.windows(2);
                    let all = all.map(|cut| tokens(Members::Listed(members.clone(), cut[0]..cut[1])));
                    Evaluation {
                        layouts: EvalLayouts::new(*size, all),
                        balanced: Some((members, cuts)),
                    }
                }
                _ => {
                    let all = || (0..self.evaluations() as usize).map(|index| self.in_order(index));
                    let room = all().map(|batch| self.room(batch.len())).max();
                    Evaluation {
                        layouts: EvalLayouts::new(room.unwrap_or(self.room(0)), all().map(tokens)),
                        balanced: None,
                    }
                }
            }
        })
    }

    /// For how many texts and tokens a training batch has room, if `length` gives the tokens of an example.
    pub(crate) fn layout(&self, members: &Members, length: impl Fn(usize) -> usize) -> (usize, usize) {
        (self.room(members.len()), bucket(members.iter().map(length).sum()))
    }

    /// For how many texts and tokens an evaluation batch has room.
    pub(crate) fn eval_layout(&self, members: &Members, length: impl Fn(usize) -> usize) -> (usize, usize) {
        let layouts = &self.evaluation(&length).layouts;
        (layouts.texts, layouts.tokens_for(members.iter().map(length).sum()))
    }

    /// The layouts of training batches; see [`Source::layouts`](crate::Source::layouts).
    pub(crate) fn layouts(&self, steps: Range<u64>, length: impl Fn(usize) -> usize) -> BTreeSet<(usize, usize)> {
        let layouts = steps.map(|step| self.layout(&self.of_step(step), &length)).collect();
        or_empty(layouts, || (self.room(0), bucket(0)))
    }

    /// The layouts of evaluation batches.
    pub(crate) fn eval_layouts(
        &self,
        batches: Range<u64>,
        length: impl Fn(usize) -> usize,
    ) -> BTreeSet<(usize, usize)> {
        let layouts = batches
            .map(|index| self.eval_layout(&self.of_index(index, &length), &length))
            .collect();
        or_empty(layouts, || self.eval_layout(&Members::InOrder(0..0), &length))
    }

    fn stretch(&self, index: usize, size: usize) -> Range<usize> {
        let start = index.saturating_mul(size).min(self.examples);
        start..start.saturating_add(size).min(self.examples)
    }

    /// For how many texts a training batch of `examples` texts has room, so that few programs serve all batches.
    fn room(&self, examples: usize) -> usize {
        match &self.partition {
            Partition::Equal { size, .. } => *size,
            Partition::Bounded { .. } => bucket(examples),
        }
    }
}

/// The layouts, or where there are none that of an empty batch.
fn or_empty(mut layouts: BTreeSet<(usize, usize)>, empty: impl FnOnce() -> (usize, usize)) -> BTreeSet<(usize, usize)> {
    if layouts.is_empty() {
        layouts.insert(empty());
    }
    layouts
}

/// The places at which batches of at most `most` tokens begin, then the end.
fn cut(members: &[u32], most: usize, length: impl Fn(usize) -> usize) -> Vec<usize> {
    let (mut cuts, mut tokens) = (vec![0], 0);
    for (place, example) in members.iter().enumerate() {
        let own = length(*example as usize);
        if tokens + own > most {
            cuts.push(place);
            tokens = 0;
        }
        tokens += own;
    }
    cuts.push(members.len());
    cuts
}

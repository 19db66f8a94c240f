//! Which examples make a batch.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use lessen_base::{Error, Result, SplitMix64};

use crate::bucket::bucket;
use crate::epoch::{Epochs, Order};

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
        Ok(Batches { examples, partition })
    }

    /// The number of training batches in an epoch.
    pub(crate) fn per_epoch(&self) -> u64 {
        match &self.partition {
            Partition::Equal { size, .. } => self.examples.div_ceil(*size) as u64,
            Partition::Bounded { cuts, .. } => cuts.len() as u64 - 1,
        }
    }

    /// The number of evaluation batches.
    pub(crate) fn in_order(&self) -> u64 {
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

    /// An evaluation batch; empty past the last one.
    pub(crate) fn of_index(&self, index: u64) -> Members {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Members::InOrder(match &self.partition {
            Partition::Equal { size, .. } => self.stretch(index, *size),
            Partition::Bounded { cuts_in_order, .. } => match cuts_in_order.get(index..index.saturating_add(2)) {
                Some(cuts) => cuts[0]..cuts[1],
                None => self.examples..self.examples,
            },
        })
    }

    /// For how many texts and tokens training batches have room, if `length` gives the tokens of an example; see
    /// [`Source::layouts`](crate::Source::layouts).
    pub(crate) fn layouts(&self, steps: Range<u64>, length: impl Fn(usize) -> usize) -> BTreeSet<(usize, usize)> {
        self.layouts_of(steps.map(|step| self.of_step(step)), length)
    }

    /// The same of evaluation batches.
    pub(crate) fn eval_layouts(
        &self,
        batches: Range<u64>,
        length: impl Fn(usize) -> usize,
    ) -> BTreeSet<(usize, usize)> {
        self.layouts_of(batches.map(|index| self.of_index(index)), length)
    }

    fn layouts_of(
        &self,
        batches: impl Iterator<Item = Members>,
        length: impl Fn(usize) -> usize,
    ) -> BTreeSet<(usize, usize)> {
        let layout = |members: Members| (self.room(members.len()), bucket(members.iter().map(&length).sum()));
        let mut layouts: BTreeSet<(usize, usize)> = batches.map(layout).collect();
        if layouts.is_empty() {
            layouts.insert((self.room(0), bucket(0)));
        }
        layouts
    }

    fn stretch(&self, index: usize, size: usize) -> Range<usize> {
        let start = index.saturating_mul(size).min(self.examples);
        start..start.saturating_add(size).min(self.examples)
    }

    /// For how many texts a batch of `examples` texts has room, so that few programs serve all batches.
    pub(crate) fn room(&self, examples: usize) -> usize {
        match &self.partition {
            Partition::Equal { size, .. } => *size,
            Partition::Bounded { .. } => bucket(examples),
        }
    }
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

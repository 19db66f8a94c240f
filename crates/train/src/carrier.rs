//! What carries a program's operations of several ranks: the group of processes, a chunk at a time.

use crate::dealing::{AHEAD, CHUNK, UNDER_WAY};
use lessen_base::tree::part;
use lessen_base::{Error, Result};
use lessen_comm::{Group, UnderWay, buffers};
use lessen_graph::ops::{AllGather, AllReduce, BroadcastFrom, ReduceScatter};
use lessen_graph::{Carrier, Op, Ranks, Transfer, Type};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The processes of a training as carriers of its programs. Outside of steps nothing is carried, and results are zeros:
/// operations that are measured run on each process by itself.
#[derive(Debug)]
pub(crate) struct GroupCarrier {
    group: Group,
    carried: Mutex<Carried>,
}

#[derive(Debug, Default)]
struct Carried {
    /// How many runs that exchange are under way, one within another.
    runs: usize,
    failure: Option<Error>,
    /// Operations that are begun, by their numbers.
    under_way: BTreeMap<usize, Exchanging>,
}

/// How an operation is exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Pieces are added up, and gathered.
    ReduceAndGather,
    /// Pieces are added up.
    Reduce,
    /// Pieces are gathered.
    Gather,
    /// The elements of one process are given to all.
    Broadcast(usize),
}

/// An operation that is exchanged.
#[derive(Debug)]
struct Exchanging {
    way: Way,
    ranks: Ranks,
    /// The first element of each process's piece, and the end.
    borders: Vec<usize>,
    /// Elements of each process's piece in a chunk.
    step: usize,
    /// The chunk that is begun next.
    next: usize,
    reducing: VecDeque<(usize, UnderWay<Vec<u8>>)>,
    gathering: VecDeque<(usize, UnderWay<Vec<u8>>)>,
}

impl GroupCarrier {
    /// The carrier of a group.
    pub fn new(group: Group) -> GroupCarrier {
        GroupCarrier {
            group,
            carried: Mutex::default(),
        }
    }

    fn carried(&self) -> MutexGuard<'_, Carried> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries what runs from now on.
    pub fn begin_run(&self) {
        self.carried().runs += 1;
    }

    /// Carries nothing from now on.
    ///
    /// # Errors
    /// A process that has not answered in the step, whose results are arbitrary then.
    pub fn end_run(&self) -> Result<()> {
        let carried = &mut *self.carried();
        carried.runs = carried.runs.saturating_sub(1);
        let failure = carried.failure.clone();
        if carried.runs == 0 {
            *carried = Carried::default();
        }
        failure.map_or(Ok(()), Err)
    }

    /// Does something with what is carried, unless it has failed before.
    fn try_with(&self, then: impl FnOnce(&mut Carried) -> Result<()>) {
        let carried = &mut *self.carried();
        if carried.runs > 0 && carried.failure.is_none() {
            carried.failure = then(carried).err();
        }
    }
}

impl Carrier for GroupCarrier {
    fn begin(&self, number: usize, op: &dyn Op, inputs: &[&[f32]]) {
        self.try_with(|carried| {
            let mut exchanging = Exchanging::of(op, inputs)?;
            for _ in 0..AHEAD {
                exchanging.begin_next(&self.group, op, inputs)?;
            }
            carried.under_way.insert(number, exchanging);
            Ok(())
        });
    }

    fn end(&self, number: usize, op: &dyn Op, inputs: &[&[f32]], output: &mut [f32]) {
        let mut is_written = false;
        self.try_with(|carried| {
            let exchanging = carried.under_way.remove(&number);
            let mut exchanging = exchanging.ok_or_else(|| Error::internal("an operation that was not begun"))?;
            exchanging.end(&self.group, op, inputs, output)?;
            is_written = true;
            Ok(())
        });
        if !is_written {
            output.fill(0.0);
        }
    }

    fn transfer(&self, op: &dyn Op, inputs: &[Type], output: &Type) -> Transfer {
        let Some((network, ranks)) = self.group.network().zip(op.ranks()) else {
            return Transfer::default();
        };
        let whole = inputs.iter().chain([output]).map(|ty| ty.bytes()).max().unwrap_or(0);
        // A process sends all but its own piece, and both to add up and to gather where it does both.
        let rounds = if op.is::<AllReduce>() { 2.0 } else { 1.0 };
        let sent = whole as f64 * (ranks.count - 1) as f64 / ranks.count as f64;
        Transfer {
            sending: rounds * sent / network.rate,
            latency: rounds * network.latency.as_secs_f64(),
        }
    }
}

impl Exchanging {
    fn of(op: &dyn Op, inputs: &[&[f32]]) -> Result<Exchanging> {
        let ranks = op.ranks().ok_or_else(|| Error::internal("an operation of one rank"))?;
        let even = |count: usize| {
            (0..=ranks.count)
                .map(|rank| part(count, ranks.count, rank).start)
                .collect()
        };
        let owned = |count: usize, block: usize| {
            let ends = (0..ranks.count).map(|rank| ranks.of_rank(rank).owned(count, block).end);
            std::iter::once(0).chain(ends).collect()
        };
        let given = inputs.first().map_or(0, |input| input.len());
        let any = op as &dyn std::any::Any;
        let (way, borders): (Way, Vec<usize>) = if any.is::<AllReduce>() {
            (Way::ReduceAndGather, even(given))
        } else if let Some(op) = any.downcast_ref::<ReduceScatter>() {
            (Way::Reduce, owned(given, op.block))
        } else if let Some(op) = any.downcast_ref::<AllGather>() {
            (Way::Gather, owned(lessen_graph::numel(&op.shape), op.block))
        } else if let Some(op) = any.downcast_ref::<BroadcastFrom>() {
            (Way::Broadcast(op.root), even(given))
        } else {
            return Err(Error::internal(format!("`{}` is not carried", op.name())));
        };
        Ok(Exchanging {
            way,
            ranks,
            borders,
            step: (CHUNK / size_of::<f32>() / ranks.count).max(1),
            next: 0,
            reducing: VecDeque::new(),
            gathering: VecDeque::new(),
        })
    }

    /// The elements of a chunk in the piece of each process.
    fn elements(&self, chunk: usize) -> impl Iterator<Item = Range<usize>> + Clone {
        let first = chunk.saturating_mul(self.step);
        self.borders.windows(2).map(move |piece| {
            let start = piece[1].min(piece[0].saturating_add(first));
            start..piece[1].min(start.saturating_add(self.step))
        })
    }

    /// The borders of a chunk's parts, in bytes.
    fn borders_of(&self, chunk: usize) -> Vec<usize> {
        let mut end = 0;
        let ends = self.elements(chunk).map(|own| {
            end += own.len() * size_of::<f32>();
            end
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// Whether all chunks are begun.
    fn is_begun(&self) -> bool {
        let longest = self.borders.windows(2).map(|piece| piece[1] - piece[0]).max();
        self.next.saturating_mul(self.step) >= longest.unwrap_or(0)
    }

    /// Begins the next chunk, if there is one.
    fn begin_next(&mut self, group: &Group, op: &dyn Op, inputs: &[&[f32]]) -> Result<()> {
        if self.is_begun() {
            return Ok(());
        }
        let (chunk, borders) = (self.next, self.borders_of(self.next));
        self.next += 1;
        match self.way {
            Way::Reduce | Way::ReduceAndGather => {
                let sum = |input: &&[f32]| bytes_of(self.elements(chunk).map(|own| &input[own]));
                let sums = inputs.iter().map(sum).collect();
                let reducing = group.begin_reduction(op.name(), self.ranks.leaves, sums, borders);
                self.reducing.push_back((chunk, reducing));
            }
            Way::Gather => {
                let own = self.elements(chunk).nth(self.ranks.rank).unwrap_or(0..0);
                let first = self.borders[self.ranks.rank];
                let own = &inputs[0][own.start - first..own.end - first];
                let gathering = group.begin_gather(op.name(), bytes_of([own].into_iter()), borders);
                self.gathering.push_back((chunk, gathering));
            }
            Way::Broadcast(root) => {
                let whole = bytes_of(self.elements(chunk).map(|own| &inputs[0][own]));
                self.gathering
                    .push_back((chunk, group.begin_broadcast(op.name(), root, whole)));
            }
        }
        Ok(())
    }

    /// Exchanges what is left.
    fn end(&mut self, group: &Group, op: &dyn Op, inputs: &[&[f32]], output: &mut [f32]) -> Result<()> {
        loop {
            self.begin_next(group, op, inputs)?;
            let is_last = self.is_begun();
            if (self.reducing.len() > UNDER_WAY || is_last)
                && let Some((chunk, reducing)) = self.reducing.pop_front()
            {
                let piece = reducing.end()?;
                if self.way == Way::ReduceAndGather {
                    let gathering = group.begin_gather(op.name(), piece, self.borders_of(chunk));
                    self.gathering.push_back((chunk, gathering));
                } else {
                    let own = self.elements(chunk).nth(self.ranks.rank).unwrap_or(0..0);
                    let first = self.borders[self.ranks.rank];
                    write_into(&mut output[own.start - first..own.end - first], &piece)?;
                    buffers::reuse(piece);
                }
            }
            if (self.gathering.len() > UNDER_WAY || (is_last && self.reducing.is_empty()))
                && let Some((chunk, gathering)) = self.gathering.pop_front()
            {
                let whole = gathering.end()?;
                let mut rest = whole.as_slice();
                for own in self.elements(chunk) {
                    let bytes = rest.split_off(..own.len() * size_of::<f32>());
                    let bytes = bytes.ok_or_else(|| Error::internal("a chunk is too short"))?;
                    write_into(&mut output[own], bytes)?;
                }
                buffers::reuse(whole);
            }
            if is_last && self.reducing.is_empty() && self.gathering.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Elements as bytes, little-endian.
fn bytes_of<'a>(parts: impl Iterator<Item = &'a [f32]> + Clone) -> Vec<u8> {
    let mut bytes = buffers::filled(parts.clone().map(size_of_val).sum());
    let mut rest = bytes.as_chunks_mut().0;
    for part in parts {
        let (to, after) = rest.split_at_mut(part.len());
        to.iter_mut().zip(part).for_each(|(to, x)| *to = x.to_le_bytes());
        rest = after;
    }
    bytes
}

/// Writes bytes, little-endian, as elements.
fn write_into(to: &mut [f32], bytes: &[u8]) -> Result<()> {
    let (elements, rest) = bytes.as_chunks();
    if elements.len() != to.len() || !rest.is_empty() {
        return Err(Error::internal("a chunk has another length than was asked for"));
    }
    to.iter_mut()
        .zip(elements)
        .for_each(|(x, bytes)| *x = f32::from_le_bytes(*bytes));
    Ok(())
}

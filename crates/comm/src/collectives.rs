//! Collectives: what all ranks do together, in messages of bounded size. Every rank begins the same ones in one order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lessen_base::{Error, Result};

use crate::addition::Addition;
use crate::buffers;
use crate::link::{Channel, Ticket};
use crate::wire::Message;
use lessen_base::tree::{Accumulator, Tree, part};

/// Bytes of the longest message; a multiple of every number's width.
const LONGEST: usize = 1 << 20;
/// Messages between two ranks that are under way at a time: enough to hide a latency of 10 ms at 1 Gbit/s.
const AHEAD: usize = 4;

/// What a rank gives to a reduce-scatter.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The number of leaves of the tree by which is added; [`part`] deals them out to the ranks.
    pub leaves: usize,
    /// The sums of this rank's subtrees ([`Tree::subtrees`] of its [`part`]), from left to right, each of all bytes.
    pub sums: Vec<Vec<u8>>,
    /// The borders of what each rank owns of a sum, in bytes: `ranks + 1` offsets from 0 to its length ([`deal`]).
    ///
    /// [`deal`]: crate::deal
    pub borders: Vec<usize>,
    /// How two sums are added.
    pub addition: Addition,
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Runs futures together until all have ended or one has failed.
async fn together(mut futures: Vec<Boxed<'_>>) -> Result<()> {
    poll_fn(|context| {
        let mut failed = None;
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if futures.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// A range in pieces that fit into messages.
fn cut(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(LONGEST).map(move |start| start..end.min(start + LONGEST))
}

/// Begins each of `steps`, [`AHEAD`] before the end of the one that is finished.
async fn ahead<S, B>(
    steps: impl IntoIterator<Item = S>,
    mut begin: impl FnMut(S) -> B,
    mut finish: impl AsyncFnMut(B) -> Result<()>,
) -> Result<()> {
    let mut begun = VecDeque::new();
    let mut steps = steps.into_iter();
    loop {
        while begun.len() < AHEAD {
            match steps.next() {
                Some(step) => begun.push_back(begin(step)),
                None => break,
            }
        }
        match begun.pop_front() {
            Some(step) => finish(step).await?,
            None => return Ok(()),
        }
    }
}

/// Sends messages to a rank, one after another.
async fn send(channel: &Channel, to: usize, messages: impl Iterator<Item = Message>) -> Result<()> {
    ahead(
        messages,
        |message| channel.send(to, message),
        async |sent| sent.await.map(drop),
    )
    .await
}

/// Receives `length` bytes from a rank and gives each message with its offset.
async fn receive(channel: &Channel, from: usize, length: usize, mut take: impl FnMut(usize, &[u8])) -> Result<()> {
    ahead(
        cut(0..length),
        |range| (range.start, channel.receive(from, range.len())),
        async |(offset, bytes)| {
            let bytes = bytes.await?;
            take(offset, &bytes);
            buffers::reuse(bytes);
            Ok(())
        },
    )
    .await
}

/// Checks that borders divide `length` bytes among `ranks`, between numbers of `width` bytes.
fn check_borders(borders: &[usize], ranks: usize, length: usize, width: usize) -> Result<()> {
    let rising = borders.is_sorted() && borders.first() == Some(&0) && borders.last() == Some(&length);
    if borders.len() != ranks + 1 || !rising || borders.iter().any(|border| border % width != 0) {
        return Err(Error::internal(format!(
            "{borders:?} are no borders of {length} bytes of numbers of {width} bytes for {ranks} ranks"
        )));
    }
    Ok(())
}

/// A sum that was given, or one that is added to.
enum Sum {
    Given(Message),
    Made(Vec<u8>),
}

impl Sum {
    fn bytes(&self) -> &[u8] {
        match self {
            Sum::Given(message) => message.bytes(),
            Sum::Made(bytes) => bytes,
        }
    }

    fn add(&mut self, right: &Sum, addition: &Addition) {
        if let Sum::Given(message) = self {
            let mut made = buffers::empty(message.bytes().len());
            made.extend_from_slice(message.bytes());
            *self = Sum::Made(made);
        }
        if let Sum::Made(left) = self {
            addition.add(left, right.bytes());
        }
    }

    /// Keeps its buffer for other messages.
    fn end(self) {
        if let Sum::Made(bytes) = self {
            buffers::reuse(bytes);
        }
    }
}

/// Keeps the buffers of messages that are sent.
fn reuse_sent(sent: impl IntoIterator<Item = Arc<Vec<u8>>>) {
    sent.into_iter().filter_map(Arc::into_inner).for_each(buffers::reuse);
}

/// A sum of a subtree that is here, or arrives.
enum Arriving {
    Here(Message),
    Under(Ticket),
}

/// Gives this rank the bytes that it owns of the sum over all leaves.
pub(crate) async fn reduce_scatter(channel: Channel, reduction: Reduction) -> Result<Vec<u8>> {
    let Reduction {
        leaves,
        mut sums,
        borders,
        addition,
    } = reduction;
    let (rank, size, tree) = (channel.rank(), channel.size(), Tree::new(leaves));
    let subtrees = |rank| tree.subtrees(part(leaves, size, rank));
    let length = borders.last().copied().unwrap_or(0);
    check_borders(&borders, size, length, addition.width())?;
    if leaves == 0 || sums.len() != subtrees(rank).len() || sums.iter().any(|sum| sum.len() != length) {
        let lengths: Vec<usize> = sums.iter().map(Vec::len).collect();
        return Err(Error::internal(format!(
            "sums of {lengths:?} bytes, where rank {rank} of {size} has {} subtrees of {leaves} leaves, each of \
             {length} bytes",
            subtrees(rank).len()
        )));
    }
    if size == 1 {
        return Ok(sums.pop().unwrap_or_default());
    }
    let sums: Vec<Arc<Vec<u8>>> = sums.into_iter().map(Arc::new).collect();
    let owned = |rank: usize| cut(borders[rank]..borders[rank + 1]);
    let nodes: Vec<(usize, Range<usize>)> = (0..size)
        .flat_map(|from| subtrees(from).into_iter().map(move |node| (from, node)))
        .collect();
    let result = RefCell::new(buffers::empty(borders[rank + 1] - borders[rank]));
    let begin = |range: Range<usize>| {
        let mut here = sums.iter();
        let begin = |(from, node): &(usize, Range<usize>)| {
            let sum = if *from == rank { here.next() } else { None };
            let value = match sum {
                Some(sum) => Arriving::Here(Message::new(sum, range.clone())),
                None => Arriving::Under(channel.receive(*from, range.len())),
            };
            (node.clone(), value)
        };
        nodes.iter().map(begin).collect::<Vec<_>>()
    };
    let finish = async |arriving: Vec<(Range<usize>, Arriving)>| {
        let mut total = Accumulator::new(tree);
        for (node, value) in arriving {
            let value = match value {
                Arriving::Here(message) => Sum::Given(message),
                Arriving::Under(ticket) => Sum::Made(ticket.await?),
            };
            total.push(node, value, |left, right| {
                left.add(&right, &addition);
                right.end();
            });
        }
        for (_, sum) in total.into_sums() {
            result.borrow_mut().extend_from_slice(sum.bytes());
            sum.end();
        }
        Ok(())
    };
    let mut running: Vec<Boxed> = Vec::new();
    for other in channel.others() {
        let messages = owned(other).flat_map(|range| sums.iter().map(move |sum| Message::new(sum, range.clone())));
        running.push(Box::pin(send(&channel, other, messages)));
    }
    running.push(Box::pin(ahead(owned(rank), begin, finish)));
    together(running).await?;
    reuse_sent(sums);
    Ok(result.into_inner())
}

/// Gives all ranks what each of them owns, in the order of the ranks.
pub(crate) async fn all_gather(channel: Channel, owned: Vec<u8>, borders: Vec<usize>) -> Result<Vec<u8>> {
    let (rank, size) = (channel.rank(), channel.size());
    let length = borders.last().copied().unwrap_or(0);
    check_borders(&borders, size, length, 1)?;
    if owned.len() != borders[rank + 1] - borders[rank] {
        return Err(Error::internal(format!(
            "rank {rank} gives {} bytes to a gather of borders {borders:?}",
            owned.len()
        )));
    }
    if size == 1 {
        return Ok(owned);
    }
    let mut all = buffers::filled(length);
    all[borders[rank]..borders[rank + 1]].copy_from_slice(&owned);
    let (all, owned) = (RefCell::new(all), Arc::new(owned));
    let mut running: Vec<Boxed> = Vec::new();
    for other in channel.others() {
        let messages = cut(0..owned.len()).map(|range| Message::new(&owned, range));
        running.push(Box::pin(send(&channel, other, messages)));
        let (begin, all) = (borders[other], &all);
        let take = move |offset: usize, bytes: &[u8]| {
            let start = begin + offset;
            all.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        };
        running.push(Box::pin(receive(&channel, other, borders[other + 1] - begin, take)));
    }
    together(running).await?;
    reuse_sent([owned]);
    Ok(all.into_inner())
}

/// Bytes of the message that tells the length of what follows.
const LENGTH: usize = size_of::<u64>();

/// Sends bytes to a rank that does not know how many they are.
async fn send_sized(channel: &Channel, to: usize, bytes: &Arc<Vec<u8>>) -> Result<()> {
    let length = Message::from((bytes.len() as u64).to_le_bytes().to_vec());
    let rest = cut(0..bytes.len()).map(|range| Message::new(bytes, range));
    send(channel, to, std::iter::once(length).chain(rest)).await
}

/// Receives what [`send_sized`] sends.
async fn receive_sized(channel: &Channel, from: usize) -> Result<Vec<u8>> {
    let mut length = [0; LENGTH];
    receive(channel, from, LENGTH, |_, bytes| length.copy_from_slice(bytes)).await?;
    let mut all = Vec::new();
    let length = u64::from_le_bytes(length);
    let fits = usize::try_from(length).is_ok_and(|length| all.try_reserve_exact(length).is_ok());
    if !fits {
        return Err(Error::user(format!(
            "rank {from} announces {length} bytes, which this machine has no memory for; start every rank with the \
             same version, recipe and data"
        )));
    }
    receive(channel, from, length as usize, |_, bytes| all.extend_from_slice(bytes)).await?;
    Ok(all)
}

/// Gives all ranks the bytes of each of them, of any length, in the order of the ranks.
pub(crate) async fn gather(channel: Channel, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let bytes = Arc::new(bytes);
    let all = RefCell::new(vec![Vec::new(); channel.size()]);
    let mut running: Vec<Boxed> = Vec::new();
    for other in channel.others() {
        running.push(Box::pin(send_sized(&channel, other, &bytes)));
        let (channel, all) = (&channel, &all);
        running.push(Box::pin(async move {
            let received = receive_sized(channel, other).await?;
            all.borrow_mut()[other] = received;
            Ok(())
        }));
    }
    together(running).await?;
    let mut all = all.into_inner();
    all[channel.rank()] = bytes.to_vec();
    Ok(all)
}

/// Gives all ranks the bytes of the rank `root`; what the others give is left out. The root sends to each of them, so
/// that a root that does not answer is named by all.
pub(crate) async fn broadcast(channel: Channel, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let size = channel.size();
    if root >= size {
        return Err(Error::internal(format!(
            "there is no rank {root} of {size} that broadcasts"
        )));
    }
    if channel.rank() != root {
        return receive_sized(&channel, root).await;
    }
    let bytes = Arc::new(bytes);
    let sent = channel
        .others()
        .map(|other| Box::pin(send_sized(&channel, other, &bytes)) as Boxed);
    together(sent.collect()).await?;
    Ok(Arc::unwrap_or_clone(bytes))
}

/// Gives all ranks the sum of the terms of all ranks, which are the leaves of a [`Tree`] in the order of the ranks. A
/// term has one number or several, all as many.
pub(crate) async fn all_reduce(channel: Channel, terms: Vec<Vec<f64>>) -> Result<Vec<f64>> {
    let width = terms.first().map_or(0, Vec::len);
    let uneven = |width: usize| Error::internal(format!("terms of a sum have {width} numbers and others"));
    if terms.iter().any(|term| term.len() != width) {
        return Err(uneven(width));
    }
    let numbers = [width as f64].into_iter().chain(terms.into_iter().flatten());
    let bytes = numbers.flat_map(f64::to_le_bytes).collect();
    let mut all: Vec<Vec<f64>> = Vec::new();
    for bytes in gather(channel, bytes).await? {
        let numbers: Vec<f64> = bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect();
        if let Some((&width, numbers @ [_, ..])) = numbers.split_first() {
            all.extend(numbers.chunks((width as usize).max(1)).map(<[f64]>::to_vec));
        }
    }
    let width = all.first().map_or(0, Vec::len);
    if all.iter().any(|term| term.len() != width) {
        return Err(uneven(width));
    }
    let sum = Tree::new(all.len()).sum(all, |left, right| {
        for (a, b) in left.iter_mut().zip(right) {
            *a += b;
        }
    });
    Ok(sum.unwrap_or_default())
}

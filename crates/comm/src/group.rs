//! The processes of a run as those who train see them: what they tell each other, and sums.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::addition::Addition;
use crate::collectives::Reduction;
use crate::delayed::Network;
use crate::exchange::{Exchange, Pending};

/// This process among those that compute together; alone unless it was given an exchange with others. All processes
/// call the same methods in the same order.
#[derive(Clone, Debug, Default)]
pub struct Group(Membership);

#[derive(Clone, Debug, Default)]
enum Membership {
    #[default]
    Alone,
    Joined(Arc<Exchange>, Option<Network>),
    /// A process of a plan: its number, and how many there are.
    Planned(usize, usize, Option<Network>),
}

impl Group {
    /// A process alone.
    pub fn alone() -> Group {
        Group(Membership::Alone)
    }

    /// The processes of an exchange.
    pub fn of(exchange: Arc<Exchange>) -> Group {
        Group(Membership::Joined(exchange, None))
    }

    /// The process of this number among so many that do not run, for plans: it exchanges nothing.
    pub fn planned(rank: usize, size: usize, network: Option<Network>) -> Group {
        Group(Membership::Planned(rank, size, network))
    }

    /// These processes, after all of them have measured the network between them together.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn measured(self) -> Result<Group> {
        let network = self.measure()?;
        Ok(match self.0 {
            Membership::Joined(exchange, _) => Group(Membership::Joined(exchange, network)),
            other => Group(other),
        })
    }

    /// The network between the processes, the same on all of them; none of a process alone, and before
    /// [`Group::measured`].
    pub fn network(&self) -> Option<Network> {
        match &self.0 {
            Membership::Alone => None,
            Membership::Joined(_, network) | Membership::Planned(_, _, network) => *network,
        }
    }

    /// The exchange; none of a process alone.
    pub(crate) fn exchange(&self) -> Option<&Arc<Exchange>> {
        match &self.0 {
            Membership::Joined(exchange, _) => Some(exchange),
            Membership::Alone | Membership::Planned(..) => None,
        }
    }

    /// The number of this process, `0..size`.
    pub fn rank(&self) -> usize {
        match &self.0 {
            Membership::Alone => 0,
            Membership::Joined(exchange, _) => exchange.rank(),
            Membership::Planned(rank, ..) => *rank,
        }
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        match &self.0 {
            Membership::Alone => 1,
            Membership::Joined(exchange, _) => exchange.size(),
            Membership::Planned(_, size, _) => *size,
        }
    }

    /// Whether this is the process that has folder, log and terminal.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Bytes that this process has sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.exchange().map_or(0, |exchange| exchange.bytes_sent())
    }

    /// Sets where the run is, such as `step 71`, which errors name from now on.
    pub fn set_place(&self, place: &str) {
        if let Some(exchange) = self.exchange() {
            exchange.set_place(place);
        }
    }

    /// What every process tells, in their order. The mistake of one process is the error of all.
    ///
    /// # Errors
    /// The mistake of the first process that has one; a process that does not answer.
    pub fn agree(&self, what: &str, own: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let Some(exchange) = self.exchange() else {
            return Ok(vec![own?]);
        };
        let told = match &own {
            Ok(bytes) => [&[1], bytes.as_slice()].concat(),
            Err(error) => [&[0], error.to_string().as_bytes()].concat(),
        };
        let mut all = exchange.gather(what, told).end()?;
        let is_same = all.iter().all(|told| *told == all[0]);
        for (rank, told) in all.iter_mut().enumerate() {
            if told.first() != Some(&1) {
                let sentence = String::from_utf8_lossy(told.get(1..).unwrap_or_default());
                return Err(match is_same {
                    true => Error::user(sentence),
                    false => Error::user(format!("{sentence} (rank {rank} of {})", exchange.size())),
                });
            }
            told.remove(0);
        }
        Ok(all)
    }

    /// [`Group::agree`] on numbers.
    ///
    /// # Errors
    /// As [`Group::agree`].
    pub fn agree_numbers(&self, what: &str, own: Result<Vec<f64>>) -> Result<Vec<Vec<f64>>> {
        if self.exchange().is_none() {
            return Ok(vec![own?]);
        }
        let bytes = own.map(|numbers| numbers.into_iter().flat_map(f64::to_le_bytes).collect());
        let numbers = |bytes: Vec<u8>| {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|chunk| f64::from_le_bytes(*chunk))
                .collect()
        };
        Ok(self.agree(what, bytes)?.into_iter().map(numbers).collect())
    }

    /// [`Group::agree`] on `f32` numbers.
    ///
    /// # Errors
    /// As [`Group::agree`].
    pub fn agree_f32s(&self, what: &str, own: Result<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        if self.exchange().is_none() {
            return Ok(vec![own?]);
        }
        let bytes = own.map(|numbers| numbers.into_iter().flat_map(f32::to_le_bytes).collect());
        let numbers = |bytes: Vec<u8>| {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|chunk| f32::from_le_bytes(*chunk))
                .collect()
        };
        Ok(self.agree(what, bytes)?.into_iter().map(numbers).collect())
    }

    /// Whether any process says so.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn agree_any(&self, what: &str, own: bool) -> Result<bool> {
        if self.exchange().is_none() {
            return Ok(own);
        }
        let all = self.agree(what, Ok(vec![u8::from(own)]))?;
        Ok(all.iter().any(|told| told == &[1]))
    }

    /// Refuses processes that are not given the same: `own` is a text of `what`.
    ///
    /// # Errors
    /// Another text on another process; a process that does not answer.
    pub fn agree_same(&self, what: &str, own: &str) -> Result<()> {
        let all = self.agree(what, Ok(own.as_bytes().to_vec()))?;
        match all.iter().position(|told| *told != all[0]) {
            None => Ok(()),
            Some(rank) => Err(Error::user(format!(
                "{what} of rank {rank} is {}, and {} of rank 0; start every process with the same version, recipe and data",
                String::from_utf8_lossy(&all[rank]),
                String::from_utf8_lossy(&all[0])
            ))),
        }
    }

    /// The bytes of the first process, on all of them.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn of_first(&self, what: &str, own: Vec<u8>) -> Result<Vec<u8>> {
        self.begin_broadcast(what, 0, own).end()
    }

    /// Begins to add up `f32` numbers over `leaves` leaves of a tree, [`part`] of which are this process's: `sums` are
    /// those of its subtrees, little-endian. The bits of the sum depend on the leaves alone. Each process gets the
    /// piece of the sum between two of the `borders`, which are offsets in bytes.
    ///
    /// [`part`]: lessen_base::tree::part
    pub fn begin_reduction(
        &self,
        what: &str,
        leaves: usize,
        mut sums: Vec<Vec<u8>>,
        borders: Vec<usize>,
    ) -> UnderWay<Vec<u8>> {
        let Some(exchange) = self.exchange() else {
            return UnderWay::Here(sums.pop().unwrap_or_default());
        };
        let addition = Addition::f32();
        let reduction = Reduction {
            leaves,
            sums,
            borders,
            addition,
        };
        UnderWay::Under(exchange.reduce_scatter(what, reduction))
    }

    /// Begins to give all processes the bytes that each of them owns, between two of the `borders`.
    pub fn begin_gather(&self, what: &str, owned: Vec<u8>, borders: Vec<usize>) -> UnderWay<Vec<u8>> {
        match self.exchange() {
            None => UnderWay::Here(owned),
            Some(exchange) => UnderWay::Under(exchange.all_gather(what, owned, borders)),
        }
    }

    /// Begins to give all processes the bytes of the process `root`; those of others are left out.
    pub fn begin_broadcast(&self, what: &str, root: usize, bytes: Vec<u8>) -> UnderWay<Vec<u8>> {
        match self.exchange() {
            None => UnderWay::Here(bytes),
            Some(exchange) => UnderWay::Under(exchange.broadcast(what, root, bytes)),
        }
    }

    /// Ends the run on all processes because of an error. Print its sentence before: MPI ends this process, too.
    pub fn abort(&self, error: &Error) {
        if let Some(exchange) = self.exchange() {
            exchange.abort(error);
        }
    }
}

/// What processes have begun together.
#[must_use = "an exchange ends, and fails, in its end"]
#[derive(Debug)]
pub enum UnderWay<T> {
    /// The result of a process alone.
    Here(T),
    /// The exchange is under way.
    Under(Pending<T>),
}

impl<T> UnderWay<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn end(self) -> Result<T> {
        match self {
            UnderWay::Here(result) => Ok(result),
            UnderWay::Under(pending) => pending.end(),
        }
    }
}

//! The processes of a run as those who train see them: what they tell each other, and sums.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::addition::Addition;
use crate::collectives::Reduction;
use crate::exchange::{Exchange, Pending};
use crate::tree::part;

/// This process among those that compute together; alone unless it was given an exchange with others. All processes
/// call the same methods in the same order.
#[derive(Clone, Debug, Default)]
pub struct Group(Membership);

#[derive(Clone, Debug, Default)]
enum Membership {
    #[default]
    Alone,
    Joined(Arc<Exchange>),
    /// A process of a plan: its number, and how many there are.
    Planned(usize, usize),
}

impl Group {
    /// A process alone.
    pub fn alone() -> Group {
        Group(Membership::Alone)
    }

    /// The processes of an exchange.
    pub fn of(exchange: Arc<Exchange>) -> Group {
        Group(Membership::Joined(exchange))
    }

    /// The process of this number among so many that do not run, for plans: it exchanges nothing.
    pub fn planned(rank: usize, size: usize) -> Group {
        Group(Membership::Planned(rank, size))
    }

    /// The exchange; none of a process alone.
    fn exchange(&self) -> Option<&Arc<Exchange>> {
        match &self.0 {
            Membership::Joined(exchange) => Some(exchange),
            Membership::Alone | Membership::Planned(..) => None,
        }
    }

    /// The number of this process, `0..size`.
    pub fn rank(&self) -> usize {
        match &self.0 {
            Membership::Alone => 0,
            Membership::Joined(exchange) => exchange.rank(),
            Membership::Planned(rank, _) => *rank,
        }
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        match &self.0 {
            Membership::Alone => 1,
            Membership::Joined(exchange) => exchange.size(),
            Membership::Planned(_, size) => *size,
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
        match self.exchange() {
            None => Ok(own),
            Some(exchange) => exchange.broadcast(what, 0, own).end(),
        }
    }

    /// Begins to add up `f32` numbers over `leaves` leaves of a tree, [`part`] of which are this process's: `sums` are
    /// those of its subtrees, little-endian. The bits of the sum depend on the leaves alone.
    pub fn begin_sum(&self, what: &str, leaves: usize, mut sums: Vec<Vec<u8>>) -> Summing {
        let Some(exchange) = self.exchange() else {
            return Summing::Here(sums.pop().unwrap_or_default());
        };
        let width = Addition::f32().width();
        let numbers = sums.first().map_or(0, Vec::len) / width;
        let starts = (0..=exchange.size()).map(|rank| width * part(numbers, exchange.size(), rank).start);
        let borders: Vec<usize> = starts.collect();
        let owned = exchange.reduce_scatter(
            what,
            Reduction {
                leaves,
                sums,
                borders: borders.clone(),
                addition: Addition::f32(),
            },
        );
        let (exchange, what) = (exchange.clone(), what.to_string());
        Summing::Adding {
            exchange,
            what,
            owned,
            borders,
        }
    }

    /// Ends the run on all processes because of an error. Print its sentence before: MPI ends this process, too.
    pub fn abort(&self, error: &Error) {
        if let Some(exchange) = self.exchange() {
            exchange.abort(error);
        }
    }
}

/// A sum whose pieces are added up, each by the process that owns it.
#[must_use = "a sum ends, and fails, in its end"]
pub enum Summing {
    /// The sum of a process alone.
    Here(Vec<u8>),
    /// The piece of this process is added up.
    Adding {
        /// The exchange.
        exchange: Arc<Exchange>,
        /// What is added up.
        what: String,
        /// The piece of this process.
        owned: Pending<Vec<u8>>,
        /// Where pieces begin and end.
        borders: Vec<usize>,
    },
}

impl Summing {
    /// Waits for this process's piece, and begins to gather all pieces.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn gather(self) -> Result<Gathering> {
        Ok(match self {
            Summing::Here(sum) => Gathering::Here(sum),
            Summing::Adding {
                exchange,
                what,
                owned,
                borders,
            } => Gathering::Under(exchange.all_gather(&what, owned.end()?, borders)),
        })
    }
}

/// A sum whose pieces are gathered.
#[must_use = "a sum ends, and fails, in its end"]
pub enum Gathering {
    /// The sum of a process alone.
    Here(Vec<u8>),
    /// The pieces are under way.
    Under(Pending<Vec<u8>>),
}

impl Gathering {
    /// Waits for the sum, little-endian.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn end(self) -> Result<Vec<u8>> {
        match self {
            Gathering::Here(sum) => Ok(sum),
            Gathering::Under(sum) => sum.end(),
        }
    }
}

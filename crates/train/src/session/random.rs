//! Random numbers that functions draw: the keys of their runs.

use super::Session;
use lessen_base::{Result, SplitMix64};
use std::sync::atomic::{AtomicU64, Ordering};

/// The random keys of runs that are given none.
#[derive(Debug, Default)]
pub(super) struct Keys {
    seed: u64,
    /// How many keys have been drawn.
    drawn: AtomicU64,
}

impl Keys {
    /// Gives `run` the next key. A run that fails leaves its key to the next one, unless another thread has drawn
    /// since.
    pub(super) fn with_next<T>(&self, run: impl FnOnce(&[u32; 2]) -> Result<T>) -> Result<T> {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let bits = SplitMix64::keyed(self.seed, number).next_u64();
        run(&[(bits >> 32) as u32, bits as u32]).inspect_err(|_| {
            let next = number.wrapping_add(1);
            let _ = self
                .drawn
                .compare_exchange(next, number, Ordering::Relaxed, Ordering::Relaxed);
        })
    }
}

impl Session {
    /// Begins the random numbers of functions anew with a seed, which is 0 before. A function that draws some, such as
    /// [`Cx::normal`](lessen_nn::Cx::normal) or dropout in training, draws others at every run: they follow from the
    /// seed and the number of such runs before, of all functions of the session. A run that is given the input
    /// [`KEY`](lessen_nn::names::KEY), `u32[2]`, draws the numbers of that key instead and does not count; neither does
    /// one that fails. Where threads run functions at the same time, which of them draws which numbers is left open.
    ///
    /// ```
    /// use lessen_cpu::CpuBackend;
    /// use lessen_train::Session;
    ///
    /// let mut session = Session::zeros(Box::new(CpuBackend::new(1)?), Vec::new())?;
    /// let noise = session.function(|cx| vec![("noise", cx.normal(&[4]))])?;
    /// let (first, second) = (session.run(noise, &[])?, session.run(noise, &[])?);
    /// assert_ne!(first.f32("noise")?, second.f32("noise")?);
    ///
    /// session.set_seed(0);
    /// assert_eq!(session.run(noise, &[])?.f32("noise")?, first.f32("noise")?);
    /// # Ok::<(), lessen_train::Error>(())
    /// ```
    pub fn set_seed(&mut self, seed: u64) {
        self.keys = Keys {
            seed,
            ..Keys::default()
        };
    }
}

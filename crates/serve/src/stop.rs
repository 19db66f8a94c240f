//! The wish that a server stops.

use lessen_base::{Error, Result};
use std::sync::Arc;
use tokio::sync::watch::{Sender, channel};

/// Stops a server: once, and it answers what it has begun; twice, and it ends at once.
#[derive(Clone)]
pub struct Stop {
    wishes: Arc<Sender<usize>>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop {
            wishes: Arc::new(channel(0).0),
        }
    }
}

impl Stop {
    /// Asks the server to stop.
    pub fn stop(&self) {
        self.wishes.send_modify(|count| *count += 1);
    }

    /// Waits for the first wish.
    pub(crate) async fn wait(&self) {
        self.wait_for(1).await;
    }

    /// Waits for the second wish.
    pub(crate) async fn wait_again(&self) {
        self.wait_for(2).await;
    }

    async fn wait_for(&self, count: usize) {
        // The sender lives as long as this.
        let _ = self.wishes.subscribe().wait_for(|wishes| *wishes >= count).await;
    }

    /// Stops at the signals INT and TERM, as long as the server runs, from where it says that it is ready.
    ///
    /// # Errors
    /// A system that does not tell of signals.
    #[cfg(unix)]
    pub fn at_signals(&self) -> Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind)
                .map_err(|error| Error::internal(format!("signals of the system cannot be received ({error})")))?;
            let stop = self.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    stop.stop();
                }
            });
        }
        Ok(())
    }

    /// Stops at Control-C, as long as the server runs, from where it says that it is ready.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub fn at_signals(&self) -> Result<()> {
        let stop = self.clone();
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                stop.stop();
            }
        });
        Ok::<(), Error>(())
    }
}

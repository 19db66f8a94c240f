//! The flags of the device.

use clap::Args;
use lessen::{device_with, widens_integers};
use lessen_base::Result;
use lessen_task::device::NewBackend;

use crate::tell;

/// The device to compute on.
#[derive(Args)]
pub struct DeviceArgs {
    /// Device to run on
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,
    /// Threads to use; results do not depend on it [default: LESSEN_THREADS, else the number of cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

impl DeviceArgs {
    /// The number of threads that was given.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// What opens the device.
    pub fn new_backend(&self) -> NewBackend {
        let (device, threads) = (self.device.clone(), self.threads);
        NewBackend::new(move || device_with(&device, threads))
    }

    /// Warns where products of integers take longer than on other devices.
    ///
    /// # Errors
    /// A device that is not known.
    pub fn warn_of_integers(&self) -> Result<()> {
        if widens_integers(&self.device)? {
            tell(
                "warning: this device uses no instructions for products of integers (AVX-512 VNNI, AVX-VNNI): their \
                 sums are the same, and take longer",
            );
        }
        Ok(())
    }
}

//! The device that a run works on, as its caller passes it in.

use lessen_base::Result;
use lessen_device::Backend;
use std::sync::Arc;

/// Opens the device. A run opens it once for training and once for the demonstration after it, when the trained model's
/// memory has been freed.
#[derive(Clone)]
pub struct NewBackend(Arc<dyn Fn() -> Result<Box<dyn Backend>> + Send + Sync>);

impl NewBackend {
    /// A device that `open` opens.
    pub fn new(open: impl Fn() -> Result<Box<dyn Backend>> + Send + Sync + 'static) -> NewBackend {
        NewBackend(Arc::new(open))
    }

    /// Opens it.
    ///
    /// # Errors
    /// A device that cannot be opened.
    pub fn open(&self) -> Result<Box<dyn Backend>> {
        (self.0)()
    }
}

//! The device that a run works on, as its caller passes it in.

use lessen_base::Result;
use lessen_device::Backend;

/// Makes the device. It is called once for training and once for the demonstration after it, when the trained model's
/// memory has been freed.
pub type NewBackend<'a> = &'a dyn Fn() -> Result<Box<dyn Backend>>;

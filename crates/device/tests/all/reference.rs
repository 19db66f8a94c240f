//! The suite of all devices, on the reference device.

use lessen_device::{ReferenceBackend, device_suite};

device_suite!(|_| Box::new(ReferenceBackend::default()));

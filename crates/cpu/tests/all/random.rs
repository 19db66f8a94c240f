//! Random numbers for tests.

pub use lessen_device::suite::Random;

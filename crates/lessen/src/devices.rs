//! The devices that `--device` names.

use lessen_base::{Error, Result};
use lessen_compile::Backend;
use lessen_cpu::CpuBackend;

/// A name and how the device is made.
type Named = (&'static str, fn() -> Result<Box<dyn Backend>>);

/// All devices, the default first.
const DEVICES: [Named; 1] = [("cpu", cpu)];

fn cpu() -> Result<Box<dyn Backend>> {
    Ok(Box::new(CpuBackend::from_env()?))
}

/// The default device: the CPU with `LESSEN_THREADS` threads, or as many as there are cores.
///
/// # Errors
/// A value of `LESSEN_THREADS` that is no positive number.
pub fn device() -> Result<Box<dyn Backend>> {
    DEVICES[0].1()
}

/// The device of this name, such as `cpu`.
///
/// # Errors
/// A name that no device has; the sentence lists the devices.
pub fn device_named(name: &str) -> Result<Box<dyn Backend>> {
    match DEVICES.iter().find(|(known, _)| *known == name) {
        Some((_, new)) => new(),
        None => {
            let names = DEVICES.map(|(name, _)| name).join(", ");
            Err(Error::user(format!(
                "there is no device '{name}'; choose one of: {names}"
            )))
        }
    }
}

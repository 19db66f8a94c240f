//! The devices that `--device` names.

use lessen_base::{Error, Result};
use lessen_cpu::CpuBackend;
use lessen_device::Backend;

/// A name, and how the device is made with a number of threads, or with its own one.
type Named = (&'static str, fn(Option<usize>) -> Result<Box<dyn Backend>>);

/// All devices, the default first.
const DEVICES: [Named; 1] = [("cpu", cpu)];

/// The most threads that a device can be asked for.
const MOST_THREADS: usize = 1024;

fn cpu(threads: Option<usize>) -> Result<Box<dyn Backend>> {
    Ok(Box::new(cpu_with(threads)?))
}

/// A CPU with a number of threads; none stands for `LESSEN_THREADS`, or as many as there are cores.
pub(crate) fn cpu_with(threads: Option<usize>) -> Result<CpuBackend> {
    check_threads(threads)?;
    match threads {
        Some(threads) => CpuBackend::new(threads),
        None => CpuBackend::from_env(),
    }
}

fn check_threads(threads: Option<usize>) -> Result<()> {
    match threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
        Some(threads) => Err(Error::user(format!(
            "--threads {threads} cannot be; choose a number from 1 to {MOST_THREADS}"
        ))),
        None => Ok(()),
    }
}

/// The default device: the CPU with `LESSEN_THREADS` threads, or as many as there are cores.
///
/// # Errors
/// A value of `LESSEN_THREADS` that is no positive number.
pub fn device() -> Result<Box<dyn Backend>> {
    DEVICES[0].1(None)
}

/// The device of this name, such as `cpu`.
///
/// # Errors
/// A name that no device has; the sentence lists the devices.
pub fn device_named(name: &str) -> Result<Box<dyn Backend>> {
    device_with(name, None)
}

/// The device of this name with a number of threads; none stands for its own number.
///
/// # Errors
/// As [`device_named`], and a number of threads that is not from 1 to 1024.
pub fn device_with(name: &str, threads: Option<usize>) -> Result<Box<dyn Backend>> {
    check_threads(threads)?;
    match DEVICES.iter().find(|(known, _)| *known == name) {
        Some((_, new)) => new(threads),
        None => {
            let names = DEVICES.map(|(name, _)| name).join(", ");
            Err(Error::user(format!(
                "there is no device '{name}'; choose one of: {names}"
            )))
        }
    }
}

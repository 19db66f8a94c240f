//! The devices that `--device` names.

use lessen_base::{Error, Result};
use lessen_cpu::CpuBackend;
use lessen_cpu::simd::{CpuSet, Feature};
use lessen_device::Backend;

/// A device by its name.
struct Named {
    name: &'static str,
    /// The device with a number of threads, or with its own one.
    new: fn(Option<usize>) -> Result<Box<dyn Backend>>,
    /// Whether it lacks the instructions for products of integers of 8 bits, which then take longer.
    widens_integers: fn() -> bool,
}

/// All devices, the default first.
static DEVICES: [Named; 1] = [Named {
    name: "cpu",
    new: cpu,
    widens_integers: || !CpuSet::detect().has(Feature::Vnni),
}];

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
    (DEVICES[0].new)(None)
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
    (named(name)?.new)(threads)
}

/// Whether the device of this name lacks the instructions for products of integers of 8 bits. They are the same without
/// them, and take longer.
///
/// # Errors
/// As [`device_named`].
pub fn widens_integers(name: &str) -> Result<bool> {
    Ok((named(name)?.widens_integers)())
}

fn named(name: &str) -> Result<&'static Named> {
    let found = DEVICES.iter().find(|device| device.name == name);
    found.ok_or_else(|| {
        let names = DEVICES.each_ref().map(|device| device.name).join(", ");
        Error::user(format!("there is no device '{name}'; choose one of: {names}"))
    })
}

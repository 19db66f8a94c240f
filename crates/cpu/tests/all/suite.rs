//! The suite of all devices, on the CPU.

use lessen_cpu::CpuBackend;
use lessen_device::device_suite;

device_suite!(|workers| Box::new(CpuBackend::new(workers).unwrap()));

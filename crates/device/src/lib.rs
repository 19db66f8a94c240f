//! What is a device? Everything above this crate runs plans through [`Backend`] and knows no device by name.
//!
//! - [`Backend`]: a device holds *models*, each a namespace of named states, and *programs*, the plans that it has
//!   loaded. A run reads inputs and states, updates states, and leaves results.
//! - [`SharedDevice`] is a handle of a device that several owners hold, and [`DeviceModel`] one model on it. Two
//!   networks with equal names of parameters live on one device, each in its model.
//! - [`Host`] and [`HostArray`] are arrays in the host's memory.
//! - [`ReferenceBackend`] is a device made of the reference evaluator: slow, and right by definition.
//! - [`DeviceMemory`] tells the memory that a device has allocated and the memory that it can still allocate.
//!
//! ```
//! use lessen_compile::Options;
//! use lessen_device::{Host, PlanDevice, ReferenceBackend, SharedDevice};
//! use lessen_graph::{DType, Trace, Type};
//!
//! // y = x w, and w becomes w + 1 after every run.
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[1, 2]);
//! let w = trace.state("w", DType::F32, &[2, 1]);
//! trace.output("y", x.matmul(w));
//! trace.assign(w, w + 1.0);
//! let graph = trace.finish();
//!
//! let device = SharedDevice::new(Box::new(ReferenceBackend::default()));
//! let plan = device.planned(|backend| backend.compile(&graph, &Options::default()))?;
//! let (one, other) = (device.add_model()?, device.add_model()?);
//! for (model, values) in [(&one, [3.0, 4.0]), (&other, [5.0, 6.0])] {
//!     model.allocate("w", &Type::f32(&[2, 1]))?;
//!     model.upload("w", Host::F32(&values))?;
//!     let program = model.load(plan.clone())?;
//!     model.run(program, &[("x", Host::F32(&[1.0, 2.0]))])?;
//!     let y = model.output(program, "y").unwrap();
//!     assert_eq!(y.as_f32(), Some(&[values[0] + 2.0 * values[1]][..]));
//! }
//! # Ok::<(), lessen_base::Error>(())
//! ```

#![forbid(unsafe_code)]

mod backend;
pub mod checks;
mod computed_indices;
mod evaluation;
mod graphs;
mod host_array;
mod index_checks;
mod memory;
mod plan_device;
mod random_inputs;
mod reference;
mod shared;
pub mod suite;
mod times;

pub use backend::{Backend, Measuring, ModelId, ProgramId};
pub use computed_indices::computed_index_error;
pub use evaluation::{ConstantLayout, check_constant_indices, constant, evaluated};
pub use host_array::HostArray;
pub use index_checks::{IndexCheck, check_indices, index_checks};
pub use lessen_graph::Host;
pub use memory::{DeviceMemory, MemoryUse};
pub use plan_device::PlanDevice;
pub use random_inputs::random_inputs;
pub use reference::ReferenceBackend;
pub use shared::{DeviceGuard, DeviceModel, SharedDevice};
pub use times::{MeasuredTimes, Time, times_folder};

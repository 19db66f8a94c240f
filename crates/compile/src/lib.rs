//! What is the best equivalent program and schedule? Passes rewrite a [`Graph`](lessen_graph::Graph); the planner
//! orders it, groups row-wise operations, and gives every value its place in one arena, so that the peak is known
//! before the first step.
//!
//! [`compile`] is the entry point. Nothing here knows a device: what a plan must know of one is the trait [`Target`].
//!
//! ```
//! use lessen_compile::{Options, compile, dump_schedule};
//! use lessen_cpu::CpuTarget;
//! use lessen_graph::{DType, Trace};
//!
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[256, 64]);
//! let w = trace.state("w", DType::F32, &[64, 64]);
//! trace.output("y", x.matmul(w).gelu());
//!
//! // Product and activation share a step, so that the product exists as blocks of rows only.
//! let plan = compile(&trace.finish(), &Options::default(), &CpuTarget { threads: 2 })?;
//! assert_eq!(plan.steps().len(), 1);
//! println!("{} bytes\n{}", plan.peak_bytes(), dump_schedule(&plan));
//! # Ok::<(), lessen_base::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod compiler;
mod cost;
mod costs;
mod dump;
mod indices;
mod lane;
mod memo;
mod memory;
mod nested_sets;
mod node_types;
mod offsets;
mod operations;
mod options;
mod order;
pub mod passes;
mod place;
mod plan;
mod plan_graph;
mod planned;
mod report;
mod schedule;
mod state;
mod storage;
mod target;
mod usage;
mod value_name;

pub use compiler::{compile, floor_bytes};
#[doc(hidden)]
pub use compiler::{in_slices, plan_as_it_is};
pub use costs::{CostModel, Measured, MeasuredMemory, Operands, Rates};
pub use dump::{dump_memory, dump_schedule};
pub use indices::{IndexSource, IndexUse, index_uses};
pub use offsets::{ALIGNMENT, Buffer, aligned, lower_bound, pack};
pub use operations::{Operation, operations};
pub use options::{CostSource, Options, Placement, Policy, Precision};
pub use place::{Place, RowLayout, natural_rows, places, row_layout};
pub use plan::Plan;
pub use planned::{Partial, PlannedStep, RowsPlan, StepScratch, Storage};
pub use report::ValueReport;
pub use target::{KernelKind, Limits, Lowering, Reads, RowBlocks, RowGroup, Scratch, Target};
pub use usage::StepUsage;

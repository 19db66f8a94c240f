//! The energy of a model on an accelerator: its layers from a recipe, a run, an ONNX file or a list, and the report.

mod page;
mod report;
mod source;
mod text_table;

pub use report::EnergyReport;
pub use source::{LayerSource, ModelLayers};

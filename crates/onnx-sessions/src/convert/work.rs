//! The work of evaluating a model, and sizes for which it is bounded.

use lessen_base::Result;
use lessen_graph::Graph;

use lessen_onnx::Model;
use lessen_onnx::import::size_names;
use lessen_onnx::{Imported, Sizes};

/// The work of evaluating a graph.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Floating-point operations.
    pub operations: f64,
    /// Elements of all values together.
    pub elements: f64,
}

impl Work {
    /// The work of a graph.
    pub fn of(graph: &Graph) -> Work {
        let operations = graph.nodes.iter().map(|node| {
            let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
            graph.ask(node, &inputs, &outputs).cost().flops()
        });
        Work {
            operations: operations.sum(),
            elements: graph.values.iter().map(|value| value.ty.numel() as f64).sum(),
        }
    }

    /// The work of a model for inputs of these sizes.
    ///
    /// # Errors
    /// An input whose type is not known.
    pub fn of_model(model: &Model, sizes: &Sizes) -> Result<Work> {
        Ok(Work::of(&Imported::of(model, sizes)?.graph))
    }

    /// Whether it is at most another work.
    pub fn is_within(self, most: Work) -> bool {
        self.operations <= most.operations && self.elements <= most.elements
    }
}

/// The sizes with which the work of a model stays within a bound: the given ones, or lower ones, with which no more
/// nodes are unknown.
///
/// # Errors
/// An input whose type is not known.
pub fn bounded_sizes(model: &Model, given: &Sizes, most: Work) -> Result<Sizes> {
    let mut sizes = given.clone();
    let mut open = size_names(model);
    let mut imported = Imported::of(model, &sizes);
    loop {
        let is_within = |imported: &Imported| Work::of(&imported.graph).is_within(most);
        if imported.as_ref().is_ok_and(is_within) {
            return Ok(sizes);
        }
        // The largest one, the first one of several, is the likeliest cause.
        open.retain(|name| sizes.get(name).is_some_and(|size| *size > 1));
        let largest = open.iter().rev().max_by_key(|name| sizes[*name]).cloned();
        let Some(name) = largest else {
            return imported.map(|_| sizes);
        };
        let size = sizes[&name];
        let mut fewer = sizes.clone();
        fewer.insert(name.clone(), if size > 64 { (size / 16).min(1024) } else { size / 2 });
        let tried = Imported::of(model, &fewer);
        let unknown = |imported: &Result<Imported>| imported.as_ref().map_or(usize::MAX, |found| found.opaque.len());
        if unknown(&tried) <= unknown(&imported) {
            (sizes, imported) = (fewer, tried);
        } else {
            // The model's constants require the size.
            open.retain(|other| *other != name);
        }
    }
}

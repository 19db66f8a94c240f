//! The graph of a model: what its nodes compute, for sizes of its inputs.
//!
//! What follows from sizes and constants alone is computed while the graph is traced, so that no shapes are left in it.
//! Nodes whose operators are not known are *opaque*: the graph has what they read as outputs and what they give as
//! inputs, if the file says its type.

mod activation;
mod attention;
mod call;
mod coded_inputs;
mod coded_source;
mod codes;
mod contributed_attention;
mod elements;
mod elementwise;
mod held;
mod images;
mod importer;
mod indexing;
mod inferred;
mod integer_windows;
mod integers;
mod layout;
mod memo;
mod movement;
mod norms;
mod operators;
mod order;
mod products;
mod quantized;
mod recurrent;
mod reductions;
mod resizing;
mod sizes;
mod windows;

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::{Array, DType, Graph, NodeId, Tensor as Traced, Type, ValueId};

use crate::element::Element;
use crate::model::Model;
use crate::proto::{Dimension, TypeProto};
use crate::tensor::Tensor;
pub use call::Call;
pub use codes::{CodeStates, Codes, Restored};
pub use held::{Held, HeldInputs};
pub(crate) use layout::{image_of, restored};
pub(crate) use memo::Memo;
pub(crate) use operators::{gives_positions, is_of_integers};
pub use operators::{moves_elements, operator};
pub use sizes::{Sizes, fitting_sizes, size_names, usual_sizes};

/// A model as a graph.
#[derive(Debug)]
pub struct Imported {
    /// The graph. Its states are initializers, by name; its data inputs are the inputs of the model and the outputs of
    /// opaque nodes.
    pub graph: Graph,
    /// The value of the graph for each value of the model that has one.
    pub values: HashMap<String, ValueId>,
    /// For each node of the graph, the node of the model that it was traced from.
    pub nodes: Vec<usize>,
    /// Values of states that are no initializers: constants that were computed.
    pub constants: HashMap<String, Arc<Array>>,
    /// Integers that follow from sizes and constants, by name: shapes above all.
    pub known: HashMap<String, Arc<Array>>,
    /// The opaque nodes of the model, each with the reason.
    pub opaque: Vec<(usize, String)>,
    /// The names of the values that opaque nodes read: outputs of the graph that are no outputs of the model.
    pub probes: Vec<String>,
}

impl Imported {
    /// Traces a model for inputs of the sizes in `sizes`: a number for each extent that has a name.
    ///
    /// # Errors
    /// An input whose type or rank is not known; an initializer that cannot be read.
    pub fn of(model: &Model, sizes: &Sizes) -> Result<Imported> {
        let (imported, lacks) = importer::traced(model, sizes, false)?;
        if !lacks.types {
            return Ok(imported);
        }
        // A type that is guessed is right for every node that reads it, or none is.
        let (guessed, guess) = importer::traced(model, sizes, true)?;
        let is_fitting = guess.failed <= lacks.failed;
        Ok(if is_fitting { guessed } else { imported })
    }

    /// Whether the graph is all of the model.
    pub fn is_complete(&self) -> bool {
        self.opaque.is_empty()
    }

    /// The node of the model that a node of the graph is of; none for a constant that is an output of the model.
    pub fn node(&self, node: NodeId) -> Option<usize> {
        self.nodes.get(node.index()).copied()
    }
}

/// The extents of a value; none where the file does not say them all, or an extent has a name without a size.
pub fn extents(ty: &TypeProto, sizes: &Sizes) -> Option<(Element, Vec<usize>)> {
    let tensor = ty.tensor_type.as_ref()?;
    let dims = &tensor.shape.as_ref()?.dim;
    let extent = |dim: &crate::proto::DimensionProto| match dim.value.as_ref()? {
        Dimension::Value(extent) => usize::try_from(*extent).ok(),
        Dimension::Param(name) => sizes.get(name).copied(),
    };
    let shape: Option<Vec<usize>> = dims.iter().map(extent).collect();
    Some((
        Element::of(tensor.elem_type).filter(|element| element.is_traced())?,
        shape?,
    ))
}

/// A value of the model while it is traced.
#[derive(Clone, Debug)]
pub enum Value {
    /// A value of the graph.
    Traced(Traced),
    /// Numbers that follow from sizes and constants.
    Known(Arc<Array>),
    /// An array in memory that a session has while it traces, which other runs may have with other elements.
    Held(Arc<Held>),
    /// Integers of 8 bits that a program computes.
    Codes(Codes),
    /// Integers of 32 bits that a program computes.
    Integers(Traced),
    /// Floats that never change and are restored from integers of 8 bits.
    Restored(Arc<Restored>),
}

impl Value {
    /// Numbers that are known.
    pub fn known(array: Array) -> Self {
        Value::Known(Arc::new(array))
    }
}

/// Limit of elements of a constant that is known while the graph is traced.
pub(crate) const MOST_KNOWN: usize = 1 << 22;

/// Limit of elements of all known constants of a model together; nodes whose outputs would exceed it are opaque.
const MOST_KNOWN_TOGETHER: usize = 1 << 25;

/// Limit of elements of a constant that stays in the graph; larger constants are states.
const MOST_INLINE: usize = 16;

/// All elements of a tensor as an array of the graph's dtype.
pub fn known(tensor: &Tensor, source: &crate::wire::Source) -> Result<Array> {
    let ty = Type::new(tensor.element.dtype(), &tensor.shape);
    let data = if tensor.element.is_float() || ty.dtype == DType::Bool {
        tensor.elements(source, |x| x)?
    } else {
        tensor.integers(source)?.into_iter().map(|x| x as f64).collect()
    };
    Ok(Array::new(ty, data))
}

//! Weights of products and convolutions, and their integers.

use lessen_base::Result;
use lessen_graph::numel;

use super::not_finite;
use crate::element::Element;
use crate::model::{Model, Node};
use crate::tensor::{Elements, Tensor};

/// The greatest integer of either sign.
const LEVELS: f64 = 127.0;

/// How a weight lies: the axis that columns of the product are along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Layout {
    /// `[K, N]`, of `MatMul`, and of `Gemm` that does not turn it.
    Rows,
    /// `[N, K]`, of `Gemm`.
    Columns,
    /// `[O, C, ...]`, of `Conv`.
    Kernels,
    /// `[C, O / groups, ...]`, of `ConvTranspose`; groups share the scales of columns.
    TransposedKernels,
}

/// A weight in single precision that never changes.
pub(super) struct Weight<'m> {
    pub tensor: &'m Tensor,
    pub layout: Layout,
}

/// The integers of a weight.
pub(super) struct Integers {
    /// In the order of the weight, with a scale for each column.
    pub levels: Vec<i8>,
    pub scales: Vec<f32>,
}

impl<'m> Weight<'m> {
    /// The weight of a node that is a product or a convolution; an error with the reason where it cannot be integers.
    pub fn of(model: &'m Model, node: &Node) -> Option<std::result::Result<Weight<'m>, String>> {
        if !matches!(node.proto.domain.as_str(), "" | "ai.onnx") {
            return None;
        }
        let turns = |name: &str| node.attribute(name).is_some_and(|attribute| attribute.i != 0);
        let (layout, ranks) = match node.proto.op_type.as_str() {
            "MatMul" => (Layout::Rows, 2..3),
            "Gemm" if turns("transB") => (Layout::Columns, 2..3),
            "Gemm" => (Layout::Rows, 2..3),
            "Conv" => (Layout::Kernels, 3..5),
            "ConvTranspose" => (Layout::TransposedKernels, 3..5),
            _ => return None,
        };
        let name = node.input(1)?;
        let tensor = model.initializers.get(name);
        let Some(tensor) = tensor else {
            return Some(Err("its weight is computed".to_string()));
        };
        if model.may_be_given(name) {
            let reason = format!("its weight is the default of the input `{name}`, which a run may give");
            return Some(Err(reason));
        }
        if tensor.element != Element::F32 {
            return Some(Err(format!("its weight is {}", tensor.element)));
        }
        if !ranks.contains(&tensor.shape.len()) || numel(&tensor.shape) == 0 {
            return Some(Err(format!("its weight has the extents {:?}", tensor.shape)));
        }
        if turns("transA") {
            return Some(Err("its first factor is turned".to_string()));
        }
        Some(Ok(Weight { tensor, layout }))
    }

    pub fn name(&self) -> &str {
        &self.tensor.name
    }

    /// The axis of columns.
    pub fn axis(&self) -> i64 {
        match self.layout {
            Layout::Rows | Layout::TransposedKernels => 1,
            Layout::Columns | Layout::Kernels => 0,
        }
    }

    /// The integers nearest to the weight's numbers over the scale of their column.
    ///
    /// # Errors
    /// A file that cannot be read, numbers that are not finite.
    pub fn integers(&self, model: &Model) -> Result<Integers> {
        let all: Vec<f64> = self.tensor.elements(&model.source, |x| x)?;
        if all.iter().any(|x| !x.is_finite()) {
            return Err(not_finite(model, self.name()));
        }
        let axis = self.axis() as usize;
        let columns = self.tensor.shape[axis];
        let after = numel(&self.tensor.shape[axis + 1..]);
        let column = |i: usize| i / after % columns;
        let mut most = vec![0f64; columns];
        for (i, x) in all.iter().enumerate() {
            let most = &mut most[column(i)];
            *most = most.max(x.abs());
        }
        // A column of zeros has any scale.
        let scale = |most: &f64| {
            if *most > 0.0 {
                ((most / LEVELS) as f32).max(f32::MIN_POSITIVE)
            } else {
                1.0
            }
        };
        let scales: Vec<f32> = most.iter().map(scale).collect();
        let level = |(i, x): (usize, &f64)| {
            let level = (x / f64::from(scales[column(i)])).round_ties_even();
            level.clamp(-LEVELS, LEVELS) as i8
        };
        Ok(Integers {
            levels: all.iter().enumerate().map(level).collect(),
            scales,
        })
    }
}

/// A tensor in memory.
pub(super) fn held(name: &str, shape: &[usize], element: Element, bytes: Vec<u8>) -> Tensor {
    Tensor {
        name: name.to_string(),
        shape: shape.to_vec(),
        element,
        elements: Elements::Held(bytes),
    }
}

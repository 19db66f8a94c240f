//! A model with integers of 8 bits in place of the weights of its products and convolutions: weights with a scale for
//! each column, activations in ranges that are given, or each in its own.
//!
//! | node | activations in given ranges | in their own ranges |
//! |---|---|---|
//! | `MatMul`, `Gemm` | `QuantizeLinear` and `DequantizeLinear` before it | `DynamicQuantizeLinear`, `MatMulInteger` |
//! | `Conv`, `ConvTranspose` | the same | stays as it is |

mod nodes;
mod weights;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use lessen_base::{Error, Result};

use crate::aside::write_checked;
use crate::edit::Edits;
use crate::import::is_of_integers;
use crate::model::{Model, Node};
use crate::tensor::Tensor;
use nodes::Writer;
use weights::Weight;

/// The first version of ONNX's operators that has scales for each column.
const LEAST_OPSET: i64 = 13;

/// Why there is nothing in a model without nodes that could have integers.
const NONE: &str = "it has no MatMul, Gemm, Conv or ConvTranspose";

/// The least and the greatest number of values by name.
pub type Ranges = HashMap<String, [f32; 2]>;

/// What a model became.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedModel {
    /// Names of the weights that are integers.
    pub weights: Vec<String>,
    /// Products and convolutions that stay as they are, each with the reason.
    pub left: Vec<(String, String)>,
    /// Bytes of tensors before and after.
    pub bytes: [u64; 2],
}

/// A product or a convolution with a weight that never changes.
struct Product<'m> {
    position: usize,
    node: &'m Node,
    weight: Weight<'m>,
}

/// The names of the values whose ranges [`quantize`] takes, in the order of their readers.
///
/// # Errors
/// Those of [`quantize`] that a model alone decides.
pub fn observed(model: &Model) -> Result<Vec<String>> {
    let (products, _) = products(model)?;
    let mut seen = BTreeSet::new();
    let names = products.iter().filter_map(|product| product.node.input(0));
    Ok(names
        .filter(|name| seen.insert(name.to_string()))
        .map(str::to_string)
        .collect())
}

/// Writes a model with integers to `path`: its activations in `ranges`, or each in its own range where there are none.
/// Calls `check` with the written file before it has its place; where that fails, nothing is written.
///
/// # Errors
/// A model that has integers already, that is older than the operators, or without products of weights in single
/// precision; a weight that is not finite; a file that cannot be written, or that the model reads; those of `check`.
pub fn quantize<T>(
    model: &Model,
    ranges: Option<&Ranges>,
    path: &Path,
    check: impl FnOnce(&Path) -> Result<T>,
) -> Result<(QuantizedModel, T)> {
    let (products, mut left) = products(model)?;
    let mut writer = Writer::new(model, Edits::of(model));
    let mut weights = BTreeSet::new();
    for product in &products {
        let outcome = match ranges {
            Some(ranges) => writer.in_given_range(product, ranges),
            None => writer.in_own_range(product),
        };
        match outcome? {
            None => drop(weights.insert(product.weight.name().to_string())),
            Some(reason) => left.push((product.node.shown(), reason)),
        }
    }
    if weights.is_empty() {
        let reasons: BTreeMap<&str, usize> = left.iter().fold(BTreeMap::new(), |mut all, (_, reason)| {
            *all.entry(reason.as_str()).or_default() += 1;
            all
        });
        let most = reasons.into_iter().max_by_key(|(_, count)| *count);
        let why = most.map_or(NONE.to_string(), |(reason, _)| reason.to_string());
        return Err(model.error(&format!("there is nothing to quantize: {why}")));
    }
    let edits = writer.finish();
    let bytes = |model: &Model| model.initializers.values().map(Tensor::bytes).sum();
    let (_, (after, found)) = write_checked(model, &edits, path, |written| {
        let after = bytes(&Model::open(written)?);
        Ok((after, check(written)?))
    })?;
    let quantized = QuantizedModel {
        weights: weights.into_iter().collect(),
        left,
        bytes: [bytes(model), after],
    };
    Ok((quantized, found))
}

/// The products of a model that may be of integers, and the others with the reason.
type Found<'m> = (Vec<Product<'m>>, Vec<(String, String)>);

/// The products and convolutions of a model.
fn products(model: &Model) -> Result<Found<'_>> {
    if let Some(node) = model.nodes.iter().find(|node| is_of_integers(node)) {
        let sentence = format!("the model has integers already, in the node {}", node.shown());
        return Err(model.error(&sentence));
    }
    match model.opset("") {
        Some(opset) if opset < LEAST_OPSET => {
            return Err(model.error(&format!(
                "its operators are of version {opset}; export it with opset {LEAST_OPSET} or later"
            )));
        }
        _ => {}
    }
    let (mut found, mut left) = (Vec::new(), Vec::new());
    for (position, node) in model.nodes.iter().enumerate() {
        match Weight::of(model, node) {
            Some(Ok(weight)) => found.push(Product { position, node, weight }),
            Some(Err(reason)) => left.push((node.shown(), reason)),
            None => {}
        }
    }
    Ok((found, left))
}

/// The error of a weight that cannot be integers.
fn not_finite(model: &Model, name: &str) -> Error {
    model.error(&format!("the weight `{name}` has numbers that are not finite"))
}

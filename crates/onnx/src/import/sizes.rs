//! Sizes of a model's inputs whose extents have names.

use std::collections::{BTreeMap, BTreeSet};

use lessen_base::Result;

use super::{Imported, known};
use crate::model::Model;
use crate::proto::Dimension;

/// Sizes that names of extents stand for.
pub type Sizes = BTreeMap<String, usize>;

/// The names of extents of a model's inputs, in order.
pub fn size_names(model: &Model) -> Vec<String> {
    let mut names = Vec::new();
    for input in &model.inputs {
        let shape = input
            .r#type
            .iter()
            .flat_map(|ty| &ty.tensor_type)
            .flat_map(|ty| &ty.shape);
        for dim in shape.flat_map(|shape| &shape.dim) {
            if let Some(Dimension::Param(name)) = &dim.value
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        }
    }
    names
}

/// The sizes of a run where `given` says no others: two for the first name, usually the batch, and eight, or the size
/// that the model's constants require.
///
/// # Errors
/// As [`fitting_sizes`].
pub fn usual_sizes(model: &Model, given: Sizes) -> Result<Sizes> {
    let default = |i: usize| if i == 0 { 2 } else { 8 };
    let names = size_names(model).into_iter().enumerate();
    let mut sizes: Sizes = names.map(|(i, name)| (name, default(i))).collect();
    let free = sizes.keys().filter(|name| !given.contains_key(*name));
    let free: Vec<String> = free.cloned().collect();
    sizes.extend(given);
    fitting_sizes(model, &sizes, &free)
}

/// The sizes with which most nodes are known: the given ones and, for free names, perhaps others. Exporters give
/// an extent a name but write its size into constants all the same, and then only that size will do.
///
/// # Errors
/// An input whose type is not known.
pub fn fitting_sizes(model: &Model, given: &Sizes, free: &[String]) -> Result<Sizes> {
    let unknown = |sizes: &Sizes| Ok::<usize, lessen_base::Error>(Imported::of(model, sizes)?.opaque.len());
    let (mut best, mut least) = (given.clone(), unknown(given)?);
    let candidates = if least == 0 { BTreeSet::new() } else { constants(model) };
    for name in free {
        for &size in &candidates {
            if least == 0 {
                return Ok(best);
            }
            let mut sizes = best.clone();
            sizes.insert(name.clone(), size);
            let count = unknown(&sizes)?;
            if count < least {
                (best, least) = (sizes, count);
            }
        }
    }
    Ok(best)
}

/// One, and the least integers from two on among a model's small constants.
fn constants(model: &Model) -> BTreeSet<usize> {
    /// Number of sizes that are tried for a name.
    const MOST: usize = 24;
    /// Constants of more elements are no shapes.
    const LONGEST: usize = 8;
    let attributes = model.nodes.iter().filter(|node| node.proto.op_type == "Constant");
    let attributes = attributes.filter_map(|node| node.attribute("value")?.t.as_ref());
    let tensors = attributes.filter_map(|message| crate::tensor::Tensor::of(message).ok().flatten());
    let all = model.initializers.values().cloned().chain(tensors);
    let integers = all.filter(|tensor| !tensor.element.is_float() && tensor.numel() <= LONGEST);
    let numbers = integers.filter_map(|tensor| known(&tensor, &model.source).ok());
    let sizes = numbers
        .flat_map(|array| array.data)
        .filter(|size| (2.0..1e5).contains(size));
    let sizes: BTreeSet<usize> = sizes.map(|size| size as usize).collect();
    std::iter::once(1).chain(sizes.into_iter().take(MOST)).collect()
}

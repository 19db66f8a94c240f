//! Random inputs of a model.

use lessen_base::{Result, SplitMix64};
use lessen_graph::Array;

use lessen_onnx::Model;
use lessen_onnx::host::{Data, HostTensor, HostValue};
use lessen_onnx::proto::Dimension;
use lessen_onnx::{Imported, Sizes};
use lessen_onnx::{element_of, extents_of, is_unnamed};

/// The most elements of a random input.
const MOST: usize = 1 << 32;

/// Random values for the inputs of a model in their declared types: floats of mean 0 and variance 1, integers that are
/// indices as far as they may reach, and other integers 0 and 1.
/// Extents have the sizes of their names; an extent without a name is 2 where it is the first, and 8 elsewhere.
///
/// # Errors
/// An input that is no tensor of numbers, or whose number of axes the file does not say.
pub fn random_values(model: &Model, sizes: &Sizes, seed: u64) -> Result<Vec<(String, HostValue)>> {
    let mut random = SplitMix64::new(seed);
    let traced = Imported::of(model, sizes).map(|imported| lessen_device::random_inputs(&imported.graph, seed));
    let traced = traced.unwrap_or_default();
    let values = model.inputs.iter().map(|input| {
        let (Some(element), Some(dims)) = (element_of(input), extents_of(input)) else {
            return Err(model.error(&format!(
                "the input `{0}` is no array of numbers with extents; give it with --input {0}=FILE",
                input.name
            )));
        };
        let sizes = dims.iter().enumerate().map(|(axis, dim)| match &dim.value {
            Some(Dimension::Value(size)) if *size >= 0 => usize::try_from(*size).unwrap_or(usize::MAX),
            Some(Dimension::Param(name)) if !is_unnamed(name) => sizes.get(name).copied().unwrap_or(1),
            _ if axis == 0 => 2,
            _ => 8,
        });
        let shape: Vec<usize> = sizes.collect();
        let count = shape
            .iter()
            .try_fold(1usize, |count, extent| count.checked_mul(*extent));
        let Some(count) = count.filter(|count| *count <= MOST) else {
            return Err(model.error(&format!("the input `{}` of extents {shape:?} is too large", input.name)));
        };
        let is_own = |(name, array): &&(String, Array)| *name == input.name && array.ty.shape[..] == shape[..];
        if let Some((_, array)) = traced.iter().find(is_own) {
            let data = Data::of_f64(element, array.data.iter().copied());
            return Ok((input.name.clone(), HostTensor::new(&shape, data)?.into()));
        }
        let mut number = || {
            if element.is_float() {
                3f64.sqrt() * (2.0 * random.unit() - 1.0)
            } else {
                random.below(2) as f64
            }
        };
        let data = Data::of_f64(element, (0..count).map(|_| number()));
        Ok((input.name.clone(), HostTensor::new(&shape, data)?.into()))
    });
    values.collect()
}

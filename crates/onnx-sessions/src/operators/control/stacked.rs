//! Arrays that iterations give, one after the other along a new axis.

use lessen_base::Result;

use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostTensor, HostValue, moved, numel};
use lessen_onnx::proto::{Dimension, ValueInfoProto};

/// The most bytes of all that the iterations of a node give.
const MOST_BYTES: usize = 1 << 31;

/// The element type of texts in the schema.
const TEXT: i32 = 8;

/// What iterations have given so far.
#[derive(Default)]
pub(super) struct Stacked {
    count: usize,
    first: Option<(Vec<usize>, Data)>,
}

impl Stacked {
    /// Adds what an iteration gives; `bytes` counts those of a node.
    ///
    /// # Errors
    /// No array, another type or other extents than before, too many bytes.
    pub fn push(&mut self, call: &HostCall<'_>, value: &HostValue, bytes: &mut usize) -> Result<()> {
        let Some(tensor) = value.tensor() else {
            return call.refused("an iteration gives a list where it should give an array");
        };
        let each = tensor.element().map_or(size_of::<String>(), Element::bytes);
        *bytes = bytes.saturating_add(tensor.len().saturating_mul(each));
        if *bytes > MOST_BYTES {
            return call.refused(format!("its iterations give more than {} MiB", MOST_BYTES >> 20));
        }
        self.count += 1;
        let Some((shape, all)) = &mut self.first else {
            self.first = Some((tensor.shape().to_vec(), tensor.data().clone()));
            return Ok(());
        };
        if shape[..] == *tensor.shape() && all.extend(tensor.data()) {
            Ok(())
        } else {
            call.refused(format!(
                "its iterations give arrays of the extents {shape:?} and {:?}, or of several types",
                tensor.shape()
            ))
        }
    }

    /// Takes the type of what an iteration would give, where there are none.
    pub fn expect(&mut self, value: &HostValue) {
        if let Some(tensor) = value.tensor() {
            self.first = Some((tensor.shape().to_vec(), tensor.data().at(std::iter::empty())));
        }
    }

    /// All of it with iterations along `axis`, the last one first where `is_reversed`. Without iterations the type is
    /// what is declared, where an extent that is not known is nought.
    ///
    /// # Errors
    /// An axis that is not there, a type that is not known.
    pub fn finish(
        self,
        call: &HostCall<'_>,
        declared: &ValueInfoProto,
        (axis, is_reversed): (i64, bool),
    ) -> Result<HostTensor> {
        let (mut shape, data) = match self.first {
            Some(first) => first,
            None => nothing(call, declared)?,
        };
        let axis = call.axis(axis, shape.len() + 1)?;
        let (outer, inner) = (numel(&shape[..axis])?, numel(&shape[axis..])?);
        shape.insert(axis, self.count);
        if outer <= 1 && !is_reversed {
            return HostTensor::new(&shape, data);
        }
        let count = self.count;
        let places = || {
            (0..outer).flat_map(|o| (0..count).map(move |i| (if is_reversed { count - 1 - i } else { i }) * outer + o))
        };
        let data = moved!(&data, all => {
            let mut out = Vec::with_capacity(all.len());
            for place in places() {
                out.extend_from_slice(&all[place * inner..(place + 1) * inner]);
            }
            out
        });
        HostTensor::new(&shape, data)
    }
}

/// Whether a value is declared with all of its extents.
pub(super) fn has_extents(declared: &ValueInfoProto) -> bool {
    let ty = declared.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let shape = ty.and_then(|ty| ty.shape.as_ref());
    shape.is_some_and(|shape| {
        shape
            .dim
            .iter()
            .all(|dim| matches!(dim.value, Some(Dimension::Value(_))))
    })
}

/// The declared extents, and no elements.
fn nothing(call: &HostCall<'_>, declared: &ValueInfoProto) -> Result<(Vec<usize>, Data)> {
    let ty = declared.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let Some(ty) = ty else {
        return call.refused(format!(
            "there are no iterations, and `{}` has no declared type",
            declared.name
        ));
    };
    let data = match ty.elem_type {
        TEXT => Data::Text(Vec::new()),
        other => Data::of_bytes(call.element(other.into())?, &[]),
    };
    let dims = ty.shape.iter().flat_map(|shape| &shape.dim);
    let shape = dims.map(|dim| match dim.value {
        Some(Dimension::Value(extent)) => usize::try_from(extent).unwrap_or(0),
        _ => 0,
    });
    Ok((shape.collect(), data))
}

/// The part of an array at an index along an axis, without that axis.
///
/// # Errors
/// Never, for an index below the extent.
pub(super) fn slice(tensor: &HostTensor, axis: usize, index: usize) -> Result<HostTensor> {
    let shape = tensor.shape();
    let (outer, inner) = (numel(&shape[..axis])?, numel(&shape[axis + 1..])?);
    let extent = shape[axis];
    let data = moved!(tensor.data(), all => {
        let mut out = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            let begin = (o * extent + index) * inner;
            out.extend_from_slice(&all[begin..begin + inner]);
        }
        out
    });
    let shape: Vec<usize> = shape[..axis].iter().chain(&shape[axis + 1..]).copied().collect();
    HostTensor::new(&shape, data)
}

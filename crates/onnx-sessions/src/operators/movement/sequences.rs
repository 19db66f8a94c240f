//! Operators on lists of arrays, and on values that may be absent.

use std::sync::Arc;

use lessen_base::Result;

use super::extents::{extent, extents, place};
use super::slicing::{joined, parts};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "SequenceConstruct", sequence_construct),
    ("", "SequenceEmpty", sequence_empty),
    ("", "SequenceInsert", sequence_insert),
    ("", "SequenceErase", sequence_erase),
    ("", "SequenceAt", sequence_at),
    ("", "SequenceLength", sequence_length),
    ("", "ConcatFromSequence", concat_from_sequence),
    ("", "SplitToSequence", split_to_sequence),
    ("", "Optional", optional),
    ("", "OptionalHasElement", optional_has_element),
    ("", "OptionalGetElement", optional_get_element),
];

/// The list that is the first input.
fn list<'c>(call: &'c HostCall<'_>) -> Result<&'c Vec<HostValue>> {
    match call.value(0)? {
        HostValue::Sequence(all) => Ok(all),
        _ => call.refused("its first input is no sequence"),
    }
}

/// One output that is a list.
fn one_list(all: Vec<HostValue>) -> Result<Vec<HostValue>> {
    Ok(vec![HostValue::Sequence(Arc::new(all))])
}

/// Checks that the arrays of a list have one type.
fn of_one_type<'v>(call: &HostCall<'_>, mut all: impl Iterator<Item = &'v HostValue>) -> Result<()> {
    let element = |value: &HostValue| value.tensor().map(|tensor| tensor.element());
    let Some(first) = all.next().map(element) else {
        return Ok(());
    };
    if all.all(|value| element(value) == first) {
        Ok(())
    } else {
        call.refused("the elements of a sequence have different types")
    }
}

/// The place that an input says.
fn position(call: &HostCall<'_>, input: usize, count: usize) -> Result<usize> {
    match call.integers(input)?[..] {
        [index] => place(call, index, count),
        _ => call.refused("its position is not one number"),
    }
}

fn sequence_construct(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all: Vec<HostValue> = (0..call.inputs.len())
        .map(|input| call.tensor(input).map(|tensor| HostValue::Tensor(tensor.clone())))
        .collect::<Result<_>>()?;
    of_one_type(call, all.iter())?;
    one_list(all)
}

fn sequence_empty(_call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one_list(Vec::new())
}

fn sequence_insert(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all = list(call)?;
    let new = call.value(1)?;
    of_one_type(call, [new].into_iter().chain(all.first()))?;
    let at = match call.optional(2)? {
        // A negative position counts from the end of the list as it is.
        Some(_) => match call.integers(2)?[..] {
            [index] if index < 0 => place(call, index, all.len())?,
            _ => position(call, 2, all.len() + 1)?,
        },
        None => all.len(),
    };
    let (before, after) = all.split_at(at);
    one_list([before, std::slice::from_ref(new), after].concat())
}

fn sequence_erase(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let mut all = list(call)?.clone();
    let at = match call.optional(1)? {
        Some(_) => position(call, 1, all.len())?,
        None => place(call, -1, all.len())?,
    };
    all.remove(at);
    one_list(all)
}

fn sequence_at(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all = list(call)?;
    Ok(vec![all[position(call, 1, all.len())?].clone()])
}

fn sequence_length(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(HostTensor::scalar(list(call)?.len() as i64))
}

fn concat_from_sequence(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let Some(axis) = call.attribute("axis").map(|axis| axis.i) else {
        return call.refused("it has no axis");
    };
    let tensors: Option<Vec<&Arc<HostTensor>>> = list(call)?.iter().map(HostValue::tensor).collect();
    let Some(tensors) = tensors else {
        return call.refused("its sequence does not consist of arrays");
    };
    if call.int("new_axis", 0) == 0 {
        let tensors: Vec<&HostTensor> = tensors.into_iter().map(|tensor| &**tensor).collect();
        return one(joined(call, &tensors, axis)?);
    }
    let widened = tensors.iter().map(|tensor| {
        let mut shape = tensor.shape().to_vec();
        shape.insert(call.axis(axis, shape.len() + 1)?, 1);
        tensor.reshaped(&shape)
    });
    let widened: Vec<HostTensor> = widened.collect::<Result<_>>()?;
    one(joined(call, &widened.iter().collect::<Vec<_>>(), axis)?)
}

fn split_to_sequence(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.axis(call.int("axis", 0), data.rank())?;
    let all = data.shape()[axis];
    let lens = match call.optional(1)? {
        Some(split) if split.rank() > 0 => extents(call, &call.integers(1)?)?,
        split => {
            let len = match split {
                Some(_) => extent(call, call.integers(1)?.first().copied().unwrap_or_default())?,
                None => 1,
            };
            if len == 0 {
                return call.refused("its parts are empty");
            }
            if data.is_empty() && all > 0 {
                return call.refused(format!("parts of extents {:?} have no elements", data.shape()));
            }
            let whole = std::iter::repeat_n(len, all / len);
            whole.chain(Some(all % len).filter(|rest| *rest > 0)).collect()
        }
    };
    let parts = parts(call, data, axis, &lens)?;
    if call.has(1) || call.int("keepdims", 1) != 0 {
        return one_list(parts.into_iter().map(HostValue::from).collect());
    }
    let mut shape = data.shape().to_vec();
    shape.remove(axis);
    let dropped = parts.iter().map(|part| part.reshaped(&shape).map(HostValue::from));
    one_list(dropped.collect::<Result<_>>()?)
}

fn optional(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    Ok(vec![match call.has(0) {
        true => call.value(0)?.clone(),
        false => HostValue::Absent,
    }])
}

fn optional_has_element(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(HostTensor::scalar(call.has(0)))
}

fn optional_get_element(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    match call.value(0)? {
        HostValue::Absent => call.refused("its optional input is absent"),
        value => Ok(vec![value.clone()]),
    }
}

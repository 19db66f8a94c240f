//! Operators whose results follow from attributes or a few numbers.

use lessen_base::Result;

use super::extents::{bounded, extents, place, steps};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, moved, one};
use lessen_onnx::proto::TensorProto;

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Constant", constant),
    ("", "ConstantOfShape", constant_of_shape),
    ("", "EyeLike", eye_like),
    ("", "Range", range),
];

fn constant(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let Some(attribute) = call.node.attribute.first() else {
        return call.refused("it has no value");
    };
    one(match attribute.name.as_str() {
        "value" => match call.stored("value")? {
            Some(tensor) => tensor,
            None => return call.refused("it has no value"),
        },
        "sparse_value" => dense(call)?,
        "value_float" => HostTensor::scalar(attribute.f),
        "value_floats" => HostTensor::vector(attribute.floats.clone()),
        "value_int" => HostTensor::scalar(attribute.i),
        "value_ints" => HostTensor::vector(attribute.ints.clone()),
        "value_string" => HostTensor::scalar(text(call, &attribute.s)?),
        "value_strings" => {
            let texts = attribute.strings.iter().map(|bytes| text(call, bytes));
            HostTensor::vector(texts.collect::<Result<Vec<String>>>()?)
        }
        other => return call.refused(format!("its attribute {other} is not known")),
    })
}

/// The text of an attribute.
///
/// # Errors
/// Bytes that are no UTF-8.
fn text(call: &HostCall<'_>, bytes: &[u8]) -> Result<String> {
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Ok(text),
        Err(_) => call.refused("one of its texts is no UTF-8"),
    }
}

/// The array of an attribute that says only the elements that are not nought.
fn dense(call: &HostCall<'_>) -> Result<HostTensor> {
    let sparse = call
        .attribute("sparse_value")
        .and_then(|attribute| attribute.sparse_tensor.as_ref());
    let Some((sparse, values, indices)) =
        sparse.and_then(|sparse| Some((sparse, sparse.values.as_ref()?, sparse.indices.as_ref()?)))
    else {
        return call.refused("it has no value");
    };
    let array = |message: &TensorProto| HostTensor::of_message(message);
    let (values, indices) = (array(values)?, array(indices)?);
    let shape = extents(call, &sparse.dims)?;
    let count = bounded(call, &shape, values.data())?;
    let numbers = indices.integers().unwrap_or_default();
    let mut places = Vec::with_capacity(values.len());
    match *indices.shape() {
        [n] if n == values.len() => {
            for index in numbers {
                places.push(place(call, index, count)?);
            }
        }
        [n, rank] if n == values.len() && rank == shape.len() && numbers.len() == indices.len() => {
            let steps = steps(&shape);
            for number in 0..n {
                let mut at = 0;
                for axis in 0..rank {
                    at += place(call, numbers[number * rank + axis], shape[axis])? * steps[axis];
                }
                places.push(at);
            }
        }
        _ => return call.refused("its indices do not fit its values"),
    }
    let data = moved!(values.data(), v => {
        let mut out = vec![Default::default(); count];
        for (value, place) in v.iter().zip(&places) {
            out[*place] = Clone::clone(value);
        }
        out
    });
    HostTensor::new(&shape, data)
}

fn constant_of_shape(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let shape = extents(call, &call.integers(0)?)?;
    let value = call.stored("value")?.unwrap_or_else(|| HostTensor::vector(vec![0f32]));
    let count = bounded(call, &shape, value.data())?;
    if value.len() != 1 {
        return call.refused("its value is not one element");
    }
    let data = moved!(value.data(), v => vec![Clone::clone(&v[0]); count]);
    one(HostTensor::new(&shape, data)?)
}

fn eye_like(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let like = call.tensor(0)?;
    let &[_, columns] = like.shape() else {
        return call.refused("its input is no matrix");
    };
    let element: Element = match (call.attribute("dtype"), like.element()) {
        (Some(dtype), _) => call.element(dtype.i)?,
        (None, Some(element)) => element,
        (None, None) => return call.refused("texts have no one"),
    };
    let k = call.int("k", 0);
    let is_one = |place: usize| {
        let (row, column) = (place / columns, place % columns);
        (row as i64).checked_add(k) == Some(column as i64)
    };
    let ones = (0..like.len()).map(|place| f64::from(u8::from(is_one(place))));
    one(HostTensor::new(like.shape(), Data::of_f64(element, ones))?)
}

fn range(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (start, limit, delta) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if [start.len(), limit.len(), delta.len()] != [1; 3] {
        return call.refused("its start, limit and delta are not one number each");
    }
    if start.element() != limit.element() || start.element() != delta.element() {
        return call.refused("its inputs have different types");
    }
    if call.int("stash_type", 1) != 1 {
        return call.refused("16-bit floats are computed in single precision alone");
    }
    let each = [start, limit, delta];
    one(match start.element() {
        Some(element @ (Element::Int(_) | Element::Unsigned(_))) => {
            let number = |tensor: &HostTensor| match tensor.data() {
                Data::U64(v) => v.first().map_or(0, |x| i128::from(*x)),
                other => other.integers().and_then(|v| v.first().copied()).map_or(0, i128::from),
            };
            let (count, [start, delta]) = integers(call, each.map(|tensor| number(tensor)), start.data())?;
            let all = (0..count as i128).map(|i| (start + i * delta) as i64);
            HostTensor::new(&[count], Data::of_integers(element, all))?
        }
        Some(element) if element.is_float() => {
            let number = |tensor: &HostTensor| tensor.data().to_f64().first().copied().unwrap_or_default();
            floats(call, each.map(|tensor| number(tensor)), element)?
        }
        _ => return call.refused("truth values and texts have no range"),
    })
}

/// The number of integers from a start to a limit in steps, the start and the step.
fn integers(call: &HostCall<'_>, [start, limit, delta]: [i128; 3], like: &Data) -> Result<(usize, [i128; 2])> {
    let span = (limit - start) * delta.signum();
    if delta == 0 {
        return call.refused("its delta is 0");
    }
    let count = usize::try_from(span.max(0).unsigned_abs().div_ceil(delta.unsigned_abs())).unwrap_or(usize::MAX);
    bounded(call, &[count], like)?;
    Ok((count, [start, delta]))
}

/// Floats from a start to a limit in steps.
fn floats(call: &HostCall<'_>, [start, limit, delta]: [f64; 3], element: Element) -> Result<HostTensor> {
    // Single precision, which 16-bit floats are computed in as well, is rounded after each step.
    let is_single = element != Element::F64;
    let rounded = |x: f64| if is_single { f64::from(x as f32) } else { x };
    let count = (rounded(limit - start) / delta).ceil();
    if !count.is_finite() {
        return call.refused(format!(
            "numbers from {start} to {limit} in steps of {delta} have no end"
        ));
    }
    let count = count.max(0.0) as usize;
    bounded(call, &[count], &Data::of_bytes(element, &[]))?;
    let all = (0..count).map(|i| rounded(start + rounded(i as f64 * delta)));
    HostTensor::new(&[count], Data::of_f64(element, all))
}

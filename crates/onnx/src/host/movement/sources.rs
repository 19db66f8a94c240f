//! Operators whose results follow from attributes or a few numbers.

use lessen_base::Result;

use super::extents::{bounded, extents, place, steps};
use crate::element::Element;
use crate::host::{
    Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_float, each_integer, each_type, one,
};
use crate::proto::TensorProto;

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
    let data: Data = each_type!(values.data(), v => {
        let mut out = vec![Default::default(); count];
        for (value, place) in v.iter().zip(places) {
            out[place] = Clone::clone(value);
        }
        out.into()
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
    let data: Data = each_type!(value.data(), v => vec![Clone::clone(&v[0]); count].into());
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
    let is_single = start.element() != Some(Element::F64);
    one(each_integer!(start.data(), v => {
        let number = |tensor: &HostTensor| each_integer!(tensor.data(), v => v.first().map_or(0, |x| x.to_i128()), else 0);
        integers(call, v, number(start), number(limit), number(delta))?
    }, else each_float!(start.data(), v => {
        let number = |tensor: &HostTensor| tensor.data().to_f64().first().copied().unwrap_or_default();
        floats(call, v, [number(start), number(limit), number(delta)], is_single)?
    }, else return call.refused("truth values and texts have no range"))))
}

fn integers<T: Number>(call: &HostCall<'_>, _like: &[T], start: i128, limit: i128, delta: i128) -> Result<HostTensor>
where
    Data: From<Vec<T>>,
{
    let span = (limit - start) * delta.signum();
    if delta == 0 {
        return call.refused("its delta is 0");
    }
    let count = usize::try_from(span.max(0).unsigned_abs().div_ceil(delta.unsigned_abs())).unwrap_or(usize::MAX);
    bounded(call, &[count], &Data::from(Vec::<T>::new()))?;
    Ok(HostTensor::vector(
        (0..count as i128)
            .map(|i| T::of_i128(start + i * delta))
            .collect::<Vec<T>>(),
    ))
}

fn floats<T: Number>(
    call: &HostCall<'_>,
    _like: &[T],
    [start, limit, delta]: [f64; 3],
    is_single: bool,
) -> Result<HostTensor>
where
    Data: From<Vec<T>>,
{
    // Single precision, which 16-bit floats are computed in as well, is rounded after each step.
    let rounded = |x: f64| if is_single { f64::from(x as f32) } else { x };
    let count = (rounded(limit - start) / delta).ceil();
    if !count.is_finite() {
        return call.refused(format!(
            "numbers from {start} to {limit} in steps of {delta} have no end"
        ));
    }
    let count = count.max(0.0) as usize;
    bounded(call, &[count], &Data::from(Vec::<T>::new()))?;
    Ok(HostTensor::vector(
        (0..count)
            .map(|i| T::of_f64(rounded(start + rounded(i as f64 * delta))))
            .collect::<Vec<T>>(),
    ))
}

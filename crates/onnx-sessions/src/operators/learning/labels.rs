//! Labels in place of others.

use std::collections::HashMap;

use lessen_base::Result;

use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, each_integer, one};

pub(crate) const OPERATORS: HostOperators = &[("ai.onnx.ml", "LabelEncoder", encode)];

/// A label that is looked up.
#[derive(PartialEq, Eq, Hash)]
enum Key<'d> {
    Text(&'d str),
    /// The bits of a number, the same for all NaN and for both zeros.
    Number(u64),
}

/// The labels of an array, to look them up.
fn keys(data: &Data) -> Vec<Key<'_>> {
    let float = |x: f64| match x {
        0.0 => 0,
        x if x.is_nan() => f64::NAN.to_bits(),
        x => x.to_bits(),
    };
    match data {
        Data::Text(texts) => texts.iter().map(|text| Key::Text(text)).collect(),
        integers if integers.element().is_some_and(|element| !element.is_float()) => {
            use lessen_onnx::host::Integer;
            let floats = || integers.to_f64().into_iter().map(|x| Key::Number(x as u64)).collect();
            each_integer!(integers, v => v.iter().map(|x| Key::Number(x.to_bits())).collect(), else floats())
        }
        floats => floats.to_f64().into_iter().map(|x| Key::Number(float(x))).collect(),
    }
}

/// The array in one of the attributes of this beginning: `_strings`, `_int64s`, `_floats` or `_tensor`.
fn array(call: &HostCall<'_>, beginning: &str) -> Result<HostTensor> {
    let attribute = |end: &str| call.attribute(&format!("{beginning}_{end}"));
    if let Some(texts) = attribute("strings").filter(|texts| !texts.strings.is_empty()) {
        return Ok(HostTensor::vector(of_bytes(&texts.strings)));
    }
    if let Some(integers) = attribute("int64s").filter(|integers| !integers.ints.is_empty()) {
        return Ok(HostTensor::vector(integers.ints.clone()));
    }
    if let Some(floats) = attribute("floats").filter(|floats| !floats.floats.is_empty()) {
        return Ok(HostTensor::vector(floats.floats.clone()));
    }
    match call.stored(&format!("{beginning}_tensor"))? {
        Some(tensor) => Ok(tensor),
        None => call.refused(format!("it has no {beginning}")),
    }
}

fn of_bytes(texts: &[Vec<u8>]) -> Vec<String> {
    texts
        .iter()
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// The label of what is not found, for these labels.
fn default(call: &HostCall<'_>, values: &Data) -> Result<HostTensor> {
    if let Some(default) = call.stored("default_tensor")? {
        return Ok(default);
    }
    Ok(match (values, values.element()) {
        (Data::Text(_), _) | (_, None) => {
            HostTensor::scalar(call.text("default_string").unwrap_or_else(|| "_Unused".to_string()))
        }
        (Data::F32(_), _) => HostTensor::scalar(call.attribute("default_float").map_or(-0.0, |default| default.f)),
        (Data::I64(_), _) => HostTensor::scalar(call.int("default_int64", -1)),
        (_, Some(element)) => {
            let number = if element.is_float() { -0.0 } else { -1.0 };
            HostTensor::new(&[], Data::of_f64(element, std::iter::once(number)))?
        }
    })
}

fn encode(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let input = call.tensor(0)?;
    let (from, to) = if let Some(classes) = call.attribute("classes_strings") {
        // The first version: texts become their places, places become texts.
        let texts = HostTensor::vector(of_bytes(&classes.strings));
        let places = HostTensor::vector((0..texts.len() as i64).collect());
        match input.data() {
            Data::Text(_) => (texts, places),
            _ => (places, texts),
        }
    } else {
        (array(call, "keys")?, array(call, "values")?)
    };
    if from.element() != input.element() || from.len() != to.len() {
        return call.refused("its keys have another type than its input, or another number than its values");
    }
    let places: HashMap<Key<'_>, usize> = keys(from.data()).into_iter().zip(0..).collect();
    let found = keys(input.data()).into_iter().map(|key| places.get(&key).copied());
    let default = default(call, to.data())?;
    let mut labels = to.data().clone();
    if default.len() != 1 || !labels.extend(default.data()) {
        return call.refused("its default is no label of its values' type");
    }
    // The default is the last one of the labels.
    let encoded = labels.at(found.map(|place| place.unwrap_or(to.len())));
    one(HostTensor::new(input.shape(), encoded)?)
}

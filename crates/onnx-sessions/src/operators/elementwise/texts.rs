//! Numbers as texts.

use half::{bf16, f16};
use lessen_base::Result;

use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, Number, each_integer};

/// The shortest texts that stand for numbers, without exponents. Truth values are 1 and 0.
pub(super) fn written(data: &Data) -> Data {
    let texts: Vec<String> = match data {
        Data::Text(all) => all.clone(),
        Data::Bool(all) => all.iter().map(|x| u8::from(*x).to_string()).collect(),
        Data::F16(all) => all.iter().map(|x| float(x.to_f64(), || shortest_half(*x))).collect(),
        Data::BF16(all) => all.iter().map(|x| float(x.to_f64(), || shortest_bfloat(*x))).collect(),
        Data::F32(all) => all.iter().map(|x| float((*x).into(), || x.to_string())).collect(),
        Data::F64(all) => all.iter().map(|x| float(*x, || x.to_string())).collect(),
        other => each_integer!(other, all => all.iter().map(|x| x.to_string()).collect(),
            else other.to_f64().into_iter().map(|x| float(x, || x.to_string())).collect()),
    };
    texts.into()
}

/// The text of a float, which for finite ones is `finite`.
fn float(x: f64, finite: impl Fn() -> String) -> String {
    match x {
        f64::INFINITY => "INF".to_string(),
        f64::NEG_INFINITY => "-INF".to_string(),
        x if x.is_nan() => "NaN".to_string(),
        _ => finite(),
    }
}

/// The shortest text that is read as a 16-bit float again.
fn shortest_half(x: f16) -> String {
    shortest(x.to_f64(), |text| text.parse().is_ok_and(|y: f64| f16::of_f64(y) == x))
}

fn shortest_bfloat(x: bf16) -> String {
    shortest(x.to_f64(), |text| text.parse().is_ok_and(|y: f64| bf16::of_f64(y) == x))
}

/// The number with as few digits as `is_same` allows.
fn shortest(x: f64, is_same: impl Fn(&str) -> bool) -> String {
    let digits = (0..17).map(|digits| format!("{x:.digits$e}"));
    let text = digits.into_iter().find(|text| is_same(text));
    text.and_then(|text| text.parse().ok())
        .map_or_else(|| x.to_string(), |y: f64| y.to_string())
}

/// The numbers that texts stand for.
///
/// # Errors
/// A text that is no number, or too large an integer.
pub(super) fn read(call: &HostCall<'_>, texts: &[String], to: Element) -> Result<Data> {
    if to.is_float() || matches!(to, Element::Narrow(narrow) if narrow.range().is_none()) {
        if to == Element::F32 {
            // Reads single precision at once, since a number that is rounded twice may be another one.
            return Ok(all(call, texts, |text| text.parse::<f32>().ok())?.into());
        }
        return Ok(Data::of_f64(
            to,
            all(call, texts, |text| text.parse::<f64>().ok())?.into_iter(),
        ));
    }
    let integers = all(call, texts, |text| {
        let whole = text.parse::<i128>().ok();
        let integer = whole.or_else(|| {
            let float = text.parse::<f64>().ok()?;
            float.is_finite().then_some(float as i128)
        })?;
        (i64::MIN.into()..=u64::MAX.into())
            .contains(&integer)
            .then_some(integer)
    })?;
    Ok(match to {
        Element::Bool => integers.iter().map(|x| *x != 0).collect::<Vec<bool>>().into(),
        Element::Unsigned(8) => integers.into_iter().map(|x| x as u64).collect::<Vec<u64>>().into(),
        _ => Data::of_integers(to, integers.into_iter().map(|x| x as i64)),
    })
}

fn all<T>(call: &HostCall<'_>, texts: &[String], number: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let numbers = texts.iter().map(|text| match number(text.trim_ascii()) {
        Some(number) => Ok(number),
        None => call.refused(format!("the text `{text}` is no number of the type that it shall have")),
    });
    numbers.collect()
}

/// The number of a type's name in the schema.
pub(super) fn data_type(name: &str) -> Option<i64> {
    Some(match name {
        "FLOAT" => 1,
        "UINT8" => 2,
        "INT8" => 3,
        "UINT16" => 4,
        "INT16" => 5,
        "INT32" => 6,
        "INT64" => 7,
        "STRING" => 8,
        "BOOL" => 9,
        "FLOAT16" => 10,
        "DOUBLE" => 11,
        "UINT32" => 12,
        "UINT64" => 13,
        _ => return None,
    })
}

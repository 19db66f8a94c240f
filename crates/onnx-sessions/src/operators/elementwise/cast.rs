//! Elements in other types.

use lessen_base::Result;

use super::texts;
use lessen_onnx::Element;
use lessen_onnx::host::cast_by;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};
use lessen_onnx::{Narrowing, Powers};

pub(crate) const OPERATORS: HostOperators = &[("", "Cast", cast_to), ("", "CastLike", cast_like)];

/// The number of texts in the schema.
const TEXT: i64 = 8;

fn cast_to(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let to = match call.text("to").filter(|name| !name.is_empty()) {
        // Version 1 names the type.
        Some(name) => match texts::data_type(&name) {
            Some(number) => number,
            None => return call.refused(format!("the type {name} of ONNX is not known")),
        },
        None => call.int("to", 0),
    };
    let element = if to == TEXT { None } else { Some(call.element(to)?) };
    one(changed(call, call.tensor(0)?, element)?)
}

fn cast_like(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(changed(call, call.tensor(0)?, call.tensor(1)?.element())?)
}

/// An array in another type; none is text.
fn changed(call: &HostCall<'_>, tensor: &HostTensor, to: Option<Element>) -> Result<HostTensor> {
    let data = match (tensor.data(), to) {
        (Data::Text(_), None) => tensor.data().clone(),
        (data, None) => texts::written(data),
        (Data::Text(all), Some(element)) => texts::read(call, all, element)?,
        (data, Some(element)) => cast_by(data, element, narrowing(call)?),
    };
    HostTensor::new(tensor.shape(), data)
}

/// How the attributes say that numbers become narrow floats.
///
/// # Errors
/// A mode that is not known.
pub(super) fn narrowing(call: &HostCall<'_>) -> Result<Narrowing> {
    let powers = match call.text("round_mode").as_deref() {
        None | Some("up") => Powers::Up,
        Some("down") => Powers::Down,
        Some("nearest") => Powers::Nearest,
        Some(other) => return call.refused(format!("its round_mode {other} is not known")),
    };
    Ok(Narrowing {
        saturates: call.int("saturate", 1) != 0,
        powers,
    })
}

//! Dropout, which keeps every element while nothing is trained.

use lessen_base::Result;

use super::operands::no_type;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("", "Dropout", dropout)];

fn dropout(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let Some(element) = tensor.element().filter(|element| element.is_float()) else {
        return no_type(call, tensor);
    };
    let trains = match call.opset {
        ..7 => call.int("is_test", 0) == 0,
        7..12 => false,
        _ => call.has(2) && call.number(2)? != 0.0,
    };
    let ratio = match call.opset {
        ..12 => call.float("ratio", 0.5),
        _ if call.has(1) => call.number(1)?,
        _ => 0.5,
    };
    if trains && ratio != 0.0 {
        return call.refused(format!(
            "it trains and drops a share of {ratio} of the elements at random"
        ));
    }
    let mut outputs = vec![HostValue::Tensor(tensor.clone())];
    if call.wants(1) {
        let mask = match call.opset {
            // The mask has the type of the elements before version 10.
            ..10 => HostTensor::new(tensor.shape(), Data::of_f64(element, ones(tensor.len())))?,
            _ => HostTensor::new(tensor.shape(), vec![true; tensor.len()])?,
        };
        outputs.push(mask.into());
    }
    Ok(outputs)
}

fn ones(count: usize) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(1.0, count)
}

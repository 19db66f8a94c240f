//! Convolution of each channel with its own kernel over earlier positions, which a state keeps.

use lessen_base::Result;

use super::sizes::{check_work, room};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("", "CausalConvWithState", causal_conv)];

fn causal_conv(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, causal_conv_of(call, tensor))
}

fn causal_conv_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    let weight = call.tensor(1)?;
    let (&[batch, channels, length], &[rows, 1, kernel]) = (tensor.shape(), weight.shape()) else {
        return call.refused("its input or its weight has not three axes");
    };
    if rows != channels || kernel == 0 {
        return call.refused("its weight is not one kernel for each channel");
    }
    let is_silu = match call.text("activation").as_deref().unwrap_or("none") {
        "none" | "" => false,
        "silu" | "swish" => true,
        other => return call.refused(format!("its activation {other} is not known")),
    };
    let bias = match call.optional(2)? {
        Some(bias) if bias.shape() == [channels] => Some(R::read(bias)?),
        Some(_) => return call.refused("its bias is not one for each channel"),
        None => None,
    };
    let kept = kernel - 1;
    let state_shape = [batch, channels, kept];
    let past = match call.optional(3)? {
        Some(past) if past.shape() == state_shape => Some(R::read(past)?),
        Some(_) => return call.refused("its past state does not fit"),
        None => None,
    };
    check_work(&[batch, channels, length, kernel])?;
    let stacks = room(&[batch, channels])?;
    let (x, weight) = (R::read(tensor)?, R::read(weight)?);
    let mut states = Vec::with_capacity(room(&state_shape)?);
    let mut y = Vec::with_capacity(x.len());
    let mut line = Vec::new();
    for stack in 0..stacks {
        line.clear();
        match &past {
            Some(past) => line.extend_from_slice(&past[stack * kept..(stack + 1) * kept]),
            None => line.resize(kept, R::ZERO),
        }
        line.extend_from_slice(&x[stack * length..(stack + 1) * length]);
        let channel = stack % channels;
        let kernel_of = &weight[channel * kernel..(channel + 1) * kernel];
        let first = bias.as_ref().map_or(R::ZERO, |bias| bias[channel]);
        for part in line.windows(kernel).take(length) {
            let sum = part
                .iter()
                .zip(kernel_of)
                .fold(R::ZERO, |sum, (x, weight)| sum + *x * *weight)
                + first;
            y.push(if is_silu { sum / (R::ONE + (-sum).exp()) } else { sum });
        }
        states.extend_from_slice(&line[line.len() - kept..]);
    }
    let element = float_of(tensor)?;
    Ok(vec![
        rounded(tensor.shape(), y, element)?.into(),
        rounded(&state_shape, states, element)?.into(),
    ])
}

//! Products with a matrix of parameters, and the adapters beside them.

use lessen_graph::Tensor;

use crate::context::Cx;
use crate::init::Init;
use crate::lora::{A, B};

/// `y = x Wᵀ + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[out, in]` (as in PyTorch's `nn.Linear`)
/// and `NAME.bias` of shape `[out]`, initially zero.
#[track_caller]
pub fn linear(cx: Cx, name: &str, x: Tensor, out: usize, init: Init) -> Tensor {
    linear_from(cx, name, x, out, [init, Init::Zeros])
}

/// [`linear`] with these initial values of weight and bias.
#[track_caller]
pub fn linear_from(cx: Cx, name: &str, x: Tensor, out: usize, [weight, bias]: [Init; 2]) -> Tensor {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[out, x.dim(-1)], weight);
    let [rows, weight] = cx.quantized(x, weight, 0);
    adapt(*cx, x, rows.matmul_t(weight), false) + cx.param("bias", &[out], bias)
}

/// `y = x Wᵀ` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[out, in]`.
#[track_caller]
pub fn projection(cx: Cx, name: &str, x: Tensor, out: usize, init: Init) -> Tensor {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[out, x.dim(-1)], init);
    let [rows, weight] = cx.quantized(x, weight, 0);
    adapt(*cx, x, rows.matmul_t(weight), false)
}

/// `y = x W + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[in, out]` (as in GPT-2's `Conv1D`) and
/// `NAME.bias` of shape `[out]`, initially zero.
#[track_caller]
pub fn gpt2_linear(cx: Cx, name: &str, x: Tensor, out: usize, init: Init) -> Tensor {
    let cx = cx.enter(name);
    let weight = cx.turned_param("weight", &[x.dim(-1), out], init);
    let [rows, weight] = cx.quantized(x, weight, 1);
    adapt(*cx, x, rows.matmul(weight), true) + cx.param("bias", &[out], Init::Zeros)
}

/// `y` and the product of the adapter that the layer of this context has, if it has one: `x` is the input of the layer.
/// `fan_in_fan_out` says whether its weight is `[in, out]`.
///
/// # Panics
/// If it has one and its weight is stored otherwise than LoRA assumes.
#[track_caller]
fn adapt(cx: Cx, x: Tensor, y: Tensor, fan_in_fan_out: bool) -> Tensor {
    let Some(lora) = cx.lora().filter(|lora| lora.adapts(&cx.prefix())) else {
        return y;
    };
    if lora.fan_in_fan_out != fan_in_fan_out {
        let sentence = format!(
            "the weight of the layer `{}` is stored as {}, unlike `fan_in_fan_out` of its adapter says; set it to {fan_in_fan_out}",
            cx.prefix(),
            if fan_in_fan_out { "[in, out]" } else { "[out, in]" }
        );
        cx.trace().fail(sentence);
    }
    let (inputs, outputs) = (x.dim(-1), y.dim(-1));
    let bound = 1.0 / (inputs as f64).sqrt();
    let a = cx.param(A, &[lora.rank, inputs], Init::Uniform { bound });
    let b = cx.param(B, &[outputs, lora.rank], Init::Zeros);
    let inner = cx.dropout(x, lora.dropout).matmul_t(a) * lora.scale();
    y + inner.matmul_t(b)
}

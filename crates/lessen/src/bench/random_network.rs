//! Random small networks, on which the memory planner is measured.

use lessen_base::SplitMix64;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{Attend, layer_norm, linear, multi_head};
use lessen_nn::{Activation, Cx, Init};

/// The loss of the network of a seed: 3 to 12 blocks on 4 to 16 sequences of 16 to 64 tokens. A block is an MLP or an
/// attention beside its input, or a layer to another width.
pub(super) fn loss(seed: u64, cx: Cx) -> Tensor {
    let mut random = SplitMix64::new(seed);
    let batch = pick(&mut random, &[4, 8, 16]);
    let tokens = pick(&mut random, &[16, 32, 64]);
    let width = pick(&mut random, &[32, 64, 96, 128]);
    let mut x = cx.input("x", DType::F32, &[batch, tokens, width]);
    for number in 0..3 + random.below(10) {
        x = cx.scope(&format!("blocks.{number}"), |cx| block(&mut random, cx, x));
    }
    (x * x).mean()
}

fn pick<T: Copy>(random: &mut SplitMix64, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn block(random: &mut SplitMix64, cx: Cx, x: Tensor) -> Tensor {
    let init = Init::Normal { std: 0.1 };
    let width = x.dim(-1);
    let activation = pick(
        random,
        &[Activation::Gelu, Activation::Relu, Activation::Silu, Activation::Tanh],
    );
    let dropout = pick(random, &[0.0, 0.1]);
    match random.below(3) {
        0 => {
            let inner = pick(random, &[1, 2, 4]) * width;
            let hidden = linear(cx, "first", layer_norm(cx, "norm", x, 1e-5), inner, init);
            let y = linear(cx, "second", activation.apply(hidden), width, init);
            x + cx.dropout(y, dropout)
        }
        1 => {
            let normed = layer_norm(cx, "norm", x, 1e-5);
            let [q, k, v] = ["q", "k", "v"].map(|name| linear(cx, name, normed, width, init));
            let how = Attend {
                heads: pick(random, &[1, 2, 4]),
                causal: pick(random, &[false, true]),
                dropout,
                ..Attend::default()
            };
            x + linear(cx, "out", multi_head(cx, q, k, v, how), width, init)
        }
        _ => {
            let other = pick(random, &[32, 64, 96, 128]);
            cx.dropout(activation.apply(linear(cx, "layer", x, other, init)), dropout)
        }
    }
}

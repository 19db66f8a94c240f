//! Training with products in `bf16`.

use crate::support::device;
use lessen_compile::{Placement, Precision};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};
use lessen_train::{Trainer, TrainerOptions};

const ROWS: usize = 64;
const WIDTH: usize = 48;

fn loss(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, WIDTH]);
    let std = Init::Normal { std: 0.2 };
    let hidden = linear(cx, "first", x, 512, std).gelu();
    let error = linear(cx, "second", hidden, WIDTH, std) - x.tanh();
    (error * error).mean()
}

fn trained(precision: Precision, threads: usize, placement: Placement) -> (Vec<f32>, Vec<u32>) {
    let options = TrainerOptions {
        precision,
        placement,
        ..TrainerOptions::new(0.003)
    };
    let mut trainer = Trainer::new(device(threads), options, loss).unwrap();
    let x = |step: usize| -> Vec<f32> {
        let number = |i: usize| ((step * 131 + i) * 37 % 101) as f32 / 50.0 - 1.0;
        (0..ROWS * WIDTH).map(number).collect()
    };
    let losses = (0..60).map(|step| trainer.step(&[("x", Host::F32(&x(step)))]).unwrap().loss);
    let losses = losses.collect();
    let weights = trainer.weights().unwrap();
    let bits = weights
        .values()
        .flat_map(|weight| weight.data.iter().map(|x| x.to_bits()));
    (losses, bits.collect())
}

#[test]
fn losses_in_bf16_are_near_those_in_f32_and_independent_of_threads() {
    let (wide, _) = trained(Precision::F32, 2, Placement::BackwardFused);
    let (narrow, bits) = trained(Precision::Bf16, 2, Placement::BackwardFused);
    let last = |losses: &[f32]| losses[50..].iter().sum::<f32>() / 10.0;
    assert!(wide[0] > 4.0 * last(&wide), "{wide:?}");
    assert!(
        (last(&narrow) / last(&wide) - 1.0).abs() < 0.1,
        "{narrow:?}, not {wide:?}"
    );
    assert!(wide.iter().zip(&narrow).any(|(a, b)| a != b), "products were rounded");
    for placement in [Placement::BackwardFused, Placement::ForwardFused, Placement::Planned] {
        let found = trained(Precision::Bf16, 1, placement);
        assert!(found == (narrow.clone(), bits.clone()), "one thread, {placement:?}");
    }
}

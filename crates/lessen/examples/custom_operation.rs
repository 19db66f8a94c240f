//! An operation of one's own with a modified derivative: ReLU forward; backward the gradient passes where `x > -ALPHA`,
//! so that a unit that is only just off can learn to be on again. ([`Tensor::helu`] is the same, built in, with a
//! kernel.)
use lessen::prelude::*;

const ALPHA: f64 = 0.05;
#[derive(Debug, PartialEq)]
struct HeLU;

impl Op for HeLU {
    fn name(&self) -> &'static str {
        "example.helu"
    }
    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].relu()])
    }
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let passes = cx.inputs[0].gt(cx.inputs[0].scalar_like(-ALPHA));
        vec![cx.cotangents[0].map(|dy| passes.select(dy, dy.scalar_like(0.0)))]
    }
}

fn main() -> Result<()> {
    let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.02), |cx| {
        let off = |name| cx.param(name, &[1], Init::Constant(-0.04));
        let y = cx.trace().apply1(HeLU, &[off("helu")]) + off("relu").relu();
        ((y - 1.0) * (y - 1.0)).sum()
    })?;
    (0..200).try_for_each(|_| trainer.step(&[]).map(drop))?;
    let weights = trainer.weights()?;
    let [helu, relu] = ["helu", "relu"].map(|name| weights[name].data[0]);
    println!("the unit with HeLU came back to {helu:.3}, that with ReLU stays at {relu:.3}");
    Ok(())
}

//! An adversarial training in one trainer: a generator learns to draw numbers of mean 3 from numbers of mean 0.

use lessen::prelude::*;

const ROWS: usize = 64;
const INIT: Init = Init::Normal { std: 0.3 };

fn generator(cx: Cx) -> Tensor {
    let noise = cx.input("noise", DType::F32, &[ROWS, 1]);
    linear(cx, "g.out", linear(cx, "g.in", noise, 16, INIT).gelu(), 1, INIT)
}

/// The mean squared error of the discriminator, which is to answer 1 for real numbers (Mao et al. 2017).
fn error(cx: Cx, numbers: Tensor, answer: f64) -> Tensor {
    let error = linear(cx, "d.out", linear(cx, "d.in", numbers, 16, INIT).gelu(), 1, INIT) - answer;
    (error * error).mean()
}

/// Numbers of mean 0 and deviation 1, or almost: sums of uniform ones.
fn noise(step: usize) -> Vec<f32> {
    let uniform = |i: usize| (i.wrapping_mul(0x9E37_79B9) % 65_536) as f32 / 65_536.0 - 0.5;
    let number = |i: usize| (0..12).map(|k| uniform((step * ROWS + i) * 12 + k + 1)).sum();
    (0..ROWS).map(number).collect()
}

fn main() -> Result<()> {
    let options = TrainerOptions {
        frozen: "d.*".parse()?,
        ..TrainerOptions::new(0.002)
    };
    let mut trainer = Trainer::new(device()?, options, |cx| error(cx, generator(cx), 1.0))?;
    trainer.add_named_step("discriminator", StepOptions::new("d.*".parse()?, 0.002), |cx| {
        let real = cx.input("real", DType::F32, &[ROWS, 1]);
        error(cx, real, 1.0) + error(cx, generator(cx), 0.0)
    })?;
    for step in 0..2000 {
        let (real, noise) = (
            noise(2 * step).iter().map(|x| x + 3.0).collect::<Vec<_>>(),
            noise(2 * step + 1),
        );
        let inputs = [("real", Host::F32(&real)), ("noise", Host::F32(&noise))];
        trainer.step_named("discriminator", &inputs)?;
        trainer.step(&inputs)?;
    }
    let draw = trainer.function(|cx| vec![("mean", generator(cx).mean())])?;
    println!(
        "mean {:.2}",
        trainer
            .run(draw, &[("noise", Host::F32(&noise(9999)))])?
            .scalar("mean")?
    );
    Ok(())
}

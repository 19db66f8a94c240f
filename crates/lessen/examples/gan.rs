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

/// Numbers of mean 0 between -1 and 1, others in each step.
fn noise(step: usize) -> Vec<f32> {
    let number = |i: usize| (((step * ROWS + i) as f64).sin() * 43_758.547).fract() as f32;
    (0..ROWS).map(number).collect()
}

fn main() -> Result<()> {
    let mut options = TrainerOptions::new(0.002);
    options.frozen = "d.*".parse()?;
    let mut trainer = Trainer::new(device()?, options, |cx| error(cx, generator(cx), 1.0))?;
    trainer.add_named_step("discriminator", StepOptions::new("d.*".parse()?, 0.01), |cx| {
        let real = cx.input("real", DType::F32, &[ROWS, 1]);
        error(cx, real, 1.0) + error(cx, generator(cx), 0.0)
    })?;
    for step in 0..2000 {
        let (real, noise) = (noise(2 * step), noise(2 * step + 1));
        let real: Vec<f32> = real.iter().map(|x| x + 3.0).collect();
        let inputs = [("real", Host::F32(&real)), ("noise", Host::F32(&noise))];
        trainer.step_named("discriminator", &inputs)?;
        trainer.step(&inputs)?;
    }
    let draw = trainer.function(|cx| vec![("mean", generator(cx).mean())])?;
    let results = trainer.run(draw, &[("noise", Host::F32(&noise(9999)))])?;
    println!("mean {:.2}", results.scalar("mean")?);
    Ok(())
}

//! A model of one's own, trained and asked: which arm of a spiral is a point on?

use lessen::prelude::*;

const BATCH: usize = 64;

/// Scores of the two arms for points `f32[rows, 2]`.
fn arms(cx: Cx, rows: usize) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("points", DType::F32, &[rows, 2]);
    let x = linear(cx, "first", x, 64, init).gelu();
    let x = layer_norm(cx, "norm", linear(cx, "second", x, 64, init).gelu(), 1e-5);
    linear(cx, "arms", x, 2, Init::Normal { std: 0.1 })
}

/// The mean of `-log p(arm)`.
fn loss(cx: Cx) -> Tensor {
    arms(cx, BATCH).cross_entropy(cx.input("arms", DType::I32, &[BATCH]))
}

/// Point number `i`: the arms take turns, one and a half windings each.
fn point(i: usize) -> ([f32; 2], i32) {
    let (arm, t) = (i % 2, (i * 7919 % 1000) as f32 / 1000.0);
    let angle = 9.4 * t + std::f32::consts::PI * arm as f32;
    ([t * angle.cos(), t * angle.sin()], arm as i32)
}

fn main() -> Result<()> {
    let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.003), loss)?;
    let peak = trainer.peak().planned;
    println!("a step takes {peak} bytes, all of them: parameters, optimizer, activations, gradients");
    for step in 0..1000 {
        let batch: Vec<_> = (step * BATCH..(step + 1) * BATCH).map(point).collect();
        let points: Vec<f32> = batch.iter().flat_map(|(point, _)| *point).collect();
        let labels: Vec<i32> = batch.iter().map(|(_, arm)| *arm).collect();
        let report = trainer.step(&[("points", Host::F32(&points)), ("arms", Host::I32(&labels))])?;
        if report.step % 200 == 0 {
            println!("step {:>4}: loss {:.4}", report.step, report.loss);
        }
    }
    let ask = trainer.function(|cx| vec![("scores", arms(cx, 500))])?;
    let questions: Vec<_> = (100_000..100_500).map(point).collect();
    let points: Vec<f32> = questions.iter().flat_map(|(point, _)| *point).collect();
    let answers = trainer.run(ask, &[("points", Host::F32(&points))])?;
    let scores = answers.f32("scores")?.chunks(2);
    let right = scores
        .zip(&questions)
        .filter(|(score, (_, arm))| (score[1] > score[0]) == (*arm == 1))
        .count();
    println!("{right} of 500 points are on the arm that the model says");
    Ok(())
}

//! Saving, loading and resuming a model of one's own: `cargo run --release --example resume -- FOLDER STEPS` trains
//! until STEPS steps are done, from the checkpoint in the folder if there is one, and leaves a new checkpoint. A run
//! with 50 for STEPS and then one with 100 end with the same bits as a single run with 100.

use lessen::prelude::*;
use std::path::Path;

const ROWS: usize = 32;

/// A guess of `sin(x)` from `x`, `f32[rows, 1]`.
fn guess(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[ROWS, 1]);
    linear(cx, "out", linear(cx, "hidden", x, 32, init).tanh(), 1, init)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, steps) = match &arguments[..] {
        [folder, steps] => (Path::new(folder), steps.parse().unwrap_or(100)),
        _ => return Err(Error::user("name a folder for the checkpoint and a number of steps")),
    };
    let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.01), |cx| {
        let error = guess(cx) - cx.input("y", DType::F32, &[ROWS, 1]);
        (error * error).mean()
    })?;
    if folder.exists() {
        // Parameters, the optimizer's state and the number of steps.
        println!("going on after step {}", trainer.resume_checkpoint(folder)?);
    }
    let mut loss = f32::NAN;
    while trainer.done() < steps {
        // The batch of a step depends on its number alone.
        let first = trainer.done() as f32;
        let x: Vec<f32> = (0..ROWS).map(|i| (first * 0.7 + i as f32) % 6.0 - 3.0).collect();
        let y: Vec<f32> = x.iter().map(|x| x.sin()).collect();
        loss = trainer.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))])?.loss;
    }
    trainer.save_checkpoint(folder)?;
    println!("step {}: loss {loss:e}", trainer.done());

    // The same parameters in a session, which is all that a program needs to ask a model.
    let (session, ask) = Session::open(device()?, folder, |cx| vec![("y", guess(cx))])?;
    let results = session.run(ask, &[("x", Host::F32(&[0.5; ROWS]))])?;
    let answer = results.f32("y")?[0];
    println!("sin(0.5) = {:.3}, and the model says {answer:.3}", 0.5f32.sin());
    Ok(())
}

//! A training loop of one's own on one's own data: handwritten digits. With the files of MNIST in DATA_DIR,
//! `cargo run --release --example mnist -- DATA_DIR OUT_DIR [EPOCHS]` trains, evaluates after each epoch and leaves a
//! checkpoint, from which the same command goes on if it was stopped. `mnist_predict` asks the model.

mod digits;

use digits::{images, scores};
use lessen::data::images::idx;
use lessen::prelude::*;
use std::path::Path;
use std::sync::Arc;

const BATCH: usize = 100;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (data, out, epochs) = match &arguments[..] {
        [data, out] => (Path::new(data), Path::new(out), 2),
        [data, out, epochs] => (Path::new(data), Path::new(out), epochs.parse().unwrap_or(2)),
        _ => {
            return Err(Error::user(
                "name a folder with the data, one to write to, and a number of epochs",
            ));
        }
    };

    // A source makes the batch of any step: in training shuffled anew in each epoch, in evaluation in order.
    let read = |name: &str| -> Result<ArrayBatches> {
        let file = |what: &str| match data.join(format!("{name}-{what}-ubyte")) {
            file if file.exists() => file,
            file => file.with_extension("gz"),
        };
        let fields = vec![
            ("images", images(&file("images-idx3"))?),
            ("labels", labels(&file("labels-idx1"))?),
        ];
        ArrayBatches::new(fields, BATCH, Order::Shuffled(1))
    };
    let (training, test) = (Arc::new(read("train")?), read("t10k")?);
    let steps = training.batches_per_epoch() * epochs;

    let options = TrainerOptions {
        schedule: LrSchedule {
            kind: LrScheduleKind::Cosine,
            peak: 2e-3,
            warmup: 50.min(steps as usize),
            total: steps as usize,
        },
        optimizer: OptimizerConfig::adamw(0.01),
        ..TrainerOptions::new(2e-3)
    };
    let mut trainer = Trainer::new(device()?, options, |cx| {
        scores(cx, BATCH).cross_entropy(cx.input("labels", DType::I32, &[BATCH]))
    })?;
    let ask = trainer.function(|cx| vec![("scores", scores(cx, BATCH))])?;
    println!("a step takes {} bytes in all", trainer.peak().planned);

    let checkpoint = out.join("checkpoint");
    if checkpoint.exists() {
        println!("going on after step {}", trainer.resume_checkpoint(&checkpoint)?);
    }
    // Made on a thread while the step before runs. Batches depend on the step alone, so a run goes on as if never
    // stopped.
    let mut batches = Prefetch::start(training.clone(), trainer.done(), 8)?;
    while trainer.done() < steps {
        let batch = batches.next_batch()?;
        let report = trainer.step(&inputs_of(&batch))?;
        if report.step % training.batches_per_epoch() == 0 {
            let accuracy = evaluate(&mut trainer, ask, &test)?;
            println!(
                "step {}: loss {:.4}, accuracy {:.2} %",
                report.step,
                report.loss,
                100.0 * accuracy
            );
            trainer.save_checkpoint(&checkpoint)?;
        }
    }
    Ok(())
}

/// The labels of a file of the format idx, `i32[labels]`.
fn labels(path: &Path) -> Result<Field> {
    let idx::Idx { shape, bytes } = idx::read(path)?;
    match shape[..] {
        [count] => Ok(Field::i32([count], bytes.iter().map(|&byte| i32::from(byte)).collect())),
        _ => Err(Error::user(format!("{} holds no labels", path.display()))),
    }
}

/// The share of test images whose digit has the greatest score.
fn evaluate(trainer: &mut Trainer, ask: Function, test: &ArrayBatches) -> Result<f64> {
    let (mut predictions, mut right) = (Vec::new(), Vec::new());
    for index in 0..test.eval_batches() {
        let batch = test.eval_batch(index)?;
        let results = trainer.run(ask, &inputs_of(&batch))?;
        let scores = results.f32("scores")?.chunks(10);
        predictions.extend(scores.take(batch.examples).map(|scores| largest(scores) as f64));
        let labels = batch.get("labels").and_then(Field::as_i32).unwrap_or_default();
        right.extend(labels.iter().take(batch.examples).map(|&label| f64::from(label)));
    }
    Ok(Metric::Accuracy.compute(&predictions, &right))
}

/// The position of the greatest score.
fn largest(scores: &[f32]) -> usize {
    (0..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}

//! Fine-tuning a BERT from a Hugging Face folder, without the command:
//! `cargo run --release --example finetune_bert -- BERT_DIR DATA_DIR OUT_DIR`, where the data are files of
//! `title<TAB>label`. What it writes, transformers loads.

use lessen::data::{ExampleBatches, labelled};
use lessen::nn::{Head, initialize_missing};
use lessen::prelude::*;
use std::path::Path;

const BATCH: usize = 16;
const MAX_LENGTH: usize = 32;
const STEPS: usize = 300;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bert, data, out] = &arguments[..] else {
        return Err(Error::user(
            "name three folders: a BERT, RoBERTa, DistilBERT or MPNet from Hugging Face, the data, and one to write to",
        ));
    };
    let (bert, out) = (Path::new(bert), Path::new(out));
    let tokenizer = Tokenizer::from_dir(bert)?;
    let data = labelled::read(Path::new(data), &labelled::Options::default())?;
    let batches = ExampleBatches::new(&data.train, &tokenizer, MAX_LENGTH, BATCH, Order::Shuffled(1))?;

    // The body from the checkpoint, a new head for our classes.
    let mut model = Model::from_dir_with(bert, Head::SequenceClassification)?;
    model.set_labels(data.class_names().unwrap_or_default().to_vec());
    let parameters = model.parameters();
    let mut weights = checkpoint::load(bert, &parameters, &|name| model.is_head(name))?.weights;
    initialize_missing(&mut weights, &parameters, 1);

    let options = TrainerOptions {
        schedule: LrSchedule {
            kind: LrScheduleKind::Linear,
            peak: 3e-5,
            warmup: 30,
            total: STEPS,
        },
        optimizer: OptimizerConfig::adamw(0.01),
        clip_norm: Some(1.0),
        ..TrainerOptions::new(3e-5)
    };
    // Batches come without padding: each has its own number of tokens, and the largest one decides the memory.
    let (size, tokens) = batches.largest_layout(0..STEPS as u64).unwrap_or_default();
    let largest = BatchShape::Packed { size, tokens };
    let mut trainer = Trainer::new(device()?, options, |cx| model.forward(cx, largest).loss)?;
    trainer.set_weights(&weights)?;
    for step in 0..STEPS {
        let batch = batches.batch(step as u64)?;
        let shape = shape_of(&batch);
        if !trainer.has_step(shape) {
            trainer.add_step(shape, |cx| model.forward(cx, shape).loss)?;
        }
        let report = trainer.step_at(shape, &inputs_of(&batch))?;
        println!("step {}: loss {:.4}", report.step, report.loss);
    }
    checkpoint::save(out, &model.config_json(), &trainer.weights()?)?;
    tokenizer.save(out)?;
    Ok(())
}

//! Batching and shuffling with `lessen-data`: `cargo run --release --example batches`.

use lessen::data::{ExampleBatches, Examples, LabelKind};
use lessen::prelude::*;
use std::sync::Arc;

fn main() -> Result<()> {
    // Arrays of one's own: the first axis counts examples.
    let points = Field::f32([6, 2], (0..12).map(|x| x as f32).collect());
    let labels = Field::i32([6], vec![0, 1, 2, 3, 4, 5]);
    let source = ArrayBatches::new(vec![("points", points), ("labels", labels)], 2, Order::Shuffled(7))?;
    let labels_of = |batch: &Batch| batch.get("labels").and_then(Field::as_i32).unwrap_or_default().to_vec();
    for epoch in 0..2 {
        let steps = epoch * source.batches_per_epoch()..(epoch + 1) * source.batches_per_epoch();
        let batches: Vec<Batch> = steps.map(|step| source.batch(step)).collect::<Result<_>>()?;
        let seen: Vec<Vec<i32>> = batches.iter().map(labels_of).collect();
        println!("epoch {epoch}: {seen:?}");
    }

    // A batch is a function of its step, so a loop that was stopped goes on with step 4 and sees what it would have
    // seen.
    let source = Arc::new(source);
    let mut batches = Prefetch::start(source.clone(), 4, 2)?;
    let next = batches.next_batch()?;
    println!("step 4 again: {:?}", labels_of(&next));

    // Texts of different lengths come without padding: one run of tokens, and where each text starts.
    let texts = ["a sunny day", "rain", "snow and ice in the north", "fog"];
    let tokenizer = Tokenizer::characters(texts, 1);
    let examples = texts.map(|text| (text.to_string(), None)).to_vec();
    let kinds = LabelKind::Classes(vec!["fair".to_string(), "foul".to_string()]);
    let examples = Examples::unlabelled(examples, &kinds);
    let source = ExampleBatches::new(&examples, &tokenizer, 64, 4, Order::InOrder)?;
    let batch = source.eval_batch(0)?;
    let starts = batch.get("starts").and_then(Field::as_i32).unwrap_or_default();
    let shape = shape_of(&batch);
    println!(
        "{} texts of {} tokens in {shape:?}, starting at {starts:?}",
        batch.examples, batch.tokens
    );
    Ok(())
}

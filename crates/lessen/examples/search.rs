//! Search by meaning: `cargo run --release --example search -- MODEL FILE QUESTION` prints the three lines of a file
//! whose vectors are nearest to that of a question. MODEL is a folder of sentence-transformers, or of any model of
//! texts.

use lessen::prelude::*;
use lessen::saved::embedding::{EmbedOptions, Embedder};
use std::path::Path;

/// The most lines to print.
const FOUND: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, file, question] = &arguments[..] else {
        return Err(Error::user(
            "name the folder of a model, a file with a text on each line, and a question",
        ));
    };
    let text =
        std::fs::read_to_string(file).map_err(|error| Error::user(format!("{file} cannot be read ({error})")))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    // Vectors of length 1: their products are the cosines of the angles between them.
    let options = EmbedOptions {
        normalize: Some(true),
        ..EmbedOptions::default()
    };
    let embedder = Embedder::open(Path::new(model), &options, &NewBackend::new(device))?;
    let of_lines = embedder.embed(&lines)?.rows;
    let of_question = embedder.embed(&[question])?.rows.remove(0);
    let cosine = |row: &Vec<f32>| row.iter().zip(&of_question).map(|(a, b)| a * b).sum::<f32>();
    let mut found: Vec<(f32, &str)> = of_lines.iter().map(cosine).zip(lines).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (likeness, line) in found.into_iter().take(FOUND) {
        println!("{likeness:.3} {line}");
    }
    Ok(())
}

//! Answers to the test files of GLUE, in files that its server takes.

use super::output::write_file;
use crate::tell;
use lessen_data::GlueTask;
use lessen_data::glue::TestSplit;
use lessen_run::saved_run::{Prediction, Predictor, SavedRun};
use lessen_run::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Answers the test files of a task in `dir`, and writes a file for each of them into the folder `out`.
///
/// # Errors
/// A model of another task, test files that are missing or damaged, a folder that cannot be written to.
pub fn answer(run: &SavedRun<'_>, dir: &Path, out: &Path) -> Result<()> {
    if !dir.is_dir() {
        let shown = dir.display();
        return Err(Error::user(format!(
            "--glue: there is no folder {shown}; check the path"
        )));
    }
    let task = run.glue_task(dir)?;
    let places = run.classes_of(task)?;
    let splits = task.read_tests(dir)?;
    std::fs::create_dir_all(out).map_err(|error| {
        let shown = out.display();
        Error::user(format!(
            "--output: the folder {shown} cannot be made ({error}); choose another"
        ))
    })?;
    let mut predictor = run.predictor()?;
    for (file, split) in splits {
        let path = out.join(file);
        write_file(&path, |out| write_answers(task, &places, &mut predictor, &split, out))?;
        predictor.cut_texts().tell();
        tell(&format!("{} answers in {}", split.texts.len(), path.display()));
    }
    Ok(())
}

fn write_answers(
    task: GlueTask,
    places: &[usize],
    predictor: &mut Predictor<'_>,
    split: &TestSplit,
    out: &mut dyn Write,
) -> Result<()> {
    let mut lines = vec!["index\tprediction\n".to_string()];
    let at_once = predictor.at_once();
    for (texts, numbers) in split.texts.chunks(at_once).zip(split.numbers.chunks(at_once)) {
        for (answer, number) in predictor.ask(texts)?.into_iter().zip(numbers) {
            let word = match answer.prediction {
                // The likeliest of the task's classes; the model may know more.
                Prediction::Class(_, shares) => {
                    let likelier = |best: usize, class: usize| {
                        if shares[places[class]] > shares[places[best]] {
                            class
                        } else {
                            best
                        }
                    };
                    task.answer_of_class((0..places.len()).fold(0, likelier))
                }
                Prediction::Score(score) => task.answer_of_score(score),
                Prediction::Labels(..) => return Err(Error::internal("a task of GLUE has no several labels")),
                Prediction::Sum(sum) => sum,
            };
            lines.push(format!("{number}\t{word}\n"));
        }
    }
    let written = lines.iter().try_for_each(|line| out.write_all(line.as_bytes()));
    super::output::checked(written)
}

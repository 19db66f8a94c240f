//! Answers to the test files of GLUE, in files that its server takes.

use super::output::{checked, write_file};
use crate::tell;
use lessen_base::{Error, Result};
use lessen_data::GlueTask;
use lessen_data::glue::TestSplit;
use lessen_saved::saved_run::{Prediction, Predictor, SavedRun};
use std::path::Path;

/// Answers the test files of a task in `dir`, and writes a file for each of them into the folder `out`, once all are
/// answered. Their places have to pass a check.
///
/// # Errors
/// A model of another task, test files that are missing or damaged, a folder that cannot be written to, those of the
/// check.
pub fn answer(run: &SavedRun, dir: &Path, out: &Path, check: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    if !dir.is_dir() {
        let shown = dir.display();
        return Err(Error::user(format!(
            "--glue: there is no folder {shown}; check the path"
        )));
    }
    let task = run.glue_task(dir)?;
    let places = run.classes_of(task)?;
    let splits = task.read_tests(dir)?;
    splits.iter().try_for_each(|(file, _)| check(&out.join(file)))?;
    std::fs::create_dir_all(out).map_err(|error| {
        let shown = out.display();
        Error::user(format!(
            "--output: the folder {shown} cannot be made ({error}); choose another"
        ))
    })?;
    let predictor = run.predictor()?;
    let mut answered = Vec::new();
    for (file, split) in splits {
        let lines = answers(task, &places, &predictor, (&file, &split))?;
        predictor.cut_texts().tell();
        answered.push((out.join(file), split.texts.len(), lines));
    }
    for (path, count, lines) in answered {
        write_file(&path, |out| checked(out.write_all(lines.as_bytes())))?;
        tell(&format!("{count} answers in {}", path.display()));
    }
    Ok(())
}

/// The lines of the file with the answers to the texts of a split, which is read from a file of this name.
fn answers(
    task: GlueTask,
    places: &[usize],
    predictor: &Predictor,
    (file, split): (&str, &TestSplit),
) -> Result<String> {
    let mut lines = "index\tprediction\n".to_string();
    let at_once = predictor.at_once();
    for (texts, numbers) in split.texts.chunks(at_once).zip(split.numbers.chunks(at_once)) {
        for (answer, number) in predictor.ask(texts)?.into_iter().zip(numbers) {
            let answer = answer.map_err(|error| error.at(format!("the text {number} of {file}")))?;
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
            lines += &format!("{number}\t{word}\n");
        }
    }
    Ok(lines)
}

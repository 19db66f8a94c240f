//! The look at images, sentences with labelled words, plain text and questions.

use std::path::{Path, PathBuf};

use lessen_base::Result;

use super::counts::{ClassCounts, ClassLook};
use super::repeats::SeenRows;
use super::task::Task;
use super::texts::TextCounts;
use super::{Look, LookOptions};
use crate::images::{self, ImageSet};
use crate::squad;
use crate::text::{Text, TextOptions, TextSplit};
use crate::written_sentences::SentenceFile;

/// Characters of a text from which on something is learnt of it.
const FEWEST_CHARACTERS: usize = 500;

/// Looks at images.
pub(super) fn images(path: &Path, options: &LookOptions, look: &mut Look) -> Result<()> {
    let data = images::read(
        path,
        &images::Options {
            dev: options.dev.clone(),
            test: options.test.clone(),
            whole: true,
            ..images::Options::default()
        },
    )?;
    (look.task, look.reason) = (Task::Images, "there are images with classes".to_string());
    look.rows.train = data.train.len();
    look.rows.dev = (!data.is_whole).then_some(data.dev.len());
    look.rows.test = data.test.as_ref().map(ImageSet::len);
    look.image_size = data.size;
    let mut counts = ClassCounts::default();
    let names = &data.names;
    let of = |label: &i32| usize::try_from(*label).ok().and_then(|label| names.get(label));
    data.train
        .labels()
        .iter()
        .for_each(|label| counts.add(of(label).map(String::as_str).into_iter()));
    look.classes = Some(in_order(counts.look(), names));
    look.problems = data.remarks;
    Ok(())
}

/// The counts in the order of the names of classes, those without an example included.
fn in_order(found: ClassLook, names: &[String]) -> ClassLook {
    let count = |name: &String| {
        found
            .counts
            .iter()
            .find(|(own, _)| own == name)
            .map_or(0, |(_, count)| *count)
    };
    ClassLook {
        counts: names.iter().map(|name| (name.clone(), count(name))).collect(),
        ..found
    }
}

/// Looks at sentences with labelled words.
pub(super) fn tagged(path: &Path, options: &LookOptions, look: &mut Look) -> Result<()> {
    (look.task, look.reason) = (Task::Tags, "each word has a label".to_string());
    let file = |split: &str| -> Option<PathBuf> {
        let of = |ending: &str| path.join(format!("{split}.{ending}"));
        ["txt", "conll", "jsonl"]
            .into_iter()
            .map(of)
            .find(|file| file.is_file())
    };
    let train = if path.is_dir() {
        file("train")
    } else {
        Some(path.to_path_buf())
    };
    let (mut seen, mut texts, mut classes) = (SeenRows::default(), TextCounts::default(), ClassCounts::default());
    let train = SentenceFile::Path(train.unwrap_or_else(|| path.join("train.txt")));
    for sentence in train.all()? {
        let sentence = sentence?;
        look.rows.train += 1;
        if sentence.words.is_empty() {
            look.empty += 1;
            continue;
        }
        let text = sentence.words.join(" ");
        seen.add(sentence.line, &text, Some(&sentence.labels.join(" ")));
        texts.add(&text);
        sentence
            .labels
            .iter()
            .for_each(|label| classes.add([&label[..]].into_iter()));
    }
    let leaks = |split: Option<PathBuf>| -> Result<(Option<usize>, Option<usize>)> {
        let Some(split) = split else { return Ok((None, None)) };
        let (mut rows, mut in_train) = (0, 0);
        for sentence in SentenceFile::Path(split).all()? {
            let text = sentence?.words.join(" ");
            rows += 1;
            in_train += usize::from(!text.is_empty() && seen.has(&text));
        }
        Ok((Some(rows), Some(in_train)))
    };
    (look.rows.dev, look.dev_in_train) = leaks(options.dev.clone().or_else(|| file("dev")))?;
    (look.rows.test, look.test_in_train) = leaks(options.test.clone().or_else(|| file("test")))?;
    look.repeats = seen.repeats();
    look.texts = Some(texts.look());
    look.classes = Some(classes.look());
    Ok(())
}

/// Looks at plain text, whose rows are its lines.
pub(super) fn text(path: &Path, options: &LookOptions, look: &mut Look) -> Result<()> {
    (look.task, look.reason) = (Task::TextAlone, "lines have no labels".to_string());
    let text = Text::read(
        path,
        &TextOptions {
            whole: true,
            valid: options.dev.clone(),
            test: options.test.clone(),
            ..TextOptions::default()
        },
    )?;
    let (mut seen, mut texts) = (SeenRows::default(), TextCounts::default());
    let (mut characters, mut tabbed) = (0, 0);
    let mut add = |line: &str| {
        look.rows.train += 1;
        characters += line.chars().count();
        tabbed += usize::from(line.contains('\t'));
        if line.trim().is_empty() {
            look.empty += 1;
        } else {
            seen.add(look.rows.train, line, None);
            texts.add(line);
        }
    };
    let mut rest = String::new();
    for block in text.train.blocks() {
        rest.push_str(&block?);
        let end = rest.rfind('\n').map_or(0, |end| end + 1);
        rest[..end].lines().for_each(&mut add);
        rest.drain(..end);
    }
    if !rest.is_empty() {
        add(&rest);
    }
    if characters < FEWEST_CHARACTERS {
        look.blocking = Some(format!(
            "{} has {characters} characters of text, and at least {FEWEST_CHARACTERS} are needed to learn how it goes \
             on; add more",
            look.path
        ));
    }
    if tabbed * 2 >= look.rows.train.max(1) {
        look.problems.push(format!(
            "{tabbed} of {} lines have a tab; write a tab and a label in each line to learn labels",
            look.rows.train
        ));
    }
    if !text.is_whole {
        look.rows.dev = Some(lines_of(&text.valid)?);
    }
    look.rows.test = text.test.as_ref().map(lines_of).transpose()?;
    look.repeats = seen.repeats();
    look.texts = Some(texts.look());
    Ok(())
}

/// The number of lines of a split.
fn lines_of(split: &TextSplit) -> Result<usize> {
    let (mut lines, mut is_within) = (0, false);
    for block in split.blocks() {
        let block = block?;
        lines += block.matches('\n').count();
        is_within = !block.ends_with('\n');
    }
    Ok(lines + usize::from(is_within))
}

/// Looks at questions about texts.
pub(super) fn questions(path: &Path, options: &LookOptions, look: &mut Look) -> Result<()> {
    (look.task, look.reason) = (Task::Questions, "it has contexts with questions".to_string());
    let data = squad::read(
        path,
        &squad::Options {
            dev: options.dev.clone(),
            test: options.test.clone(),
            whole: true,
            ..squad::Options::default()
        },
    )?;
    let mut texts = TextCounts::default();
    data.train.iter().for_each(|question| texts.add(&question.text));
    look.rows.train = data.train.len();
    look.rows.dev = (!data.is_whole).then_some(data.dev.len());
    look.rows.test = data.test.as_ref().map(|test| test.len());
    look.texts = Some(texts.look());
    look.problems = data.remarks;
    Ok(())
}

//! The classes of the words of sentences.

use super::Predict;
use super::answer_format::AnswerFormat;
use super::input::Input;
use super::output::{self, Format, by_name};
use super::records::Records;
use crate::commands::lines::Lines;
use crate::say;
use lessen_data::tagged::{split_words, words_of};
use lessen_run::saved_run::{SavedRun, Tagger, Tags, WordTag};
use lessen_run::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// Tells the classes of the words that were asked about.
///
/// # Errors
/// Flags that are for other models; errors of reading, asking and writing.
pub fn predict(asked: &Predict, run: &SavedRun<'_>) -> Result<()> {
    if asked.pairs {
        return Err(Error::user(
            "--pairs is for models of two texts, and the model tells classes of words apart; leave it out",
        ));
    }
    match (&asked.what.text, &asked.what.input) {
        (Some(text), _) => one(asked, run, text),
        (_, Some(input)) => many(asked, run, input),
        _ => Err(Error::user(
            "--glue is for classifiers of texts, and the model tells classes of words apart; name a file by --input",
        )),
    }
}

/// Tells the classes of the words of one text.
fn one(asked: &Predict, run: &SavedRun<'_>, text: &str) -> Result<()> {
    let words = split_words(text);
    if words.is_empty() {
        return Err(Error::user("the text is empty; give at least one word with --text"));
    }
    let sentences = [words];
    for tags in run.tagger()?.tag(&sentences)? {
        if asked.json {
            say(&format!(
                "{}\n",
                Value::Object(object(&sentences[0], &tags, run.labels(), false))
            ))?;
            continue;
        }
        let width = sentences[0].iter().map(|word| word.chars().count()).max().unwrap_or(0);
        let mut shown = String::new();
        for (word, tag) in sentences[0].iter().zip(&tags.words) {
            shown += &match tag {
                Some(tag) => {
                    let (label, share) = (&run.labels()[tag.class], tag.probabilities[tag.class]);
                    format!("{word:<width$}  {label} ({:.1} %)\n", 100.0 * share)
                }
                None => format!("{word:<width$}  -\n"),
            };
        }
        for span in &tags.spans {
            let (kind, text) = (&span.entity.kind, sentences[0][span.entity.words.clone()].join(" "));
            shown += &format!("{kind}: {text} ({:.1} %)\n", 100.0 * span.probability);
        }
        say(&shown)?;
    }
    Ok(())
}

/// A sentence with its classes and entities.
fn object(words: &[String], tags: &Tags, labels: &[String], probabilities: bool) -> Map<String, Value> {
    let text = words.join(" ");
    let label = |tag: &Option<WordTag>| tag.as_ref().map(|tag| labels[tag.class].clone());
    let share = |tag: &Option<WordTag>| tag.as_ref().map(|tag| tag.probabilities[tag.class]);
    let all = |tag: &Option<WordTag>| tag.as_ref().map(|tag| by_name(labels, &tag.probabilities));
    let length = |words: &[String]| words.iter().map(|word| word.chars().count() + 1).sum::<usize>();
    let entities: Vec<Value> = tags
        .spans
        .iter()
        .map(|span| {
            let own = span.entity.words.clone();
            let start = length(&words[..own.start]);
            json!({
                "kind": span.entity.kind,
                "text": words[own.clone()].join(" "),
                "words": [own.start, own.end],
                "start": start,
                "end": start + length(&words[own]) - 1,
                "probability": span.probability,
            })
        })
        .collect();
    let mut object = Map::new();
    object.insert("text".into(), json!(text));
    object.insert("words".into(), json!(words));
    object.insert(
        "labels".into(),
        tags.words.iter().map(|tag| json!(label(tag))).collect(),
    );
    object.insert(
        "probabilities".into(),
        tags.words.iter().map(|tag| json!(share(tag))).collect(),
    );
    if probabilities {
        object.insert(
            "all_probabilities".into(),
            tags.words.iter().map(|tag| json!(all(tag))).collect(),
        );
    }
    object.insert("entities".into(), Value::Array(entities));
    object
}

/// Sentences of a file.
enum Sentences {
    /// Words in lines of their own, or in objects.
    Words(Box<dyn Iterator<Item = Result<Vec<String>>>>),
    /// A text on each line or in a column.
    Texts(Input),
}

impl Sentences {
    fn open(path: &Path, run: &SavedRun<'_>) -> Result<Sentences> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_table = match ending.to_ascii_lowercase().as_str() {
            "conll" | "tsv" | "jsonl" | "ndjson" | "json" => true,
            "csv" => false,
            _ if path == Path::new("-") => false,
            _ => Lines::open(path, "--input")?
                .next()?
                .is_some_and(|line| line.contains('\t')),
        };
        Ok(if is_table {
            Sentences::Words(Box::new(words_of(path)?))
        } else {
            Sentences::Texts(Input::open(path, &run.columns(), Some(false))?)
        })
    }

    /// The next sentences, at most `most`; an empty list at the end.
    fn next(&mut self, most: usize) -> Result<Vec<Vec<String>>> {
        match self {
            Sentences::Words(words) => words.by_ref().take(most).collect(),
            Sentences::Texts(input) => {
                let texts = input.next(most)?;
                Ok(texts.iter().map(|(text, _)| split_words(text)).collect())
            }
        }
    }
}

/// Tells the classes of the words of a file.
fn many(asked: &Predict, run: &SavedRun<'_>, path: &Path) -> Result<()> {
    let form = asked.format.or(AnswerFormat::of(asked.output.as_deref()));
    let format = match form {
        Some(AnswerFormat::Conll) => None,
        Some(form) => Some(form.of_rows()?),
        None => Some(Format::of(asked.output.as_deref())),
    };
    let mut sentences = Sentences::open(path, run)?;
    asked.write(|out| {
        let mut tagger = run.tagger()?;
        let name = path.display();
        let mut next = |tagger: &mut Tagger<'_>| -> Result<Vec<(Vec<String>, Tags)>> {
            let words = sentences.next(tagger.at_once())?;
            let tags = tagger.tag(&words).map_err(|error| error.at(&name))?;
            Ok(words.into_iter().zip(tags).collect())
        };
        match format {
            None => columns(&mut tagger, &mut next, run.labels(), out)?,
            Some(format) => rows(&mut tagger, &mut next, (run.labels(), asked.probabilities), format, out)?,
        }
        if let Sentences::Texts(input) = &sentences {
            input.finish();
        }
        Ok(())
    })
}

/// The next sentences with their tags; none at the end.
type Next<'a> = &'a mut dyn FnMut(&mut Tagger<'_>) -> Result<Vec<(Vec<String>, Tags)>>;

/// Writes a word and its class on each line; `-` for a word without a token.
fn columns(tagger: &mut Tagger<'_>, next: Next<'_>, labels: &[String], out: &mut dyn Write) -> Result<()> {
    loop {
        let found = next(tagger)?;
        if found.is_empty() {
            return Ok(());
        }
        for (words, tags) in found {
            let lines = words.iter().zip(&tags.words).map(|(word, tag)| {
                let label = tag.as_ref().map_or("-", |tag| labels[tag.class].as_str());
                format!("{word}\t{label}\n")
            });
            let sentence: String = lines.collect();
            output::checked(writeln!(out, "{sentence}"))?;
        }
    }
}

/// Writes a row for each word, or an object for each sentence.
fn rows(
    tagger: &mut Tagger<'_>,
    next: Next<'_>,
    (labels, probabilities): (&[String], bool),
    format: Format,
    out: &mut dyn Write,
) -> Result<()> {
    let (mut records, mut number) = (Records::new(out, format), 0);
    loop {
        let found = next(tagger)?;
        if found.is_empty() {
            return records.finish();
        }
        for (words, tags) in found {
            number += 1;
            if format == Format::Jsonl {
                records.write(object(&words, &tags, labels, probabilities).into_iter().collect())?;
                continue;
            }
            for (word, tag) in words.iter().zip(&tags.words) {
                let tag = tag.as_ref();
                let mut cells = vec![
                    ("sentence".to_string(), json!(number)),
                    ("word".to_string(), json!(word)),
                    ("label".to_string(), json!(tag.map(|tag| &labels[tag.class]))),
                    (
                        "probability".to_string(),
                        json!(tag.map(|tag| tag.probabilities[tag.class])),
                    ),
                ];
                if probabilities {
                    let share = |class: usize| json!(tag.map(|tag| tag.probabilities[class]));
                    let named = labels.iter().enumerate();
                    cells.extend(named.map(|(class, label)| (format!("probability_{label}"), share(class))));
                }
                records.write(cells)?;
            }
        }
    }
}

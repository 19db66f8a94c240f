//! The classes of the words of sentences.

use super::Predict;
use super::answer_format::AnswerFormat;
use super::input::{Input, InputOptions, LineColumns};
use super::output::{self, Fields, Format, by_name};
use super::records::Records;
use crate::commands::lines::Lines;
use crate::say;
use lessen_base::{Error, Result};
use lessen_data::labelled::Record;
use lessen_data::tagged::{split_words, words_of};
use lessen_saved::saved_run::{SavedRun, Tags, WordTag};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// Tells the classes of the words that were asked about.
///
/// # Errors
/// Flags that are for other models; errors of reading, asking and writing.
pub fn predict(asked: &Predict, run: &SavedRun) -> Result<()> {
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
fn one(asked: &Predict, run: &SavedRun, text: &str) -> Result<()> {
    let words = split_words(text);
    if words.is_empty() {
        return Err(Error::user("the text is empty; give at least one word with --text"));
    }
    let sentences = [words];
    for tags in run.tagger()?.tag(&sentences)? {
        let tags = tags.map_err(|error| error.at("--text"))?;
        if asked.json {
            let fields = fields_of(&sentences[0], &tags, run.labels(), false);
            let object: Map<String, Value> = std::iter::once(text_of(&sentences[0])).chain(fields).collect();
            say(&format!("{}\n", Value::Object(object)))?;
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

/// The fields of a sentence with its classes and entities.
pub fn fields_of(words: &[String], tags: &Tags, labels: &[String], probabilities: bool) -> Fields {
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
    let mut fields = vec![
        ("words", json!(words)),
        ("labels", tags.words.iter().map(|tag| json!(label(tag))).collect()),
        (
            "probabilities",
            tags.words.iter().map(|tag| json!(share(tag))).collect(),
        ),
    ];
    if probabilities {
        let all = tags.words.iter().map(|tag| json!(all(tag))).collect();
        fields.push(("all_probabilities", all));
    }
    fields.push(("entities", Value::Array(entities)));
    fields
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

/// The text of a sentence, as a field before those of [`fields_of`].
fn text_of(words: &[String]) -> (String, Value) {
    ("text".to_string(), json!(words.join(" ")))
}

/// Sentences, and the line of a table that each stands in.
type SentencesOfRows = (Vec<Vec<String>>, Vec<Option<Record>>);

/// The words of each sentence of a table.
type WordsOfSentences = Box<dyn Iterator<Item = Result<Vec<String>>>>;

/// Sentences of a file.
enum Sentences {
    /// Words in lines of their own, or in objects.
    Words(WordsOfSentences),
    /// A text on each line or in a column.
    Texts(Input),
}

impl Sentences {
    fn open(path: &Path, run: &SavedRun) -> Result<Sentences> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_table = match ending.to_ascii_lowercase().as_str() {
            "conll" | "tsv" | "jsonl" | "ndjson" | "json" => true,
            "csv" | "parquet" => false,
            _ if path == Path::new("-") => false,
            _ => Lines::open(path, "--input")?
                .next()?
                .is_some_and(|line| line.contains('\t')),
        };
        Ok(if is_table {
            Sentences::Words(Box::new(words_of(path)?))
        } else {
            let options = InputOptions {
                columns: run.columns(),
                has_pairs: Some(false),
                lines: LineColumns::of_texts(false),
            };
            Sentences::Texts(Input::open(path, options)?)
        })
    }

    /// The next sentences, at most `most`, with the line of a table that each stands in; an empty list at the end.
    fn next(&mut self, most: usize) -> Result<SentencesOfRows> {
        match self {
            Sentences::Words(words) => {
                let words: Vec<Vec<String>> = words.by_ref().take(most).collect::<Result<_>>()?;
                let records = vec![None; words.len()];
                Ok((words, records))
            }
            Sentences::Texts(input) => {
                let found = input.next(most)?;
                let words = found.texts.iter().map(|(text, _)| split_words(text)).collect();
                // A plain line is answered with the words that were found in it.
                let record = |record| input.is_table().then_some(record);
                Ok((words, found.records.into_iter().map(record).collect()))
            }
        }
    }
}

/// Tells the classes of the words of a file.
fn many(asked: &Predict, run: &SavedRun, path: &Path) -> Result<()> {
    let format = match asked.answer_format()? {
        Some(AnswerFormat::Conll) => None,
        Some(named) => Some(named.of_rows()?),
        None => Some(Format::Csv),
    };
    let mut sentences = Sentences::open(path, run)?;
    asked.write(|out| {
        let tagger = run.tagger()?;
        let (name, mut count) = (path.display(), 0);
        let mut next = || -> Result<Vec<Tagged>> {
            let (words, records) = sentences.next(tagger.at_once())?;
            let tags = tagger.tag(&words).map_err(|error| error.at(&name))?;
            let all = words.into_iter().zip(records).zip(tags);
            all.map(|((words, record), tags)| {
                count += 1;
                let tags = tags.map_err(|error| error.at(format!("{name}: sentence {count}")))?;
                Ok(Tagged { words, record, tags })
            })
            .collect()
        };
        match format {
            None => columns(&mut next, run.labels(), out)?,
            Some(format) => rows(&mut next, (run.labels(), asked.probabilities), format, out)?,
        }
        if let Sentences::Texts(input) = &sentences {
            input.finish();
        }
        Ok(())
    })
}

/// A sentence with its tags.
struct Tagged {
    words: Vec<String>,
    /// The line of a table that it stands in.
    record: Option<Record>,
    tags: Tags,
}

/// The next sentences with their tags; none at the end.
type Next<'a> = &'a mut dyn FnMut() -> Result<Vec<Tagged>>;

/// Writes a word and its class on each line; `-` for a word without a token.
fn columns(next: Next<'_>, labels: &[String], out: &mut dyn Write) -> Result<()> {
    loop {
        let found = next()?;
        if found.is_empty() {
            return Ok(());
        }
        for Tagged { words, tags, .. } in found {
            let lines = words.iter().zip(&tags.words).map(|(word, tag)| {
                let label = tag.as_ref().map_or("-", |tag| labels[tag.class].as_str());
                format!("{word}\t{label}\n")
            });
            let sentence: String = lines.collect();
            output::checked(writeln!(out, "{sentence}"))?;
        }
    }
}

/// Writes a row for each word, or an object for each sentence, which keeps the other columns of its table.
fn rows(next: Next<'_>, (labels, probabilities): (&[String], bool), format: Format, out: &mut dyn Write) -> Result<()> {
    let (mut records, mut number) = (Records::new(out, format), 0);
    loop {
        let found = next()?;
        if found.is_empty() {
            return records.flush();
        }
        for Tagged { words, record, tags } in found {
            number += 1;
            if format == Format::Jsonl {
                let fields = fields_of(&words, &tags, labels, probabilities);
                match record {
                    Some(record) => records.write(Some(&record), fields)?,
                    None => records.write(None, std::iter::once(text_of(&words)).chain(fields).collect())?,
                }
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
                records.write(None, cells)?;
            }
        }
    }
}

//! What is odd about data, in a sentence with what to do.

use std::collections::BTreeMap;

use super::role::Role;
use super::task::Task;
use super::{Look, Repeats};
use crate::files::quoted;
use crate::labels::Problem;

/// Fewest examples that something is learnt of.
const FEWEST: usize = 4;

/// Examples from which on a label for each of them is a mistake.
const MANY: usize = 20;

/// The greatest number that is learnt: squares of 32 bits have room for many times its own.
const GREATEST: f64 = 1e15;

/// Examples below which a score on some of them tells little.
const FEW: usize = 30;

/// Adds what is odd; what makes training impossible comes first.
pub(super) fn find(look: &mut Look) {
    look.blocking = look.blocking.take().or_else(|| blocking(look));
    let mut problems: Vec<String> = look.blocking.iter().cloned().collect();
    problems.append(&mut look.problems);
    problems.extend([empty(look), unlabelled(look), conflicts(look)].into_iter().flatten());
    problems.extend(leaks(look));
    problems.extend(few(look));
    problems.extend(rare(look));
    problems.extend(case(look));
    look.problems = problems;
}

/// What makes training impossible.
fn blocking(look: &Look) -> Option<String> {
    let path = &look.path;
    let Repeats { different, .. } = look.repeats;
    let rows = look.rows.train;
    // Folders and lines with a tab have no columns to name.
    let with_columns = |remedy: &'static str| if look.columns.is_empty() { "" } else { remedy };
    let is_of_rows = !matches!(look.task, Task::TextAlone | Task::Images | Task::Questions);
    let labelled = rows - look.unlabelled;
    if labelled > 0 && labelled < FEWEST && look.unlabelled > 0 {
        return Some(format!(
            "{path} has {labelled} of {rows} examples with a label, and at least {FEWEST} are needed; label some more"
        ));
    }
    if rows < FEWEST && look.task != Task::TextAlone {
        let are = if rows == 1 { "example" } else { "examples" };
        return Some(format!(
            "{path} has {rows} {are}, and at least {FEWEST} are needed; add some"
        ));
    }
    if matches!(look.task, Task::Table(_)) {
        if look.column(Role::Label).is_none() {
            return Some(format!(
                "{path} has neither a column of texts nor one to be learnt; name them with data.text and data.label"
            ));
        }
        let is_input = |role: Role| matches!(role, Role::Number | Role::Category | Role::Time | Role::Group);
        if !look.columns.iter().any(|column| is_input(column.role)) {
            return Some(format!(
                "{path} has no column to learn from beside the label; add columns of numbers, categories or texts"
            ));
        }
    }
    if is_of_rows && look.empty == rows {
        return Some(format!(
            "every text of {path} is empty; fill them{}",
            with_columns(", or name another column with data.text")
        ));
    }
    if is_of_rows && different == 1 {
        return Some(format!(
            "all examples of {path} are the same, and there is nothing to learn from; add different ones{}",
            with_columns(", or name another column with data.text")
        ));
    }
    if look.task == Task::TextAlone && !look.columns.is_empty() {
        return Some(format!(
            "{path} has no column that could be a label; name it with data.label, or add one of classes or numbers"
        ));
    }
    if matches!(look.task, Task::Number | Task::Table(Problem::Regression)) {
        let numbers = look.numbers.as_ref();
        return match numbers {
            None => Some(format!(
                "{path} has no number to be learnt; name the column with data.label"
            )),
            Some(found) if found.min == found.max => Some(format!(
                "{path} has the number {} in all rows, and there is nothing to tell apart; name another column with \
                 data.label",
                found.min as f32
            )),
            Some(found) if found.max.max(-found.min) > GREATEST => Some(format!(
                "{path} has the number {:e} to be learnt, whose square is beyond what models compute with; write numbers \
                 in a larger unit",
                found.max.max(-found.min) as f32
            )),
            Some(_) => None,
        };
    }
    let classes = look.classes.as_ref()?;
    let named: Vec<&str> = classes
        .counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, _)| &name[..])
        .collect();
    let fewest = if look.task == Task::SeveralLabels { 1 } else { 2 };
    match &named[..] {
        [] => Some(format!(
            "{path} has no example with a label; give each one{}",
            with_columns(", or name the column of labels with data.label")
        )),
        [name] if fewest == 2 => Some(format!(
            "{path} has only the class {}, and there is nothing to tell apart; add examples of another class{}",
            quoted(name),
            with_columns(", or name another column with data.label")
        )),
        names if names.len() > MANY && names.len() as u64 >= classes.rows && look.task != Task::Tags => Some(format!(
            "{path} has {} examples and as many different labels, which cannot be classes; {}",
            classes.rows,
            if look.columns.is_empty() {
                "write the text before the tab and its class after it"
            } else {
                "name the column of the class with data.label, or learn numbers with data.problem = \"regression\""
            }
        )),
        _ if look.task == Task::Tags && look.rows.dev.is_none() => Some(format!(
            "{path} has no sentences to validate on; name a folder with train.txt and dev.txt, or such .conll or .jsonl \
             files"
        )),
        _ => None,
    }
}

fn empty(look: &Look) -> Option<String> {
    let first = look.empty_lines.first()?;
    let (is_table, is_one) = (matches!(look.task, Task::Table(_)), look.empty == 1);
    if is_table && look.blocking.is_some() {
        return None;
    }
    let what = if is_table { "value to learn from" } else { "text" };
    let have = if is_one { "row has" } else { "rows have" };
    Some(format!(
        "{} {have} no {what}, such as line {first}; fill or remove them",
        look.empty
    ))
}

/// Classes that differ in upper and lower case alone.
fn case(look: &Look) -> Option<String> {
    let classes = look.classes.as_ref()?;
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut alike = classes.counts.iter().filter_map(|(name, _)| {
        // Single letters are classes of their own.
        name.chars().nth(1)?;
        seen.insert(name.to_lowercase(), name).map(|other| (other, name))
    });
    let (one, other) = alike.next()?;
    Some(format!(
        "the classes {} and {} differ in upper and lower case only; write them alike if they are one",
        quoted(one),
        quoted(other)
    ))
}

fn unlabelled(look: &Look) -> Option<String> {
    let are = if look.unlabelled == 1 {
        "row has no label and is"
    } else {
        "rows have no label and are"
    };
    let first = look.unlabelled_lines.first()?;
    Some(format!(
        "{} {are} left out, such as line {first}; give labels to learn from them",
        look.unlabelled
    ))
}

fn conflicts(look: &Look) -> Option<String> {
    let [first, other] = look.repeats.conflict_lines.first()?;
    let (count, is_table) = (look.repeats.conflicts, matches!(look.task, Task::Table(_)));
    let are = match (count, is_table) {
        (1, false) => "text has",
        (_, false) => "texts have",
        (1, true) => "row has",
        (_, true) => "rows have",
    };
    Some(format!(
        "{count} {are} different labels in several places, such as lines {first} and {other}; correct the wrong ones"
    ))
}

fn leaks(look: &Look) -> Vec<String> {
    let of = |split: &str, rows: Option<usize>, in_train: Option<usize>| {
        let (rows, in_train) = (rows?, in_train.filter(|count| *count > 0)?);
        Some(format!(
            "{in_train} of {rows} examples of {split} are in the training split, too, so that its score is too good; \
             take them out of one of the two"
        ))
    };
    let dev = of("dev", look.rows.dev, look.dev_in_train);
    dev.into_iter()
        .chain(of("test", look.rows.test, look.test_in_train))
        .collect()
}

fn few(look: &Look) -> Option<String> {
    let rows = look.rows.train - look.unlabelled;
    let is_few = rows < FEW && look.blocking.is_none() && look.task != Task::TextAlone && look.rows.dev.is_none();
    is_few.then(|| format!("{rows} examples are few to learn from, and those held out of them tell little; add some"))
}

fn rare(look: &Look) -> Option<String> {
    let classes = look.classes.as_ref().filter(|_| look.task != Task::Tags)?;
    if classes.rare == 0 || look.blocking.is_some() {
        return None;
    }
    let have = if classes.rare == 1 { "has" } else { "have" };
    let single = match classes.single {
        0 => String::new(),
        single => format!(" ({single} only one)"),
    };
    Some(format!(
        "{} of {} classes {have} fewer than 5 examples{single} and can hardly be learnt; add examples, or join classes",
        classes.rare,
        classes.counts.len(),
    ))
}

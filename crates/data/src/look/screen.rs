//! A look on one screen.

use super::{Lengths, Look, Role};

/// Lines and columns of a screen.
const LINES: usize = 24;
const COLUMNS: usize = 100;

/// Columns of the file that have a line each; of others the number is shown.
const SHOWN_COLUMNS: usize = 7;

/// Classes that are shown.
const SHOWN_CLASSES: usize = 6;

/// The look in lines.
pub(super) fn text(look: &Look) -> String {
    let mut lines = vec![entry("data", &format!("{}: {}", look.path, look.layout.words()))];
    lines.extend(columns(look));
    let pairs = if look.has_pairs { ", in pairs" } else { "" };
    lines.push(entry("task", &format!("{}{pairs}: {}", look.task.words(), look.reason)));
    lines.push(entry("rows", &rows(look)));
    lines.extend(labels(look).map(|labels| entry("labels", &labels)));
    if let Some(found) = &look.texts {
        let scripts = found.scripts.iter().take(4);
        let scripts: Vec<String> = scripts
            .map(|(name, share)| format!("{name} {}", percent(*share)))
            .collect();
        let words = if found.has_spaces {
            "words between spaces"
        } else {
            "words without spaces between"
        };
        let letters = if scripts.is_empty() {
            "none".to_string()
        } else {
            scripts.join(", ")
        };
        lines.push(entry("letters", &format!("{letters}; {words}")));
        lines.push(entry("characters", &lengths(&found.characters)));
        if found.has_spaces {
            lines.push(entry("words", &lengths(&found.words)));
        }
    }
    if let Some([height, width]) = look.image_size {
        lines.push(entry("size", &format!("{height} x {width} pixels")));
    }
    if let Some([first, other]) = look.repeats.duplicate_lines.first() {
        let count = grouped(look.repeats.duplicates as usize);
        let are = if look.repeats.duplicates == 1 {
            "row repeats an earlier one"
        } else {
            "rows repeat earlier ones"
        };
        lines.push(entry(
            "duplicates",
            &format!("{count} {are}, such as line {other} that of line {first}"),
        ));
    }
    let problems: Vec<Vec<String>> = look
        .problems
        .iter()
        .map(|problem| wrapped(&format!("! {problem}"), "  "))
        .collect();
    for (number, problem) in problems.iter().enumerate() {
        // A line is kept for what does not fit.
        let needed = problem.len() + usize::from(number + 1 < problems.len());
        if lines.len() + needed > LINES {
            lines.push(format!("! and {} more that do not fit here", problems.len() - number));
            break;
        }
        lines.extend(problem.iter().cloned());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A line of a name and what it is, cut where it is too long.
fn entry(name: &str, what: &str) -> String {
    cut(&format!("{name:<11} {what}"))
}

fn cut(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.chars().count() > COLUMNS {
        true => line.chars().take(COLUMNS - 3).chain("...".chars()).collect(),
        false => line,
    }
}

/// A sentence in lines, of which those after the first begin with an indent.
fn wrapped(sentence: &str, indent: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in sentence.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(cut(&std::mem::replace(&mut line, format!("{indent}{word}"))));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.push(cut(&line));
    lines
}

/// The columns, those that something is learnt from first.
fn columns(look: &Look) -> Vec<String> {
    let is_used = |role: Role| {
        matches!(
            role,
            Role::Text | Role::TextPair | Role::Label | Role::Group | Role::Time
        )
    };
    let mut columns: Vec<_> = look.columns.iter().collect();
    columns.sort_by_key(|column| !is_used(column.role));
    let room = if columns.len() > SHOWN_COLUMNS {
        SHOWN_COLUMNS - 1
    } else {
        SHOWN_COLUMNS
    };
    let shown = columns.iter().take(room);
    let line =
        |column: &&&super::ColumnLook| entry(column.role.word(), &format!("'{}' ({})", column.name, column.reason));
    let mut lines: Vec<String> = shown.map(|column| line(&column)).collect();
    if let Some(rest) = columns.get(room..).filter(|rest| !rest.is_empty()) {
        let count = |role: Role| rest.iter().filter(|column| column.role == role).count();
        let each = [
            Role::Label,
            Role::Number,
            Role::Category,
            Role::Time,
            Role::Group,
            Role::Id,
            Role::Ignored,
        ];
        let counts = each
            .into_iter()
            .map(|role| (role.word(), count(role)))
            .filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
        lines.push(entry("columns", &format!("{} more: {}", rest.len(), counts.join(", "))));
    }
    lines
}

fn rows(look: &Look) -> String {
    let mut words = vec![match look.rows.dev.or(look.rows.test) {
        Some(_) => format!("train {}", grouped(look.rows.train)),
        None => grouped(look.rows.train),
    }];
    words.extend(look.rows.dev.map(|rows| format!("dev {}", grouped(rows))));
    words.extend(look.rows.test.map(|rows| format!("test {}", grouped(rows))));
    words.join(", ")
}

fn labels(look: &Look) -> Option<String> {
    if let Some(found) = &look.numbers {
        return Some(format!(
            "from {} to {}, median {}, mean {}, deviation {}",
            number(found.min),
            number(found.max),
            number(found.median),
            number(found.mean),
            number(found.std)
        ));
    }
    let classes = look.classes.as_ref()?;
    let mut counts: Vec<&(String, u64)> = classes.counts.iter().collect();
    // Classes of equal size stay in order.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = counts.iter().take(SHOWN_CLASSES);
    let shown: Vec<String> = shown
        .map(|(name, count)| format!("{name} {}", percent(*count as f64 / classes.rows.max(1) as f64)))
        .collect();
    let more = if counts.len() > shown.len() { ", ..." } else { "" };
    Some(format!("{}: {}{more}", grouped(counts.len()), shown.join(", ")))
}

fn lengths(found: &Lengths) -> String {
    format!(
        "{} to {}, median {}, 95 % at most {}, 99 % at most {}",
        grouped(found.min),
        grouped(found.max),
        grouped(found.median),
        grouped(found.p95),
        grouped(found.p99)
    )
}

/// A number as it was read in 32 bits, rounded where it is long.
fn number(number: f64) -> String {
    let (short, size) = (format!("{}", number as f32), number.abs());
    match short.len() > 9 {
        true if !(1e-3..1e9).contains(&size) => format!("{number:.4e}"),
        true => format!("{number:.4}"),
        false => short,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.04f32, 5.0, 1e30, 1.0 / 3.0, 123_456_790.0].map(|value| number(f64::from(value)));
        assert_eq!(shown, ["0.04", "5", "1.0000e30", "0.3333", "123456790"]);
    }

    #[test]
    fn numbers_are_grouped_and_sentences_wrapped() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        let lines = wrapped(&"word ".repeat(50), "  ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= COLUMNS));
        assert!(lines[1].starts_with("  word"));
        assert_eq!(cut(&"x".repeat(200)).len(), COLUMNS);
    }
}

//! The commands and keys that README.md, CONTRIBUTING.md and docs/ name: each command is parsed as a shell would hand
//! it over, and its assignments are read as recipes' are. With `LESSEN_LONG=1` those that need no files are run, too.
//!
//! A block marked ```` ```sh files ```` has commands that need files of the reader. So has a command with a word in
//! capitals, such as FILE or RUN; RECIPE stands for any recipe.

use crate::command::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use lessen_jobs::SCHEMA;
use lessen_task::recipe::BUILT_IN;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of pages, beside the project's own folder.
const FOLDERS: [&str; 4] = ["docs", "docs/library", "docs/reference", "docs/results"];

/// Last parts of names of files, which are written as keys are: `data.md`.
const ENDINGS: [&str; 11] = [
    "md",
    "onnx",
    "safetensors",
    "json",
    "jsonl",
    "toml",
    "txt",
    "csv",
    "tsv",
    "png",
    "npz",
];

/// What stands after the backticks of a block of commands.
const BLOCKS: [&str; 4] = ["sh", "sh files", "", "markdown"];

/// A command, as a page has it.
struct Documented {
    /// The page, and the line in it.
    place: String,
    words: Vec<String>,
    /// Whether it stands in a sentence, where what is required may be left out.
    partial: bool,
    needs_files: bool,
}

/// The pages: their names and texts.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = ["README.md", "CONTRIBUTING.md"].map(PathBuf::from).to_vec();
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        paths.extend(entries.map(|name| Path::new(folder).join(name)));
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.sort();
    let read = |path: &PathBuf| (path.display().to_string(), fs::read_to_string(root.join(path)).unwrap());
    paths.iter().map(read).collect()
}

/// A block of code, or the prose up to the next one.
#[derive(Default)]
struct Part {
    /// The line of the page that it begins in, from 0.
    line: usize,
    /// The backticks that begin a block and what stands after them; none of prose.
    fence: Option<(String, String)>,
    text: String,
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    for (number, line) in page.lines().enumerate() {
        let name = line.trim_start_matches('`');
        let ticks = &line[..line.len() - name.len()];
        let last = parts.last_mut().unwrap();
        match &last.fence {
            Some((open, _)) if ticks == open => parts.push(Part {
                line: number + 1,
                ..Part::default()
            }),
            None if ticks.len() >= 3 => parts.push(Part {
                line: number + 1,
                fence: Some((ticks.to_string(), name.to_string())),
                text: String::new(),
            }),
            _ => last.text += &format!("{line}\n"),
        }
    }
    parts
}

/// The pieces of code in prose, each on one line, with the lines that they begin in. A piece ends within its paragraph.
fn pieces(prose: &Part) -> Vec<(usize, String)> {
    let (mut line, mut found) = (prose.line, Vec::new());
    for paragraph in prose.text.split("\n\n") {
        for (number, piece) in paragraph.split('`').enumerate() {
            if number % 2 == 1 {
                found.push((line + 1, piece.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            line += piece.matches('\n').count();
        }
        line += 2;
    }
    found
}

/// The words of the command of Lessen in a line, from its name on, up to the end of a substitution or a pipe.
fn words_of(line: &str) -> Option<Vec<String>> {
    let run = line
        .strip_prefix("cargo run --release -- ")
        .map(|rest| format!("lessen {rest}"));
    let line = match &run {
        Some(line) => line,
        None => line_of(line)?,
    };
    let mut words = Vec::new();
    for word in shlex::split(line)? {
        if word == "|" {
            break;
        }
        words.push(word.trim_end_matches(')').to_string());
        if word.ends_with(')') {
            break;
        }
    }
    words.retain(|word| !word.starts_with('$'));
    Some(words)
}

/// The part of a line that begins with the name of the command.
fn line_of(line: &str) -> Option<&str> {
    let within = line.split_once("<(").map(|(_, rest)| rest);
    [Some(line), within]
        .into_iter()
        .flatten()
        .find(|line| line.starts_with("lessen "))
}

fn has_capitals(words: &[String]) -> bool {
    let is_one = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let mut parts = words
        .iter()
        .flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    parts.any(is_one)
}

/// All commands of the pages.
fn commands() -> Vec<Documented> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for part in parts(&text) {
            let lines = match &part.fence {
                None => pieces(&part),
                Some((_, name)) if !BLOCKS.contains(&name.as_str()) => continue,
                Some(_) => {
                    let lines = part.text.replace("\\\n", " ");
                    lines
                        .lines()
                        .map(str::to_string)
                        .map(|line| (part.line + 1, line))
                        .collect()
                }
            };
            let is_marked = part.fence.as_ref().is_some_and(|(_, name)| name != BLOCKS[0]);
            for (line, text) in lines {
                let text = text.replace("RECIPE", "adder");
                let Some(mut words) = words_of(&text) else { continue };
                words.retain(|word| part.fence.is_some() || word != "…");
                found.push(Documented {
                    place: format!("{page}, from line {line}: {text}"),
                    partial: part.fence.is_none(),
                    needs_files: is_marked || page.starts_with("docs/results") || has_capitals(&words),
                    words,
                });
            }
        }
    }
    found
}

/// Reads `KEY=VALUE` as `--set` does. A value in capitals stands for any.
fn assign(assignment: &str) -> Result<(), String> {
    let (key, value) = assignment.split_once('=').unwrap_or((assignment, "N"));
    let (key, value) = (key.trim(), value.trim());
    if assignment.starts_with("evaluation.") {
        return Ok(());
    }
    let key = match key.strip_prefix("phase.") {
        Some(of_phase) => of_phase.split_once('.').map_or(of_phase, |(_, key)| key),
        None => key,
    };
    if !SCHEMA.keys().any(|own| own.name == key) {
        return Err(format!("there is no key {key}"));
    }
    if has_capitals(&[format!("{value}{value}")]) {
        return Ok(());
    }
    let mut settings = SCHEMA.parse("", "no file").map_err(|error| error.to_string())?;
    settings
        .set_flag(&format!("{key}={value}"))
        .map_err(|error| error.to_string())
}

impl Documented {
    /// What is wrong with it.
    fn check(&self) -> Result<(), String> {
        if self.partial && self.words.get(1..2).is_none_or(has_capitals) {
            return Ok(());
        }
        let matches = match Cli::command().try_get_matches_from(&self.words) {
            Ok(matches) => matches,
            Err(error) => {
                let is_missing = match error.kind() {
                    ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
                    ErrorKind::InvalidValue => {
                        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(given)) if given.is_empty())
                    }
                    _ => false,
                };
                let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                return if is_answer || self.partial && is_missing {
                    Ok(())
                } else {
                    Err(error.to_string())
                };
            }
        };
        let Some((_, own)) = matches.subcommand() else {
            return Ok(());
        };
        let sets = own.try_get_many::<String>("set").ok().flatten();
        sets.into_iter()
            .flatten()
            .try_for_each(|assignment| assign(assignment))?;
        match own.try_get_one::<String>("recipe").ok().flatten() {
            Some(name) if !BUILT_IN.iter().any(|one| one.name == name) && !name.ends_with(".toml") => {
                Err(format!("there is no recipe {name}"))
            }
            _ => Ok(()),
        }
    }

    /// Runs it.
    fn run(&self) -> Result<(), String> {
        let cli = Cli::try_parse_from(&self.words).map_err(|error| error.to_string())?;
        match cli.command.run(Cli::command()) {
            Ok(0) => Ok(()),
            Ok(code) => Err(format!("it ended with {code}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[test]
fn every_command_of_the_pages_is_one() {
    let commands = commands();
    assert!(commands.len() > 100, "{}", commands.len());
    let wrong = commands
        .iter()
        .filter_map(|one| Some(format!("{}\n{}", one.place, one.check().err()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_key_of_the_pages_is_one() {
    let is_section = |name: &str| {
        SCHEMA
            .keys()
            .any(|key| key.name.split_once('.').is_some_and(|(own, _)| own == name))
    };
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for part in parts(&text) {
            // In blocks, keys of commands are read with these.
            let flags = |line: &&str| line.starts_with("--set ");
            let found = match &part.fence {
                None => pieces(&part),
                Some(_) => part
                    .text
                    .lines()
                    .filter(flags)
                    .map(|line| (part.line + 1, line.to_string()))
                    .collect(),
            };
            for (line, piece) in found {
                let piece = piece.trim_start_matches("--set ");
                let name = piece.split_once('=').map_or(piece, |(name, _)| name).trim();
                let Some((section, rest)) = name.split_once('.') else {
                    continue;
                };
                let is_word = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                if !is_section(section) || !is_word || ENDINGS.contains(&rest) {
                    continue;
                }
                count += 1;
                wrong.extend(
                    assign(piece)
                        .err()
                        .map(|error| format!("{page}, from line {line}: `{piece}`: {error}")),
                );
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_command_is_found() {
    let of = |line: &str| {
        let documented = |words| Documented {
            place: String::new(),
            words,
            partial: false,
            needs_files: true,
        };
        words_of(line).map(documented).unwrap().check()
    };
    assert_eq!(of("lessen train adder --set train.lr=0.1  # a remark's end"), Ok(()));
    assert_eq!(of("source <(lessen completions bash)   # it is"), Ok(()));
    for wrong in [
        "lessen tain",
        "lessen train --flag",
        "lessen train adderr",
        "lessen train --set train.rate=1",
        "lessen train --set train.steps=few",
        "lessen train --set model.kind=gpt5",
        "lessen train --cost guessed",
        "lessen predict",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn commands_of_the_pages_that_need_no_files_run() {
    // The others are many more than this one test has time for, where time is short.
    if lessen_base::cases(10) < 10 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    for command in commands().iter().filter(|one| !one.partial && !one.needs_files) {
        println!("{}", command.place);
        command
            .run()
            .unwrap_or_else(|error| panic!("{}: {error}", command.place));
    }
}

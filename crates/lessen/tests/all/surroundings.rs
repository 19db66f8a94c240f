//! Crates below the command neither print nor read the terminal or the environment, install no handler of signals and
//! do not end the process, but for the places that `docs/design.md` lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What reaches out of a library.
const REACHES: [&str; 12] = [
    "print!(",
    "println!(",
    "dbg!(",
    "stderr()",
    "stdout()",
    "stdin()",
    "process::exit",
    "process::abort",
    "env::var",
    "IsTerminal",
    "ctrlc",
    "signal::",
];

/// The heading of the list.
const HEADING: &str = "## What the library reads and does by itself";

#[test]
fn only_the_command_prints_and_listens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let mut found = BTreeSet::new();
    for crate_folder in fs::read_dir(root.join("crates")).unwrap() {
        let crate_folder = crate_folder.unwrap().path();
        if !crate_folder.ends_with("lessen") {
            visit(&crate_folder.join("src"), &mut |path| {
                if reaches_out(&fs::read_to_string(path).unwrap()) {
                    let name = path.strip_prefix(root.join("crates")).unwrap();
                    found.insert(name.to_string_lossy().replace('\\', "/"));
                }
            });
        }
    }
    let page = fs::read_to_string(root.join("docs/design.md")).unwrap();
    let (_, list) = page.split_once(HEADING).unwrap();
    let rows = list.split("\n## ").next().unwrap().lines();
    let listed: BTreeSet<String> = rows
        .filter_map(|row| Some(row.strip_prefix("| `")?.split_once('`')?.0.to_string()))
        .collect();
    assert_eq!(
        found, listed,
        "files that reach out, and those that docs/design.md lists"
    );
}

/// Whether the code of a file, without its comments and tests, reaches out.
fn reaches_out(source: &str) -> bool {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.any(|line| REACHES.iter().any(|word| line.contains(word)))
}

fn visit(folder: &Path, each: &mut dyn FnMut(&PathBuf)) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, each);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            each(&path);
        }
    }
}

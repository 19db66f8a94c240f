//! The table of keys in `docs/reference/condensation.md` is generated from the recipes' keys; `LESSEN_BLESS=1` writes
//! it anew.

use lessen_jobs::SCHEMA;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The heading before the table, and the end of the text between both.
const HEADING: &str = "\n## Keys\n";
const BEFORE: &str = "writes them\nanew.\n";

fn table() -> String {
    let mut text = String::from("\n| key | value | meaning |\n|---|---|---|\n");
    for key in SCHEMA.keys().filter(|key| key.name.starts_with("condense.")) {
        let (expected, meaning) = (key.kind.expected(), key.meaning);
        writeln!(text, "| `{}` | {expected} | {meaning} |", key.name).unwrap();
    }
    text
}

#[test]
fn the_page_of_condensation_has_the_keys_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/condensation.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(HEADING).unwrap();
    let (told, rest) = rest.split_once(BEFORE).unwrap();
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let expected = format!("{before}{HEADING}{told}{BEFORE}{}{after}", table());
    if std::env::var_os("LESSEN_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "docs/reference/condensation.md differs; LESSEN_BLESS=1 writes it anew"
    );
}

//! The page of `lessen plan --html`: what is on it, that it needs nothing else, that it is well-formed.

use crate::phases::{GROWING, write};
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Elements without an end.
const VOID: [&str; 5] = ["meta", "link", "br", "img", "input"];

/// The name of a recipe's file that must not become an element.
const ODD: &str = "<i>wide & \"odd\"";

/// Checks that elements end in the order in which they begin, and that all attributes are quoted.
fn check_form(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>").expect("a doctype");
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        assert!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()),
            "<{tag}>"
        );
        assert!(tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        rest = after;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "<{tag}>");
        } else if ["script", "style"].contains(&name) {
            rest = rest.split_once(&format!("</{name}>")).expect("it ends").1;
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// The page of a plan, which is checked for its form and that it asks nothing of a network.
fn page_of(dir: &Path, args: &[&str]) -> String {
    succeed(dir, &[&["plan"], args, &["--html", "page.html"]].concat());
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url(", "{{"] {
        assert_eq!(page.matches(outside).count(), 0, "{outside}");
    }
    check_form(&page);
    page
}

/// What scripts are told of the plot of this name.
fn told(page: &str, id: &str) -> Value {
    let figure = page.split_once(&format!("<figure id=\"{id}\"")).unwrap().1;
    let script = figure.split_once("<script type=\"application/json\">").unwrap().1;
    serde_json::from_str(script.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_shows_memory_values_choices_and_curves() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let recipe = format!("{ODD}.toml");
    fs::write(dir.join(&recipe), succeed(dir, &["recipes", "adder"])).unwrap();
    let page = page_of(dir, &[&recipe, "--batches", "1,32"]);
    assert!(
        !page.contains("<i>wide") && page.contains("<h1>Plan of &lt;i&gt;wide &amp; &quot;odd&quot;</h1>"),
        "names are texts"
    );

    let plan = json(dir, &["plan", &recipe, "--sweep", "--json"]);
    let memory = told(&page, "memory-0");
    let parts: Vec<&str> = memory["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    for part in ["inputs", "forward values", "backward values", "kernels' scratch"] {
        assert!(parts.contains(&part), "{parts:?}");
    }
    let names = memory["names"].as_array().unwrap();
    assert_eq!(names.len() as u64, plan["steps_in_schedule"].as_u64().unwrap());
    for (id, key, scale) in [("time", "estimated_step_ms", 1.0), ("peak", "peak_bytes", 1048576.0)] {
        let drawn = &told(&page, &format!("sweep-{id}-0"))["series"][0]["y"];
        let drawn: Vec<f64> = drawn.as_array().unwrap().iter().map(|y| y.as_f64().unwrap()).collect();
        let swept: Vec<f64> = plan["sweep"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[key].as_f64().unwrap() / scale)
            .collect();
        assert_eq!(drawn.len(), swept.len(), "{id}");
        // Peaks of two processes differ by some KiB.
        let close = drawn.iter().zip(&swept).all(|(a, b)| (a - b).abs() < 0.13);
        assert!(close, "{id}: {drawn:?} {swept:?}");
    }
    let value = plan["largest"][0]["name"].as_str().unwrap();
    assert!(page.contains(&format!("<th scope=\"row\">{value}</th>")), "{value}");
    let choices = plan["choices"].as_array().unwrap();
    let each = page.split_once("<details><summary>Each value</summary>").unwrap().1;
    let rows = each
        .split_once("</table>")
        .unwrap()
        .0
        .matches("<th scope=\"row\">")
        .count();
    assert_eq!(rows, choices.len());
    assert!(page.contains("<h2 id=\"batches\">Batch sizes</h2>") && page.contains(">best throughput</td>"));
}

#[test]
fn a_page_is_written_as_a_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let args = [&["plan", "adder"], TINY_ADDER].concat();
    let sentence = refuse(dir, &[&args[..], &["--html", "none/page.html"]].concat());
    assert!(sentence.contains("none/page.html cannot be written"), "{sentence}");
    let printed = succeed(dir, &[&args[..], &["--html", "page.html"]].concat());
    assert!(printed.ends_with("\nwritten to page.html\n"), "{printed}");
    let object = json(dir, &[&args[..], &["--html", "page.html", "--json"]].concat());
    assert!(object["page"] == "page.html" && object["sweep"].is_array(), "{object}");
    let files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["page.html"]);

    // Below the floor the page says so.
    let output = lessen(dir, &[&args[..], &["--html", "page.html", "--budget", "1KiB"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    check_form(&page);
    assert!(page.contains("<li>The budget is below the floor"));
}

#[test]
fn phases_are_on_one_page_and_a_browser_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    let page = page_of(dir, &["growing.toml"]);
    for name in ["one", "two", "three"] {
        assert!(page.contains(&format!(">Memory over a step, as planned, phase {name}</h2>")));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-report");
    let output = Command::new(script).arg("page.html").current_dir(dir).output().unwrap();
    match output.status.code() {
        // What the script exits with where there is no browser, and a shell where there is no Python.
        Some(77 | 127) => println!("skipped: {}", stderr(&output).trim()),
        code => assert_eq!(code, Some(0), "{}", stderr(&output)),
    }
}

//! `lessen predict` over files: one answer for each line, in order, as CSV or JSON lines.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// A classifier that tells `sun` from `rain`.
fn trained(dir: &Path) {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", "schedule = \"linear\"\n"));
    let args = train_on(&recipe, &data, &["--steps", "60", "--out", "run", "--json"]);
    assert_eq!(json(dir, &args)["dev_accuracy"], 1.0);
}

/// The objects of a file of JSON lines.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_line_of_a_file_is_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    // More than are asked about at once (16 batches of 8), of many lengths, with what CSV has to quote.
    let text = |i: usize| match i % 3 {
        0 => format!("\"sun\", sun {}", 2 * (i % 26)),
        1 => format!("day {} rain", 2 * (i % 26) + 1),
        _ => "a sun".repeat(1 + i % 7),
    };
    let lines: String = (0..300).map(|i| text(i) + "\r\n").collect();
    fs::write(dir.join("texts.txt"), format!("\u{feff}{lines}")).unwrap();
    let printed = succeed(dir, &["predict", "run", "--input", "texts.txt"]);
    let mut reader = csv::Reader::from_reader(printed.as_bytes());
    assert_eq!(reader.headers().unwrap(), vec!["text", "label", "probability"]);
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), 300);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(
            (&row[0], &row[1]),
            (text(i).as_str(), if i % 3 == 1 { "foul" } else { "fair" })
        );
    }
    let args = [
        "predict",
        "run",
        "--input",
        "texts.txt",
        "--output",
        "answers.jsonl",
        "--probabilities",
    ];
    assert_eq!(succeed(dir, &args), "");
    let found = objects(&fs::read_to_string(dir.join("answers.jsonl")).unwrap());
    assert_eq!(found.len(), 300);
    for (object, row) in found.iter().zip(&rows) {
        let (label, share) = (
            object["label"].as_str().unwrap(),
            object["probability"].as_f64().unwrap(),
        );
        assert_eq!((label, format!("{share:.6}").as_str()), (&row[1], &row[2]));
        let shares = object["probabilities"].as_object().unwrap();
        let total: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
        assert_eq!(shares[label].as_f64(), Some(share));
        assert!(shares.len() == 2 && (total - 1.0).abs() < 1e-9);
    }
    // The answer to a text in a batch is the answer to the text alone.
    let one = json(dir, &["predict", "run", "--text", &text(37), "--json"]);
    let close = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5;
    assert!(one["label"] == found[37]["label"] && close(&one["probability"], &found[37]["probability"]));
    let few = ["--set", "train.batch=1", "--set", "data.max_length=2"];
    let args = ["predict", "run", "--input", "texts.txt", "--format", "jsonl"];
    let cut = objects(&succeed(dir, &[&args[..], &few].concat()));
    assert!(cut.len() == 300 && !close(&cut[0]["probability"], &found[0]["probability"]));
}

#[test]
fn stdin_is_a_file_and_columns_say_what_is_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let mut child = command(dir, &["predict", "run", "--input", "-", "--probabilities"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A text without a known character, an empty one, and a last line without end.
    child
        .stdin
        .take()
        .unwrap()
        .write_all("sun\n零一\n\nrain".as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "text,label,probability,probability_fair,probability_foul");
    assert!(
        lines.len() == 5 && lines[1].starts_with("sun,") && lines[4].starts_with("rain,"),
        "{printed}"
    );
    assert_eq!(
        stderr(&output),
        "warning: 2 of 4 texts are empty or have no character that the model knows, such as number 2; the answers to \
         them say nothing\n"
    );
    let output = lessen(dir, &["predict", "run", "--text", "零"]);
    assert!(output.status.success());
    assert_eq!(
        stderr(&output),
        "warning: the model knows no character of the text, so its answer says nothing of it\n"
    );
}

#[test]
fn a_mistake_in_the_texts_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    fs::write(dir.join("good.txt"), "sun\n").unwrap();
    fs::write(dir.join("bad.txt"), b"sun\n\xff\n").unwrap();
    fs::write(dir.join("empty.txt"), "").unwrap();
    let refused = |args: &[&str]| refuse(dir, &[&["predict", "run"], args].concat());
    let to = ["--output", "answers.csv"];
    let input = |file| refused(&[&["--input", file], &to[..]].concat());
    assert_eq!(
        input("bad.txt"),
        "error: bad.txt line 2 is not valid UTF-8; save the file as UTF-8"
    );
    assert_eq!(
        input("empty.txt"),
        "error: empty.txt is empty; write a text on each line"
    );
    assert_eq!(
        input("none.txt"),
        "error: --input: there is no file none.txt; check the path"
    );
    assert_eq!(input("titles"), "error: --input: titles is a folder; name a file in it");
    let sentence = refused(&["--input", "good.txt", "--output", "nowhere/answers.csv"]);
    assert!(sentence.contains("nowhere/answers.csv cannot be written"), "{sentence}");
    assert_eq!(
        refused(&["--text", " "]),
        "error: the text is empty; give at least one character with --text"
    );
    assert_eq!(
        refused(&["--text", "sun", "--set", "model.width=8"]),
        "error: --set model.width=8 cannot change a saved model; set train.batch or keys of data other than \
         data.tokenizer"
    );
    let sentence = refused(&["--text", "sun", "--set", "data.max_length=99"]);
    assert!(
        sentence.contains("data.max_length = 99 (--set data.max_length=99) is more than the 12 positions of the model")
            && sentence.ends_with("set data.max_length to at most that"),
        "{sentence}"
    );
    let left = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!left.into_iter().any(|name| name.contains("answers")));
}

#[test]
fn a_model_that_adds_answers_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "run"]));
    fs::write(dir.join("sums.txt"), "1+2\n3 + 4=\n").unwrap();
    let printed = succeed(dir, &["predict", "run", "--input", "sums.txt"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0] == "text,answer" && lines[1].starts_with("1+2,1+2="),
        "{printed}"
    );
    assert!(lines.len() == 3 && lines[2].starts_with("3 + 4=,3+4="), "{printed}");
    fs::write(dir.join("sums.txt"), "1+2\nthree\n").unwrap();
    let sentence = refuse(dir, &["predict", "run", "--input", "sums.txt", "--output", "x.csv"]);
    assert!(
        sentence.starts_with("error: sums.txt: 'three' is no sum of two numbers"),
        "{sentence}"
    );
}

#[test]
fn a_file_with_named_columns_is_asked_by_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    // The columns of the file stay, and the text is the one that is named.
    let labels_of = |column: &str, input: &str, more: &[&str]| -> Vec<(String, String)> {
        let args = ["predict", "run", "--format", "jsonl", "--input", input];
        let own = |value: &Value| value.as_str().unwrap().to_string();
        let found = objects(&succeed(dir, &[&args[..], more].concat()));
        found
            .iter()
            .map(|object| (own(&object[column]), own(&object["label"])))
            .collect()
    };
    let labels = |input: &str, more: &[&str]| labels_of("text", input, more);
    let expected = [
        ("sun, sun".to_string(), "fair".to_string()),
        ("rain".into(), "foul".into()),
    ];
    fs::write(dir.join("a.csv"), "number,text\n1,\"sun, sun\"\n2,rain\n").unwrap();
    assert_eq!(labels("a.csv", &[]), expected);
    fs::write(dir.join("a.tsv"), "what\tnumber\nsun, sun\t1\nrain\t2\n").unwrap();
    assert_eq!(labels_of("what", "a.tsv", &["--set", "data.text=what"]), expected);
    fs::write(dir.join("a.jsonl"), "{\"text\": \"sun, sun\"}\n{\"text\": \"rain\"}\n").unwrap();
    assert_eq!(labels("a.jsonl", &[]), expected);
    let sentence = refuse(dir, &["predict", "run", "--input", "a.tsv"]);
    assert!(sentence.starts_with("error: a.tsv line 1"), "{sentence}");
    fs::write(dir.join("b.csv"), "text,text_pair\nsun,rain\n").unwrap();
    let printed = succeed(dir, &["predict", "run", "--input", "b.csv"]);
    assert!(
        printed.starts_with("text,text_pair,label,probability\nsun,rain,fair,"),
        "{printed}"
    );
    let pair = printed;
    let printed = succeed(dir, &["predict", "run/model", "--input", "b.csv"]);
    assert_ne!(printed, pair, "the run has no pairs");
    assert!(
        printed.starts_with("text,text_pair,label,probability\nsun,rain,"),
        "{printed}"
    );
    assert_eq!(
        refuse(dir, &["predict", "run", "--pairs", "--input", "a.csv"]),
        "error: a.csv has no column for the second text of a pair; name it with --set data.text_pair=COLUMN"
    );
}

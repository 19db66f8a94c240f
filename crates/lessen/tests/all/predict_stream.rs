//! `lessen predict --stream`: each line of stdin is answered at once.

use crate::support::*;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

/// A classifier that tells nothing apart yet.
fn model(dir: &Path) {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    succeed(dir, &train_on(&recipe, &data, &["--steps", "1", "--out", "run"]));
}

/// Asks with a line, and waits for its answer before it goes on.
fn ask(stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>, line: &[u8]) -> String {
    stdin.write_all(line).unwrap();
    stdin.write_all(b"\n").unwrap();
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    answer
}

#[test]
fn each_line_is_answered_before_the_next_one_comes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let mut child = command(dir, &["predict", "run", "--stream", "--probabilities", "--batch", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (
        child.stdin.take().unwrap(),
        BufReader::new(child.stdout.take().unwrap()),
    );
    let mut ask = |line: &[u8]| ask(&mut stdin, &mut stdout, line);
    let alone = |text: &str| json(dir, &["predict", "run", "--text", text, "--json"]);

    let answer: Value = serde_json::from_str(&ask(b"a day of sun")).unwrap();
    assert_eq!(answer["text"], "a day of sun");
    let expected = alone("a day of sun");
    assert_eq!(
        (&answer["label"], &answer["probabilities"]),
        (&expected["label"], &expected["probabilities"])
    );

    // An object keeps its other fields as they are written.
    let answer = ask(br#"{"id": 1.50, "text": "rain", "label": "gold"}"#);
    assert!(
        answer.starts_with(r#"{"id": 1.50, "text": "rain", "label": "gold","predicted_label":"#),
        "{answer}"
    );

    // A line that cannot be answered is told, and the next ones are answered.
    for (line, number, error) in [
        (&b"{\"text\": "[..], 3, "stdin line 3 column "),
        (
            b"{\"title\": 5}",
            4,
            "stdin line 4 has something else than a text in 'title'",
        ),
        (
            b"{\"id\": 5}",
            5,
            "stdin line 5 has the columns 'id', and none of them is known to be the text",
        ),
        (b"", 6, "stdin line 6 is empty"),
        (b"\xff", 7, "stdin line 7 is not valid UTF-8"),
        (b"{} {}", 8, "stdin line 8 column "),
    ] {
        let answer: Value = serde_json::from_str(&ask(line)).unwrap();
        assert_eq!(answer["line"], number, "{answer}");
        let told = answer["error"].as_str().unwrap();
        assert!(told.starts_with(error), "{told}");
    }
    let answer: Value = serde_json::from_str(&ask("sun\r".as_bytes())).unwrap();
    assert_eq!(answer["text"], "sun");
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "note: there is a column label already; the answers are in predicted_label\n"
    );
}

#[test]
fn lines_that_come_together_are_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let mut child = command(dir, &["-q", "predict", "run", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for number in 0..2000 {
            let line = match number % 7 {
                6 => "{\"id\": ".to_string(),
                3 => format!("{{\"text\": \"day {number}\"}}"),
                _ => format!("day {number}"),
            };
            writeln!(stdin, "{line}").unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), 2000);
    for (number, line) in printed.lines().enumerate() {
        let answer: Value = serde_json::from_str(line).unwrap();
        match number % 7 {
            6 => assert_eq!(answer["line"], number + 1),
            _ => assert_eq!(answer["text"], format!("day {number}")),
        }
    }
}

#[test]
fn a_text_that_the_model_cannot_read_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "run"]));
    let mut child = command(dir, &["predict", "run", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"1+2\nthree\n3+4").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines[0]["answer"].as_str().unwrap().starts_with("1+2="), "{printed}");
    assert!(
        lines[1]["line"] == 2 && lines[1]["error"].as_str().unwrap().contains("'three' is no sum"),
        "{printed}"
    );
    assert!(lines[2]["answer"].as_str().unwrap().starts_with("3+4="), "{printed}");
}

#[test]
fn flags_that_do_not_go_with_a_stream_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for more in [
        &["--json"][..],
        &["--output", "a.csv"],
        &["--text", "a"],
        &["--input", "a.txt"],
        &["--format", "csv"],
    ] {
        let output = lessen(dir, &[&["predict", "run", "--stream"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
}

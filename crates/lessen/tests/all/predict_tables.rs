//! `lessen predict` over tables: their columns and lines stay, and answers stand after them.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A classifier that tells nothing apart yet.
fn model(dir: &Path) {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    succeed(dir, &train_on(&recipe, &data, &["--steps", "1", "--out", "run"]));
}

/// Answers a file of this name and content in a format; what was printed.
fn answered(dir: &Path, name: &str, content: &str, format: &str) -> String {
    fs::write(dir.join(name), content).unwrap();
    succeed(dir, &["-q", "predict", "run", "--input", name, "--format", format])
}

/// A line without the values of its two answers.
fn kept(line: &str, separator: char) -> String {
    let mut cells: Vec<&str> = line.split(separator).collect();
    cells.truncate(cells.len() - 2);
    cells.join(&separator.to_string())
}

#[test]
fn columns_and_their_order_stay_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    // A table of each format, with its lines as they have to come back in the others: a column before the text, one
    // after it, an empty cell, and numbers as they are written.
    let csv = "id,text,note\n007,sun,\n1.50,\"rain, day\",x\n";
    let tsv = "id\ttext\tnote\n007\tsun\t\n1.50\train, day\tx\n";
    let jsonl = "{\"id\": 7.0, \"text\": \"sun\", \"note\": null}\n\n{\"id\": 12345678901234567890123, \"text\": \"rain, day\", \
                 \"note\": [1]}\n";
    for (name, content) in [("a.csv", csv), ("a.tsv", tsv)] {
        let printed = answered(dir, name, content, "tsv");
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], "id\ttext\tnote\tlabel\tprobability", "{name}");
        assert_eq!(
            [kept(lines[1], '\t'), kept(lines[2], '\t')],
            ["007\tsun\t", "1.50\train, day\tx"],
            "{name}"
        );
        let printed = answered(dir, name, content, "csv");
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], "id,text,note,label,probability", "{name}");
        assert_eq!(
            [kept(lines[1], ','), kept(lines[2], ',')],
            ["007,sun,", "1.50,\"rain, day\",x"],
            "{name}"
        );
        let printed = answered(dir, name, content, "jsonl");
        let line = printed.lines().next().unwrap();
        let start = r#"{"id":"007","text":"sun","note":"","label":""#;
        assert!(line.starts_with(start), "{name}: {line}");
    }
    let printed = answered(dir, "a.jsonl", jsonl, "jsonl");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with(r#"{"id": 7.0, "text": "sun", "note": null,"label":"#),
        "{printed}"
    );
    assert!(
        lines[1].starts_with(r#"{"id": 12345678901234567890123, "text": "rain, day", "note": [1],"label":"#),
        "{printed}"
    );
    lines
        .iter()
        .for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
    let printed = answered(dir, "a.jsonl", jsonl, "csv");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "id,text,note,label,probability");
    assert_eq!(
        [kept(lines[1], ','), kept(lines[2], ',')],
        ["7.0,sun,", "12345678901234567890123,\"rain, day\",[1]"]
    );
    // Columns without names have numbers.
    fs::write(dir.join("b.csv"), "7,sun\n8,rain\n").unwrap();
    let printed = succeed(dir, &["predict", "run", "--input", "b.csv", "--set", "data.text=2"]);
    assert!(printed.starts_with("1,2,label,probability\n7,sun,"), "{printed}");
}

#[test]
fn a_column_with_the_name_of_an_answer_stays() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    fs::write(dir.join("a.csv"), "text,label\nsun,gold\n").unwrap();
    let output = lessen(dir, &["predict", "run", "--input", "a.csv"]);
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        printed.starts_with("text,label,predicted_label,probability\nsun,gold,"),
        "{printed}"
    );
    assert_eq!(
        stderr(&output),
        "note: there is a column label already; the answers are in predicted_label\n"
    );
    fs::write(dir.join("b.csv"), printed).unwrap();
    let again = succeed(dir, &["predict", "run", "--input", "b.csv"]);
    assert!(
        again.starts_with("text,label,predicted_label,probability,predicted_predicted_label,predicted_probability\n"),
        "{again}"
    );
    // A label that nobody asked for need not be one.
    let printed = answered(dir, "c.jsonl", "{\"text\": \"sun\", \"label\": null}\n", "jsonl");
    assert!(
        printed.starts_with(r#"{"text": "sun", "label": null,"predicted_label":"#),
        "{printed}"
    );
}

#[test]
fn what_a_format_has_no_place_for_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let refused = |name: &str, content: &str, format: &str| {
        fs::write(dir.join(name), content).unwrap();
        let output = format!("out.{format}");
        let sentence = refuse(dir, &["predict", "run", "--input", name, "--output", &output]);
        assert!(!dir.join(&output).exists());
        sentence
    };
    assert_eq!(
        refused("a.csv", "text\n\"a\tb\"\n", "tsv"),
        "error: a.csv: a cell in the column 'text' has a tab or a line end, which TSV cannot hold; write csv or jsonl"
    );
    assert_eq!(
        refused("b.csv", "text,a,a\nsun,1,2\n", "jsonl"),
        "error: b.csv: two columns are called 'a', which an object of JSON cannot have; write csv or tsv"
    );
    let more = "{\"text\": \"sun\"}\n{\"text\": \"rain\", \"id\": 1}\n";
    assert_eq!(
        refused("c.jsonl", more, "csv"),
        "error: c.jsonl: line 2 has a field 'id' that the first line lacks, so that it has no column; write JSON lines"
    );
    let late = "{\"text\": \"sun\"}\n{\"text\": \"rain\", \"label\": 1}\n";
    assert!(refused("d.jsonl", late, "jsonl").contains("line 2 has a field 'label', the name of an answer"));
}

#[test]
fn the_ending_of_the_output_says_the_format_or_is_refused_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // There is no model: the name of the file is looked at first.
    let refused = |output: &str, more: &[&str]| {
        let args = ["predict", "none", "--input", "a.csv", "--output", output];
        refuse(dir, &[&args[..], more].concat())
    };
    for (output, more) in [
        ("a.parquet", &[][..]),
        ("a.PARQUET", &[]),
        ("a.parquet", &["--format", "csv"]),
    ] {
        assert_eq!(
            refused(output, more),
            format!("error: --output {output}: answers are not written as Parquet; name the file .csv, .tsv or .jsonl")
        );
    }
    for ending in ["xlsx", "txt", "csv.gz", "feather"] {
        let last = ending.rsplit('.').next().unwrap();
        assert_eq!(
            refused(&format!("a.{ending}"), &[]),
            format!(
                "error: --output a.{ending}: answers are not written as .{last}; name the file .csv, .tsv or .jsonl, or \
                 say the format with --format"
            )
        );
    }
    model(dir);
    fs::write(dir.join("a.csv"), "text\nsun\n").unwrap();
    let formats = [
        ("a.tsv", "text\tlabel\tprobability\n"),
        ("b.csv", "text,label,probability\n"),
        ("plain", "text,label,probability\n"),
        ("c.JSONL", "{\"text\":\"sun\",\"label\":"),
        ("d.ndjson", "{\"text\":\"sun\",\"label\":"),
    ];
    for (output, start) in formats {
        succeed(dir, &["predict", "run", "--input", "a.csv", "--output", output]);
        let written = fs::read_to_string(dir.join(output)).unwrap();
        assert!(written.starts_with(start), "{output}: {written}");
    }
    let args = [
        "predict", "run", "--input", "a.csv", "--output", "x.txt", "--format", "tsv",
    ];
    succeed(dir, &args);
    assert!(
        fs::read_to_string(dir.join("x.txt"))
            .unwrap()
            .starts_with("text\tlabel")
    );
}

//! Questions about texts: training, scores, predictions.

use crate::support::*;
use serde_json::{Value, json as object};
use std::fs;
use std::path::Path;

/// A question about a context: where its x is. Of some there is none.
fn asked(i: usize, with_unanswerable: bool) -> Value {
    let mut letters: Vec<char> = (0..6 + i % 9)
        .map(|at| (b'a' + ((i * 7 + at * 5) % 20) as u8) as char)
        .collect();
    let place = (i * 3) % letters.len();
    let is_impossible = with_unanswerable && i.is_multiple_of(4);
    let mut answers = Vec::new();
    if !is_impossible {
        letters[place] = 'x';
        answers.push(object!({ "text": "x", "answer_start": place }));
    }
    let context: String = letters.into_iter().collect();
    let question = object!({
        "id": format!("id-{i}"), "question": "where?", "answers": answers, "is_impossible": is_impossible
    });
    object!({ "context": context, "qas": [question] })
}

fn file(numbers: std::ops::Range<usize>, with_unanswerable: bool) -> Value {
    let paragraphs: Vec<Value> = numbers.map(|i| asked(i, with_unanswerable)).collect();
    object!({ "version": "v2.0", "data": [{ "title": "letters", "paragraphs": paragraphs }] })
}

/// Writes questions in a folder as SQuAD is distributed.
fn questions(dir: &Path, with_unanswerable: bool) {
    let folder = dir.join("squad");
    fs::create_dir_all(&folder).unwrap();
    for (name, numbers) in [("train-v2.0.json", 0..60), ("dev-v2.0.json", 60..80)] {
        fs::write(folder.join(name), file(numbers, with_unanswerable).to_string()).unwrap();
    }
}

/// Arguments of a model that trains in a moment.
fn train<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let tiny = [
        "train",
        "squad",
        "--data",
        "squad",
        "--set",
        kind,
        "--set",
        "model.layers=1",
        "--set",
        "model.width=32",
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=32",
        "--set",
        "model.dropout=0",
        "--set",
        "data.max_length=32",
        "--set",
        "train.batch=10",
        "--set",
        "train.lr=0.01",
        "--set",
        "train.warmup=0",
    ];
    [&tiny[..], more].concat()
}

#[test]
fn bert_and_roberta_learn_to_answer_and_say_so() {
    learn_to_answer([("model.kind=bert", "Bert"), ("model.kind=roberta", "Roberta")]);
}

#[test]
fn distilbert_and_mpnet_learn_to_answer_and_say_so() {
    learn_to_answer([("model.kind=distilbert", "DistilBert"), ("model.kind=mpnet", "MPNet")]);
}

fn learn_to_answer(families: [(&str, &str); 2]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    questions(dir, true);
    for (kind, class) in families {
        let best = ["--set", "train.best=exact_match", "--set", "train.eval_every=30"];
        let report = json(
            dir,
            &train(
                kind,
                &[&best[..], &["--steps", "90", "--out", "run", "--json"]].concat(),
            ),
        );
        assert_eq!(
            (report["dev_f1"].as_f64(), report["dev_exact_match"].as_f64()),
            (Some(1.0), Some(1.0)),
            "{report}"
        );
        let config = fs::read_to_string(dir.join("run/model/config.json")).unwrap();
        assert!(config.contains(&format!("\"{class}ForQuestionAnswering\"")), "{config}");
        let again = json(dir, &["eval", "run", "--json"]);
        assert_eq!(
            (again["dev_exact_match"].as_f64(), again["examples"].as_u64()),
            (Some(1.0), Some(20))
        );
        // A Hugging Face folder, evaluated on a file; the settings follow from its model.
        let plain = json(dir, &["eval", "run/model", "--data", "squad/dev-v2.0.json", "--json"]);
        assert_eq!(plain["dev_exact_match"], 1.0);

        // The answers as the official script takes them.
        let args = [
            "predict",
            "run",
            "--input",
            "squad/dev-v2.0.json",
            "--output",
            "answers.json",
        ];
        assert_eq!(succeed(dir, &args), "");
        let answers: Value = serde_json::from_str(&fs::read_to_string(dir.join("answers.json")).unwrap()).unwrap();
        let expected = (60..80usize).map(|i| (format!("id-{i}"), object!(if i.is_multiple_of(4) { "" } else { "x" })));
        assert_eq!(answers, Value::Object(expected.collect()));
        fs::remove_dir_all(dir.join("run")).unwrap();
    }
}

#[test]
fn questions_are_answered_from_lines_columns_objects_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    questions(dir, false);
    let args = ["--steps", "90", "--out", "run", "--json"];
    assert_eq!(json(dir, &train("model.kind=bert", &args))["dev_exact_match"], 1.0);
    let one = json(
        dir,
        &["predict", "run", "--text", "abcxd", "--question", "where?", "--json"],
    );
    assert_eq!(
        (&one["answer"], &one["start"], &one["end"]),
        (&object!("x"), &object!(3), &object!(4))
    );
    assert!((0.5..=1.0).contains(&one["probability"].as_f64().unwrap()) && one["null_margin"].as_f64().unwrap() < 0.0);
    let shown = succeed(dir, &["predict", "run", "--text", "where?\tabcxd"]);
    assert!(shown.starts_with("x (") && shown.ends_with(" %)\n"), "{shown}");

    fs::write(dir.join("a.txt"), "where?\tabcxd\nwhere?\tbxcd\n").unwrap();
    fs::write(dir.join("a.csv"), "context,question\nabcxd,where?\nbxcd,where?\n").unwrap();
    let lines = ["abcxd", "bxcd"].map(|context| object!({ "question": "where?", "context": context }).to_string());
    fs::write(dir.join("a.jsonl"), lines.join("\n")).unwrap();
    let expected = succeed(dir, &["predict", "run", "--input", "a.txt"]);
    let mut reader = csv::Reader::from_reader(expected.as_bytes());
    let names = vec!["question", "answer", "start", "end", "probability", "null_margin"];
    assert_eq!(reader.headers().unwrap(), names);
    let names_of_answers: Vec<String> = names[1..].iter().map(|name| name.to_string()).collect();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!([&rows[0][2], &rows[1][2]], ["3", "1"]);
    // Columns of a table stay, and the answers after them are those to the lines.
    let contexts = ["abcxd", "bxcd"];
    for (input, names) in [("a.csv", ["context", "question"]), ("a.jsonl", ["question", "context"])] {
        let printed = succeed(dir, &["predict", "run", "--input", input]);
        let mut reader = csv::Reader::from_reader(printed.as_bytes());
        let headers: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
        assert_eq!(
            (&headers[..2], &headers[2..]),
            (&names.map(String::from)[..], &names_of_answers[..])
        );
        let found: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(found.len(), 2, "{input}");
        for ((row, line), context) in found.iter().zip(&rows).zip(contexts) {
            let at = |name: &str| names.iter().position(|own| *own == name).unwrap();
            assert_eq!((&row[at("question")], &row[at("context")]), ("where?", context));
            let (own, alone): (Vec<&str>, Vec<&str>) = (row.iter().skip(2).collect(), line.iter().skip(1).collect());
            assert_eq!(own, alone, "{input}");
        }
    }
    let found = succeed(
        dir,
        &["predict", "run", "--input", "squad/dev-v2.0.json", "--format", "jsonl"],
    );
    let first: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    assert_eq!(
        (found.lines().count(), &first["id"], &first["answer"]),
        (20, &object!("id-60"), &object!("x"))
    );

    // A long text is read in windows that overlap.
    let long = format!("{}x{}", "abcdefgh".repeat(20), "ij".repeat(30));
    let one = json(
        dir,
        &["predict", "run", "--text", &long, "--question", "where?", "--json"],
    );
    assert_eq!(one["start"], 160);
    // A threshold that no score of an answer reaches.
    let none = [
        "predict",
        "run",
        "--text",
        "abcxd",
        "--question",
        "where?",
        "--set",
        "data.null_threshold=-1000",
    ];
    assert!(succeed(dir, &none).starts_with("no answer ("));
}

#[test]
fn a_resumed_run_ends_as_the_whole_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    questions(dir, true);
    let run = |out: &str| {
        let grouped = ["--set", "data.group=true", "--set", "data.max_length=16"];
        let args = [
            &grouped[..],
            &["--set", "train.checkpoint_every=2", "--steps", "6", "--out", out],
        ]
        .concat();
        succeed(dir, &train("model.kind=bert", &args));
    };
    run("whole");
    run("cut");
    for entry in fs::read_dir(dir.join("cut/checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_str().unwrap().ends_with('4') {
            fs::remove_dir_all(path).unwrap();
        }
    }
    fs::remove_dir_all(dir.join("cut/model")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "cut"]);
    let weights = |run: &str| fs::read(dir.join(run).join("model/model.safetensors")).unwrap();
    assert!(weights("whole") == weights("cut"));
}

#[test]
fn mistakes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    questions(dir, false);
    let refused = |more: &[&str]| refuse(dir, &train("model.kind=bert", more));
    assert!(refused(&["--set", "data.stride=32"]).contains("is not less than the 32 tokens of data.max_length"));
    assert!(
        refused(&["--set", "train.label_smoothing=0.1"]).contains("the data has questions with answers; leave it out")
    );
    assert!(
        refused(&["--set", "train.loss=norm_softmax"]).contains("the data has questions with answers; leave it out")
    );
    assert!(refused(&["--set", "data.text=context"]).contains("data.format = squad has none; leave it out"));
    assert!(refused(&["--set", "train.best=accuracy"]).contains("choose one of exact_match, f1, loss"));
    let sentence = refuse(dir, &train("model.kind=gpt2", &[]));
    assert!(
        sentence.contains("cannot learn data.format = squad; choose bert"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["train", "ner", "--data", "squad", "--set", "data.stride=8"]);
    assert!(
        sentence.contains("is for data.format = squad, and this is tagged; leave it out"),
        "{sentence}"
    );

    let mut wrong = file(0..3, false);
    wrong["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["text"] = object!("zebra");
    fs::write(dir.join("wrong.json"), wrong.to_string()).unwrap();
    let sentence = refuse(dir, &["train", "squad", "--data", "wrong.json"]);
    assert!(
        sentence.ends_with(
            "wrong.json, question 'id-1': its context does not have the answer 'zebra'; correct one of the two"
        ),
        "{sentence}"
    );
    assert!(!dir.join("runs").exists());

    succeed(dir, &train("model.kind=bert", &["--steps", "1", "--out", "run"]));
    for (args, what) in [
        (
            vec!["--text", "abc"],
            "give one with --question, or write question and text into --text",
        ),
        (
            vec!["--text", "", "--question", "a"],
            "the question or the text is empty",
        ),
        (vec!["--input", "wrong.json"], "does not have the answer 'zebra'"),
        (
            vec!["--input", "squad/dev-v2.0.json", "--probabilities"],
            "--probabilities is for classes",
        ),
        (
            vec!["--input", "squad/dev-v2.0.json", "--format", "conll"],
            "--format conll is for models that tell classes of words",
        ),
    ] {
        let sentence = refuse(dir, &[&["predict", "run"], &args[..]].concat());
        assert!(sentence.contains(what), "{sentence}");
    }
    fs::write(dir.join("a.csv"), "text,question\nabc,where?\n").unwrap();
    let sentence = refuse(dir, &["predict", "run", "--input", "a.csv"]);
    assert!(
        sentence.contains("has no column 'context' (data.text_pair)"),
        "{sentence}"
    );
    fs::write(dir.join("b.txt"), "abc\n").unwrap();
    let sentence = refuse(dir, &["predict", "run", "--input", "b.txt"]);
    assert!(sentence.contains("b.txt line 1 has no tab"), "{sentence}");
}

//! Labelled data as people have it: named labels, one file, CSV and JSON lines, patterns, folders of classes.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Lines of a CSV file with a header: days and whether they are fair or foul.
fn csv(days: std::ops::Range<u32>) -> String {
    let line = |i| format!("{i},\"day {i}, {}\"\n", if i % 2 == 0 { "sun" } else { "rain" });
    let lines = days.map(|i| format!("{},{}", if i % 2 == 0 { "fair" } else { "foul" }, line(i)));
    format!("weather,id,text\n{}", lines.collect::<String>())
}

fn report(dir: &Path, run: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join(run).join("report.json")).unwrap()).unwrap()
}

#[test]
fn one_file_with_named_labels_is_trained_on_and_the_names_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = classifier(dir.path(), "encoder", "");
    fs::write(dir.path().join("days.csv"), csv(0..60)).unwrap();
    let set = ["--set", "data.label=weather", "--set", "train.steps=30", "--out", "run"];
    let output = lessen(dir.path(), &train_on(&recipe, Path::new("days.csv"), &set));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("there is no dev file: 6 of 60 examples are kept for validation"),
        "{said}"
    );
    let config = fs::read_to_string(dir.path().join("run/model/config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["id2label"]["1"], "foul");
    let found = json(dir.path(), &["predict", "run", "--text", "day 7, rain", "--json"]);
    assert_eq!(found["label"], "foul", "{found}");
    // Other data with the same names, in another format.
    fs::write(
        dir.path().join("more.jsonl"),
        "{\"weather\": \"foul\", \"text\": \"rain\"}\n{\"weather\": \"fair\", \"text\": \"sun\"}\n",
    )
    .unwrap();
    let scores = json(dir.path(), &["eval", "run", "--data", "more.jsonl", "--json"]);
    assert_eq!(scores["dev_accuracy"], 1.0, "{scores}");
}

#[test]
fn patterns_and_folders_of_classes_give_the_run_that_one_file_gives() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = classifier(dir.path(), "encoder", "");
    fs::write(dir.path().join("dev.csv"), csv(60..70)).unwrap();
    fs::write(dir.path().join("all.csv"), csv(0..60)).unwrap();
    fs::write(dir.path().join("part-1.csv"), csv(0..25)).unwrap();
    fs::write(dir.path().join("part-2.csv"), csv(25..60)).unwrap();
    let set = ["--set", "data.label=weather", "--set", "data.dev=dev.csv"];
    let mut hashes = Vec::new();
    for (data, out) in [("all.csv", "one"), ("part-*.csv", "two")] {
        succeed(
            dir.path(),
            &train_on(&recipe, Path::new(data), &[&set[..], &["--out", out]].concat()),
        );
        hashes.push(fs::read(dir.path().join(out).join("model/model.safetensors")).unwrap());
        assert_eq!(report(dir.path(), out)["steps"], 4);
    }
    assert!(hashes[0] == hashes[1], "files in parts are one file");
    // A pattern is found again from another folder.
    let args = ["train", "--resume", "--out", "two", "--steps", "5"];
    succeed(dir.path(), &args);
    for i in 0..12u32 {
        let class = if i.is_multiple_of(2) { "fair" } else { "foul" };
        let folder = dir.path().join("days").join(class);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{i}.txt")), format!("day {i}\n")).unwrap();
    }
    succeed(dir.path(), &train_on(&recipe, Path::new("days"), &["--out", "three"]));
    let sentence = refuse(
        dir.path(),
        &train_on(&recipe, Path::new("none-*.csv"), &["--out", "four"]),
    );
    assert!(sentence.ends_with("none-*.csv; check the pattern"), "{sentence}");
}

#[test]
fn a_pipe_is_refused_since_data_is_read_more_than_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("text.txt");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let sentence = refuse(dir.path(), &["train", "shakespeare", "--data", "text.txt"]);
    assert!(
        sentence.ends_with("text.txt is no ordinary file, and data is read more than once; save it to a file"),
        "{sentence}"
    );
}

#[test]
fn batches_bounded_by_tokens_resume_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let (data, recipe) = (titles(dir.path()), classifier(dir.path(), "encoder", ""));
    for (name, more) in [
        ("tokens", &["--set", "train.tokens=50"][..]),
        ("group", &["--set", "data.group=true"]),
    ] {
        let (whole, parts) = (format!("{name}-whole"), format!("{name}-parts"));
        let train = |out: &str, steps: &str| {
            let args = ["--out", out, "--steps", steps, "--set", "model.dropout=0.1"];
            succeed(dir.path(), &train_on(&recipe, &data, &[&args[..], more].concat()));
        };
        train(&whole, "14");
        train(&parts, "5");
        succeed(dir.path(), &["train", "--resume", "--out", &parts, "--steps", "14"]);
        let weights = |run: &str| fs::read(dir.path().join(run).join("model/model.safetensors")).unwrap();
        assert!(weights(&whole) == weights(&parts), "{name}");
    }
    let refused = |set: &[&str]| refuse(dir.path(), &train_on(&recipe, &data, set));
    assert_eq!(
        refused(&["--set", "train.tokens=11"]),
        "error: train.tokens = 11 (--set train.tokens=11) is less than the 12 tokens of data.max_length, so that an example may \
         not fit; choose at least that"
    );
    assert_eq!(
        refused(&["--set", "train.tokens=50", "--set", "train.batch=4"]),
        "error: --set train.tokens=50 and --set train.batch=4 both say what a batch is; leave out one of the two"
    );
    assert!(
        refused(&["--set", "train.tokens=50", "--set", "data.group=true"]).contains("is so with train.tokens anyway")
    );
}

/// The loss of a language model on documents, each in a window of its own, and several in a window.
#[test]
fn documents_that_share_a_window_have_the_loss_that_they_have_alone() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = dir.path().join("lm.toml");
    let documents = ["abca", "bca", "cab", "abcabc", "c", "bcab"];
    let small = "[model]\nkind = \"gpt2\"\nlayers = 2\nwidth = 16\nheads = 2\nffn = 32\n[data]\nformat = \"text\"\n\
                 [train]\nbatch = 2\nsteps = 12\nlr = 0.01\n";
    fs::write(&recipe, small).unwrap();
    let lines = documents.join("\n") + "\n";
    fs::create_dir(dir.path().join("texts")).unwrap();
    fs::write(dir.path().join("texts/train.txt"), lines.repeat(20)).unwrap();
    fs::write(dir.path().join("texts/valid.txt"), &lines).unwrap();
    for position in ["learned", "rope", "alibi"] {
        let position_set = format!("model.position={position}");
        // The whole validation text in a window.
        let set = [
            "--set",
            "data.documents=lines",
            "--set",
            &position_set,
            "--set",
            "data.max_length=40",
        ];
        let out = format!("run-{position}");
        succeed(
            dir.path(),
            &train_on(&recipe, Path::new("texts"), &[&set[..], &["--out", &out]].concat()),
        );
        let together = json(dir.path(), &["eval", &out, "--json"])["dev_loss"]
            .as_f64()
            .unwrap();
        let (mut sum, mut tokens) = (0.0, 0.0);
        for (number, document) in documents.iter().enumerate() {
            let folder = dir.path().join(number.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("train.txt"), "a\n").unwrap();
            fs::write(folder.join("valid.txt"), document).unwrap();
            let data = number.to_string();
            let alone = json(dir.path(), &["eval", &out, "--data", &data, "--json"])["dev_loss"]
                .as_f64()
                .unwrap();
            let count = document.len() as f64 + 1.0;
            (sum, tokens) = (sum + alone * count, tokens + count);
        }
        assert!(
            (together - sum / tokens).abs() < 1e-5,
            "{position}: {together} and {}",
            sum / tokens
        );
        let args = ["train", "--resume", "--out", &out, "--steps", "14"];
        succeed(dir.path(), &args);
    }
    let (data, recipe) = (titles(dir.path()), classifier(dir.path(), "encoder", ""));
    let sentence = refuse(
        dir.path(),
        &train_on(&recipe, &data, &["--set", "data.documents=lines"]),
    );
    assert!(
        sentence.contains("is for data.format = text, and this is labelled; leave it out"),
        "{sentence}"
    );
}

#[test]
fn formats_are_printed_and_data_that_nothing_reads_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let all = succeed(dir.path(), &["recipes", "--data"]);
    let labelled = succeed(dir.path(), &["recipes", "labelled"]);
    assert!(all.contains(&labelled) && labelled.contains("class.txt"));
    assert!(
        succeed(dir.path(), &["recipes", "glue"]).contains("[model]"),
        "a recipe goes before a format"
    );
    assert!(refuse(dir.path(), &["recipes", "csv"]).contains("no format of data called 'csv'"));
    let data = titles(dir.path());
    let sentence = refuse(dir.path(), &tiny_adder(&["--data", text(&data)]));
    assert!(
        sentence.ends_with(
            "the recipe adder makes its own data and reads none; leave data.path out, or choose a recipe for your data, such as \
             shakespeare for a text or thucnews for labelled ones"
        ),
        "{sentence}"
    );
}

#[test]
fn large_data_is_tokenized_once_into_the_cache_and_trains_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (data, recipe) = (titles(dir.path()), classifier(dir.path(), "encoder", ""));
    let weights = |run: &str| fs::read(dir.path().join(run).join("model/model.safetensors")).unwrap();
    let cached = ["--set", "data.cache=tokens", "--set", "data.cache_from=1B"];
    succeed(dir.path(), &train_on(&recipe, &data, &["--out", "plain"]));
    let entries = || {
        let mut names: Vec<_> = fs::read_dir(dir.path().join("tokens"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        names
    };
    let mut found = Vec::new();
    for out in ["one", "two"] {
        succeed(
            dir.path(),
            &train_on(&recipe, &data, &[&["--out", out], &cached[..]].concat()),
        );
        assert!(weights(out) == weights("plain"), "{out}");
        found.push(entries());
    }
    assert_eq!((found[0].len(), &found[0]), (2, &found[1]), "a split each, made once");
    fs::write(found[0][0].join("lengths"), "x").unwrap();
    let sentence = refuse(
        dir.path(),
        &train_on(&recipe, &data, &[&["--out", "three"], &cached[..]].concat()),
    );
    assert!(
        sentence.contains("the cache of tokens in") && sentence.ends_with("is damaged; remove the folder"),
        "{sentence}"
    );
}

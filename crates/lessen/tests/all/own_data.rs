//! `lessen train --data FILE` without a recipe, and `lessen data`.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A network so small that it trains in a moment, and its steps.
const TINY: &[&str] = &[
    "--steps",
    "40",
    "--set",
    "model.layers=1",
    "--set",
    "model.width=16",
    "--set",
    "model.heads=2",
    "--set",
    "model.ffn=32",
    "--set",
    "model.ngrams=1024",
];

/// Mails of two classes: one word of each tells it, but for every fortieth, which says nothing.
fn mails(dir: &Path) {
    let mut text = String::from("text,label\n");
    for i in 0..240 {
        let (word, label) = match i % 2 {
            _ if i % 40 == 0 => ("hello", "ham"),
            0 => ("meeting", "ham"),
            _ => ("prize", "spam"),
        };
        text.push_str(&format!(
            "\"our {word} of day {i} is at noon, number {}\",{label}\n",
            i * 7 % 13
        ));
    }
    fs::write(dir.join("mail.csv"), text).unwrap();
}

fn train<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "--data", "mail.csv", "--out", out, "--json"], TINY, more].concat()
}

#[test]
fn ones_own_file_is_looked_at_learned_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    mails(dir.path());
    let printed = json(dir.path(), &train("run", &[]));
    assert_eq!(printed["interrupted"], false);
    let choices: Vec<&str> = printed["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["what"].as_str().unwrap())
        .collect();
    assert_eq!(choices, ["validation", "tokenizer", "length", "models", "training"]);
    assert_eq!(printed["look"]["task"], "classes");
    let scores = printed["result"]["scores"].as_array().unwrap();
    let accuracy = |name: &str| {
        let own = scores.iter().find(|own| own["name"] == name).unwrap();
        own["scores"]["accuracy"]["value"].as_f64().unwrap()
    };
    let chosen = printed["chosen"].as_str().unwrap();
    assert!(
        accuracy("most frequent class") < 0.6 && accuracy("linear") > 0.9,
        "{scores:?}"
    );
    assert!(
        accuracy(chosen) >= accuracy("linear").max(accuracy("network")),
        "{scores:?}"
    );
    // The folder is that of a run, which other commands take.
    let text = succeed(dir.path(), &["predict", "run", "--text", "your prize of day 5"]);
    assert!(text.starts_with("spam"), "{text}");
    let found = json(dir.path(), &["eval", "run", "--json"]);
    assert_eq!(found["dev_accuracy"].as_f64(), Some(accuracy(chosen)));
    let report: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("run/report.json")).unwrap()).unwrap();
    assert_eq!(
        (&report["out"], &report["choice"]["chosen"]),
        (&Value::from("run"), &Value::from(chosen))
    );
    let page = fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(
        page.contains("How it compares") || page.contains("how it compares"),
        "{page}"
    );
    succeed(dir.path(), &["export", "run", "--onnx", "model.onnx"]);
}

#[test]
fn a_choice_that_was_killed_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    mails(dir.path());
    json(dir.path(), &train("whole", &[]));
    // Folders of runs that have ended, or are of something else, stay as they are.
    fs::create_dir_all(dir.path().join("runs/mail-3")).unwrap();
    let killed = "runs/mail-2";
    let mut running = command(dir.path(), &train(killed, &["-q"])).spawn().unwrap();
    let begun = Instant::now();
    while !dir.path().join(killed).join("network/config.toml").exists() {
        assert!(begun.elapsed() < Duration::from_secs(120) && running.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(2));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let asked = ["train", "--data", "mail.csv", "--resume", "--json"];
    let output = lessen(dir.path(), &asked);
    let said = stderr(&output);
    assert!(
        output.status.success() && said.contains("going on with runs/mail-2"),
        "{said}"
    );
    let resumed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = |out: &str, file: &str| fs::read(dir.path().join(out).join(file)).unwrap();
    for file in ["model/model.safetensors", "model/tokenizer.json", "config.toml"] {
        assert!(read("whole", file) == read(killed, file), "{file}");
    }
    let whole: Value = serde_json::from_slice(&read("whole", "choice.json")).unwrap();
    assert_eq!(whole["result"]["scores"], resumed["result"]["scores"]);
    let sentence = refuse(dir.path(), &asked);
    assert!(
        sentence.contains("no training of mail without a recipe is under way in runs/"),
        "{sentence}"
    );
}

#[test]
fn rows_without_a_label_are_left_out_and_remarks_are_made_once() {
    let dir = tempfile::tempdir().unwrap();
    mails(dir.path());
    let file = dir.path().join("mail.csv");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}our meeting is off,\nour prize is off,\n")).unwrap();
    let output = lessen(dir.path(), &train("run", &["-q"]));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for remark in [
        "2 rows have no label and are left out, such as",
        "there is no dev file: 48 of 240",
    ] {
        assert_eq!(said.matches(remark).count(), 1, "{said}");
    }
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&printed["look"]["unlabelled"], &printed["result"]["examples"]),
        (&2.into(), &48.into())
    );
    fs::write(&file, "text,label\na one,\nb two,\nc three,\nd four,\n").unwrap();
    let sentence = refuse(dir.path(), &train("none", &[]));
    assert!(sentence.contains("no example with a label"), "{sentence}");
}

#[test]
fn a_table_is_learned_and_its_rows_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("id;rooms;city;built;price\n");
    for i in 0..300 {
        let (rooms, city) = (1 + i * 7 % 6, ["Bonn", "Köln", "Trier"][i % 3]);
        let price = 50.0 * rooms as f64 + [0.0, 100.0, 40.0][i % 3] + (i % 5) as f64;
        let rooms = if i % 50 == 7 { String::new() } else { rooms.to_string() };
        text.push_str(&format!("h{i};{rooms};{city};19{:02}-04-01;{price:.1}\n", i % 90));
    }
    fs::write(dir.path().join("houses.csv"), text).unwrap();
    let asked = [
        "train",
        "--data",
        "houses.csv",
        "--out",
        "run",
        "--json",
        "--minutes",
        "0.2",
    ];
    let printed = json(dir.path(), &asked);
    let scores = printed["result"]["scores"].as_array().unwrap();
    let of = |name: &str| {
        let own = scores.iter().find(|own| own["name"] == name).unwrap();
        own["scores"]["R2"]["value"].as_f64().unwrap()
    };
    assert!(
        of("mean").abs() < 0.2 && of(printed["chosen"].as_str().unwrap()) > 0.8,
        "{scores:?}"
    );
    succeed(
        dir.path(),
        &["predict", "run", "--input", "houses.csv", "--output", "answers.csv"],
    );
    let answers = fs::read_to_string(dir.path().join("answers.csv")).unwrap();
    let mut lines = answers.lines();
    assert_eq!(lines.next(), Some("id,rooms,city,built,price,score"));
    let near = lines.filter(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: &str| cell.parse::<f64>().unwrap();
        (number(cells[4]) - number(cells[5])).abs() < 60.0
    });
    assert!(near.count() > 240, "{answers}");
    let row = r#"{"rooms": 3, "city": "Köln", "built": "1950-01-01"}"#;
    let found = json(dir.path(), &["predict", "run", "--text", row, "--json"]);
    assert!((found["score"].as_f64().unwrap() - 252.0).abs() < 60.0, "{found}");
    fs::write(dir.path().join("other.csv"), "rooms,town\n3,Bonn\n").unwrap();
    let sentence = refuse(dir.path(), &["predict", "run", "--input", "other.csv"]);
    assert!(sentence.contains("city"), "{sentence}");
    let sentence = refuse(dir.path(), &["predict", "run", "--image", "a.png"]);
    assert!(sentence.contains("reads tables"), "{sentence}");
}

#[test]
fn rows_of_a_group_are_held_out_together_unless_flags_say_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("text,user,day,label\n");
    for i in 0..240 {
        let (word, label) = [("meeting", "ham"), ("prize", "spam")][i % 2];
        let day = 1 + i / 10;
        text.push_str(&format!(
            "our {word} is at noon {},u{},2024-01-{day:02},{label}\n",
            i % 7,
            i % 24
        ));
    }
    fs::write(dir.path().join("mail.csv"), text).unwrap();
    let validation = |printed: &Value| printed["choices"][0]["value"].as_str().unwrap().to_string();
    let printed = json(dir.path(), &train("run", &[]));
    assert_eq!(validation(&printed), "about 20.0 % of the rows, by user");
    let config = fs::read_to_string(dir.path().join("run/config.toml")).unwrap();
    assert!(config.contains("group_by = \"user\""), "{config}");
    // The data is read as it was for the training.
    let chosen = printed["chosen"].as_str().unwrap();
    let scores = printed["result"]["scores"].as_array().unwrap();
    let own = scores.iter().find(|own| own["name"] == chosen).unwrap();
    let found = json(dir.path(), &["eval", "run", "--json"]);
    assert_eq!(found["dev_accuracy"], own["scores"]["accuracy"]["value"]);
    let day = json(dir.path(), &train("day", &["--set", "data.time_by=day"]));
    assert_eq!(
        (validation(&day), day["interrupted"].as_bool()),
        ("20.0 % of the rows".to_string(), Some(false))
    );
    for (flags, words) in [
        (
            &["--set", "data.group_by=user", "--set", "data.time_by=day"][..],
            "(--set data.group_by=user) does not go with data.time_by",
        ),
        (
            &["--set", "data.group_by=person"],
            "mail.csv line 1 has no column 'person' (data.group_by)",
        ),
        (
            &["--set", "data.time_by=label"],
            "has its labels in the column 'label' (data.time_by)",
        ),
        (
            &["--set", "data.time_by=user"],
            "mail.csv line 2 has 'u0' in the column 'user' (data.time_by), which is no time",
        ),
    ] {
        let sentence = refuse(dir.path(), &train("no", flags));
        assert!(sentence.contains(words), "{sentence}");
        assert!(!dir.path().join("no").exists());
    }
}

#[test]
fn nothing_to_learn_is_said_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, words) in [
        ("one.csv", "text,label\nsun,a\nrain,a\nsnow,a\nhail,a\n", "class"),
        ("two.csv", "text,label\nsun,a\nrain,b\n", "2 examples"),
        ("empty.csv", "text,label\n", "0 examples"),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let sentence = refuse(dir.path(), &["train", "--data", name, "--out", "run"]);
        assert!(sentence.contains(words), "{sentence}");
        assert!(!dir.path().join("run").exists(), "{name}");
    }
    mails(dir.path());
    let sentence = refuse(
        dir.path(),
        &["train", "--data", "mail.csv", "--out", "run", "--minutes", "0"],
    );
    assert!(sentence.contains("--minutes 0 is no time"), "{sentence}");
    let sentence = refuse(dir.path(), &["train", "adder", "--minutes", "1"]);
    assert!(sentence.contains("--minutes is for"), "{sentence}");
    let sentence = refuse(dir.path(), &train("run", &["--set", "model.kind=gpt2"]));
    assert!(sentence.contains("model.kind"), "{sentence}");
    assert!(!dir.path().join("run").exists());
}

#[test]
fn a_look_at_data_fits_on_a_screen() {
    let dir = tempfile::tempdir().unwrap();
    mails(dir.path());
    let text = succeed(dir.path(), &["data", "mail.csv"]);
    assert!(
        text.lines().count() <= 24 && text.contains("a class for each text"),
        "{text}"
    );
    let found = json(dir.path(), &["data", "mail.csv", "--json"]);
    assert_eq!(
        (&found["task"], &found["rows"]["train"]),
        (&Value::from("classes"), &Value::from(240))
    );
    let sentence = refuse(dir.path(), &["data", "none.csv"]);
    assert!(sentence.contains("none.csv"), "{sentence}");
}

#[test]
fn few_rows_and_rare_classes_are_learned_as_others() {
    let dir = tempfile::tempdir().unwrap();
    // One row alone has another class, of which halves of the rows teach nothing.
    let mut text = String::from("text,label\n");
    for i in 0..280 {
        let label = if i == 3 { "rare" } else { "common" };
        text.push_str(&format!("our word{} of day {i},{label}\n", i * 7 % 13));
    }
    fs::write(dir.path().join("mail.csv"), text).unwrap();
    assert_eq!(json(dir.path(), &train("run", &[]))["interrupted"], false);
    // Batches have at most the rows that there are.
    fs::write(dir.path().join("six.csv"), "x,label\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n").unwrap();
    let asked = ["train", "--data", "six.csv", "--steps", "5", "--out", "six", "--json"];
    assert_eq!(json(dir.path(), &asked)["look"]["task"], "table_classes");
}

#[test]
fn a_model_that_diverges_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    mails(dir.path());
    let printed = json(dir.path(), &train("run", &["--set", "train.lr=1e30"]));
    assert_eq!(printed["chosen"], "linear");
    let verdict = printed["result"]["verdict"].to_string();
    assert!(verdict.contains("the network model is left out: the loss"), "{verdict}");
}

#[test]
fn files_that_are_no_rows_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let tags: String = (0..6).map(|i| format!("Ann{i}\tB-PER\nsits\tO\n\n")).collect();
    for (name, text, words) in [
        ("tags.conll", &tags[..], "name a folder with train.txt and dev.txt"),
        ("short.txt", "Hello world.\n", "at least 500 are needed"),
        (
            "list.json",
            "[{\"text\": \"sun\", \"label\": \"a\"}]\n",
            "write an object in each line",
        ),
        ("sheet.xlsx", "PK", "save it as CSV"),
        (
            "cat.png",
            "PNG",
            "name a folder that has a folder of images for each class",
        ),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let sentence = refuse(dir.path(), &["train", "--data", name, "--out", "run"]);
        assert!(sentence.contains(name) && sentence.contains(words), "{sentence}");
        assert!(!dir.path().join("run").exists(), "{name}");
    }
}

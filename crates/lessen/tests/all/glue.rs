//! The tasks of GLUE through the command: found by their folders, scored by their metrics.

use crate::support::*;
use std::fs;
use std::path::Path;

/// A model that learns a few words in a moment.
const SMALL: [&str; 14] = [
    "--set",
    "model.layers=1",
    "--set",
    "model.width=16",
    "--set",
    "model.ffn=32",
    "--set",
    "data.max_length=8",
    "--set",
    "train.batch=6",
    "--set",
    "train.lr=0.02",
    "--steps",
    "150",
];

fn write(folder: &Path, train: &str, dev: &str) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("train.tsv"), train).unwrap();
    fs::write(folder.join("dev.tsv"), dev).unwrap();
}

#[test]
fn a_task_is_found_by_its_folder_and_scored_by_its_metric() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines = |text: &str, label: u8, count: usize| format!("x\t{label}\t\t{text}\n").repeat(count);
    let train = lines("sun", 1, 12) + &lines("rain", 0, 12);
    // Who has learned the words is right but twice: tp 8, fp 2, tn 8, fn 0.
    let dev = lines("sun", 1, 8) + &lines("sun", 0, 2) + &lines("rain", 0, 8);
    write(&dir.join("CoLA"), &train, &dev);
    let args = ["train", "glue", "--data", "CoLA", "--out", "cola", "--json"];
    let report = json(dir, &[&args[..], &SMALL].concat());
    let matthews = report["dev_matthews"].as_f64().unwrap();
    assert!((matthews - 64.0 / 80.0).abs() < 1e-12, "{report}");
    let head = "sentence1\tsentence2\tscore\n";
    write(
        &dir.join("STS-B"),
        &format!("{head}sun\train\t0\n"),
        &format!("{head}sun\tsun\t5\n"),
    );
    assert_eq!(
        refuse(dir, &["eval", "cola", "--data", "STS-B"]),
        "error: the data has scores but the model tells classes apart; name data of the same task"
    );
    // These are single texts: a tab is a character like any other.
    let ask = |text| json(dir, &["predict", "cola", "--text", text, "--json"])["probabilities"].clone();
    assert_eq!(ask("su\tn"), ask("su~n"));
}

#[test]
fn pairs_are_scored_by_rank_and_asked_with_a_tab_between() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let scores = [("sun", 0.0), ("rain", 1.0), ("hail", 1.5), ("fog", 5.0)];
    let head = "sentence1\tsentence2\tscore\n";
    let lines: String = scores
        .iter()
        .map(|(word, score)| format!("{word}\tx\t{score}\n"))
        .collect();
    write(
        &dir.join("scores"),
        &format!("{head}{}", lines.repeat(6)),
        &format!("{head}{lines}"),
    );
    let args = ["train", "glue", "--data", "scores", "--out", "sts", "--json"];
    assert!(refuse(dir, &[&args[..], &SMALL].concat()).contains("which task of GLUE?"));
    let task = ["--set", "data.task=STS-B"];
    let report = json(dir, &[&args[..], &SMALL, &task].concat());
    // In the right order, though not on a line.
    let score = |name: &str| report[name].as_f64().unwrap();
    assert!((score("dev_spearman") - 1.0).abs() < 1e-12, "{report}");
    assert!(score("dev_pearson") < 1.0 - 1e-6, "{report}");
    let ask = |text| {
        json(dir, &["predict", "sts", "--text", text, "--json"])["score"]
            .as_f64()
            .unwrap()
    };
    assert!(ask("fog\tx") > ask("hail\tx") && ask("rain\tx") > ask("sun\tx"));
    assert_eq!(
        ask("fog\tx"),
        ask("fogx"),
        "the words of a pair follow on each other without the tab"
    );
}

#[test]
fn test_files_are_answered_as_the_server_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let head = "index\tsentence1\tsentence2\tlabel\n";
    let lines = |word: &str, label: &str| format!("0\t{word}\tx\t{label}\n");
    let train = lines("sun", "entailment").repeat(12) + &lines("rain", "not_entailment").repeat(12);
    write(&dir.join("RTE"), &format!("{head}{train}"), &format!("{head}{train}"));
    let args = ["train", "glue", "--data", "RTE", "--out", "rte", "--json"];
    assert_eq!(json(dir, &[&args[..], &SMALL].concat())["dev_accuracy"], 1.0);
    let test = "index\tsentence1\tsentence2\n0\train\tx\n1\tsun\tx\n2\tsun\tx\n";
    fs::write(dir.join("RTE/test.tsv"), test).unwrap();
    let predict = |model: &str, out: &str| {
        succeed(dir, &["predict", model, "--glue", "RTE", "--output", out]);
        fs::read_to_string(dir.join(out).join("RTE.tsv")).unwrap()
    };
    let answers = "index\tprediction\n0\tnot_entailment\n1\tentailment\n2\tentailment\n";
    assert_eq!(predict("rte", "out"), answers);
    // From a plain folder whose model numbers the classes otherwise.
    fs::rename(dir.join("rte/model"), dir.join("plain")).unwrap();
    // The name of the data's folder says what it is.
    assert_eq!(
        json(dir, &["eval", "plain", "--data", "RTE", "--json"])["dev_accuracy"],
        1.0
    );
    let config = fs::read_to_string(dir.join("plain/config.json")).unwrap();
    let turned = config.replace("\"0\": \"entailment\"", "\"0\": \"NOT_entailment\"");
    let turned = turned.replace("\"1\": \"not_entailment\"", "\"1\": \"entailment\"");
    assert_ne!(turned, config);
    fs::write(dir.join("plain/config.json"), turned).unwrap();
    let opposite = "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n";
    assert_eq!(predict("plain", "turned"), opposite);
    fs::rename(dir.join("RTE"), dir.join("data")).unwrap();
    let glue = ["--set", "data.format=glue", "--set", "data.task=RTE"];
    let args = ["eval", "plain", "--data", "data", "--json"];
    assert_eq!(json(dir, &[&args[..], &glue].concat())["dev_accuracy"], 0.0);
    fs::rename(dir.join("data"), dir.join("RTE")).unwrap();

    let refused = |args: &[&str]| refuse(dir, &[&["predict", "plain", "--output", "no", "--glue"], args].concat());
    for name in ["CoLA", "titles"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    assert_eq!(
        refused(&["nowhere"]),
        "error: --glue: there is no folder nowhere; check the path"
    );
    assert!(refused(&["CoLA"]).contains("the data's classes are unacceptable, acceptable but the model's are"));
    assert!(refused(&["titles"]).contains("which task of GLUE?"));
    fs::remove_file(dir.join("RTE/test.tsv")).unwrap();
    assert!(refused(&["RTE"]).contains("there is no test.tsv in RTE"));
    assert!(!dir.join("no").exists());
}

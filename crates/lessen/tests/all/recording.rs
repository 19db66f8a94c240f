//! Recorded statistics of a run: where they are found, and that they change nothing else.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const RECORD: &[&str] = &["--set", "record.every=4", "--set", "record.split=both"];

/// The lines of the metrics of a run.
fn metrics(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_that_records_ends_with_the_same_bits_and_has_statistics() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let train = [
        "--steps",
        "10",
        "--set",
        "train.eval_every=5",
        "--set",
        "model.dropout=0.1",
    ];
    for (out, more) in [("plain", &[][..]), ("recorded", RECORD)] {
        succeed(dir, &tiny_adder(&[&train, more, &["--out", out]].concat()));
    }
    let (plain, recorded) = (dir.join("plain"), dir.join("recorded"));
    for file in ["model/model.safetensors", "best/model.safetensors"] {
        assert!(
            fs::read(plain.join(file)).unwrap() == fs::read(recorded.join(file)).unwrap(),
            "{file}"
        );
    }

    let losses = |out: &Path| -> Vec<Value> {
        metrics(out)
            .into_iter()
            .filter_map(|mut line| line.get_mut("loss").map(Value::take))
            .collect()
    };
    assert_eq!(losses(&plain), losses(&recorded));
    assert!(
        metrics(&plain)
            .iter()
            .all(|line| line.as_object().unwrap().keys().all(|key| !key.contains("stat/")))
    );
    let of = |prefix: &str| -> Vec<Value> {
        let name = format!("{prefix}/transformer.h.0.mlp.pre_activation/std");
        metrics(&recorded)
            .into_iter()
            .filter(|line| line.get(&name).is_some())
            .collect()
    };
    for prefix in ["stat", "dev_stat"] {
        let lines = of(prefix);
        let steps: Vec<u64> = lines.iter().map(|line| line["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, [4, 8, 10], "every fourth step and the last");
        let line = &lines[0];
        let number = |name: &str| line[format!("{prefix}/transformer.h.0.{name}")].as_f64().unwrap();
        // 16 examples of 11 tokens, 32 units each.
        assert_eq!(number("mlp.pre_activation/count"), 16.0 * 11.0 * 32.0);
        // Causal attention of two heads.
        assert_eq!(number("attn.attention_weights/count"), 16.0 * 2.0 * 66.0);
        assert!((0.0..11f64.ln()).contains(&number("attn.attention_weights/entropy")));
        let bins = line[format!("{prefix}/transformer.h.0.mlp.pre_activation/histogram")]
            .as_array()
            .unwrap();
        let counts: f64 = bins.iter().map(|bin| bin[2].as_f64().unwrap()).sum();
        assert_eq!(counts, 16.0 * 11.0 * 32.0);
    }
    let events = |out: &Path| {
        let mut files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
        let file = files
            .find(|file| file.file_name().to_string_lossy().contains("tfevents"))
            .unwrap();
        fs::read(file.path()).unwrap()
    };
    let tag = b"dev_stat/transformer.h.0.attn.attention_weights/histogram";
    assert!(
        events(&recorded)
            .windows(tag.len())
            .filter(|window| window == tag)
            .count()
            == 3
    );
}

#[test]
fn a_recording_of_some_names_is_planned_and_other_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |more: &[&str]| json(dir.path(), &[&["plan", "adder", "--json"], TINY_ADDER, more].concat());
    let peak = |plan: &Value| plan["peak_bytes"].as_u64().unwrap();
    let (plain, recorded) = (plan(&[]), plan(RECORD));
    assert!(peak(&recorded) >= peak(&plain));
    for (what, expected) in [
        (
            "record.what=mlp",
            "nothing that the model observes is called mlp; it has ",
        ),
        ("record.what=a,,b", "'a,,b' is no list of what to record"),
    ] {
        let sentence = refuse(dir.path(), &[&["plan", "adder"], RECORD, &["--set", what]].concat());
        assert!(
            sentence.contains(expected) && sentence.contains("--set record.what="),
            "{sentence}"
        );
    }
    let sentence = refuse(dir.path(), &["plan", "adder", "--set", "record.split=test"]);
    assert!(
        sentence.contains("record.split must be one of train, dev, both"),
        "{sentence}"
    );
}

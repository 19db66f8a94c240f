//! Tests of what the commands print and which files they leave.

use crate::support::*;
use std::fs;

#[test]
fn a_run_is_a_folder_and_its_json_has_the_promised_keys() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let report = json(
        dir,
        &tiny_adder(&["--steps", "6", "--set", "train.eval_every=3", "--json"]),
    );
    for key in [
        "steps",
        "loss",
        "loss_history",
        "dev_accuracy",
        "compile_ms",
        "step_ms",
        "samples_per_s",
        "out",
    ] {
        assert!(!report[key].is_null(), "{key}: {report}");
    }
    assert_eq!(report["loss_history"].as_array().unwrap().len(), 6);
    assert_eq!(report["out"], "runs/adder-1");
    let run = dir.join("runs/adder-1");
    for file in [
        "config.toml",
        "metrics.jsonl",
        "report.json",
        "report.md",
        "model/config.json",
        "model/model.safetensors",
        "model/tokenizer.json",
        "best/model.safetensors",
        "checkpoints/step-6/training.json",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let names = fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("events.out.tfevents")).count(), 1);
    let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 6 + 2, "a line for each step and each evaluation");

    // The number is the number of the checkpoint.
    let score = json(dir, &["eval", "runs/adder-1", "--json"]);
    assert_eq!(
        (&score["dev_accuracy"], &score["dev_loss"]),
        (&report["dev_accuracy"], &report["dev_loss"])
    );
    for split in ["test", "train"] {
        let sentence = refuse(dir, &["eval", "runs/adder-1", "--split", split]);
        assert!(
            sentence.contains(&format!("no split called {split}")) && sentence.contains("choose dev"),
            "{sentence}"
        );
    }
    // The next run has a folder of its own.
    assert_eq!(
        json(dir, &tiny_adder(&["--steps", "1", "--json"]))["out"],
        "runs/adder-2"
    );
    let sum = json(dir, &["predict", "runs/adder-1", "--text", "123 + 456", "--json"]);
    assert!(sum["answer"].as_str().unwrap().starts_with("123+456="), "{sum}");
    assert!(refuse(dir, &["predict", "runs/adder-1", "--text", "one"]).contains("'one' is no sum"));
    let text = json(
        dir,
        &[
            "generate",
            "runs/adder-1",
            "--prompt",
            "123+456=",
            "--temperature",
            "0",
            "--json",
        ],
    );
    assert!(text["text"].as_str().unwrap().chars().count() <= 4, "{text}");
}

#[test]
fn a_classifier_learns_is_evaluated_and_asked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", "schedule = \"linear\"\n"));
    let args = train_on(&recipe, &data, &["--steps", "60", "--out", "run", "--json"]);
    let report = json(dir, &args);
    assert_eq!(report["dev_accuracy"], 1.0, "{report}");
    let confusion = fs::read_to_string(dir.join("run/confusion.json")).unwrap();
    assert_eq!(
        confusion,
        "{\"step\":60,\"classes\":[\"fair\",\"foul\"],\"counts\":[[6,0],[0,6]]}\n"
    );
    let answer = json(dir, &["predict", "run", "--text", "day 7 rain", "--json"]);
    assert_eq!(answer["label"], "foul", "{answer}");
    let sum: f64 = answer["probabilities"]
        .as_object()
        .unwrap()
        .values()
        .map(|share| share.as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9);
    assert!(refuse(dir, &["generate", "run", "--prompt", "x"]).contains("lessen predict"));
    // A title may have a tab of its own: a character like any other that the vocabulary does not know.
    let ask = |text| json(dir, &["predict", "run", "--text", text, "--json"])["probabilities"].clone();
    assert_eq!(ask("day\t7 rain"), ask("day~7 rain"));
    assert_ne!(ask("day\t7 rain"), ask("day7 rain"));
    let printed = succeed(dir, &["eval", "run", "--split", "train"]);
    assert!(
        printed.contains("on 40 examples of train: accuracy 100.00 %"),
        "{printed}"
    );
    // From elsewhere, too: the run knows where its data is.
    let elsewhere = tempfile::tempdir().unwrap();
    succeed(elsewhere.path(), &["eval", text(&dir.join("run"))]);
}

#[test]
fn other_data_is_scored_by_the_names_of_its_classes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let args = train_on(&recipe, &data, &["--steps", "60", "--out", "run"]);
    succeed(dir, &args);
    let other = dir.join("other");
    fs::create_dir(&other).unwrap();
    let lines = |sun: u8, rain: u8| {
        let line = |day| format!("day {day} sun\t{sun}\nday {day} rain\t{rain}\n");
        (60..70).map(line).collect::<String>()
    };
    let write = |sun, rain, names: &str| {
        fs::write(other.join("train.txt"), lines(sun, rain)).unwrap();
        fs::write(other.join("dev.txt"), lines(sun, rain)).unwrap();
        fs::write(other.join("class.txt"), names).unwrap();
    };
    let eval = ["eval", "run", "--data", "other", "--json"];
    let accuracy = || json(dir, &eval)["dev_accuracy"].clone();
    write(1, 0, "foul\nfair\n");
    assert_eq!(accuracy(), 1.0, "the names say what the numbers mean");
    write(0, 1, "windy\nfoul\n");
    assert_eq!(
        refuse(dir, &eval),
        "error: the data's classes are windy, foul but the model's are fair, foul; name data of the same task"
    );
    fs::remove_file(other.join("class.txt")).unwrap();
    assert_eq!(accuracy(), 1.0, "without names the numbers are the model's own");
}

#[test]
fn a_run_with_settings_that_its_model_cannot_follow_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint(dir, "encoder");
    let path = dir.join("first/config.toml");
    let written = fs::read_to_string(&path).unwrap();
    let changed = written.replace("max_length = 12", "max_length = 13");
    assert_ne!(changed, written);
    fs::write(&path, changed).unwrap();
    for args in [&["eval", "first"][..], &["predict", "first", "--text", "sun"]] {
        let sentence = refuse(dir, args);
        assert!(
            sentence.contains("data.max_length = 13 (")
                && sentence.contains("is more than the 12 positions of the model in ")
                && sentence.ends_with("restore the run's config.toml"),
            "{sentence}"
        );
    }
}

#[test]
fn a_single_class_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let recipe = classifier(dir, "encoder", "");
    let data = titles(dir);
    fs::write(data.join("class.txt"), "fair\n").unwrap();
    for file in ["train.txt", "dev.txt"] {
        fs::write(data.join(file), "sun\t0\nday\t0\n").unwrap();
    }
    let sentence = refuse(dir, &train_on(&recipe, &data, &["--out", "run"]));
    assert!(sentence.contains("class.txt has only one class"), "{sentence}");
    assert!(!dir.join("run").exists());
}

#[test]
fn a_language_model_learns_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let small = [
        "--set",
        "model.layers=1",
        "--set",
        "model.width=16",
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=32",
        "--set",
        "data.max_length=16",
        "--set",
        "train.batch=4",
        "--set",
        "train.warmup=5",
        "--set",
        "train.lr=0.02",
        "--set",
        "train.eval_every=0",
    ];
    let args = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "250",
        "--out",
        "run",
        "--json",
    ];
    let report = json(dir, &[&args[..], &small].concat());
    let loss = report["dev_loss"].as_f64().unwrap();
    assert!(
        loss < 0.3 && report["dev_accuracy"].is_null() && report["tokens_per_s"].is_number(),
        "{report}"
    );
    assert!(report["showcase"][0].is_string(), "{report}");
    let score = json(dir, &["eval", "run", "--json"]);
    assert_eq!(score["dev_loss"], report["dev_loss"]);
    // Longer than the model's 16 positions: the past is read again.
    let args = [
        "generate",
        "run",
        "--prompt",
        "abc",
        "--temperature",
        "0",
        "--tokens",
        "40",
        "--json",
    ];
    let text = json(dir, &args);
    let text = text["text"].as_str().unwrap();
    assert!(text.chars().count() == 40 && text.matches("abc").count() >= 8, "{text}");
    assert!(refuse(dir, &["generate", "run", "--prompt", ""]).contains("the prompt has no tokens"));
    assert!(refuse(dir, &["predict", "run", "--text", "abc"]).contains("lessen generate"));
}

#[test]
fn a_plan_is_the_truth_and_a_budget_changes_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let plan_args = [&["plan", "adder"], TINY_ADDER].concat();
    let plan = json(dir, &[&plan_args[..], &["--json"]].concat());
    let floor = plan["floor_bytes"].as_u64().unwrap();
    assert!(
        plan["feasible"] == true && !plan["largest"].as_array().unwrap().is_empty(),
        "{plan}"
    );
    let report = json(dir, &tiny_adder(&["--steps", "3", "--out", "free", "--json"]));
    assert_eq!(report["peak_bytes"]["plans"], plan["plans_bytes"]);
    let budget = format!("{floor}B");
    let report = json(
        dir,
        &tiny_adder(&["--steps", "3", "--out", "tight", "--budget", &budget, "--json"]),
    );
    assert!(report["peak_bytes"]["planned"].as_u64().unwrap() <= floor);
    let weights = |run: &str| fs::read(dir.join(run).join("model/model.safetensors")).unwrap();
    assert!(weights("free") == weights("tight"));
    let output = lessen(dir, &[&plan_args[..], &["--budget", "1KiB", "--json"]].concat());
    let under: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(under["feasible"] == false && under["peak_bytes"].is_null(), "{under}");
    assert_eq!(output.status.code(), Some(2));
    let sentence = stderr(&output);
    assert!(
        sentence.starts_with("error: the budget of 1.0 KiB is below the floor of ")
            && sentence.contains(&format!("({} bytes)", under["floor_bytes"])),
        "{sentence}"
    );
    let printed = succeed(dir, &plan_args);
    assert!(
        printed.contains("the largest values")
            && printed.contains("\n      size      steps  type                   value\n"),
        "{printed}"
    );
    let graph = succeed(dir, &[&plan_args[..], &["--dump", "graph"]].concat());
    let parsed = lessen::graph::parse(&graph, &lessen::graph::Registry::standard()).unwrap();
    assert_eq!(lessen::graph::print(&parsed), graph);
}

#[test]
fn recipes_are_listed_and_start_recipes_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let listed = succeed(dir, &["recipes"]);
    for name in [
        "adder",
        "thucnews",
        "shakespeare",
        "bert-classifier",
        "gpt2-lm",
        "llama-lm",
        "glue",
        "vit",
    ] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{listed}");
        // Every one can be planned without data and without a checkpoint.
        assert!(
            json(dir, &["plan", name, "--json"])["peak_bytes"].as_u64().unwrap() > 0,
            "{name}"
        );
    }
    fs::write(dir.join("own.toml"), succeed(dir, &["recipes", "adder"])).unwrap();
    let args = [&["train", "own.toml"], TINY_ADDER, &["--steps", "1", "--json"]].concat();
    assert_eq!(json(dir, &args)["recipe"], "own");
    assert!(succeed(dir, &["recipes", "--keys"]).contains("train.clip_norm"));
}

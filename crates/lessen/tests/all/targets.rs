//! Labels that are no single class, through the command: numbers, and several labels for a text.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A recipe whose model learns a few words in a moment.
fn recipe(dir: &Path, problem: &str, more: &str) -> String {
    let path = classifier(dir, "encoder", more);
    let recipe = fs::read_to_string(&path).unwrap();
    let recipe = recipe.replace(
        "[train]\nbatch = 8\nsteps = 4\n",
        "[train]\nbatch = 8\nsteps = 150\neval_every = 50\n",
    );
    let recipe = recipe.replace(
        "format = \"labelled\"\n",
        &format!("format = \"labelled\"\nproblem = \"{problem}\"\n"),
    );
    fs::write(&path, recipe).unwrap();
    text(&path).to_string()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Films with stars: each review has two words, and each word adds its own stars.
fn films(dir: &Path) {
    let line = |i: usize| {
        let words = [("bad", 1.0), ("fair", 2.5), ("good", 4.0)];
        let (first, second) = (words[i % 3], words[(i / 3) % 3]);
        format!("{},{},{i}\n", [first.0, second.0].join(" "), (first.1 + second.1) / 2.0)
    };
    let lines: String = (0..90).map(line).collect();
    fs::write(dir.join("films.csv"), format!("review,stars,id\n{lines}")).unwrap();
}

#[test]
fn numbers_are_learned_from_a_file_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    films(dir);
    let recipe = recipe(dir, "regression", "patience = 9\n");
    let args = ["train", &recipe, "--data", "films.csv", "--out", "run", "--json"];
    let report = json(dir, &args);
    assert!(number(&report["dev_mse"]) < 0.1, "{report}");
    assert!(
        number(&report["dev_pearson"]) > 0.95 && number(&report["dev_spearman"]) > 0.9,
        "{report}"
    );
    assert!(
        (number(&report["dev_mse"]) - number(&report["dev_loss"])).abs() < 1e-5,
        "{report}"
    );
    // Less of an error is better.
    let history = fs::read_to_string(dir.join("run/metrics.jsonl")).unwrap();
    let lines = history.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let least = lines
        .filter_map(|line| line["dev_mse"].as_f64())
        .fold(f64::MAX, f64::min);
    assert_eq!(number(&report["best_score"]), least);
    let config: Value = serde_json::from_str(&fs::read_to_string(dir.join("run/model/config.json")).unwrap()).unwrap();
    assert_eq!(config["problem_type"], "regression");

    let scores = json(dir, &["eval", "run", "--json"]);
    assert_eq!(scores["dev_mae"], report["dev_mae"]);
    assert!(scores.get("confusion").is_none());
    let told = succeed(dir, &["eval", "run"]);
    assert!(told.contains("mse ") && told.contains("spearman "), "{told}");
    // A plain folder knows from its model that labels are numbers.
    fs::rename(dir.join("run/model"), dir.join("plain")).unwrap();
    let plain = json(dir, &["eval", "plain", "--data", "films.csv", "--json"]);
    assert!(number(&plain["dev_pearson"]) > 0.9, "{plain}");
    fs::write(dir.join("new.csv"), "review,id\ngood good,1\n\"bad, bad\",2\n").unwrap();
    let answers = succeed(dir, &["predict", "plain", "--input", "new.csv"]);
    let scores: Vec<f64> = answers
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        answers.starts_with("review,id,score\ngood good,1,") && scores[0] > scores[1] + 1.0,
        "{answers}"
    );
    let one = json(dir, &["predict", "plain", "--text", "good good", "--json"]);
    assert!((number(&one["score"]) - scores[0]).abs() < 1e-5, "{one}");
}

#[test]
fn the_best_model_can_be_that_of_the_least_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    films(dir);
    let recipe = recipe(dir, "regression", "best = \"mae\"\n");
    let args = |out| {
        [
            "train",
            &*recipe,
            "--data",
            "films.csv",
            "--json",
            "--out",
            out,
            "--set",
        ]
    };
    let report = json(dir, &[&args("run")[..], &["train.steps=100"]].concat());
    assert_eq!(
        number(&json(dir, &["eval", "run", "--json"])["dev_mae"]),
        number(&report["best_score"])
    );
    let refused = |set: &str| refuse(dir, &[&args("other")[..], &[set]].concat());
    assert!(refused("train.best=accuracy").ends_with("choose one of mae, mse, pearson, spearman, loss"));
    assert!(refused("train.loss=norm_softmax").contains("the data has scores, which are learned by squared errors"));
    assert!(refused("train.class_weights=balanced").contains("is for data with a class for each text; leave it out"));
    assert!(refused("data.threshold=0.3").contains("is for texts with several labels"));
    assert!(
        refused("data.label=review").ends_with(
            "films.csv line 2 has 'bad bad' in the column 'review', which is no number; write one such as 3.5"
        )
    );
}

/// Posts that can be rude, spam, both or neither, with a column for each.
fn posts(dir: &Path, name: &str) {
    let line = |i: usize| {
        let (rude, spam) = (i % 2, (i / 2) % 2);
        let words = [["hello", "idiot"][rude], ["friend", "buy"][spam]];
        format!("{i},{},{rude},{spam}\n", words.join(" "))
    };
    let lines: String = (0..80).map(line).collect();
    fs::write(dir.join(name), format!("id,text,rude,spam\n{lines}")).unwrap();
}

#[test]
fn several_labels_are_learned_from_columns_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    posts(dir, "posts.csv");
    let recipe = recipe(dir, "multi_label_classification", "");
    let args = ["train", &recipe, "--data", "posts.csv", "--out", "run"];
    let output = lessen(dir, &args);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the labels are the columns rude, spam"), "{said}");
    let report: Value = serde_json::from_str(&fs::read_to_string(dir.join("run/report.json")).unwrap()).unwrap();
    for score in ["dev_micro_f1", "dev_macro_f1", "dev_subset_accuracy"] {
        assert_eq!(number(&report[score]), 1.0, "{score}");
    }
    assert_eq!(report["unknown_tokens"]["training"], 0.0);
    let labels: Value = serde_json::from_str(&fs::read_to_string(dir.join("run/labels.json")).unwrap()).unwrap();
    assert_eq!(
        (&labels["labels"][0]["name"], &labels["labels"][1]["f1"]),
        (&"rude".into(), &1.0.into())
    );
    succeed(dir, &["report", "run", "--out", "page.html"]);
    assert!(
        fs::read_to_string(dir.join("page.html"))
            .unwrap()
            .contains("Labels in the last evaluation")
    );

    let scores = json(dir, &["eval", "run", "--json"]);
    assert_eq!(
        (&scores["classes"][0]["name"], &scores["micro"]["f1"]),
        (&"rude".into(), &1.0.into())
    );
    let told = succeed(dir, &["eval", "run"]);
    assert!(
        told.contains("subset accuracy 100.00 %") && told.contains("\nweighted mean"),
        "{told}"
    );
    // A plain folder knows from its model that a text can have several labels, and which.
    succeed(dir, &["export", "run", "plain"]);
    let config: Value = serde_json::from_str(&fs::read_to_string(dir.join("plain/config.json")).unwrap()).unwrap();
    assert_eq!(config["problem_type"], "multi_label_classification");
    fs::write(
        dir.join("more.jsonl"),
        "{\"text\": \"idiot buy\", \"labels\": [\"spam\", \"rude\"]}\n{\"text\": \"hello friend\", \"labels\": []}\n",
    )
    .unwrap();
    let plain = json(dir, &["eval", "plain", "--data", "more.jsonl", "--json"]);
    assert_eq!(
        (&plain["examples"], &plain["dev_subset_accuracy"]),
        (&2.into(), &1.0.into())
    );
}

#[test]
fn predicted_labels_are_those_above_a_threshold() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    posts(dir, "posts.csv");
    let recipe = recipe(dir, "multi_label_classification", "");
    succeed(
        dir,
        &["train", &recipe, "--data", "posts.csv", "--out", "run", "--json"],
    );
    fs::write(dir.join("new.txt"), "idiot buy\nhello friend\n").unwrap();
    let ask = |more: &[&str]| succeed(dir, &[&["predict", "run", "--input", "new.txt"], more].concat());
    let answers = ask(&[]);
    let rows: Vec<&str> = answers.lines().collect();
    assert_eq!((rows[0], rows[2]), ("text,labels,probability", "hello friend,,"));
    assert!(rows[1].starts_with("idiot buy,\"rude,spam\",\"0."), "{answers}");
    assert!(ask(&["--set", "data.separator=|"]).contains("idiot buy,rude|spam,0."));
    let all = ask(&["--probabilities", "--set", "data.threshold=0"]);
    assert!(
        all.starts_with("text,labels,probability,probability_rude,probability_spam\n"),
        "{all}"
    );
    assert!(all.contains("\nhello friend,\"rude,spam\",\"0."), "{all}");
    let lines = ask(&["--format", "jsonl"]);
    let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&found[0]["labels"], &found[1]["labels"]),
        (&serde_json::json!(["rude", "spam"]), &serde_json::json!([]))
    );
    assert!(number(&found[0]["probability"][1]) > 0.5, "{lines}");
    // What was predicted is data to evaluate on.
    fs::write(dir.join("back.jsonl"), &lines).unwrap();
    let back = json(
        dir,
        &[
            "eval",
            "run",
            "--data",
            "back.jsonl",
            "--set",
            "data.text=text",
            "--json",
        ],
    );
    assert_eq!(back["dev_subset_accuracy"], 1.0);
    let one = json(dir, &["predict", "run", "--text", "idiot friend", "--json"]);
    assert_eq!(one["labels"], serde_json::json!(["rude"]));
    assert_eq!(
        succeed(dir, &["predict", "run", "--text", "hello friend"]),
        "no label\n"
    );
    // In the evaluation, too.
    let low = json(dir, &["eval", "run", "--set", "data.threshold=0", "--json"]);
    assert_eq!(
        (&low["micro"]["recall"], low["micro"]["precision"].as_f64() < Some(0.9)),
        (&1.0.into(), true)
    );
}

#[test]
fn several_labels_are_learned_from_lists_and_start_from_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = |i: usize| match i % 3 {
        0 => "sun rain\twet|warm\n",
        1 => "rain\twet\n",
        _ => "fog\t\n",
    };
    fs::write(dir.join("days.txt"), (0..60).map(line).collect::<String>()).unwrap();
    let recipe = recipe(dir, "multi_label_classification", "tokens = 24\nbest = \"macro_f1\"\n");
    let args = [
        "train",
        &recipe,
        "--data",
        "days.txt",
        "--set",
        "data.separator=|",
        "--out",
        "run",
        "--json",
    ];
    let report = json(dir, &args);
    assert_eq!(number(&report["best_score"]), 1.0, "{report}");
    // The labels of a checkpoint keep their rows when others number them otherwise.
    fs::write(dir.join("class.txt"), "wet\nwarm\n").unwrap();
    fs::create_dir(dir.join("data")).unwrap();
    fs::copy(dir.join("days.txt"), dir.join("data/train.txt")).unwrap();
    fs::copy(dir.join("class.txt"), dir.join("data/class.txt")).unwrap();
    let args = ["eval", "run", "--data", "data", "--json"];
    let turned = json(dir, &args);
    assert_eq!(
        (&turned["dev_macro_f1"], &turned["classes"][0]["name"]),
        (&1.0.into(), &"wet".into())
    );
    let again = [
        "train",
        &recipe,
        "--init",
        "run/model",
        "--data",
        "data",
        "--set",
        "data.separator=|",
        "--steps",
        "1",
        "--set",
        "train.lr=0",
        "--out",
        "again",
        "--json",
    ];
    assert_eq!(number(&json(dir, &again)["dev_macro_f1"]), 1.0);

    // Other data than the model's, and keys that do not go with it.
    fs::write(dir.join("data/class.txt"), "wet\nwarm\ncold\n").unwrap();
    assert_eq!(
        refuse(dir, &args),
        "error: the data has 3 labels but the model 2; name data of the same task"
    );
    let train = |set: &str| {
        refuse(
            dir,
            &[
                "train",
                &recipe,
                "--data",
                "days.txt",
                "--set",
                "data.separator=|",
                "--set",
                set,
            ],
        )
    };
    assert!(train("train.label_smoothing=0.1").contains("but the data has several labels for a text; leave it out"));
    assert!(train("train.loss=norm_softmax").contains("a text of the data can have several"));
    assert!(train("train.best=f1").ends_with("choose one of macro_f1, micro_f1, subset_accuracy, loss"));
    assert!(train("data.format=text").contains("is for data.format = labelled, and this is text; leave it out"));
    assert!(train("data.separator=").contains("separates nothing"));
}

#[test]
fn texts_that_the_vocabulary_lacks_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines = |word: &str| {
        (0..20)
            .map(|i| format!("{word} {}\t{}\n", "ab".repeat(1 + i % 2), i % 2))
            .collect::<String>()
    };
    fs::write(dir.join("train.txt"), lines("sun")).unwrap();
    fs::write(dir.join("dev.txt"), lines("xyz")).unwrap();
    let recipe = classifier(dir, "encoder", "");
    let train = |out: &str, cache: &str| {
        let args = train_on(
            &recipe,
            Path::new("train.txt"),
            &["--set", "data.dev=dev.txt", "--out", out],
        );
        let args = [&args[..], &["--set", "data.cache=cache", "--set", cache]].concat();
        let output = lessen(dir, &args);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value =
            serde_json::from_str(&fs::read_to_string(dir.join(out).join("report.json")).unwrap()).unwrap();
        (stderr(&output), report["unknown_tokens"]["dev"].clone())
    };
    let (said, share) = train("memory", "data.cache_from=1GiB");
    assert!(
        said.contains("warning: none of the tokens of the training data and "),
        "{said}"
    );
    assert!(
        said.contains("are unknown to the vocabulary; name the folder of a tokenizer"),
        "{said}"
    );
    // Three of seven characters on average.
    assert_eq!(number(&share), 3.0 / 7.0);
    // The cache knows the count, whoever has made it.
    for out in ["cached", "cached-again"] {
        let (again, same) = train(out, "data.cache_from=1B");
        assert!(
            again.contains("warning: none of the tokens") && same == share,
            "{again}"
        );
    }
}

#[test]
fn a_regression_of_glue_is_evaluated_and_answered_from_a_plain_folder() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let head = "index\tsentence1\tsentence2";
    let lines = |score: &dyn Fn(usize) -> String| -> String {
        let words = ["sun", "rain", "fog"];
        (0..24)
            .map(|i| format!("{i}\t{}\tx{}\n", words[i % 3], score(i)))
            .collect()
    };
    let labelled = lines(&|i| format!("\t{}", [0.5, 2.5, 4.5][i % 3]));
    fs::create_dir(dir.join("STS-B")).unwrap();
    for name in ["train.tsv", "dev.tsv"] {
        fs::write(dir.join("STS-B").join(name), format!("{head}\tscore\n{labelled}")).unwrap();
    }
    fs::write(
        dir.join("STS-B/test.tsv"),
        format!("{head}\n{}", lines(&|_| String::new())),
    )
    .unwrap();
    let recipe = recipe(dir, "regression", "");
    let glue = ["--set", "data.format=glue", "--data", "STS-B", "--out", "run", "--json"];
    let report = json(dir, &[&["train", &recipe][..], &glue].concat());
    assert!(
        number(&report["dev_spearman"]) > 0.9 && number(&report["dev_mae"]) < 1.0,
        "{report}"
    );
    assert_eq!(report["best_score"], report["dev_spearman"]);
    succeed(dir, &["export", "run", "plain"]);
    let plain = json(dir, &["eval", "plain", "--data", "STS-B", "--json"]);
    assert_eq!(plain["dev_pearson"], report["dev_pearson"]);
    succeed(dir, &["predict", "plain", "--glue", "STS-B", "--output", "out"]);
    let answers = fs::read_to_string(dir.join("out/STS-B.tsv")).unwrap();
    let rows: Vec<&str> = answers.lines().collect();
    assert_eq!((rows[0], rows.len()), ("index\tprediction", 25));
    let score = |row: usize| rows[row].split('\t').nth(1).unwrap().parse::<f64>().unwrap();
    assert!(score(1) < score(2) && score(2) < score(3), "{answers}");
    let wrong = [
        "train",
        &recipe,
        "--data",
        "STS-B",
        "--set",
        "data.format=glue",
        "--set",
    ];
    let wrong = refuse(
        dir,
        &[&wrong[..], &["data.problem=single_label_classification"]].concat(),
    );
    assert!(
        wrong.ends_with("is not that of the task STS-B, regression; leave it out"),
        "{wrong}"
    );
}

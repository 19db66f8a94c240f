//! Data is read as it says: labels, numbers, folders, comments, and all of a file that is evaluated.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Settings of a classifier that trains in a moment.
const TINY: [&str; 12] = [
    "--steps",
    "2",
    "--set",
    "model.layers=1",
    "--set",
    "model.width=16",
    "--set",
    "model.heads=2",
    "--set",
    "model.ffn=16",
    "--set",
    "train.batch=4",
];

fn csv(labels: &[&str]) -> String {
    let rows: String = labels
        .iter()
        .enumerate()
        .map(|(number, label)| format!("a day {number},{label}\n"))
        .collect();
    format!("text,label\n{rows}")
}

fn train<'a>(data: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let start = ["train", "thucnews", "-q", "--data", data, "--out", out];
    [&start[..], &TINY, more].concat()
}

/// The names of a model's classes in order.
fn classes(dir: &Path, model: &str) -> Vec<String> {
    let config = fs::read_to_string(dir.join(model).join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let names = config["id2label"].as_object().unwrap();
    (0..names.len())
        .map(|class| names[&class.to_string()].as_str().unwrap().to_string())
        .collect()
}

/// Runs an evaluation; its JSON, and the lines on stderr.
fn evaluated(dir: &Path, args: &[&str]) -> (Value, String) {
    let output = lessen(dir, &[&["eval"], args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    (serde_json::from_slice(&output.stdout).unwrap(), stderr(&output))
}

#[test]
fn a_label_that_is_no_class_is_refused_with_its_line_and_never_a_number_among_names() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
    write("train.csv", &csv(&["1", "2", "3", "4", "5", "1", "2", "3", "4", "5"]));
    for (wrong, line) in [("0", 4), ("7", 4), ("1.0", 4), ("01", 4)] {
        write("dev.csv", &csv(&["1", "2", wrong, "4"]));
        let sentence = refuse(dir, &train("train.csv", "run", &["--set", "data.dev=dev.csv"]));
        assert!(
            sentence.contains(&format!(
                "dev.csv line {line} has the label '{wrong}', but the 5 classes of train.csv are 1, 2"
            )),
            "{sentence}"
        );
        assert!(!dir.join("run").exists());
    }
    succeed(dir, &train("train.csv", "run", &[]));
    assert_eq!(classes(dir, "run/model"), ["1", "2", "3", "4", "5"]);
    fs::rename(dir.join("run/model"), dir.join("plain")).unwrap();
    write("more.csv", &csv(&["0", "1", "2"]));
    let sentence = refuse(dir, &["eval", "plain", "--data", "more.csv"]);
    assert!(
        sentence.contains("more.csv line 2 has the label '0', but the 5 classes of the model are 1, 2, 3, 4, 5"),
        "{sentence}"
    );
    write("more.csv", &csv(&["5", "1", "1"]));
    let (scores, said) = evaluated(dir, &["plain", "--data", "more.csv"]);
    let rows = scores["classes"].as_array().unwrap().iter();
    let supports: Vec<f64> = rows.map(|class| class["support"].as_f64().unwrap()).collect();
    assert_eq!(supports, [2.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(said, "evaluated more.csv: 3 texts, all of it\n");
    // A model without names for its classes takes numbers, and says so.
    let config = dir.join("plain/config.json");
    let named = fs::read_to_string(&config).unwrap();
    let with_names = |names: [&str; 5]| {
        let mut changed: Value = serde_json::from_str(&named).unwrap();
        for (class, name) in names.iter().enumerate() {
            changed["id2label"][class.to_string()] = Value::from(*name);
        }
        changed["label2id"] = names
            .iter()
            .zip(0..)
            .map(|(name, class)| (name.to_string(), Value::from(class)))
            .collect();
        fs::write(&config, changed.to_string()).unwrap();
    };
    with_names(["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"]);
    write("more.csv", &csv(&["0", "4", "4"]));
    let (scores, said) = evaluated(dir, &["plain", "--data", "more.csv"]);
    assert_eq!(scores["classes"][4]["support"], 2.0);
    assert!(
        said.starts_with(
            "no label is the name of a class of the model, so labels are the numbers of classes from 0 on: 0 is LABEL_0"
        ),
        "{said}"
    );
    write("more.csv", &csv(&["LABEL_0", "LABEL_4", "LABEL_4"]));
    assert_eq!(
        evaluated(dir, &["plain", "--data", "more.csv"]).0["classes"][4]["support"],
        2.0
    );
    for labels in [["1", "2", "5"], ["good", "bad", "good"], ["LABEL_0", "1", "2"]] {
        write("more.csv", &csv(&labels));
        let sentence = refuse(dir, &["eval", "plain", "--data", "more.csv"]);
        assert!(
            sentence.contains("but the 5 classes of the model are LABEL_0"),
            "{labels:?}: {sentence}"
        );
    }
    // Two classes of one name.
    with_names(["1", "1", "3", "4", "5"]);
    let sentence = refuse(dir, &["predict", "plain", "--text", "a"]);
    assert!(
        sentence.contains("the field `id2label` calls both class 0 and class 1 1; give each class its own name"),
        "{sentence}"
    );
}

#[test]
fn numbers_of_json_are_classes_by_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, labels, expected) in [
        ("float", ["1", "0", "1.0", "0"], &["0", "1"][..]),
        (
            "big",
            ["12345678901234567890123", "12345678901234567890124", "7", "7"],
            &["7", "12345678901234567890123", "12345678901234567890124"],
        ),
    ] {
        let line = |(number, label): (usize, &&str)| format!("{{\"text\":\"day {number}\",\"label\":{label}}}\n");
        let lines: String = labels.iter().cycle().take(16).enumerate().map(line).collect();
        let file = format!("{name}.jsonl");
        fs::write(dir.join(&file), lines).unwrap();
        succeed(dir, &train(&file, name, &[]));
        let confusion = fs::read_to_string(dir.join(name).join("confusion.json")).unwrap();
        let confusion: Value = serde_json::from_str(&confusion).unwrap();
        let found = classes(dir, &format!("{name}/model"));
        assert_eq!(found.len(), expected.len(), "{confusion}");
        if name == "big" {
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_class_called_train_is_a_class_of_texts_and_of_images() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let png = lessen::data::images::png(&lessen::data::images::Image::new([8, 8, 1], (0..64).collect()));
    for class in ["bus", "car", "train"] {
        for number in 0..4 {
            for (root, ending, content) in [("veh", "PNG", png.clone()), ("txt", "txt", b"on the road".to_vec())] {
                let folder = dir.join(root).join(class);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(format!("{number}.{ending}")), content).unwrap();
            }
        }
    }
    let images = [
        "--set",
        "model.kind=lenet",
        "--set",
        "image.size=32",
        "--set",
        "train.batch=2",
    ];
    let start = [
        "train",
        "image-folder",
        "-q",
        "--data",
        "veh",
        "--out",
        "images",
        "--steps",
        "1",
    ];
    succeed(dir, &[&start[..], &images].concat());
    succeed(dir, &train("txt", "texts", &[]));
    for run in ["images", "texts"] {
        assert_eq!(classes(dir, &format!("{run}/model")), ["bus", "car", "train"]);
    }
    // All of a folder without splits is evaluated, and a link to a folder above is refused.
    for (run, data, what) in [("images", "veh", "image"), ("texts", "txt", "text")] {
        let (scores, said) = evaluated(dir, &[run, "--data", data]);
        assert_eq!((&scores["examples"], &scores["whole"]), (&12.into(), &true.into()));
        let expected =
            format!("evaluated {data}: 12 {what}s, all that are in no other split, as there is no split dev\n");
        assert!(said.ends_with(&expected), "{said}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.join(data), dir.join(data).join("again")).unwrap();
            let sentence = refuse(dir, &["eval", run, "--data", data]);
            assert!(sentence.contains("/again is a link to "), "{sentence}");
        }
    }
}

#[test]
fn all_of_a_file_is_evaluated_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcab\n".repeat(30) + &"cbacba\n".repeat(30)).unwrap();
    let gpt = ["train", "shakespeare", "-q", "--data", "text.txt", "--out", "gpt"];
    let short = ["--set", "data.max_length=16", "--set", "train.warmup=1"];
    succeed(dir, &[&gpt[..], &TINY, &short].concat());
    // The same as a folder whose split for evaluations is the file.
    fs::create_dir(dir.join("split")).unwrap();
    fs::copy(dir.join("text.txt"), dir.join("split/valid.txt")).unwrap();
    fs::write(dir.join("split/train.txt"), "abc\n").unwrap();
    let loss = |args: &[&str]| {
        let (scores, said) = evaluated(dir, args);
        (scores["dev_loss"].as_f64().unwrap(), said)
    };
    let (whole, said) = loss(&["gpt", "--data", "text.txt"]);
    assert_eq!(said, "evaluated text.txt: 480 bytes, all of it\n");
    let (of_split, nothing) = loss(&["gpt", "--data", "split"]);
    assert_eq!((of_split, nothing.as_str()), (whole, ""));
    let (held_out, _) = loss(&["gpt"]);
    assert_ne!(held_out, whole);
    // A file has no split, and it is said.
    let (named, said) = loss(&["gpt", "--data", "text.txt", "--split", "test"]);
    assert_eq!(
        (named, said.as_str()),
        (
            whole,
            "evaluated text.txt: 480 bytes, all of it, as a file has no split test\n"
        )
    );
    assert!(refuse(dir, &["eval", "gpt", "--data", "split", "--split", "test"]).contains("no split called test"));

    // Words with classes: a file of CoNLL with comments, and JSON lines with an empty sentence.
    fs::create_dir(dir.join("names")).unwrap();
    let conll = "# text = Ada ran\nAda\tB-PER\nran\tO\n\n# id\n#\tO\nran\tO\n\n";
    fs::write(dir.join("names/train.conll"), conll.repeat(4)).unwrap();
    let json_lines = "{\"tokens\":[],\"labels\":[]}\n{\"tokens\":[\"Ada\",\"ran\"],\"labels\":[\"B-PER\",\"O\"]}\n";
    fs::write(dir.join("names/dev.jsonl"), json_lines).unwrap();
    let ner = [
        "train",
        "ner",
        "--data",
        "names",
        "--out",
        "ner",
        "--set",
        "data.max_length=16",
    ];
    let output = lessen(dir, &[&ner[..], &TINY].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("1 sentence is without a word and left out of ")
            && said.contains("names/dev.jsonl, such as that of line 1\n"),
        "{said}"
    );
    for (file, count) in [("names/train.conll", "8 sentences"), ("names/dev.jsonl", "1 sentence")] {
        let (scores, said) = evaluated(dir, &["ner", "--data", file]);
        assert!(
            said.ends_with(&format!("evaluated {file}: {count}, all of it\n")),
            "{said}"
        );
        assert_eq!(scores["whole"], true);
    }
    fs::write(dir.join("wrong.conll"), "Ada\tB-PER\n\nRome\tB-LOC\n").unwrap();
    let sentence = refuse(dir, &["eval", "ner", "--data", "wrong.conll"]);
    assert!(
        sentence.contains(
            "wrong.conll: the sentence of line 3 has the label 'B-LOC', but the 2 classes of the model are O, B-PER"
        ),
        "{sentence}"
    );
}

//! Training that starts from a checkpoint: what is kept, what begins anew, what is refused.

use crate::support::*;
use std::fs;
use std::path::Path;

#[test]
fn training_starts_from_a_checkpoint_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "bert");
    let args = [
        "train",
        "bert-classifier",
        "--init",
        text(&init),
        "--data",
        "titles",
        "--steps",
        "1",
        "--json",
    ];
    let more = [
        "--set",
        "train.batch=4",
        "--set",
        "data.max_length=12",
        "--set",
        "train.lr=0",
        "--out",
        "second",
    ];
    let report = json(dir, &[&args[..], &more].concat());
    let first = json(dir, &["eval", "first", "--json"]);
    let loss = |value: &serde_json::Value| value["dev_loss"].as_f64().unwrap();
    assert!(
        (loss(&report) - loss(&first)).abs() < 1e-6,
        "with a rate of 0 nothing changes"
    );
    // Reports tell the sizes of the checkpoint, where the recipe has 12 layers of width 768.
    succeed(dir, &["report", "second"]);
    let [words, page] =
        ["report.md", "report.html"].map(|name| fs::read_to_string(dir.join("second").join(name)).unwrap());
    for (key, size) in [("layers", 1), ("width", 16), ("heads", 2), ("ffn", 32)] {
        let row = format!("<th scope=\"row\">model.{key}</th><td>{size}</td>");
        assert!(page.contains(&row), "{row}");
        assert!(words.contains(&format!("\n{key} = {size}\n")), "{words}");
    }
    let flags = ["--set", "model.layers=3"];
    let sentence = refuse(dir, &[&args[..8], &flags].concat());
    assert!(
        sentence.contains("--set model.layers=3 cannot change the checkpoint"),
        "{sentence}"
    );
}

/// Trains from `first/model` at a rate of 0, so that the scores are the scores of the first weights.
fn again<'a>(recipe: &'a Path, data: &'a Path, out: &'a str) -> Vec<&'a str> {
    vec![
        "train",
        text(recipe),
        "--init",
        "first/model",
        "--data",
        text(data),
        "--set",
        "train.lr=0",
        "--steps",
        "1",
        "--out",
        out,
    ]
}

#[test]
fn a_class_keeps_its_row_when_the_data_numbers_it_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let first = train_on(&recipe, &data, &["--steps", "60", "--out", "first", "--json"]);
    assert_eq!(json(dir, &first)["dev_accuracy"], 1.0);
    for file in ["train.txt", "dev.txt"] {
        let lines = fs::read_to_string(data.join(file)).unwrap();
        let turned = lines.lines().map(|line| match line.split_once('\t') {
            Some((title, "0")) => format!("{title}\t1\n"),
            Some((title, _)) => format!("{title}\t0\n"),
            None => panic!("{line}"),
        });
        fs::write(data.join(file), turned.collect::<String>()).unwrap();
    }
    fs::write(data.join("class.txt"), "foul\nfair\n").unwrap();
    let report = json(dir, &[&again(&recipe, &data, "second")[..], &["--json"]].concat());
    assert_eq!(report["dev_accuracy"], 1.0, "{report}");
    let config = fs::read_to_string(dir.join("second/model/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["id2label"], serde_json::json!({ "0": "foul", "1": "fair" }));
    let answer = json(dir, &["predict", "second", "--text", "day 7 rain", "--json"]);
    assert_eq!(answer["label"], "foul");
}

#[test]
fn other_classes_get_a_new_classifier_which_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for kind in ["bert", "encoder"] {
        checkpoint(dir, kind);
        let (data, recipe) = (titles(dir), classifier(dir, kind, ""));
        fs::write(data.join("class.txt"), "fair\nfoul\nwindy\n").unwrap();
        let out = format!("{kind}-again");
        let output = lessen(dir, &again(&recipe, &data, &out));
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let drawn = "classifier.weight of shape [3, 16], classifier.bias of shape [3]; starting with new ones";
        assert!(said.contains(drawn) && !said.contains("pooler"), "{said}");
        fs::remove_dir_all(dir.join("first")).unwrap();
    }
}

#[test]
fn tensors_that_the_model_does_not_have_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    let deeper = train_on(&recipe, &data, &["--out", "first", "--set", "model.layers=2"]);
    succeed(dir, &deeper);
    let config = dir.join("first/model/config.json");
    let fields = fs::read_to_string(&config).unwrap();
    assert!(fields.contains("\"num_hidden_layers\": 2"), "{fields}");
    fs::write(
        &config,
        fields.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
    )
    .unwrap();
    let output = lessen(dir, &again(&recipe, &data, "second"));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    // A layer of BERT has 16.
    let unused = "no use for 16 tensors of the checkpoint, such as bert.encoder.layer.1.";
    assert!(said.contains(unused), "{said}");
}

#[test]
fn a_checkpoint_brings_its_vocabulary_and_its_faults_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "encoder");
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let flag = ["--set", "data.tokenizer=characters"];
    let sentence = refuse(dir, &[&again(&recipe, &data, "second")[..], &flag].concat());
    assert!(
        sentence.contains("--set data.tokenizer=characters cannot change the vocabulary of the checkpoint"),
        "{sentence}"
    );
    let config = init.join("config.json");
    let sound = fs::read_to_string(&config).unwrap();
    let damaged = sound.replace("\"dropout\": 0.1", "\"dropout\": 2");
    assert_ne!(damaged, sound);
    fs::write(&config, damaged).unwrap();
    let sentence = refuse(dir, &again(&recipe, &data, "second"));
    assert!(
        sentence.contains("config.json: the field `dropout` must be at least 0 and below 1, it is 2"),
        "{sentence}"
    );
    assert!(!dir.join("second").exists());
}

#[test]
fn what_is_no_checkpoint_is_told_with_what_would_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "encoder");
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let from = |init: &str| {
        let args = train_on(&recipe, &data, &["--out", "second", "--init", init]);
        refuse(dir, &args)
    };
    assert_eq!(
        from("nowhere"),
        "error: --init nowhere: there is no folder nowhere; check the path"
    );
    let sentence = from("first");
    assert!(
        sentence.starts_with("error: --init first: ")
            && sentence.contains("/first is a run; start from its model, ")
            && sentence.ends_with("/first/model"),
        "{sentence}"
    );
    let wanted = "name a folder with config.json and model.safetensors, as transformers' save_pretrained writes it";
    fs::rename(init.join("model.safetensors"), init.join("other.safetensors")).unwrap();
    assert!(from("first/model").ends_with(&format!("first/model has no model.safetensors; {wanted}")));
    fs::write(init.join("pytorch_model.bin"), "").unwrap();
    assert!(from("first/model").contains("convert it with: python -c \"import transformers as t; d = "));
    fs::remove_file(init.join("config.json")).unwrap();
    let sentence = from("first/model");
    assert!(
        sentence.contains("there is no ") && sentence.ends_with(&format!("first/model/config.json; {wanted}")),
        "{sentence}"
    );
    assert!(!dir.join("second").exists());
}

#[test]
fn a_model_may_have_any_number_of_rows_beyond_its_tokens_and_no_token_beyond_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    let words = |count: usize| {
        let more: String = (5..count).map(|i| format!("word{i}\n")).collect();
        format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{more}")
    };
    fs::create_dir(dir.join("words")).unwrap();
    fs::write(dir.join("words/vocab.txt"), words(700)).unwrap();
    let first = train_on(&recipe, &data, &["--out", "first"]);
    succeed(dir, &[&first[..], &["--set", "data.tokenizer=words"]].concat());
    let init = dir.join("first/model");
    fs::remove_file(init.join("tokenizer.json")).unwrap();
    let with = |count| fs::write(init.join("vocab.txt"), words(count)).unwrap();
    with(701);
    let sentence = refuse(dir, &["eval", "first"]);
    assert!(
        sentence.starts_with("error: the tokenizer has 701 tokens but the model in ")
            && sentence.ends_with(
                "first/model 700, the first one beyond is \"word700\"; use the tokenizer that belongs to it, with all of its \
                 files as they were"
            ),
        "{sentence}"
    );
    let plain = text(&init);
    for asked in [
        &["predict", plain, "--text", "word3"][..],
        &["embed", plain, "--text", "word3"],
        &["serve", plain, "--port", "0"],
        &["predict", "first", "--text", "word700"],
    ] {
        let sentence = refuse(dir, asked);
        assert!(
            sentence.contains("the tokenizer has 701 tokens") && sentence.contains("beyond is \"word700\""),
            "{asked:?}: {sentence}"
        );
    }
    for (count, out) in [(445, "second"), (410, "third"), (12, "fourth")] {
        with(count);
        succeed(dir, &again(&recipe, &data, out));
        succeed(dir, &["eval", "first"]);
    }
    // A table that has fewer rows than its config.json says.
    let config = fs::read_to_string(init.join("config.json")).unwrap();
    let longer = config.replace("\"vocab_size\": 700", "\"vocab_size\": 760");
    assert_ne!(longer, config);
    fs::write(init.join("config.json"), longer).unwrap();
    let sentence = refuse(dir, &["predict", plain, "--text", "word3"]);
    assert!(
        sentence.contains("embeddings.weight") && sentence.contains("700") && sentence.contains("760"),
        "{sentence}"
    );
}

#[test]
fn a_plan_without_data_asks_nothing_of_the_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "encoder");
    let recipe = classifier(dir, "encoder", "");
    // The vocabulary that a plan assumes is larger than the vocabulary of this checkpoint.
    let plan = ["plan", text(&recipe), "--init", text(&init), "--json"];
    assert!(json(dir, &plan)["peak_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn tokens_that_were_added_to_the_tokenizer_get_rows_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "bert");
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    let before = json(dir, &["eval", "first", "--json"]);
    let path = init.join("tokenizer.json");
    let mut tokenizer: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap().len();
    for (id, token) in ["<one>", "<two>"].into_iter().enumerate() {
        let entry = serde_json::json!({
            "id": vocabulary + id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        });
        tokenizer["added_tokens"].as_array_mut().unwrap().push(entry);
    }
    fs::write(&path, tokenizer.to_string()).unwrap();
    let output = lessen(dir, &[&again(&recipe, &data, "second")[..], &["--json"]].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let told = format!(
        "the tokenizer has more tokens, {}, than the checkpoint; their rows of \
         bert.embeddings.word_embeddings.weight are new",
        vocabulary + 2
    );
    assert!(
        said.contains(&told) && !said.contains("starting with new ones"),
        "{said}"
    );
    // The rows of all other tokens are the checkpoint's.
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["dev_loss"], before["dev_loss"]);
    assert_eq!(json(dir, &["eval", "second", "--json"])["dev_loss"], before["dev_loss"]);
    let config = fs::read_to_string(dir.join("second/model/config.json")).unwrap();
    assert!(
        config.contains(&format!("\"vocab_size\": {}", vocabulary + 2)),
        "{config}"
    );
    // A tokenizer with other words is not for the checkpoint.
    fs::create_dir(dir.join("words")).unwrap();
    let words: String = (0..200).map(|i| format!("word{i}\n")).collect();
    fs::write(
        dir.join("words/vocab.txt"),
        format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{words}"),
    )
    .unwrap();
    let other = [&again(&recipe, &data, "third")[..], &["--set", "data.tokenizer=words"]].concat();
    let sentence = refuse(dir, &other);
    assert!(sentence.contains("use the tokenizer that belongs to it"), "{sentence}");
}

//! Linear models of texts, and vocabularies that are learned of the data, by keys: whole runs, asked, resumed, started
//! from, and refused.

use lessen_cpu::CpuBackend;
use lessen_data::Tokenizer;
use lessen_jobs::training::{Request, train};
use lessen_nn::Model;
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// Texts with the class of the order of two words among others: tokens alone do not tell it.
fn orders(dir: &Path) -> PathBuf {
    let mut random = lessen_base::SplitMix64::new(11);
    let others = ["red", "green", "blue", "grey"];
    let mut rows = vec!["text,label".to_string()];
    for i in 0..240 {
        let (pair, label) = if i % 2 == 0 {
            ("this that", "up")
        } else {
            ("that this", "down")
        };
        let mut other = || others[random.below(4) as usize];
        rows.push(format!("{} {pair} {} {},{label}", other(), other(), other()));
    }
    let path = dir.join("orders.csv");
    fs::write(&path, rows.join("\n")).unwrap();
    path
}

fn settings(data: &Path, flags: &[&str]) -> Settings {
    let text = format!(
        "run.recipe = \"mine\"\nmodel.kind = \"linear\"\ndata.format = \"labelled\"\ndata.path = \"{}\"\n\
         data.max_length = 16\ntrain.batch = 16\ntrain.epochs = 6\ntrain.lr = 0.05\ntrain.eval_every = 0\n",
        data.display()
    );
    let mut settings = Settings::parse(&text, "mine.toml").unwrap();
    for flag in flags {
        settings.set_flag(flag).unwrap();
    }
    settings
}

/// The accuracy of a run on the held-out texts.
fn accuracy(data: &Path, flags: &[&str], out: &Path) -> f64 {
    let report = train(&Request::new(settings(data, flags), out.to_path_buf()), &cpu());
    let report = report.unwrap_or_else(|error| panic!("{flags:?}: {error}")).to_json();
    let text = report.to_string();
    report["dev_accuracy"].as_f64().unwrap_or_else(|| panic!("{text}"))
}

fn tokenizer_file(run: &Path) -> Vec<u8> {
    fs::read(run.join("model/tokenizer.json")).unwrap()
}

#[test]
fn pairs_of_tokens_tell_the_order_of_words() {
    let dir = tempfile::tempdir().unwrap();
    let data = orders(dir.path());
    for (i, tokenizer) in ["wordpiece", "bpe"].into_iter().enumerate() {
        let name = format!("data.tokenizer={tokenizer}");
        let runs = [0, 1, 2].map(|run| dir.path().join(format!("{i}-{run}")));
        assert_eq!(
            accuracy(&data, &[&name, "model.buckets=1024"], &runs[0]),
            1.0,
            "{tokenizer}"
        );
        assert!(
            accuracy(&data, &[&name, "model.buckets=0"], &runs[1]) < 0.9,
            "{tokenizer}"
        );
        let wide = [
            "model.kind=encoder",
            "model.ngrams=1024",
            "model.width=8",
            "model.heads=2",
            "model.ffn=8",
        ];
        let wide: Vec<&str> = [&*name].into_iter().chain(wide).collect();
        assert_eq!(accuracy(&data, &wide, &runs[2]), 1.0, "{tokenizer}");
        assert!(runs.iter().all(|run| tokenizer_file(run) == tokenizer_file(&runs[0])));
        let Model::LessenLinear(model) = Model::from_dir(&runs[0].join("model")).unwrap() else {
            panic!("a linear model");
        };
        assert_eq!((model.config.buckets, model.config.max_length), (1024, 16));
        for run in [&runs[0], &runs[2]] {
            let saved = SavedRun::open(run, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
            let Prediction::Class(class, _) = saved.predict("blue that this red grey").unwrap() else {
                panic!("a class");
            };
            // The classes are in the order of their characters: down, up.
            assert_eq!(class, 0);
        }
    }
}

#[test]
fn a_run_goes_on_and_a_model_is_started_from_with_its_own_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    let data = orders(dir.path());
    let [whole, parts, next] = ["whole", "parts", "next"].map(|name| dir.path().join(name));
    let flags = ["data.tokenizer=wordpiece", "data.vocab=24", "train.steps=8"];
    accuracy(&data, &flags, &whole);
    let half = ["data.tokenizer=wordpiece", "data.vocab=24", "train.steps=4"];
    accuracy(&data, &half, &parts);
    let longer = Request::resume(parts.clone(), None, |settings| settings.set_flag("train.steps=8"));
    assert_eq!(train(&longer.unwrap(), &cpu()).unwrap().steps, 8);
    let weights = |run: &Path| fs::read(run.join("model/model.safetensors")).unwrap();
    assert_eq!(weights(&whole), weights(&parts));
    let tokenizer = Tokenizer::from_dir(&whole.join("model")).unwrap();
    assert!(tokenizer.vocab_size() <= 24);

    let init = format!("model.init={}", whole.join("model").display());
    let again = |flags: &[&str]| {
        let flags = [&[&*init, "train.steps=1"], flags].concat();
        train(&Request::new(settings(&data, &flags), next.clone()), &cpu()).map(|_| ())
    };
    let refused = |flag: &str| again(&[flag]).unwrap_err().to_string();
    for word in ["wordpiece", "bpe", "characters"] {
        let sentence = refused(&format!("data.tokenizer={word}"));
        assert!(
            sentence.contains("cannot change the vocabulary of the checkpoint"),
            "{sentence}"
        );
    }
    assert!(refused("model.buckets=64").contains("model.buckets=64 cannot change the checkpoint"));
    again(&[]).unwrap();
    assert_eq!(tokenizer_file(&next), tokenizer_file(&whole));
}

#[test]
fn numbers_are_learned_by_a_linear_regression() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = vec!["text,score".to_string()];
    for i in 0..60 {
        rows.push(format!("{} day,{}", ["bad", "fine"][i % 2], [-1.0, 2.0][i % 2]));
    }
    let data = dir.path().join("days.csv");
    fs::write(&data, rows.join("\n")).unwrap();
    let flags = ["data.problem=regression", "data.tokenizer=wordpiece", "train.epochs=60"];
    let out = dir.path().join("run");
    train(&Request::new(settings(&data, &flags), out.clone()), &cpu()).unwrap();
    let saved = SavedRun::open(&out, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let Prediction::Score(score) = saved.predict("fine day").unwrap() else {
        panic!("a number");
    };
    assert!((score - 2.0).abs() < 0.2, "{score}");
}

/// Pairs of texts of which the second has the first one's middle word, or another one.
fn repetitions(dir: &Path) -> PathBuf {
    let mut random = lessen_base::SplitMix64::new(13);
    let words = ["red", "green", "blue", "grey", "pink", "brown"];
    let mut rows = vec!["text,text_pair,label".to_string()];
    for i in 0..240 {
        let first = random.below(6) as usize;
        let second = (first + i % 2 * (1 + random.below(5) as usize)) % 6;
        let (first, second, label) = (words[first], words[second], ["same", "other"][i % 2]);
        rows.push(format!("this {first} one,that {second} day,{label}"));
    }
    let path = dir.join("repetitions.csv");
    fs::write(&path, rows.join("\n")).unwrap();
    path
}

#[test]
fn what_both_texts_of_a_pair_share_is_learned() {
    let dir = tempfile::tempdir().unwrap();
    let data = repetitions(dir.path());
    let flags = ["data.tokenizer=wordpiece", "model.buckets=1024", "train.epochs=20"];
    let runs = ["plain", "linear", "encoder"].map(|run| dir.path().join(run));
    assert!(accuracy(&data, &flags, &runs[0]) < 0.9);
    let shared = [&flags[..], &["model.shared=true"]].concat();
    assert_eq!(accuracy(&data, &shared, &runs[1]), 1.0);
    let wide = [
        "model.kind=encoder",
        "model.ngrams=1024",
        "model.shared=true",
        "model.width=8",
        "model.heads=2",
        "model.ffn=8",
    ];
    let wide = [&flags[..1], &flags[2..], &wide].concat();
    assert_eq!(accuracy(&data, &wide, &runs[2]), 1.0);
    for run in &runs[1..] {
        let saved = SavedRun::open(run, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
        // The classes are in the order of their characters: other, same.
        for (pair, expected) in [("this pink one\tthat pink day", 1), ("this pink one\tthat blue day", 0)] {
            let Prediction::Class(class, _) = saved.predict(pair).unwrap() else {
                panic!("a class");
            };
            assert_eq!(class, expected, "{pair}");
        }
    }
    let init = format!("model.init={}", runs[1].join("model").display());
    let again = |more: &[&str]| {
        let flags = [&[&*init, "train.steps=1"], more].concat();
        train(&Request::new(settings(&data, &flags), dir.path().join("again")), &cpu())
    };
    let sentence = again(&["model.shared=false"]).unwrap_err().to_string();
    assert!(
        sentence.contains("model.shared=false cannot change the checkpoint"),
        "{sentence}"
    );
    again(&[]).unwrap();
    let Model::LessenLinear(model) = Model::from_dir(&dir.path().join("again/model")).unwrap() else {
        panic!("a linear model");
    };
    assert!(model.config.shared);
}

#[test]
fn keys_of_tables_are_refused_for_other_kinds_and_sizes() {
    let refusal = |flags: &[&str]| {
        let task = Config::new(settings(Path::new("none.csv"), flags))
            .and_then(|config| CheckedTask::assemble(config, None).map(|_| ()));
        task.unwrap_err().to_string()
    };
    for (flags, expected) in [
        (
            &["model.kind=encoder", "model.buckets=64"][..],
            "(--set model.buckets=64) is not for model.kind = encoder; leave it out, or choose linear",
        ),
        (
            &["model.ngrams=64"],
            "(--set model.ngrams=64) is not for model.kind = linear; leave it out, or choose encoder",
        ),
        (
            &["model.kind=encoder", "model.shared=true"],
            "(--set model.shared=true) is for tables of tokens, which the model has not; leave it out, or choose \
             model.kind = linear, or encoder with model.ngrams",
        ),
        (
            &["model.buckets=1000"],
            "(--set model.buckets=1000) is no power of two up to 16777216; choose one, such as 65536, or 0",
        ),
    ] {
        let sentence = refusal(flags);
        assert!(sentence.ends_with(expected), "{sentence}");
    }
}

//! Texts of many lengths are answered by few programs, each as if it were alone.

use crate::counting::Loads;
use lessen_data::Questions;
use lessen_jobs::training::{Request, train};
use lessen_nn::{Model, checkpoint};
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_saved::text_model::TextModel;
use lessen_task::folder::WhichModel;
use lessen_task::recipe;
use lessen_train::{Generator, Next, Sampling, Session};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Numbers of tokens of 200 texts, in no order.
fn lengths() -> impl Iterator<Item = usize> {
    (0..200).map(|i| 1 + i * 67 % 200)
}

/// A text of so many characters.
fn text(length: usize) -> String {
    (0..length)
        .map(|place| char::from(b'a' + ((place * place + 3 * length) % 20) as u8))
        .collect()
}

/// A run in which a tiny model of characters was trained for a step on the files of a folder, or on the only file.
fn trained(recipe: &str, files: &[(&str, String)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    for (name, text) in files {
        fs::write(data.join(name), text).unwrap();
    }
    let path = match files {
        [(name, _)] => data.join(name),
        _ => data,
    };
    let whole = format!("[model]\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\ndropout = 0.0\n{recipe}");
    fs::write(dir.path().join("tiny.toml"), whole).unwrap();
    let mut settings = recipe::load(dir.path().join("tiny.toml").to_str().unwrap()).unwrap();
    for flag in ["train.steps=1", "train.lr=0.05", "train.warmup=0", "train.eval_every=0"] {
        settings.set_flag(flag).unwrap();
    }
    settings.set_flag(&format!("data.path={}", path.display())).unwrap();
    let request = Request::new(settings, dir.path().join("run"));
    train(&request, &Loads::default().device()).unwrap();
    dir
}

fn classifier() -> TempDir {
    let line = |length: usize| format!("{}\t{}\n", text(length), length % 2);
    trained(
        "kind = \"encoder\"\n[data]\nformat = \"labelled\"\nmax_length = 256\n[train]\nbatch = 8\n",
        &[
            ("train.txt", (1..40).map(line).collect()),
            ("dev.txt", lengths().map(line).collect()),
            ("class.txt", "even\nodd\n".to_string()),
        ],
    )
}

fn language_model() -> TempDir {
    let recipe = "kind = \"gpt2\"\n[data]\nformat = \"text\"\nmax_length = 256\n[train]\nbatch = 2\n";
    trained(recipe, &[("text.txt", lengths().map(text).collect())])
}

fn open(dir: &Path, loads: &Loads) -> SavedRun {
    let device = loads.device();
    SavedRun::open(&dir.join("run"), WhichModel::Last, AdapterOptions::default(), &device).unwrap()
}

#[test]
fn predictions_of_200_lengths_take_two_programs_and_are_those_of_single_texts() {
    let (dir, loads) = (classifier(), Loads::default());
    let run = open(dir.path(), &loads);
    let texts: Vec<_> = lengths().map(|length| (text(length), None)).collect();
    let predictor = run.predictor().unwrap();
    loads.take();
    let together = predictor.ask(&texts).unwrap();
    assert!(loads.take() <= 2);
    // A stream that brings one text at a time.
    let stream = run.predictor().unwrap();
    loads.take();
    for (text, expected) in texts.iter().zip(&together) {
        assert_eq!(
            stream.ask(std::slice::from_ref(text)).unwrap(),
            std::slice::from_ref(expected)
        );
    }
    assert!(loads.take() <= 13, "one for each 16 lengths");
}

#[test]
fn an_evaluation_of_200_lengths_takes_few_programs_and_scores_each_text_alike() {
    let (dir, loads) = (classifier(), Loads::default());
    let mut run = open(dir.path(), &loads);
    let mut evaluate = |batch: &str| {
        run.set(&[batch.to_string()]).unwrap();
        loads.take();
        let scores = run.evaluate(None, None).unwrap().scores;
        (loads.take(), scores)
    };
    let (programs, together) = evaluate("train.batch=8");
    assert!(programs <= 2, "{programs}");
    let (programs, alone) = evaluate("train.batch=1");
    assert!(programs <= 13, "{programs}");
    assert!((together.loss - alone.loss).abs() <= 1e-6 * alone.loss);
    assert_eq!((together.named, together.examples), (alone.named, alone.examples));
}

#[test]
fn words_of_200_sentences_take_few_programs_and_have_the_classes_of_single_sentences() {
    let sentence = |length: usize| text(length).chars().map(|c| format!("{c}\tO\n")).collect::<String>() + "\n";
    let split: String = (1..40).map(sentence).collect();
    let dir = trained(
        "kind = \"bert\"\n[data]\nformat = \"tagged\"\nmax_length = 512\n[train]\nbatch = 8\n",
        &[("train.txt", split.replacen("\tO", "\tX", 9)), ("dev.txt", split)],
    );
    let loads = Loads::default();
    let run = open(dir.path(), &loads);
    let words = |length| text(length).chars().map(String::from).collect();
    let sentences: Vec<Vec<String>> = lengths().map(words).collect();
    let tagger = run.tagger().unwrap();
    loads.take();
    let together = tagger.tag(&sentences).unwrap();
    assert!(loads.take() <= 2);
    for (sentence, expected) in sentences.iter().zip(&together) {
        assert_eq!(
            tagger.tag(std::slice::from_ref(sentence)).unwrap(),
            std::slice::from_ref(expected)
        );
    }
    assert!(loads.take() <= 26, "one for each 16 lengths");
}

#[test]
fn answers_in_200_contexts_take_few_programs_and_are_those_of_single_questions() {
    let paragraph = |length: usize| {
        let answers = json!([{ "text": &text(length)[..1], "answer_start": 0 }]);
        json!({ "context": text(length), "qas": [{ "id": length.to_string(), "question": "abc", "answers": answers }] })
    };
    let file = |lengths: &mut dyn Iterator<Item = usize>| {
        let paragraphs: Vec<_> = lengths.map(paragraph).collect();
        json!({ "version": "1.1", "data": [{ "title": "", "paragraphs": paragraphs }] }).to_string()
    };
    let dir = trained(
        "kind = \"bert\"\n[data]\nformat = \"squad\"\nmax_length = 96\nstride = 16\n[train]\nbatch = 8\n",
        &[
            ("train-v1.1.json", file(&mut (1..40))),
            ("dev-v1.1.json", file(&mut (1..9))),
        ],
    );
    let loads = Loads::default();
    let run = open(dir.path(), &loads);
    let contexts: Vec<String> = lengths().map(text).collect();
    let answerer = run.answerer().unwrap();
    loads.take();
    let pairs = contexts.iter().map(|context| ("abc", context.as_str()));
    let together = answerer.ask(Arc::new(Questions::unanswered(pairs))).unwrap();
    assert!(loads.take() <= 3);
    for (context, expected) in contexts.iter().zip(&together) {
        let one = Questions::unanswered([("abc", context.as_str())]);
        assert_eq!(answerer.ask(Arc::new(one)).unwrap(), std::slice::from_ref(expected));
    }
    assert!(loads.take() <= 18, "one for each 16 tokens of one to four windows");
}

#[test]
fn prompts_of_200_lengths_take_few_programs_and_are_continued_as_by_a_new_generator() {
    let (dir, loads) = (language_model(), Loads::default());
    let run = open(dir.path(), &loads);
    let folder = run.source();
    let model = Model::from_dir(folder).unwrap();
    let weights = checkpoint::load(folder, &model.parameters(), &|_| false)
        .unwrap()
        .weights;
    let generator = || {
        let session = Session::new(loads.device().open().unwrap(), model.parameters(), &weights).unwrap();
        Generator::new(session, &model, 256).unwrap()
    };
    let tokenizer = run.tokenizer().unwrap();
    let prompts: Vec<Vec<i32>> = lengths()
        .map(|length| tokenizer.encode(&text(length)).unwrap())
        .collect();
    let greedy = Sampling::greedy(3);
    let mut kept = generator();
    loads.take();
    let continued: Vec<Vec<i32>> = prompts
        .iter()
        .map(|prompt| kept.generate(prompt, &greedy).unwrap())
        .collect();
    // The first prompt as it is, one for each 16 lengths, and the one that reads one more token.
    assert!(loads.take() <= 15);
    for place in (0..200).step_by(20) {
        assert_eq!(
            generator().generate(&prompts[place], &greedy).unwrap(),
            continued[place]
        );
    }

    // Texts that join and leave find all programs ready.
    let mut sequences = run.sequences(Some(256), 1).unwrap();
    loads.take();
    sequences.warm_up().unwrap();
    assert!(loads.take() <= 40, "twice for each 16 lengths");
    for (prompt, expected) in prompts.iter().zip(&continued) {
        let place = sequences.join(prompt, &greedy, 0).unwrap();
        let mut found = Vec::new();
        while found.len() < expected.len() {
            for (_, next) in sequences.step(&|_, _, _| Ok(false)).unwrap() {
                match next {
                    Next::Token(token) => found.push(token),
                    other => panic!("{other:?} after {found:?}"),
                }
            }
        }
        sequences.leave(place);
        assert_eq!(found, *expected);
    }
    assert_eq!(loads.take(), 0);
}

#[test]
fn a_warm_model_answers_texts_of_200_lengths_without_a_new_program() {
    let (dir, loads) = (classifier(), Loads::default());
    let run = open(dir.path(), &loads);
    let predictor = run.batched_predictor(600).unwrap();
    predictor.warm_up().unwrap();
    assert!(loads.take() <= 40);
    let bytes = predictor.memory().used;
    let texts: Vec<_> = lengths()
        .map(|length| predictor.encode(&(text(length), None), 256).unwrap())
        .collect();
    for (one, next) in texts.iter().zip(&texts[1..]) {
        predictor.ask(&[one, next]).unwrap();
    }
    assert_eq!((loads.take(), predictor.memory().used), (0, bytes));
}

#[test]
fn texts_of_known_layouts_take_no_new_program() {
    let (dir, loads) = (classifier(), Loads::default());
    let run = open(dir.path(), &loads);
    let texts: Vec<String> = (1..40).map(text).collect();
    let answers = || -> Vec<Prediction> { texts.iter().map(|text| run.predict(text).unwrap()).collect() };
    let found = answers();
    loads.take();
    assert_eq!((answers(), loads.take()), (found, 0));

    let dir = language_model();
    let run = open(dir.path(), &loads);
    let (generator, how) = (run.text_generator(64).unwrap(), Continuation::new(Sampling::greedy(3)));
    let continued = |texts: &[String]| generator.generate(texts, &how, &mut |_, _| Ok(())).unwrap();
    let found: Vec<_> = texts.iter().map(|text| continued(std::slice::from_ref(text))).collect();
    loads.take();
    for (text, expected) in texts.iter().zip(found) {
        assert_eq!(continued(std::slice::from_ref(text)), expected);
    }
    assert_eq!(loads.take(), 0);
}

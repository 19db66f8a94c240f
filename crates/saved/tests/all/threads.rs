//! Models are asked by several threads at once, and stay loaded for the next question.

use lessen_cpu::CpuBackend;
use lessen_saved::chat::ChatTemplate;
use lessen_saved::continuation::{Continuation, TextGenerator};
use lessen_saved::embedding::{EmbedOptions, Embedder, JoinedEmbedder};
use lessen_saved::saved_run::{
    AdapterOptions, Answerer, BatchedPredictor, ImagePredictor, Predictor, RandomBatches, RowPredictor, SavedRun,
    Tagger,
};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_train::{Sampling, Sequences};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const fn is_shared<T: Send + Sync + 'static>() {}
const fn is_sent<T: Send + 'static>() {}

const _: () = {
    is_shared::<NewBackend>();
    is_shared::<SavedRun>();
    is_shared::<Predictor>();
    is_shared::<BatchedPredictor>();
    is_shared::<Tagger>();
    is_shared::<Answerer>();
    is_shared::<RowPredictor>();
    is_shared::<ImagePredictor>();
    is_shared::<TextGenerator>();
    is_shared::<ChatTemplate>();
    is_shared::<Embedder>();
    is_shared::<JoinedEmbedder>();
    is_sent::<RandomBatches>();
    is_sent::<Sequences>();
};

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// A folder of the fixtures of another crate.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../nn/tests/fixtures")
        .join(name)
}

fn open(folder: &Path, device: &NewBackend) -> SavedRun {
    SavedRun::open(folder, WhichModel::Last, AdapterOptions::default(), device).unwrap()
}

/// Texts of 1 to 20 of the words that a fixture knows.
fn texts() -> Vec<String> {
    let words = fs::read_to_string(fixture("bert-tiny-cls").join("vocab.txt")).unwrap();
    let words: Vec<&str> = words.lines().filter(|word| !word.starts_with('[')).collect();
    let word = |text: usize, place: usize| words[(7 * text + 3 * place) % words.len()];
    (0..40)
        .map(|text| {
            (0..=text % 20)
                .map(|place| word(text, place))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// Checks that eight threads, each of which asks about all texts beginning with another one, get what one gets.
fn is_the_same_for_all<T: PartialEq + Debug + Send + Sync>(texts: &[String], ask: impl Fn(&str) -> T + Sync) {
    let expected: Vec<T> = texts.iter().map(|text| ask(text)).collect();
    thread::scope(|scope| {
        for first in 0..8 {
            let (expected, ask) = (&expected, &ask);
            scope.spawn(move || {
                for number in 0..texts.len() {
                    let number = (number + 5 * first) % texts.len();
                    assert_eq!(ask(&texts[number]), expected[number], "{}", texts[number]);
                }
            });
        }
    });
}

#[test]
fn threads_that_ask_one_predictor_get_the_answers_of_one_thread() {
    let predictor = open(&fixture("bert-tiny-cls"), &cpu()).predictor().unwrap();
    is_the_same_for_all(&texts(), |text| predictor.ask(&[(text.to_string(), None)]).unwrap());
    assert_eq!(predictor.cut_texts().all, 9 * 40);
}

#[test]
fn threads_that_ask_one_embedder_get_the_vectors_of_one_thread() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embeddings/max-dense");
    let embedder = Embedder::open(&folder, &EmbedOptions::default(), &cpu()).unwrap();
    is_the_same_for_all(&texts(), |text| embedder.embed(&[text]).unwrap());
}

#[test]
fn threads_that_ask_one_generator_get_the_texts_of_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(fixture("gpt2-tiny").join(file), folder.path().join(file)).unwrap();
    }
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stop_strings/characters/tokenizer.json");
    fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
    let run = open(folder.path(), &cpu());
    let prompts: Vec<String> = (1..9).map(|length| "abcdefgh"[..length].to_string()).collect();
    let how = Continuation::new(Sampling::greedy(6));
    let generator = run.text_generator(24).unwrap();
    let continued = |prompt: &str| {
        let prompt = [prompt.to_string()];
        generator.generate(&prompt, &how, &mut |_, _| Ok(())).unwrap()
    };
    is_the_same_for_all(&prompts, continued);
}

#[test]
fn a_model_stays_loaded_until_its_settings_change() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    let device = NewBackend::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CpuBackend::new(1)?))
    });
    let mut run = open(&fixture("bert-tiny-cls"), &device);
    let texts = texts();
    let answers = |run: &SavedRun| -> Vec<_> { texts[..3].iter().map(|text| run.predict(text).unwrap()).collect() };
    let found = answers(&run);
    assert_eq!((answers(&run), opened.load(Ordering::Relaxed)), (found.clone(), 1));
    run.set(&["train.batch=3".to_string()]).unwrap();
    assert_eq!((answers(&run), opened.load(Ordering::Relaxed)), (found, 2));
}

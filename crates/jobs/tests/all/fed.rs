//! Trainings whose batches a program gives one by one.

use lessen_base::Error;
use lessen_cpu::CpuBackend;
use lessen_data::memory::{DataInMemory, Splits};
use lessen_data::table::{ColumnValues, TableInMemory};
use lessen_jobs::SCHEMA;
use lessen_jobs::training::{Feed, Request, Wish, train};
use lessen_task::device::NewBackend;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Gives what it has, in order, and keeps what it is told.
#[derive(Default)]
struct Given {
    wishes: Mutex<Vec<Wish>>,
    refused: Mutex<Vec<String>>,
    scores: Mutex<Vec<(String, f64)>>,
}

impl Feed for Given {
    fn next(&self) -> Option<Wish> {
        let mut wishes = self.wishes.lock().unwrap();
        (!wishes.is_empty()).then(|| wishes.remove(0))
    }

    fn refused(&self, error: Error) {
        self.refused.lock().unwrap().push(error.to_string());
    }

    fn scored(&self, scores: &[(String, f64)]) {
        self.scores.lock().unwrap().extend_from_slice(scores);
    }
}

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// Rows of one class of two each.
fn table(rows: std::ops::Range<usize>) -> Splits<TableInMemory> {
    let texts = rows.clone().map(|row| format!("{} {row}", ["alpha", "beta"][row % 2]));
    let labels = rows.map(|row| ["a", "b"][row % 2].to_string());
    let columns = vec![
        ("text".to_string(), ColumnValues::Texts(texts.collect())),
        ("label".to_string(), ColumnValues::Texts(labels.collect())),
    ];
    Splits::of(TableInMemory::new(columns).unwrap())
}

fn request(out: &Path, steps: usize) -> Request {
    let recipe = format!(
        "train.steps = {steps}\ntrain.batch = 4\ntrain.lr = 0.1\ntrain.schedule = \"constant\"\ndata.shuffle = false\n\
         data.format = \"labelled\"\nmodel.kind = \"linear\""
    );
    let data = Splits {
        dev: Some(table(0..8).train),
        ..table(0..12)
    };
    Request::new(SCHEMA.parse(&recipe, "mine.toml").unwrap(), out.to_path_buf()).with_data(DataInMemory::Table(data))
}

fn step(rows: std::ops::Range<usize>) -> Wish {
    Wish::Step(Box::new(DataInMemory::Table(table(rows))))
}

fn fed(request: Request, wishes: Vec<Wish>) -> (Arc<Given>, bool) {
    let feed = Arc::new(Given {
        wishes: Mutex::new(wishes),
        ..Given::default()
    });
    let report = train(&request.fed_by(feed.clone()), &cpu()).unwrap();
    (feed, report.interrupted)
}

fn weights(out: &Path) -> Vec<u8> {
    fs::read(out.join("model/model.safetensors")).unwrap()
}

#[test]
fn batches_that_are_given_train_as_those_of_the_data_and_a_run_of_them_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, given, resumed] = ["plain", "given", "resumed"].map(|name| dir.path().join(name));
    train(&request(&plain, 3), &cpu()).unwrap();
    let (_, stopped) = fed(request(&given, 3), vec![step(0..4), step(4..8), step(8..12)]);
    assert!(!stopped && weights(&given) == weights(&plain));

    let (feed, stopped) = fed(request(&resumed, 3), vec![step(0..4), Wish::Evaluate]);
    assert!(stopped && !resumed.join("model").exists());
    let scores = feed.scores.lock().unwrap().clone();
    assert!(scores.iter().any(|(name, _)| name == "dev_accuracy"), "{scores:?}");
    let again = Request::resume(resumed.clone(), None, |_| Ok(())).unwrap();
    let data = Splits {
        dev: Some(table(0..8).train),
        ..table(0..12)
    };
    let (_, stopped) = fed(
        again.with_data(DataInMemory::Table(data)),
        vec![step(4..8), step(8..12)],
    );
    assert!(!stopped && weights(&resumed) == weights(&plain));
}

#[test]
fn a_batch_that_does_not_fit_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, given] = ["plain", "given"].map(|name| dir.path().join(name));
    train(&request(&plain, 1), &cpu()).unwrap();
    let other = ColumnValues::Texts(vec!["c".to_string(); 4]);
    let columns = vec![
        ("text".to_string(), ColumnValues::Texts(vec!["alpha".to_string(); 4])),
        ("label".to_string(), other),
    ];
    let unknown = DataInMemory::Table(Splits::of(TableInMemory::new(columns).unwrap()));
    let texts = DataInMemory::Texts(Splits::of(vec!["a text".into()]));
    let weighted = DataInMemory::Table(Splits {
        weights: Some(vec![1.0; 4].into()),
        ..table(0..4)
    });
    let wrong = [unknown, texts, weighted].map(|data| Wish::Step(Box::new(data)));
    let wishes = wrong.into_iter().chain([step(0..4)]).collect();
    let (feed, _) = fed(request(&given, 1), wishes);
    let refused = feed.refused.lock().unwrap().clone();
    let said = [
        "c",
        "a batch is plain texts, which data.format",
        "have weights; give weights to both",
    ];
    assert_eq!(refused.len(), said.len(), "{refused:?}");
    for (sentence, said) in refused.iter().zip(said) {
        assert!(sentence.contains(said), "{sentence}");
    }
    assert!(weights(&given) == weights(&plain));
}

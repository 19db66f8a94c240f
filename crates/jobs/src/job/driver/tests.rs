//! Tests of the driver, with a job that counts.

use super::*;
use lessen_base::watcher::{Watcher, watched_by};
use lessen_comm::Group;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Asks for a stop once it was asked so many times.
struct StopsAfter(AtomicUsize);

impl Watcher for StopsAfter {
    fn stops(&self) -> bool {
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_err()
    }
}

/// Counts to `total`, in units of two parts.
#[derive(Default)]
struct Counter {
    parts: u64,
    total: u64,
    saved: Vec<u64>,
    /// Whether the next saves fail.
    is_full: bool,
}

impl Job for Counter {
    type State = u64;

    fn is_over(&self) -> bool {
        self.parts >= 2 * self.total
    }

    fn state(&self) -> Result<u64> {
        Ok(self.parts)
    }

    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        self.parts += 1;
        unit.part()?;
        self.parts += 1;
        Ok(())
    }

    fn restore(&mut self, before: u64) -> Result<()> {
        self.parts = before;
        Ok(())
    }

    fn record(&mut self, driver: &mut Driver) -> Result<()> {
        driver
            .log
            .events
            .scalars(self.parts / 2, &[("count", self.parts as f64)])
    }

    fn save(&mut self) -> Result<()> {
        if self.is_full {
            return Err(Error::user("the disk is full"));
        }
        self.saved.push(self.parts);
        Ok(())
    }

    fn unsaved(&self) -> Unsaved {
        Unsaved {
            goes_on: format!("count {} is not saved, counting goes on", self.parts),
            kept: None,
            at_end: format!("count {} is not saved", self.parts),
        }
    }

    fn peak(&self) -> Peak {
        Peak {
            planned: 7,
            measured: 6,
        }
    }
}

/// A driver in a new folder, after a session of 100 s.
fn driver(root: &Path) -> Driver {
    let guard = NewFolderGuard::new(root);
    std::fs::create_dir_all(root).unwrap();
    let before = Spent {
        sessions: 2,
        seconds: 100.0,
        compile_seconds: 4.0,
        resident: Some(usize::MAX),
        ..Spent::default()
    };
    let begin = Begin {
        root,
        guard: Some(guard),
        done: (0, false),
        minutes: 0.0,
        count: ("count", 3, 0),
        watch: MemoryWatch::begin(),
        time: (Instant::now(), before),
        group: Group::alone(),
    };
    Driver::begin(begin).unwrap()
}

fn counter() -> Counter {
    Counter {
        total: 3,
        ..Counter::default()
    }
}

/// Goes through a count, which is asked to stop after so many questions.
fn go(driver: &mut Driver, counter: &mut Counter, questions: usize) -> bool {
    let watcher = Arc::new(StopsAfter(AtomicUsize::new(questions)));
    watched_by(watcher, || driver.go(counter)).unwrap()
}

#[test]
fn a_unit_that_is_stopped_midway_is_undone_and_a_whole_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("job");
    // Each unit is asked once midway and once at its end.
    for (questions, saved) in [(0, 0), (1, 2), (2, 2), (3, 4), (4, 4)] {
        let (mut driver, mut counter) = (driver(&root), counter());
        assert!(!go(&mut driver, &mut counter, questions), "{questions}");
        assert_eq!(
            (counter.parts, &counter.saved[..]),
            (saved, &[saved][..]),
            "{questions}"
        );
        // It goes on from there.
        assert!(go(&mut driver, &mut counter, usize::MAX));
        assert_eq!(counter.saved, [saved, 6]);
        driver.check_saved().unwrap();
    }
    // At its end there is nothing to stop.
    let mut counter = counter();
    assert!(go(&mut driver(&root), &mut counter, 5));
    assert_eq!(counter.saved, [6]);
}

#[test]
fn a_save_that_fails_is_an_error_at_the_end_unless_a_later_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("job");
    let (mut driver, mut counter) = (driver(&root), counter());
    counter.is_full = true;
    assert!(!go(&mut driver, &mut counter, 1));
    counter.is_full = false;
    assert!(go(&mut driver, &mut counter, usize::MAX));
    driver.check_saved().unwrap();

    counter.is_full = true;
    assert!(go(&mut driver, &mut counter, usize::MAX));
    let sentence = driver.check_saved().unwrap_err().to_string();
    assert_eq!(sentence, "count 6 is not saved: the disk is full");
}

#[test]
fn a_new_folder_stays_once_a_unit_is_done_or_saved() {
    let dir = tempfile::tempdir().unwrap();
    let stays = |name: &str, questions: usize, is_full: bool| {
        let root = dir.path().join(name);
        let mut counter = Counter { is_full, ..counter() };
        go(&mut driver(&root), &mut counter, questions);
        root.exists()
    };
    assert!(!stays("nothing", 0, true));
    assert!(stays("saved", 0, false));
    assert!(stays("done", 1, true));
}

#[test]
fn a_session_adds_to_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(&dir.path().join("job"));
    driver.measure(counter().peak());
    let spent = driver.spent();
    assert_eq!((spent.sessions, spent.compile_seconds), (3, 4.0));
    assert_eq!((spent.planned, spent.resident), (7, Some(usize::MAX)));
    assert!(spent.seconds >= 100.0 && spent.measured > 0);
}

//! The wire over an engine whose requests can be waited for alone.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use lessen_base::{Error, Result};
use lessen_comm::{Engine, EngineWire, Message, Wait};

use crate::ranks::{expected_sum, on_wires, sum_and_gather};

/// Messages by sender, receiver, tag and number.
type Messages = HashMap<(usize, usize, u32, u64), Vec<u8>>;

/// Threads that exchange messages by a condition variable.
struct Threads {
    rank: usize,
    size: usize,
    shared: Arc<(Mutex<Messages>, Condvar)>,
    counts: HashMap<(bool, usize, u32), u64>,
}

impl Threads {
    fn connected(size: usize) -> impl Iterator<Item = EngineWire<Threads>> {
        let shared = Arc::default();
        (0..size).map(move |rank| {
            let threads = Threads {
                rank,
                size,
                shared: Arc::clone(&shared),
                counts: HashMap::new(),
            };
            EngineWire::new(threads).unwrap()
        })
    }

    fn count(&mut self, sends: bool, other: usize, tag: u32) -> u64 {
        let count = self.counts.entry((sends, other, tag)).or_default();
        *count += 1;
        *count
    }
}

impl Engine for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Wait> {
        let number = (self.rank, to, tag, self.count(true, to, tag));
        let shared = self.shared.clone();
        Ok(Box::new(move || {
            shared.0.lock().unwrap().insert(number, message.bytes().to_vec());
            shared.1.notify_all();
            Ok(Vec::new())
        }))
    }

    fn receive(&mut self, from: usize, tag: u32, _: usize) -> Result<Wait> {
        let number = (from, self.rank, tag, self.count(false, from, tag));
        let shared = self.shared.clone();
        Ok(Box::new(move || {
            let there = |messages: &mut Messages| !messages.contains_key(&number);
            let mut messages = shared.1.wait_while(shared.0.lock().unwrap(), there).unwrap();
            messages
                .remove(&number)
                .ok_or_else(|| Error::internal("the message was taken"))
        }))
    }
}

#[test]
fn an_engine_gives_the_same_bits() {
    for size in [1, 2, 3, 4] {
        let results = on_wires(Duration::from_secs(60), Threads::connected(size), |exchange| {
            let all = sum_and_gather(&exchange, 4, 500, &[0, 400, 1000, 2000]);
            exchange.finish().unwrap();
            all
        });
        assert!(results.iter().all(|all| *all == expected_sum(4, 500)), "{size} ranks");
    }
}

#[test]
fn a_rank_that_an_engine_does_not_reach_is_named() {
    let results = on_wires(Duration::from_millis(200), Threads::connected(2), |exchange| {
        (exchange.rank() == 0).then(|| exchange.broadcast("the recipe", 1, Vec::new()).end())
    });
    let error = results.into_iter().flatten().next().unwrap().unwrap_err();
    let sentence = "the start, the recipe: rank 1 of 2 has not answered for 0.2 s";
    assert!(error.to_string().starts_with(sentence), "{error}");
}

#[test]
fn the_error_of_a_rank_ends_the_run_on_all() {
    let results = on_wires(Duration::from_secs(60), Threads::connected(3), |exchange| {
        if exchange.rank() == 2 {
            exchange.abort(&Error::user("runs/sums has no room"));
        }
        exchange.gather("the losses", Vec::new()).end().unwrap_err().to_string()
    });
    let told = "the start, the losses: rank 2 of 3 ended the run: runs/sums has no room";
    assert_eq!(results, [told, told, "runs/sums has no room"]);
}

use std::sync::Barrier;
use std::time::{Duration, Instant};

use lessen_base::Error;
use lessen_comm::{Addition, Exchange, ThreadWire, Wire};

use crate::ranks::{on_ranks, on_slow_ranks, on_wires, reduction};

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_rank_that_does_not_answer_is_named_within_the_deadline() {
    let over = Barrier::new(3);
    let results = on_wires(SHORT, ThreadWire::connected(3), |exchange| {
        exchange.set_place("step 71");
        let begun = Instant::now();
        let result = (exchange.rank() != 1).then(|| exchange.gather("the agreement", vec![1]).end());
        let time = begun.elapsed();
        over.wait();
        result.map(|result| (result.unwrap_err(), time))
    });
    for (error, time) in results.into_iter().flatten() {
        assert_eq!(
            error.to_string(),
            "step 71, the agreement: rank 1 of 3 has not answered for 0.3 s; see whether its process and its machine \
             run, or set a longer deadline"
        );
        assert!(time >= SHORT && time < SHORT + Duration::from_secs(5), "{time:?}");
    }
}

/// A long collective may take longer than the deadline as long as its messages arrive.
#[test]
fn a_rank_that_answers_slowly_is_not_late() {
    let latency = Duration::from_millis(100);
    let begun = Instant::now();
    on_slow_ranks(SHORT, &[latency; 2], |exchange| {
        let mut bytes = vec![exchange.rank() as u8];
        for turn in 0..4 {
            bytes = exchange.broadcast("turn", turn % 2, bytes).end().unwrap();
        }
        assert_eq!(bytes, [0]);
        exchange.finish().unwrap();
    });
    assert!(begun.elapsed() > SHORT);
}

#[test]
fn an_abort_reaches_all_ranks() {
    let error = Error::user("the label 12 in batch.csv is none of 10 classes; correct it");
    let results = on_ranks(4, |exchange| {
        exchange.set_place("step 3");
        if exchange.rank() == 2 {
            exchange.abort(&error);
        }
        let first = exchange.gather("the agreement", vec![1]).end().unwrap_err();
        let later = exchange.gather("the next step", vec![1]).end().unwrap_err();
        assert_eq!(first, later, "the first error stays");
        assert_eq!(exchange.finish().unwrap_err(), first);
        first
    });
    for (rank, found) in results.iter().enumerate() {
        if rank == 2 {
            assert_eq!(*found, error);
        } else {
            let sentence = format!("step 3, the agreement: rank 2 of 4 ended the run: {error}");
            assert_eq!(found.to_string(), sentence);
        }
    }
}

#[test]
fn ranks_that_expect_other_lengths_are_told_so() {
    let results = on_ranks(2, |exchange| {
        let borders = [0, 4, 8 + 4 * exchange.rank()];
        let owned = vec![0; borders[exchange.rank() + 1] - borders[exchange.rank()]];
        let result = exchange.all_gather("parameters", owned, borders.to_vec()).end();
        if let Err(error) = &result {
            exchange.abort(error);
        }
        result
    });
    let sentence = "the start, parameters: rank 1 sent 8 bytes where 4 were expected; start every rank with the same \
                    version, recipe and data";
    assert_eq!(results[0].as_ref().unwrap_err().to_string(), sentence);
}

#[test]
fn arguments_that_do_not_fit_are_refused_without_a_message() {
    on_ranks(1, |exchange| {
        let refused = [
            exchange.all_gather("gather", vec![0; 4], vec![0, 8]).end(),
            exchange.all_gather("gather", vec![0; 4], vec![4]).end(),
            exchange.broadcast("broadcast", 1, vec![]).end(),
            exchange
                .reduce_scatter("sum", reduction(&exchange, 2, &[0, 6], Addition::f32(), |_| vec![0; 6]))
                .end(),
            exchange
                .reduce_scatter("sum", reduction(&exchange, 2, &[0, 8], Addition::f32(), |_| vec![0; 4]))
                .end(),
            exchange
                .reduce_scatter("sum", reduction(&exchange, 0, &[0, 4], Addition::f32(), |_| vec![0; 4]))
                .end(),
        ];
        assert!(
            refused
                .iter()
                .all(|result| result.as_ref().is_err_and(|error| error.exit_code() == 1))
        );
        let uneven = exchange.all_reduce("norm", vec![vec![1.0], vec![1.0, 2.0]]).end();
        assert!(uneven.is_err());
        assert_eq!(exchange.bytes_sent(), 0);
    });
}

#[test]
fn a_wire_that_does_not_open_is_an_error_of_the_start() {
    let error = Error::user("there is no wire");
    let opened = Exchange::start(SHORT, move || Err(error));
    assert_eq!(opened.unwrap_err().to_string(), "there is no wire");
    let opened = Exchange::start(SHORT, || {
        std::thread::sleep(10 * SHORT);
        Err(Error::user("too late"))
    });
    let sentence = opened.unwrap_err().to_string();
    assert!(
        sentence.starts_with("the wire has not opened within 0.3 s; see whether"),
        "{sentence}"
    );
}

#[test]
fn a_wire_refuses_ranks_and_requests_that_do_not_exist() {
    let mut wires = ThreadWire::connected(2);
    let wire = &mut wires[0];
    assert!(wire.send(0, 0, vec![1].into()).is_err());
    assert!(wire.receive(2, 0, 1).is_err());
    assert!(wire.receive(1, lessen_comm::LARGEST_TAG + 1, 1).is_err());
    assert!(wire.test(lessen_comm::Request(9)).is_err());
}

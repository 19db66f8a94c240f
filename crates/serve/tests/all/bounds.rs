//! Bounds of size, time and number, and the end of a server.

use crate::support::*;
use serde_json::json;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

const ASK: &str = r#"{"inputs":"sun"}"#;

#[test]
fn a_body_that_is_too_large_is_refused_and_the_client_sees_it() {
    let server = Server::start(classifier(), |limits| limits.body = 1000);
    let large = format!(r#"{{"inputs":"{}"}}"#, "a".repeat(900_000));
    let message = server.post("/predict", &large).refusal(413, "");
    assert!(message.contains("1000 bytes (--max-body)"), "{message}");
    // One that does not say its size.
    let mut stream = server.connect();
    let head = "POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..40 {
        // The server may have stopped listening.
        let _ = stream.write_all(format!("64\r\n{}\r\n", "b".repeat(100)).as_bytes());
    }
    assert_eq!(Answer::read(stream).status, 413);
    server.post("/predict", ASK).ok();
}

#[test]
fn slow_and_broken_clients_are_let_go() {
    let server = Server::start(classifier(), |limits| limits.time = Duration::from_millis(300));
    // The head, the body, and nothing at all.
    let mut head = server.connect();
    head.write_all(b"POST /predict HTTP/1.1\r\nhost:").unwrap();
    let mut body = server.connect();
    let begun = "POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"in";
    body.write_all(begun.as_bytes()).unwrap();
    let mut silent = server.connect();
    assert!(Answer::read(head).refusal(408, "").contains("--timeout"));
    assert!(Answer::read(body).refusal(408, "").contains("--timeout"));
    assert_eq!(silent.read(&mut [0; 10]).unwrap(), 0);
    // Bodies that break off, and bytes that are no HTTP.
    let broken = server.connect();
    (&broken).write_all(begun.as_bytes()).unwrap();
    broken.shutdown(Shutdown::Write).unwrap();
    drop(broken);
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"GET /health\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST  HTTP/9.9\r\n\r\n",
    ] {
        assert_eq!(server.send(bytes).status, 400, "{bytes:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(200_000));
    assert!([400, 414, 431].contains(&server.send(long.as_bytes()).status));
    server.post("/predict", ASK).ok();
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_again() {
    let server = Server::start(language_model(), |limits| {
        (limits.queue, limits.sequences, limits.context) = (1, 1, Some(64));
    });
    let body = json!({ "prompt": "ab", "max_tokens": 60, "n": 128 }).to_string();
    let statuses: Vec<(u16, bool)> = thread::scope(|scope| {
        let ask = || {
            let answer = server.post("/v1/completions", &body);
            (answer.status, answer.head.contains("retry-after: 1"))
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |status: u16, again: bool| statuses.iter().filter(|one| **one == (status, again)).count();
    assert_eq!(count(200, false) + count(429, true), 8, "{statuses:?}");
    // Whether a second one gets in depends on when the first one leaves the queue.
    assert!(count(200, false) >= 1 && count(429, true) >= 1, "{statuses:?}");
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    server.post("/v1/completions", &short).ok();
}

#[test]
fn what_takes_too_long_is_refused_and_ended() {
    let server = Server::start(language_model(), |limits| {
        (limits.time, limits.sequences, limits.texts) = (Duration::from_millis(400), 1, 4096);
    });
    let long = json!({ "prompt": vec!["ab"; 32], "max_tokens": 60, "n": 128 }).to_string();
    let start = Instant::now();
    let message = server.post("/v1/completions", &long).refusal(503, "");
    assert!(message.contains("0.4 s (--timeout)"), "{message}");
    assert!(start.elapsed() < Duration::from_secs(5));
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    server.post("/v1/completions", &short).ok();
    // A stream has begun with status 200, so it ends with an event.
    let streamed = json!({ "prompt": vec!["ab"; 32], "max_tokens": 60, "n": 128, "stream": true }).to_string();
    let answer = server.post("/v1/completions", &streamed);
    assert_eq!(answer.status, 200);
    assert!(
        answer.body.contains(r#""code":"timeout""#) && !answer.body.contains("[DONE]"),
        "{}",
        answer.body
    );
}

#[test]
fn a_stopped_server_finishes_what_it_has_begun_and_its_port_is_free() {
    let server = Server::start(language_model(), |_| {});
    let port = server.address.port();
    let body = json!({ "prompt": "ab", "max_tokens": 60, "n": 30, "temperature": 0 }).to_string();
    let idle = server.connect();
    let answer = thread::scope(|scope| {
        let asked = scope.spawn(|| server.post("/v1/completions", &body));
        while !server.get("/metrics").body.contains("lessen_read_tokens_total 2") {
            thread::sleep(Duration::from_millis(1));
        }
        server.stop();
        asked.join().unwrap()
    });
    assert_eq!(answer.ok()["usage"]["completion_tokens"], 1800);
    assert_eq!((&idle).read(&mut [0; 10]).unwrap(), 0);
    server.end().unwrap();
    let again = Server::start_on(language_model(), port, |_| {});
    assert_eq!(again.address.port(), port);
    again.get("/health").ok();
}

#[test]
fn clients_beyond_the_bound_take_the_place_of_the_idlest_one() {
    let server = Server::start(classifier(), |limits| limits.connections = 2);
    let mut first = server.connect();
    first
        .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    assert!(first.read(&mut [0; 1000]).unwrap() > 0);
    // 32 more may come than are answered at once.
    let others: Vec<_> = (0..33).map(|_| server.connect()).collect();
    server.get("/health").ok();
    server.post("/predict", ASK).ok();
    assert_eq!(first.read(&mut [0; 10]).unwrap(), 0, "it was idle for the longest time");
    assert!(server.bytes.is_none_or(|bytes| bytes > 1 << 20));
    drop(others);
}

#[test]
fn health_is_told_while_as_many_requests_are_answered_as_can_be() {
    let server = Server::start(language_model(), |limits| {
        (limits.connections, limits.sequences, limits.texts) = (1, 1, 4096);
    });
    let long = json!({ "prompt": vec!["ab"; 32], "max_tokens": 60, "n": 128, "stream": true }).to_string();
    let mut reader = server.connect();
    reader.write_all(&request("/v1/completions", &long)).unwrap();
    assert!(reader.read(&mut [0; 100]).unwrap() > 0);
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    let answer = server.post("/v1/completions", &short);
    assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    assert!(answer.refusal(503, "").contains("--connections"), "{answer:?}");
    server.get("/health").ok();
    assert_eq!(server.get("/metrics").status, 200);
    drop(reader);
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    for (flag, limits) in [
        (
            "--queue 0",
            lessen_serve::Limits {
                queue: 0,
                ..Default::default()
            },
        ),
        (
            "--max-texts 5000",
            lessen_serve::Limits {
                texts: 5000,
                ..Default::default()
            },
        ),
        (
            "--timeout 0",
            lessen_serve::Limits {
                time: Duration::ZERO,
                ..Default::default()
            },
        ),
        (
            "--context 0",
            lessen_serve::Limits {
                context: Some(0),
                ..Default::default()
            },
        ),
    ] {
        let message = limits.check().unwrap_err().to_string();
        assert!(message.starts_with(flag), "{message}");
    }
}

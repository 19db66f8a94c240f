//! Clients that send or read nothing, and requests that are damaged: others are answered, and the server ends.

use crate::support::*;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ASK: &str = r#"{"inputs":"sun"}"#;

/// The time that a request may take in these tests. What must come soon comes long before.
const TIME: Duration = Duration::from_secs(60);

/// Runs something that must not wait for other clients.
#[track_caller]
fn soon<T>(what: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let found = what();
    assert!(begun.elapsed() < TIME / 4, "{:?}", begun.elapsed());
    found
}

#[test]
fn silent_clients_keep_nobody_waiting() {
    let server = Server::start(classifier(), |limits| {
        (limits.connections, limits.time, limits.body) = (16, TIME, 1 << 20);
    });
    let head = "POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut clients: Vec<TcpStream> = Vec::new();
    for number in 0..100 {
        let mut client = server.connect();
        let sent = match number % 5 {
            0 => String::new(),
            1 => head[..40].to_string(),
            2 => format!("{head}content-length: 1048576\r\n\r\n"),
            3 => format!("{head}content-length: 1048576\r\n\r\n{{\"inputs\": \""),
            _ => format!("{head}transfer-encoding: chunked\r\n\r\n100\r\n"),
        };
        client.write_all(sent.as_bytes()).unwrap();
        clients.push(client);
        if number % 20 == 19 {
            soon(|| server.get("/health")).ok();
            soon(|| server.post("/predict", ASK)).ok();
        }
    }
    // A large body beside them.
    let large = format!(r#"{{"inputs":"{}"}}"#, "sun ".repeat(100_000));
    soon(|| server.post("/predict", &large)).refusal(413, "inputs");
    soon(|| server.end()).unwrap();
    drop(clients);
}

#[test]
fn a_drop_at_a_time_is_too_slow() {
    let server = Server::start(classifier(), |limits| limits.time = Duration::from_secs(2));
    let head =
        b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 90000\r\n\r\n";
    for begun in [&head[..55], &head[..]] {
        let mut client = server.connect();
        client.write_all(begun).unwrap();
        let mut reader = client.try_clone().unwrap();
        let answer = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = reader.read_to_end(&mut bytes);
            String::from_utf8(bytes).unwrap()
        });
        while !answer.is_finished() && client.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        let answer = answer.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
}

#[test]
fn unread_answers_keep_nobody_waiting_and_their_clients_are_let_go() {
    let server = Server::start(language_model(), |limits| {
        (limits.time, limits.texts) = (Duration::from_secs(3), 4096);
    });
    let body = json!({ "prompt": vec!["ab"; 32], "max_tokens": 60, "n": 128, "stream": true }).to_string();
    let clients: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut client = server.connect();
            client.write_all(&request("/v1/completions", &body)).unwrap();
            client
        })
        .collect();
    soon(|| server.get("/health")).ok();
    let are_gone = || server.get("/metrics").body.contains("lessen_connections 1\n");
    soon(|| {
        while !are_gone() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    soon(|| server.post("/v1/completions", &short)).ok();
    // Others that read nothing are not waited for, either.
    let mut last = server.connect();
    last.write_all(&request("/v1/completions", &body)).unwrap();
    soon(|| server.end()).unwrap();
    drop(clients);
}

#[test]
fn a_request_for_many_texts_lets_others_in_between() {
    let server = Server::start(language_model(), |limits| {
        (limits.time, limits.texts, limits.sequences) = (TIME, 4096, 1);
    });
    let many = json!({ "prompt": vec!["ab"; 32], "max_tokens": 60, "n": 128 }).to_string();
    let mut first = server.connect();
    first.write_all(&request("/v1/completions", &many)).unwrap();
    soon(|| {
        while server
            .get("/metrics")
            .body
            .contains("lessen_generated_tokens_total 0\n")
        {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    server.post("/v1/completions", &short).ok();
    first.set_nonblocking(true).unwrap();
    let unanswered = first.read(&mut [0]).unwrap_err();
    assert_eq!(
        unanswered.kind(),
        ErrorKind::WouldBlock,
        "all texts of a request came before that of another"
    );
}

#[test]
fn a_text_that_makes_room_for_others_goes_on_as_it_would_have() {
    let start = |places| {
        Server::start(language_model(), |limits| {
            (limits.time, limits.sequences) = (TIME, places)
        })
    };
    let long = json!({ "prompt": "ab", "max_tokens": 60, "n": 3, "seed": 7, "temperature": 0.9 }).to_string();
    let texts = |answer: Answer| answer.ok()["choices"].clone();
    let alone = texts(start(3).post("/v1/completions", &long));
    let server = start(3);
    let short = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    thread::scope(|scope| {
        let found = scope.spawn(|| texts(server.post("/v1/completions", &long)));
        while !found.is_finished() {
            server.post("/v1/completions", &short).ok();
        }
        assert_eq!(found.join().unwrap(), alone);
    });
}

#[test]
fn a_refusal_quotes_little_of_a_request() {
    let server = Server::start(classifier(), |_| {});
    let long = "\u{1}\u{e9}".repeat(100_000);
    for body in [
        json!({ "inputs": "a", &long: 1 }),
        json!({ "inputs": "a", "truncation_direction": long }),
    ] {
        let answer = server.post("/predict", &body.to_string());
        assert_eq!(answer.status, 400);
        assert!(answer.body.len() < 16 << 10, "{} bytes", answer.body.len());
        assert!(answer.json()["error"]["message"].is_string());
    }
}

/// Numbers that a seed decides (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }
}

/// A request in which some bytes are changed, left out, put in or doubled.
fn mutated(whole: &[u8], draw: &mut Draw) -> Vec<u8> {
    const WORDS: [&[u8]; 12] = [
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xff",
        b"{",
        b"]]]]",
        b"9999999999999999999",
        b"-1",
        b"null",
        b"\"",
        b"\\ud800",
        b": ",
    ];
    let mut bytes = whole.to_vec();
    for _ in 0..1 + draw.below(4) {
        let (at, length) = (draw.below(bytes.len()), draw.below(30));
        let end = (at + length).min(bytes.len());
        match draw.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << draw.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, WORDS[draw.below(WORDS.len())].iter().copied())),
            3 => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
            _ => bytes.truncate(at + 1),
        }
    }
    bytes
}

/// Sends a damaged request, and checks that an answer to it is HTTP.
#[track_caller]
fn check(server: &Server, sent: &[u8], place: &str) {
    let mut client = server.connect();
    // The server may have refused it already.
    let _ = client.write_all(sent);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    if let Ok(count) = client.read(&mut part) {
        answer.extend(&part[..count]);
    }
    // It may wait for more of the request, or for the next one.
    let _ = client.shutdown(Shutdown::Write);
    client.set_read_timeout(Some(TIME)).unwrap();
    let _ = client.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let place = format!("{place}: {:?} got {answer:?}", String::from_utf8_lossy(sent));
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        assert!(answer.is_empty(), "{place}");
        return;
    };
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|head| head.get(2..5)?.parse::<u16>().ok());
    assert!(
        status.is_some_and(|status| (200..=503).contains(&status) && status != 500),
        "{place}"
    );
    if status != Some(200) && head.contains("application/json") {
        let refusal: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {place}"));
        assert!(refusal["error"]["message"].is_string(), "{place}");
    }
}

#[test]
fn damaged_requests_get_an_answer_or_a_closed_connection() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        PANICS.fetch_add(usize::from(thread::current().name() == Some("http")), Ordering::Relaxed);
        before(what);
    }));
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let model = language_model_with(&[("chat_template.jinja", template)]);
    let servers = [Server::start(classifier(), |_| {}), Server::start(&model, |_| {})];
    let bodies: [(usize, &str, Value); 4] = [
        (
            0,
            "/predict",
            json!({ "inputs": [["sun"], ["rain", "sun"]], "truncate": true, "raw_scores": false }),
        ),
        (
            1,
            "/v1/completions",
            json!({ "prompt": [[2, 3], [4]], "max_tokens": 3, "n": 2, "seed": 5, "stop": ["c"] }),
        ),
        (
            1,
            "/v1/completions",
            json!({ "prompt": "ab", "stream": true, "stream_options": { "include_usage": true } }),
        ),
        (
            1,
            "/v1/chat/completions",
            json!({ "messages": [{ "role": "user", "content": "ab" }], "max_tokens": 3 }),
        ),
    ];
    thread::scope(|scope| {
        for seed in 57..65 {
            let (servers, bodies) = (&servers, &bodies);
            scope.spawn(move || {
                let mut draw = Draw(seed);
                for number in 0..50 {
                    let (server, path, body) = &bodies[draw.below(bodies.len())];
                    let sent = mutated(&request(path, &body.to_string()), &mut draw);
                    check(&servers[*server], &sent, &format!("request {number} of seed {seed}"));
                }
            });
        }
    });
    for server in servers {
        soon(|| server.get("/health")).ok();
        soon(|| server.end()).unwrap();
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

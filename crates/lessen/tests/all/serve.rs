//! `lessen serve`: who may ask, and its end at a signal.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a server with a key in the variable; the process, and its address.
fn start(dir: &std::path::Path, args: &[&str]) -> (Child, String) {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../saved/tests/fixtures/embeddings/cls");
    let mut command = command(dir, &[&["serve", model, "--port", "0", "--json"][..], args].concat());
    command.env("LESSEN_API_KEY", "of-the-variable");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    (
        child,
        ready["url"]
            .as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap()
            .to_string(),
    )
}

/// The status of `/v1/models` with this key.
fn status(address: &str, key: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /v1/models HTTP/1.0\r\nauthorization: Bearer {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn keys_come_from_a_file_or_a_variable_and_a_signal_ends_the_server_beside_silent_clients() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("keys"), "first\n\n second \n").unwrap();
    for (flags, right, wrong) in [
        (
            &["--api-key-file", "keys"][..],
            &["first", "second"][..],
            "of-the-variable",
        ),
        (&[], &["of-the-variable"], "first"),
        (&["--no-api-key"], &["any"], ""),
    ] {
        let (mut child, address) = start(dir, flags);
        for key in right {
            assert_eq!(status(&address, key), 200, "{flags:?}, {key}");
        }
        assert_eq!(
            status(&address, wrong),
            if wrong.is_empty() { 200 } else { 401 },
            "{flags:?}"
        );
        let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let begun = Instant::now();
        let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let code = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.code();
            }
            if begun.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(code, Some(0), "{flags:?}, after {:?}", begun.elapsed());
        drop(silent);
    }
}

#[test]
fn what_lets_others_ask_takes_a_key_and_mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (file, text) in [("empty", "\n"), ("spaces", "first\nwith spaces\n")] {
        fs::write(dir.join(file), text).unwrap();
    }
    for (flags, says) in [
        (&["--host", "0.0.0.0"][..], "--api-key-file"),
        (&["--host", "::"], "LESSEN_API_KEY"),
        (&["--api-key-file", "missing"], "missing cannot be read"),
        (&["--api-key-file", "empty"], "has no key"),
        (&["--api-key-file", "spaces"], "spaces, line 2"),
        (
            &["--allow-host", "https://models.example"],
            "--allow-host https://models.example",
        ),
    ] {
        let sentence = refuse(dir, &[&["serve", "model"][..], flags].concat());
        assert!(sentence.contains(says), "{flags:?}: {sentence}");
    }
}

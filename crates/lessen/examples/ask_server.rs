//! A client of `lessen serve`: `cargo run --release --example ask_server -- http://127.0.0.1:8080 predict TEXT…` prints
//! the likeliest class of each text, `embed` how much alike the first text and each of the others are, and `complete`
//! the most likely continuation of each text as its tokens come. It needs no more than the standard library and JSON.

use lessen::prelude::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, question, texts @ ..] = &arguments[..] else {
        return Err(usage());
    };
    match (question.as_str(), texts) {
        (_, []) => Err(usage()),
        ("predict", texts) => predict(url, texts),
        ("embed", [first, others @ ..]) => embed(url, first, others),
        ("complete", texts) => texts.iter().try_for_each(|text| complete(url, text)),
        _ => Err(usage()),
    }
}

fn usage() -> Error {
    Error::user("name the URL of a server, then predict, embed or complete, and one text or several")
}

/// Prints the likeliest class of each text.
fn predict(url: &str, texts: &[String]) -> Result<()> {
    let each: Vec<[&String; 1]> = texts.iter().map(|text| [text]).collect();
    let answers = json_of(post(url, "/predict", &json!({ "inputs": each }))?)?;
    for (text, classes) in texts.iter().zip(answers.as_array().into_iter().flatten()) {
        let score = classes[0]["score"].as_f64().unwrap_or(f64::NAN);
        println!("{score:.3} {} {text}", classes[0]["label"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Prints the cosine of the angle between the vectors of the first text and of each other one.
fn embed(url: &str, first: &String, others: &[String]) -> Result<()> {
    let texts: Vec<&String> = std::iter::once(first).chain(others).collect();
    let answer = json_of(post(url, "/embed", &json!({ "inputs": texts }))?)?;
    let vectors: Vec<Vec<f64>> = serde_json::from_value(answer).map_err(|error| unexpected(&error.to_string()))?;
    let Some((of_first, of_others)) = vectors.split_first() else {
        return Err(unexpected("no vector"));
    };
    for (vector, text) in of_others.iter().zip(others) {
        // Vectors have the length 1.
        let cosine: f64 = of_first.iter().zip(vector).map(|(a, b)| a * b).sum();
        println!("{cosine:.3} {text}");
    }
    Ok(())
}

/// Prints a text and what a language model adds to it, piece by piece.
fn complete(url: &str, text: &str) -> Result<()> {
    let body = json!({ "prompt": text, "max_tokens": 32, "temperature": 0, "stream": true });
    let events = post(url, "/v1/completions", &body)?;
    print!("{text}");
    for line in events.lines() {
        let line = line.map_err(|error| unexpected(&error.to_string()))?;
        match line.strip_prefix("data: ") {
            None => continue,
            Some("[DONE]") => break,
            Some(event) => {
                let event: Value = serde_json::from_str(event).map_err(|error| unexpected(&error.to_string()))?;
                if let Some(message) = event["error"]["message"].as_str() {
                    return Err(Error::user(format!("the server gives up: {message}")));
                }
                print!("{}", event["choices"][0]["text"].as_str().unwrap_or_default());
                // A piece is shown when it comes, whether or not a line ends.
                let _ = std::io::stdout().flush();
            }
        }
    }
    println!();
    Ok(())
}

/// Sends JSON and returns the body of a successful answer, to be read. HTTP 1.0 has no chunks: the body ends with the
/// connection.
fn post(url: &str, path: &str, body: &Value) -> Result<BufReader<TcpStream>> {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let failed =
        |error: std::io::Error| Error::user(format!("{address} does not answer ({error}); is it served there?"));
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(failed)?;
    let mut answer = BufReader::new(stream);
    let mut status = String::new();
    answer.read_line(&mut status).map_err(failed)?;
    let mut line = String::new();
    // An empty line ends the headers.
    while answer.read_line(&mut line).map_err(failed)? > 2 {
        line.clear();
    }
    if status.split(' ').nth(1) == Some("200") {
        return Ok(answer);
    }
    let refusal = json_of(answer)?;
    let message = refusal["error"]["message"].as_str().unwrap_or(&status);
    Err(Error::user(format!("the server refuses: {message}")))
}

/// The JSON of a whole body.
fn json_of(mut body: impl Read) -> Result<Value> {
    let mut text = String::new();
    let read = body.read_to_string(&mut text);
    read.map_err(|error| unexpected(&error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unexpected(&error.to_string()))
}

fn unexpected(what: &str) -> Error {
    Error::user(format!("the answer is not that of lessen serve: {what}"))
}

//! Who may ask: names of hosts, pages of other sites, and keys.

use crate::support::*;
use lessen_serve::{Access, ApiKey, Limits};

const ASK: &str = r#"{"inputs":"sun"}"#;

/// A server that answers under further names, to clients with one of these keys.
fn start(names: &[&str], keys: &[&str]) -> Server {
    let access = Access {
        names: names.iter().map(|name| name.to_string()).collect(),
        keys: keys.iter().map(|key| ApiKey::new(key).unwrap()).collect(),
    };
    Server::start_for(classifier(), 0, false, Limits::default(), access)
}

/// The answer to a request with these lines of its head.
fn ask(server: &Server, lines: &[&str]) -> Answer {
    let head = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>();
    let length = ASK.len();
    let request = format!(
        "POST /predict HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{head}\r\n{ASK}"
    );
    server.send(request.as_bytes())
}

#[test]
fn names_that_another_site_may_have_given_this_address_are_refused() {
    let server = start(&[], &[]);
    let port = server.address.port();
    let here = format!("127.0.0.1:{port}");
    for host in [
        "localhost",
        "LocalHost:1",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9:80",
        "[::1]:8080",
        &here,
    ] {
        assert_eq!(ask(&server, &[&format!("host: {host}")]).status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "192.168.0.7",
        "a@localhost",
        "[::2]",
    ] {
        let answer = ask(&server, &[&format!("host: {host}")]);
        let message = answer.refusal(403, "");
        assert!(message.contains("--allow-host"), "{host}: {message}");
    }
    for lines in [&[][..], &["host: "], &["host: a b"], &["host: \u{fc}"]] {
        assert_eq!(ask(&server, lines).status, 400, "{lines:?}");
    }
    assert_eq!(ask(&server, &["host: localhost", "host: evil.example"]).status, 403);
    let whole = b"GET http://evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(server.send(whole).status, 403);
    let health = b"GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(server.send(health).status, 403);
    // HTTP 1.0 has no such header.
    server.get("/health").ok();
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = start(&["models.example"], &[]);
    let port = server.address.port();
    let here = format!("localhost:{port}");
    for (host, origin) in [
        (here.as_str(), format!("http://{here}")),
        ("models.example", "https://models.example".to_string()),
        (here.as_str(), "https://models.example:8443".to_string()),
    ] {
        let lines = [format!("host: {host}"), format!("origin: {origin}")];
        assert_eq!(
            ask(&server, &lines.each_ref().map(String::as_str)).status,
            200,
            "{lines:?}"
        );
    }
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost:1",
        "https://models.example.evil.example",
        "a",
    ] {
        let answer = ask(&server, &[&format!("host: {here}"), &format!("origin: {origin}")]);
        let message = answer.refusal(403, "");
        assert!(message.contains("pages of other sites"), "{origin}: {message}");
    }
}

#[test]
fn requests_need_one_of_the_keys_where_there_are_some() {
    let server = start(&[], &["first-key", "second-key"]);
    let local = "host: localhost";
    for given in ["Bearer first-key", "bearer second-key", "Bearer  first-key "] {
        assert_eq!(
            ask(&server, &[local, &format!("authorization: {given}")]).status,
            200,
            "{given}"
        );
    }
    for given in [
        "Bearer first-ke",
        "Bearer first-key2",
        "Bearer",
        "first-key",
        "Basic first-key",
        "Bearer first-key,second-key",
    ] {
        let answer = ask(&server, &[local, &format!("authorization: {given}")]);
        let message = answer.refusal(401, "");
        assert!(message.contains("Authorization: Bearer"), "{given}: {message}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{answer:?}");
        assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
    }
    assert_eq!(ask(&server, &[local]).status, 401);
    for path in ["/v1/models", "/metrics", "/v1/models/tiny", "/other"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    server.get("/health").ok();
    for key in ["", "a b", "\u{e4}"] {
        ApiKey::new(key).unwrap_err();
    }
}

#[test]
fn names_of_hosts_are_names_alone() {
    let named = |name: &str| Access {
        names: vec![name.to_string()],
        keys: Vec::new(),
    };
    for name in ["models.example", "box", "10.0.0.7"] {
        named(name).check_names().unwrap();
    }
    for name in [
        "https://models.example",
        "models.example:80",
        "models.example/v1",
        "",
        "*",
        "me@box",
    ] {
        let message = named(name).check_names().unwrap_err().to_string();
        assert!(message.contains("--allow-host"), "{name}: {message}");
    }
}

//! Who may ask: by the names under which the server is asked, by the page that asks, and by keys.

use crate::refusal::Refusal;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{StatusCode, Version};
use lessen_base::{Error, Result};
use std::fmt;
use std::net::IpAddr;

/// A key, one of which requests must have.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Reads a key.
    ///
    /// # Errors
    /// A text that is empty, or that a header cannot hold.
    pub fn new(text: &str) -> Result<ApiKey> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::user(
                "a key must have at least one character, and only letters, digits and signs of ASCII; choose another one",
            ));
        }
        Ok(ApiKey(text.to_string()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

/// Who may ask a server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Further names of the server. Where there are some, requests must name one of them, or the server's own address.
    pub names: Vec<String>,
    /// The keys, one of which requests must have; everyone may ask where there are none.
    pub keys: Vec<ApiKey>,
}

impl Access {
    /// Checks that the names of the server are names.
    ///
    /// # Errors
    /// One with a scheme, a port or a path; the sentence begins with the flag.
    pub fn check_names(&self) -> Result<()> {
        let is_name = |name: &str| {
            let is_plain = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
            is_plain
                && name
                    .parse::<Authority>()
                    .is_ok_and(|authority| authority.host() == name)
        };
        match self.names.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(Error::user(format!(
                "--allow-host {name} is no name of a host; give it without scheme, port and path, as in \
                 models.example.com"
            ))),
        }
    }

    /// Checks a request to a server that listens on `own`. On an address of this machine alone, a page of another site
    /// may have led a browser here by a name that it has made to mean this address.
    ///
    /// # Errors
    /// Another name than those of the server; a page of another site; a key that is missing or wrong.
    pub fn check(&self, own: IpAddr, request: &Parts) -> std::result::Result<(), Refusal> {
        if own.to_canonical().is_loopback() || !self.names.is_empty() {
            let host = self.check_host(own, request)?;
            self.check_origin(host.as_ref(), &request.headers)?;
        }
        match request.uri.path() == "/health" {
            true => Ok(()),
            false => self.check_key(&request.headers),
        }
    }

    /// The host that a request names; none where it names none, as HTTP 1.0 allows.
    fn check_host(&self, own: IpAddr, request: &Parts) -> std::result::Result<Option<Authority>, Refusal> {
        let mut named: Vec<Authority> = request.uri.authority().cloned().into_iter().collect();
        for value in request.headers.get_all(HOST) {
            let host = value.to_str().ok().and_then(|text| text.parse().ok());
            named.push(host.ok_or_else(|| Refusal::bad("the header Host is no name of a host; send one"))?);
        }
        if named.is_empty() && request.version != Version::HTTP_10 {
            return Err(Refusal::bad("the header Host is missing; send the name of the server"));
        }
        match named.iter().find(|host| !self.is_own(own, host)) {
            None => Ok(named.pop()),
            Some(other) => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!(
                    "the request is for the host '{other}', which is none of this server; ask it by its address, or start it \
                     with --allow-host {}",
                    other.host()
                ),
            )
            .with_code("unknown_host")),
        }
    }

    /// Whether this is a name of the server.
    fn is_own(&self, own: IpAddr, host: &Authority) -> bool {
        if host.as_str().contains('@') {
            return false;
        }
        let name = host.host();
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        match bare.parse::<IpAddr>() {
            // No other site can give its name an address by this.
            Ok(address) => address.to_canonical().is_loopback() || !own.to_canonical().is_loopback(),
            Err(_) => is_same(name, "localhost") || self.has_name(name),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| is_same(own, name))
    }

    /// Refuses pages of other sites than the server's own.
    fn check_origin(&self, host: Option<&Authority>, headers: &HeaderMap) -> std::result::Result<(), Refusal> {
        for value in headers.get_all(ORIGIN) {
            let origin = String::from_utf8_lossy(value.as_bytes());
            let site = origin
                .split_once("://")
                .and_then(|(_, site)| site.parse::<Authority>().ok());
            let is_own = |site: &Authority| host == Some(site) || self.has_name(site.host());
            if !site.as_ref().is_some_and(is_own) {
                let message = format!(
                    "the request comes from a page of '{origin}', and this server answers no pages of other sites; ask from \
                     a program, or start it with --allow-host and the name of that site"
                );
                return Err(Refusal::new(StatusCode::FORBIDDEN, message).with_code("unknown_origin"));
            }
        }
        Ok(())
    }

    fn check_key(&self, headers: &HeaderMap) -> std::result::Result<(), Refusal> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let refused = |what: &str| {
            let message = format!("{what}; send one with the header Authorization: Bearer KEY");
            Err(Refusal::new(StatusCode::UNAUTHORIZED, message).with_code("invalid_api_key"))
        };
        let Some(given) = headers.get(AUTHORIZATION) else {
            return refused("the request has no API key");
        };
        let given = String::from_utf8_lossy(given.as_bytes());
        let key = given
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let key = key.map_or("", |(_, key)| key.trim());
        // Every key is compared as a whole, so that the time does not tell which one begins alike.
        let compare =
            |found: bool, own: &ApiKey| found | constant_time_eq::constant_time_eq(own.0.as_bytes(), key.as_bytes());
        match self.keys.iter().fold(false, compare) {
            true => Ok(()),
            false => refused("the API key of the request is none of this server's"),
        }
    }
}

/// Whether two names mean the same host; a full stop at the end changes nothing.
fn is_same(a: &str, b: &str) -> bool {
    let bare = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare(a) == bare(b)
}

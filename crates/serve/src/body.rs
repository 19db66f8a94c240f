//! Bodies of requests: read within bounds, and as JSON.

use crate::memory::{Memory, Share};
use crate::options::Limits;
use crate::pace::Pace;
use crate::refusal::Refusal;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// A body, and its share of the memory for all bodies.
pub struct Read {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The share, which is free again when it is dropped.
    pub share: Share,
}

/// Bodies of the largest size for which there is memory at once.
pub const LARGEST_BODIES: usize = 16;

/// Memory for [`LARGEST_BODIES`] bodies of `most` bytes, or more smaller ones.
pub fn memory(most: usize) -> Memory {
    Memory::new((LARGEST_BODIES - 1).saturating_mul(most), most)
}

/// Reads the body of a request. It takes memory as its bytes come, so that one that does not come takes none.
///
/// # Errors
/// A body that is no JSON by its header, is too large, comes too slowly, or breaks off; bodies of others that leave no
/// memory for it.
pub async fn read(request: Request<Incoming>, limits: &Limits, memory: &Memory) -> Result<Read, Refusal> {
    check_headers(request.headers())?;
    let most = limits.body;
    let too_large = || {
        let message = format!("the body has more than {most} bytes (--max-body); send less at once");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_code("body_too_large")
    };
    let mut body = request.into_body();
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let deadline = Instant::now() + limits.time;
    let (mut bytes, mut share) = (Vec::new(), memory.share());
    let mut pace = Pace::new(limits.patience());
    loop {
        let frame = match timeout_at(pace.end().min(deadline), body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Refusal::bad(format!("the body broke off ({error}); send all of it"))),
            Err(_) if Instant::now() >= deadline => return Err(slow(limits, None)),
            Err(_) if pace.goes_on() => continue,
            Err(_) => return Err(slow(limits, Some(Pace::least(limits.patience())))),
        };
        // Fields after the body are not read.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > most - bytes.len() {
            return Err(too_large());
        }
        pace.add(data.len());
        if !share.try_grow(data.len()) {
            if timeout_at(deadline, share.grow(data.len())).await.is_err() {
                return Err(Refusal::no_memory());
            }
            // The client is not to blame for the wait.
            pace = Pace::new(limits.patience());
        }
        // Copied, since a piece keeps the whole buffer that it was read to.
        bytes.extend_from_slice(&data);
    }
    bytes.shrink_to_fit();
    Ok(Read { bytes, share })
}

/// The refusal of a body that comes too slowly: as a whole, or with fewer bytes than `least` in a while.
fn slow(limits: &Limits, least: Option<usize>) -> Refusal {
    let message = match least {
        None => {
            let seconds = limits.time.as_secs_f64();
            format!("the body did not come within {seconds} s (--timeout); send it faster")
        }
        Some(least) => {
            let seconds = limits.patience().as_secs_f64();
            format!(
                "fewer than {least} bytes of the body came within {seconds} s (--timeout, at most 10 s); send it faster"
            )
        }
    };
    Refusal::new(StatusCode::REQUEST_TIMEOUT, message).with_code("timeout")
}

/// Refuses bodies of other types.
fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let unsupported = |message: String| Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    let text = |name| {
        headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let ty = text(CONTENT_TYPE).unwrap_or_default();
    let essence = ty.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence != "application/json" {
        return unsupported(format!(
            "content-type is '{ty}'; send JSON, with content-type: application/json"
        ));
    }
    match text(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            unsupported(format!("content-encoding is '{encoding}'; send the body as it is"))
        }
        _ => Ok(()),
    }
}

/// The fields of a request.
///
/// # Errors
/// A text that is no JSON; a field that is missing, unknown, twice there, or of another type, by its name.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if let Some(first) = first.filter(|first| **first != b'{') {
        let begins = char::from(*first).escape_default();
        let message =
            format!("the body is no JSON object: it begins with '{begins}'; send one with the fields of the request");
        return Err(Refusal::bad(message).with_code("invalid_json"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let found = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            named(&path, &inner.to_string())
        } else {
            Refusal::bad(format!("the body is no JSON: {inner}")).with_code("invalid_json")
        }
    })?;
    json.end().map_err(|error| {
        Refusal::bad(format!("the body is more than one JSON object: {error}")).with_code("invalid_json")
    })?;
    Ok(found)
}

/// The refusal of a field. An error about an object's own fields has the field in backticks.
fn named(path: &str, message: &str) -> Refusal {
    let field = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|beginning| {
            let (field, _) = message.strip_prefix(beginning)?.split_once('`')?;
            Some(field)
        });
    let inner = path.trim_start_matches('.');
    match (field, inner) {
        (Some(field), "" | ".") => Refusal::bad(message).about(field),
        (Some(_), _) if inner.ends_with(field.unwrap_or_default()) => Refusal::bad(message).about(inner),
        (Some(field), _) => Refusal::bad(message).about(&format!("{inner}.{field}")),
        (None, "" | ".") => Refusal::bad(message),
        (None, _) => Refusal::field(inner, message),
    }
}

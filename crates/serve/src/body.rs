//! Bodies of requests: read within bounds, and as JSON.

use crate::refusal::Refusal;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A body, and its share of the memory for all bodies.
pub struct Read {
    /// The bytes.
    pub bytes: Bytes,
    /// The share, which is free again when it is dropped.
    pub share: OwnedSemaphorePermit,
}

/// Memory for the bodies of all requests, in units of [`UNIT`] bytes.
pub type Room = Arc<Semaphore>;

/// Bytes of a unit of memory.
const UNIT: usize = 1 << 10;

/// Bodies of the largest size for which there is memory at once.
pub const LARGEST_BODIES: usize = 16;

/// Memory for [`LARGEST_BODIES`] bodies of `most` bytes, or more smaller ones.
pub fn room(most: usize) -> Room {
    Arc::new(Semaphore::new(LARGEST_BODIES * units(most) as usize))
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

/// Reads the body of a request, when there is memory for it.
///
/// # Errors
/// A body that is no JSON by its header, is too large, comes too slowly, or breaks off; bodies of others that leave no
/// memory for it.
pub async fn read(request: Request<Incoming>, most: usize, time: Duration, room: &Room) -> Result<Read, Refusal> {
    check_headers(request.headers())?;
    let too_large = || {
        let message = format!("the body has more than {most} bytes (--max-body); send less at once");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_code("body_too_large")
    };
    let body = request.into_body();
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let size = body
        .size_hint()
        .upper()
        .map_or(most, |upper| usize::try_from(upper).unwrap_or(most).min(most));
    let share = match timeout(time, room.clone().acquire_many_owned(units(size))).await {
        Ok(Ok(share)) => share,
        Ok(Err(_)) => return Err(Refusal::stopping()),
        Err(_) => {
            let message = "large requests of others leave no memory for this one; try again in a moment";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("no_memory"));
        }
    };
    match timeout(time, Limited::new(body, most).collect()).await {
        Ok(Ok(whole)) => Ok(Read {
            bytes: whole.to_bytes(),
            share,
        }),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Refusal::bad(format!("the body broke off ({error}); send all of it"))),
        Err(_) => {
            let seconds = time.as_secs_f64();
            let message = format!("the body did not come within {seconds} s (--timeout); send it faster");
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message).with_code("timeout"))
        }
    }
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

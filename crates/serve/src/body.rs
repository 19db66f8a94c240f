//! Bodies of requests: read within bounds, and as JSON.

use crate::refusal::Refusal;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;

/// Reads the body of a request.
///
/// # Errors
/// A body that is no JSON by its header, is too large, comes too slowly, or breaks off.
pub async fn read(request: Request<Incoming>, most: usize, time: Duration) -> Result<Bytes, Refusal> {
    check_headers(request.headers())?;
    let too_large = || {
        let message = format!("the body has more than {most} bytes (--max-body); send less at once");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_code("body_too_large")
    };
    let body = request.into_body();
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    match timeout(time, Limited::new(body, most).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
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

//! Responses: JSON, text, and server-sent events.

use crate::refusal::Refusal;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response.
pub type Reply = Response<ReplyBody>;

/// Parts of a response that come one after another; dropping it tells their source that nobody listens.
pub trait Parts: Send {
    /// The next part; none at the end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of a response.
pub enum ReplyBody {
    /// Bytes that are known.
    Whole(Full<Bytes>),
    /// Parts that come one after another.
    Parts(Box<dyn Parts>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ReplyBody::Whole(whole) => Pin::new(whole).poll_frame(cx),
            ReplyBody::Parts(parts) => parts.poll_part(cx).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(whole) => whole.is_end_stream(),
            ReplyBody::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(whole) => whole.size_hint(),
            ReplyBody::Parts(_) => SizeHint::default(),
        }
    }
}

/// A response with known bytes.
fn whole(status: StatusCode, ty: &'static str, bytes: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::new(bytes.into())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(ty));
    reply
}

/// A response with JSON.
pub fn json(value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(bytes) => whole(StatusCode::OK, "application/json", bytes),
        Err(error) => refused(&Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the answer cannot be written as JSON ({error})"),
        )),
    }
}

/// A response with text of this type.
pub fn text(ty: &'static str, text: String) -> Reply {
    whole(StatusCode::OK, ty, text)
}

/// A response with events.
pub fn events(parts: Box<dyn Parts>) -> Reply {
    let mut reply = Response::new(ReplyBody::Parts(parts));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// The response of a refused request.
pub fn refused(refusal: &Refusal) -> Reply {
    let mut reply = whole(refusal.status, "application/json", refusal.body().to_string());
    if refusal.is_passing() {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    // Of a body that was not read to its end, the rest would be taken for another request.
    let is_unread = matches!(
        refusal.status,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
    if is_unread {
        reply
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// An event with JSON.
pub fn event(value: &impl Serialize) -> Bytes {
    let text = serde_json::to_string(value).unwrap_or_default();
    Bytes::from(format!("data: {text}\n\n"))
}

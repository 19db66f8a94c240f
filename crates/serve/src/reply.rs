//! Responses: JSON, text, and server-sent events.

use crate::client::Work;
use crate::memory::Share;
use crate::refusal::Refusal;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
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
pub struct ReplyBody {
    content: Content,
    /// What the server does for the request; done with the last part.
    work: Option<Work>,
}

enum Content {
    /// Bytes that are known.
    Whole(Full<Bytes>),
    /// Parts that come one after another.
    Parts(Box<dyn Parts>),
}

impl ReplyBody {
    /// Keeps what the server does for the request until the last part is taken.
    pub fn keep(&mut self, work: Work) {
        self.work = Some(work);
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().content {
            Content::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Content::Parts(parts) => parts.poll_part(cx).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(whole) => whole.size_hint(),
            Content::Parts(_) => SizeHint::default(),
        }
    }
}

/// A response with known bytes.
fn whole(status: StatusCode, ty: &'static str, bytes: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody {
        content: Content::Whole(Full::new(bytes.into())),
        work: None,
    });
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(ty));
    reply
}

/// A response with JSON of a few kilobytes at most.
pub fn json(value: &impl Serialize) -> Reply {
    match written(value) {
        Ok(bytes) => whole(StatusCode::OK, "application/json", bytes),
        Err(refusal) => refused(&refusal),
    }
}

/// A response with JSON of any length. It keeps its share of the memory for answers until the client has taken all of
/// it, at least as many bytes as it has.
///
/// # Errors
/// Answers of others that leave no memory for it.
pub fn counted_json(value: &impl Serialize, mut share: Share) -> Result<Reply, Refusal> {
    let bytes = written(value)?;
    if !share.try_grow(bytes.capacity().saturating_sub(share.bytes())) {
        return Err(Refusal::no_memory());
    }
    let counted = Bytes::from_owner(Counted { bytes, _share: share });
    Ok(whole(StatusCode::OK, "application/json", counted))
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|error| {
        let message = format!("the answer cannot be written as JSON ({error})");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

/// Bytes with their share of the memory for answers.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A response with text of this type.
pub fn text(ty: &'static str, text: String) -> Reply {
    whole(StatusCode::OK, ty, text)
}

/// A response with events.
pub fn events(parts: Box<dyn Parts>) -> Reply {
    let mut reply = Response::new(ReplyBody {
        content: Content::Parts(parts),
        work: None,
    });
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
    if refusal.status == StatusCode::UNAUTHORIZED {
        let headers = reply.headers_mut();
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    // Of a body that was not read to its end, the rest would be taken for another request.
    let is_unread = matches!(
        refusal.status,
        StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
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

//! Refused and failed requests, as OpenAI's clients read them.

use hyper::StatusCode;
use lessen_base::Error;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// One sentence that names the mistake and the remedy.
    pub message: String,
    /// The field of the request, if it is about one.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    /// A request that asks for something wrong, or for something that is not there.
    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    /// A mistake in a field.
    pub fn field(name: &str, message: impl Into<String>) -> Refusal {
        Refusal::bad(format!("{name}: {}", message.into())).about(name)
    }

    /// The same about a field.
    pub fn about(mut self, name: &str) -> Refusal {
        self.param = Some(name.to_string());
        self
    }

    /// The same with a word for programs.
    pub fn with_code(mut self, code: &'static str) -> Refusal {
        self.code = Some(code);
        self
    }

    /// A full queue.
    pub fn full(queue: usize) -> Refusal {
        let message = format!("{queue} requests wait already (--queue); try again in a moment");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("queue_full")
    }

    /// A server that is being stopped.
    pub fn stopping() -> Refusal {
        let message = "the server is being stopped and takes no more requests; ask again when it is back";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("stopping")
    }

    /// A request that was not answered in time.
    pub fn late(seconds: f64) -> Refusal {
        let message = format!(
            "the answer would take longer than {seconds} s (--timeout); ask for less, or ask again when fewer wait"
        );
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("timeout")
    }

    /// A request for which others leave no memory.
    pub fn no_memory() -> Refusal {
        let message = "large requests and answers of others leave no memory for this one; try again in a moment";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("no_memory")
    }

    /// A request beyond those that are answered at once.
    pub fn busy(connections: usize) -> Refusal {
        let message = format!("{connections} requests are being answered (--connections); try again in a moment");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("busy")
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        )
    }

    /// The body of the response.
    pub fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::NOT_FOUND => "not_found_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let param = self.param.as_deref().map(|name| shortened(name, LONGEST_NAME));
        let message = shortened(&self.message, LONGEST_MESSAGE);
        json!({ "error": { "message": message, "type": kind, "param": param, "code": self.code } })
    }
}

/// The most bytes of a message, which may quote the request, and of the name of a field.
const LONGEST_MESSAGE: usize = 2048;
const LONGEST_NAME: usize = 256;

/// A text without its middle, where it has more than `most` bytes.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let is_between = |place: &usize| text.is_char_boundary(*place);
    let first = (0..=most / 2).rev().find(is_between).unwrap_or_default();
    let last = (text.len() - most / 2..text.len())
        .find(is_between)
        .unwrap_or(text.len());
    Cow::Owned(format!("{}…{}", &text[..first], &text[last..]))
}

impl From<Error> for Refusal {
    /// A mistake in the input is the client's, a failure of Lessen the server's.
    fn from(error: Error) -> Refusal {
        match error {
            Error::User(message) => Refusal::bad(message),
            Error::Internal(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

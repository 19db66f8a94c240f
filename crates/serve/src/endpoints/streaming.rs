//! Continued texts as OpenAI's clients read them: whole, or as server-sent events.

use crate::continuing::{Event, Events, Finish};
use crate::refusal::Refusal;
use crate::reply::{Parts, Reply, counted_json, event, events};
use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::task::{Context, Poll};

/// The objects of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// `text_completion`.
    Completion,
    /// `chat.completion` and its chunks.
    Chat,
}

/// The fields that all objects of an answer have.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The objects.
    pub objects: Objects,
    /// Number of the request.
    pub number: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
    /// Number of texts.
    pub texts: usize,
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
}

impl Heading {
    /// An object with these choices; `is_chunk` says whether it is a part of a stream.
    fn object(&self, is_chunk: bool, choices: Vec<Value>) -> Map<String, Value> {
        let (beginning, object) = match (self.objects, is_chunk) {
            (Objects::Completion, _) => ("cmpl", "text_completion"),
            (Objects::Chat, false) => ("chatcmpl", "chat.completion"),
            (Objects::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
        };
        let mut map = Map::new();
        map.insert("id".into(), json!(format!("{beginning}-{:016x}", self.number)));
        map.insert("object".into(), json!(object));
        map.insert("created".into(), json!(self.created));
        map.insert("model".into(), json!(self.model));
        map.insert("choices".into(), Value::Array(choices));
        map
    }

    /// A whole text.
    fn choice(&self, index: usize, text: &str, finish: Finish) -> Value {
        let finish = finish.word();
        match self.objects {
            Objects::Completion => {
                json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish })
            }
            Objects::Chat => {
                let message = json!({ "role": "assistant", "content": text, "refusal": null });
                json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish })
            }
        }
    }

    /// A part of a text, or its end.
    fn part(&self, index: usize, piece: Option<&str>, finish: Option<Finish>) -> Value {
        let finish = finish.map(Finish::word);
        match self.objects {
            Objects::Completion => {
                let text = piece.unwrap_or_default();
                json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish })
            }
            Objects::Chat => {
                let delta = piece.map_or(json!({}), |piece| json!({ "content": piece }));
                json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish })
            }
        }
    }

    fn usage(&self, added: usize) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": added,
            "total_tokens": self.prompt_tokens + added,
        })
    }
}

/// Waits for all texts.
///
/// # Errors
/// A request that is refused on the way.
pub async fn whole(heading: &Heading, mut from: Events) -> Result<Reply, Refusal> {
    let mut texts = vec![String::new(); heading.texts];
    let (mut ends, mut added) = (vec![None; heading.texts], 0);
    while ends.contains(&None) {
        match from.next().await {
            Some(Event::Piece(text, piece)) => texts[text].push_str(&piece),
            Some(Event::End(text, finish, tokens)) => {
                ends[text] = Some(finish);
                added += tokens;
            }
            Some(Event::Refused(refusal)) => return Err(refusal),
            Some(Event::Begun(_)) => {}
            None => return Err(Refusal::stopping()),
        }
    }
    let all = texts.iter().zip(ends).enumerate();
    let choices = all.filter_map(|(index, (text, end))| Some(heading.choice(index, text, end?)));
    let mut object = heading.object(false, choices.collect());
    object.insert("usage".into(), heading.usage(added));
    counted_json(&object, from.into_share())
}

/// Sends texts as they come.
pub fn stream(heading: Heading, from: Events, has_usage: bool) -> Reply {
    let mut stream = Stream {
        left: heading.texts,
        heading,
        from,
        has_usage,
        added: 0,
        parts: VecDeque::new(),
        is_ended: false,
    };
    if stream.heading.objects == Objects::Chat {
        for index in 0..stream.left {
            let delta = json!({ "role": "assistant", "content": "" });
            stream.push(json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": null }));
        }
    }
    events(Box::new(stream))
}

/// A stream of events.
struct Stream {
    heading: Heading,
    from: Events,
    /// Whether the client asked for the number of tokens.
    has_usage: bool,
    /// Texts that have not ended.
    left: usize,
    /// Tokens so far.
    added: usize,
    /// Parts to be sent.
    parts: VecDeque<Bytes>,
    is_ended: bool,
}

impl Stream {
    fn push(&mut self, choice: Value) {
        let mut object = self.heading.object(true, vec![choice]);
        if self.has_usage {
            object.insert("usage".into(), Value::Null);
        }
        self.parts.push_back(event(&object));
    }

    fn follow(&mut self, happened: Event) {
        match happened {
            Event::Begun(_) => {}
            Event::Piece(text, piece) => self.push(self.heading.part(text, Some(&piece), None)),
            Event::End(text, finish, tokens) => {
                self.push(self.heading.part(text, None, Some(finish)));
                (self.left, self.added) = (self.left - 1, self.added + tokens);
                if self.left == 0 {
                    self.end();
                }
            }
            Event::Refused(refusal) => {
                self.parts.push_back(event(&refusal.body()));
                self.is_ended = true;
            }
        }
    }

    fn end(&mut self) {
        if self.has_usage {
            let mut object = self.heading.object(true, Vec::new());
            object.insert("usage".into(), self.heading.usage(self.added));
            self.parts.push_back(event(&object));
        }
        self.parts.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.is_ended = true;
    }
}

impl Parts for Stream {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Poll::Ready(Some(part));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            self.from.free();
            match self.from.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(happened)) => self.follow(happened),
                Poll::Ready(None) => self.follow(Event::Refused(Refusal::stopping())),
            }
        }
    }
}

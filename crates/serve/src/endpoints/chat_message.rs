//! The messages of requests to `/v1/chat/completions`.

use crate::given::{Given, List};
use crate::refusal::Refusal;
use lessen_saved::chat::Message;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// A message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    role: String,
    content: Content,
    #[serde(default)]
    name: Given,
    #[serde(default)]
    refusal: Given,
    #[serde(default)]
    tool_calls: Given,
    #[serde(default)]
    tool_call_id: Given,
    #[serde(default)]
    function_call: Given,
    #[serde(default)]
    audio: Given,
    #[serde(default)]
    annotations: Given,
}

/// What a message says: a text, or parts that are texts, which stand on lines of their own; none where it is `null`.
struct Content(Option<String>);

/// A part of a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts with a text each")
            }

            fn visit_unit<E>(self) -> Result<Content, E> {
                Ok(Content(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content(Some(text.to_string())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Content, A::Error> {
                let List(parts) = List::<Part>::deserialize(de::value::SeqAccessDeserializer::new(list))?;
                if let Some(part) = parts.iter().find(|part| part.kind != "text") {
                    return Err(de::Error::custom(format!(
                        "parts of the type '{}' are not read; send texts",
                        part.kind
                    )));
                }
                let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
                Ok(Content(Some(texts.join("\n"))))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

impl ChatMessage {
    /// The message as templates read it.
    ///
    /// # Errors
    /// A field that is not read.
    pub fn said(self) -> Result<Message, Refusal> {
        let unread = "is not read; leave it out";
        self.name.only("messages.name", &[], unread)?;
        self.refusal.only("messages.refusal", &[], unread)?;
        let tools = "calls of tools are not built; leave it out";
        self.tool_calls.only("messages.tool_calls", &[Given::List(0)], tools)?;
        self.tool_call_id.only("messages.tool_call_id", &[], tools)?;
        self.function_call.only("messages.function_call", &[], tools)?;
        self.audio.only("messages.audio", &[], unread)?;
        self.annotations
            .only("messages.annotations", &[Given::List(0)], unread)?;
        match self.content.0 {
            Some(text) => Ok(Message::new(&self.role, &text)),
            // As OpenAI's own answers have it, where they say nothing.
            None if self.role == "assistant" => Ok(Message::new(&self.role, "")),
            None => Err(Refusal::field("messages.content", "is null; give a text")),
        }
    }
}

//! The messages of requests to `/v1/chat/completions`.

use crate::given::{Given, List};
use crate::refusal::Refusal;
use lessen_run::chat::Message;
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
}

/// What a message says: a text, or parts that are texts, which stand on lines of their own.
struct Content(String);

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

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content(text.to_string()))
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
                Ok(Content(texts.join("\n")))
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
        Ok(Message::new(&self.role, &self.content.0))
    }
}

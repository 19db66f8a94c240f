//! The messages of a chat.

use lessen_base::{Error, Result};
use serde_json::{Map, Value};

/// A message: who says it (`role`), what it says (`content`), and whatever else a template reads of it, such as
/// `tool_calls` or `name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Map<String, Value>);

/// Names under which models take what an assistant thinks before it answers.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

impl Message {
    /// A message of a role: `system`, `user`, `assistant`, or another one that the template knows.
    pub fn new(role: &str, content: &str) -> Message {
        let fields = [("role", role), ("content", content)];
        Message(
            fields
                .map(|(name, value)| (name.to_string(), value.into()))
                .into_iter()
                .collect(),
        )
    }

    /// A message of a JSON object with `role` and, unless it has `tool_calls`, `content`: a text, or a list of parts
    /// with a text each.
    ///
    /// # Errors
    /// Another value.
    pub fn from_json(value: Value) -> Result<Message> {
        let Value::Object(mut map) = value else {
            return Err(Error::user(format!(
                "a message is {value}; write an object with role and content"
            )));
        };
        map.retain(|_, value| !value.is_null());
        match map.get("role") {
            Some(Value::String(_)) => {}
            Some(other) => return Err(Error::user(format!("the role of a message is {other}; write a text"))),
            None => return Err(Error::user("a message has no role; write user, assistant or system")),
        }
        match map.get("content") {
            Some(Value::String(_) | Value::Array(_)) => {}
            Some(other) => {
                return Err(Error::user(format!(
                    "the content of a message is {other}; write a text or a list of parts"
                )));
            }
            None if map.contains_key("tool_calls") => {}
            None => return Err(Error::user("a message has no content; write its text")),
        }
        Ok(Message(map))
    }

    /// Who says it.
    pub fn role(&self) -> &str {
        self.0.get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// The fields that a template reads: what an assistant thinks stands under all of its names, as in transformers.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = self.0.clone();
        if let Some(reasoning) = REASONING.iter().find_map(|name| self.0.get(*name)) {
            fields.entry("thinking").or_insert_with(|| reasoning.clone());
            fields.insert("reasoning_content".to_string(), reasoning.clone());
        }
        fields
    }
}

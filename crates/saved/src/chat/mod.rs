//! Chats: the messages of a conversation as the prompt of a language model, by the model's own template.
//!
//! Templates are Jinja as transformers applies them: blocks take their lines with them, `tojson`, `raise_exception` and
//! `strftime_now` are there, and values are written as Python does.

mod bounds;
mod checks;
mod engine;
mod message;
mod python;
mod templates;

use self::templates::Templates;
use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

pub use self::message::Message;

/// The chat templates of a model, one or several by name.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatTemplate {
    /// The folder that they were read from.
    place: String,
    named: Vec<(String, String)>,
    tokens: Map<String, Value>,
}

/// How a template is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatOptions {
    /// Whether the prompt ends with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// Whether the last message is to be continued, so that the prompt ends within it.
    pub continue_final_message: bool,
    /// The tools that the model may call, as JSON schemas.
    pub tools: Option<Vec<Value>>,
    /// Texts that the model may answer from, each an object with `title` and `text`.
    pub documents: Option<Vec<Value>>,
    /// The template's name where the model has several; none takes `tool_use` with tools, and else `default`.
    pub template: Option<String>,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
}

impl Default for ChatOptions {
    /// The prompt for an answer.
    fn default() -> ChatOptions {
        ChatOptions {
            add_generation_prompt: true,
            continue_final_message: false,
            tools: None,
            documents: None,
            template: None,
            variables: Map::new(),
        }
    }
}

/// What is at fault where a chat gives no prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The messages or the options.
    Request,
    /// The template itself, whatever the messages are: it is no Jinja, or takes more than it may.
    Template,
}

/// The most characters of what a template says about a mistake.
const SAID: usize = 1000;

/// What marks the place up to which a message is continued.
const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

impl ChatTemplate {
    /// Reads the chat templates of a folder; none where it has none.
    ///
    /// # Errors
    /// A file that is damaged or cannot be read.
    pub fn read(dir: &Path) -> Result<Option<ChatTemplate>> {
        let Templates { named, tokens } = Templates::read(dir)?;
        Ok((!named.is_empty()).then(|| ChatTemplate {
            place: dir.display().to_string(),
            named,
            tokens,
        }))
    }

    /// A template of its own, without special tokens.
    pub fn of_source(source: &str) -> ChatTemplate {
        ChatTemplate {
            place: "the template".to_string(),
            named: vec![("default".to_string(), source.to_string())],
            tokens: Map::new(),
        }
    }

    /// The prompt of messages. It has the special tokens that the template writes, and is encoded without others.
    ///
    /// # Errors
    /// No messages; options that contradict each other or that the template does not know; a template that is no Jinja
    /// or refuses the messages.
    pub fn prompt(&self, messages: &[Message], options: &ChatOptions) -> Result<String> {
        self.prompt_or_fault(messages, options).map_err(|(_, error)| error)
    }

    /// [`ChatTemplate::prompt`], with what is at fault beside an error.
    ///
    /// # Errors
    /// As [`ChatTemplate::prompt`].
    pub fn prompt_or_fault(
        &self,
        messages: &[Message],
        options: &ChatOptions,
    ) -> std::result::Result<String, (Fault, Error)> {
        let of_request = |error| (Fault::Request, error);
        let (name, source, variables, text) = self.applied(messages, options).map_err(of_request)?;
        let rendered = engine::render(source, &variables).map_err(|error| {
            let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
            let what = match error.detail() {
                Some(detail) => detail.chars().take(SAID).collect(),
                None => error.kind().to_string(),
            };
            let (fault, remedy) = match engine::is_of_template(&error) {
                true => (Fault::Template, "the template"),
                false => (Fault::Request, "the messages or the template"),
            };
            let sentence = format!(
                "the chat template {name} of {}{line}: {what}; change {remedy}",
                self.place
            );
            (fault, Error::user(sentence))
        })?;
        match text {
            Some(text) => until_mark(rendered, &text).map_err(of_request),
            None => Ok(rendered),
        }
    }

    /// The name and the source of the template, its variables, and the text of the message that is to be continued.
    fn applied(&self, messages: &[Message], options: &ChatOptions) -> Result<(&str, &str, Value, Option<String>)> {
        let (name, source) = self.source(options)?;
        let mut fields: Vec<Map<String, Value>> = messages.iter().map(Message::fields).collect();
        let Some(last) = fields.last_mut() else {
            return Err(Error::user("a chat has no messages; give at least one"));
        };
        let mut text = None;
        if options.continue_final_message {
            if options.add_generation_prompt {
                return Err(Error::user(
                    "a prompt cannot both continue the last message and begin an answer; choose one of the two",
                ));
            }
            if !source.contains("content") {
                return Err(Error::user(format!(
                    "the chat template {name} of {} does not read `content`, so no message can be continued; add a new \
                     message",
                    self.place
                )));
            }
            text = Some(marked(last)?);
        }
        let mut variables = self.tokens.clone();
        variables.extend(options.variables.clone());
        variables.extend([
            ("messages".to_string(), json!(fields)),
            ("tools".to_string(), json!(options.tools)),
            ("documents".to_string(), json!(options.documents)),
            (
                "add_generation_prompt".to_string(),
                json!(options.add_generation_prompt),
            ),
        ]);
        // No variable stands for a function of the engine.
        variables.retain(|name, _| !name.contains('\0'));
        Ok((name, source, Value::Object(variables), text))
    }

    /// The name and the source of the template for these options.
    fn source(&self, options: &ChatOptions) -> Result<(&str, &str)> {
        let named = |name: &str| {
            let found = self.named.iter().find(|(own, _)| own == name);
            found.map(|(name, source)| (name.as_str(), source.as_str()))
        };
        let found = match &options.template {
            Some(name) => named(name),
            None => {
                let with_tools = options.tools.as_ref().and_then(|_| named("tool_use"));
                with_tools.or_else(|| named("default"))
            }
        };
        found.ok_or_else(|| {
            let known: Vec<&str> = self.named.iter().map(|(name, _)| name.as_str()).collect();
            Error::user(format!(
                "{} has no chat template {}; choose among {}",
                self.place,
                options.template.as_deref().unwrap_or("default"),
                known.join(", ")
            ))
        })
    }
}

/// Marks the end of the message's last text; that text.
fn marked(message: &mut Map<String, Value>) -> Result<String> {
    let text = match message.get_mut("content") {
        Some(Value::String(text)) => Some(text),
        Some(Value::Array(parts)) => parts.iter_mut().rev().find_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }),
        _ => None,
    };
    let text = text.ok_or_else(|| Error::user("the last message has no text to continue; give it content"))?;
    let plain = text.clone();
    text.push_str(MARK);
    Ok(plain)
}

/// The prompt up to the mark in its last message, whose text is `text`.
fn until_mark(rendered: String, text: &str) -> Result<String> {
    let place = rendered.rfind(MARK.trim_end());
    let Some(place) = place.filter(|_| rendered.contains(text.trim())) else {
        return Err(Error::user(
            "the chat template does not show the last message as it is, so it cannot be continued; add a new message",
        ));
    };
    let before = &rendered[..place];
    // Where the template takes the space after a text away, it does so before the mark, too.
    Ok(if rendered[place..].starts_with(MARK) {
        before.to_string()
    } else {
        before.trim_end().to_string()
    })
}

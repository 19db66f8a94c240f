//! The flags of chats: prompts by the chat template of a model.

use super::lines::Lines;
use clap::Args;
use lessen_base::{Error, Result};
use lessen_saved::chat::{ChatOptions, Message};
use lessen_saved::saved_run::SavedRun;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// How prompts are made of messages.
#[derive(Args)]
pub struct ChatArgs {
    /// Make prompts by the model's chat template: each prompt is what a user says, or see --messages
    #[arg(long)]
    chat: bool,
    /// What the system says before each chat
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "chat")]
    system: Option<String>,
    /// File with the tools that the model may call, a JSON list of their schemas
    #[arg(long, value_name = "FILE", requires = "chat")]
    tools: Option<PathBuf>,
    /// Name of the chat template, where the model has several [default: tool_use with tools, else default]
    #[arg(long, value_name = "NAME", requires = "chat")]
    chat_template: Option<String>,
    /// Variable of the chat template, such as enable_thinking=false; the value is JSON, or else a text; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "chat")]
    chat_variable: Vec<String>,
    /// Go on with the last message of each chat, in place of a new answer
    #[arg(long, requires = "messages")]
    continue_final_message: bool,
}

impl ChatArgs {
    /// Whether prompts are chats.
    pub fn is_chat(&self) -> bool {
        self.chat
    }

    /// The prompts of what users say, a chat each.
    ///
    /// # Errors
    /// A model without a chat template, and messages that it refuses.
    pub fn prompts_of_users(&self, run: &SavedRun, said: &[String]) -> Result<Vec<String>> {
        let chats = said.iter().map(|text| (vec![Message::new("user", text)], None));
        self.prompts(run, chats.collect())
    }

    /// The prompts of a file: of the chat whose messages are its lines, or of a chat on each line.
    ///
    /// # Errors
    /// As [`ChatArgs::prompts_of_users`]; a line that is neither.
    pub fn prompts_of_file(&self, run: &SavedRun, path: &Path) -> Result<Vec<String>> {
        let (mut lines, mut messages, mut chats) = (Lines::open(path, "--messages")?, Vec::new(), Vec::new());
        while let Some(line) = lines.next()? {
            let place = format!("{} line {}", lines.name(), lines.line());
            let value: Value = serde_json::from_str(&line).map_err(|error| {
                Error::user(format!(
                    "{place} is no JSON ({error}); write an object with role and content"
                ))
            })?;
            match value.get("messages").and_then(Value::as_array) {
                Some(own) => {
                    let own = own.iter().map(|message| Message::from_json(message.clone()));
                    let own = own.collect::<Result<Vec<_>>>().map_err(|error| error.at(&place))?;
                    let tools = value.get("tools").and_then(Value::as_array).cloned();
                    chats.push((own, tools));
                }
                None => messages.push(Message::from_json(value).map_err(|error| error.at(&place))?),
            }
            if !messages.is_empty() && !chats.is_empty() {
                return Err(Error::user(format!(
                    "{place} mixes messages and whole chats; write one of the two on all lines"
                )));
            }
        }
        if !messages.is_empty() {
            chats.push((messages, None));
        }
        self.prompts(run, chats)
    }

    fn prompts(&self, run: &SavedRun, chats: Vec<(Vec<Message>, Option<Vec<Value>>)>) -> Result<Vec<String>> {
        let template = run.chat_template()?;
        let options = self.options()?;
        let prompt = |(messages, tools): (Vec<Message>, Option<Vec<Value>>)| {
            let system = self.system.iter().map(|text| Message::new("system", text));
            if self.system.is_some() && messages.first().is_some_and(|first| first.role() == "system") {
                return Err(Error::user(
                    "--system is beside a message of the system in --messages; leave out one of the two",
                ));
            }
            let messages: Vec<Message> = system.chain(messages).collect();
            let tools = tools.or_else(|| options.tools.clone());
            template.prompt(
                &messages,
                &ChatOptions {
                    tools,
                    ..options.clone()
                },
            )
        };
        chats.into_iter().map(prompt).collect()
    }

    fn options(&self) -> Result<ChatOptions> {
        let mut variables = serde_json::Map::new();
        for given in &self.chat_variable {
            let Some((name, value)) = given.split_once('=') else {
                return Err(Error::user(format!(
                    "--chat-variable {given} has no value; write NAME=VALUE"
                )));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            variables.insert(name.trim().to_string(), value);
        }
        Ok(ChatOptions {
            add_generation_prompt: !self.continue_final_message,
            continue_final_message: self.continue_final_message,
            tools: self.tools.as_deref().map(tools_of).transpose()?,
            template: self.chat_template.clone(),
            variables,
            ..ChatOptions::default()
        })
    }
}

/// The tools of a file.
fn tools_of(path: &Path) -> Result<Vec<Value>> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Error::user(format!("--tools: {shown} cannot be read ({error}); check the path")))?;
    match serde_json::from_str(&text) {
        Ok(Value::Array(tools)) => Ok(tools),
        _ => Err(Error::user(format!(
            "--tools: {shown} is no JSON list; write the schemas of the tools between [ and ]"
        ))),
    }
}

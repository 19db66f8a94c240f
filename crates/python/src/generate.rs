//! Continued texts, at once or piece by piece.

use crate::error::{of_panic, raised, released};
use crate::load::LoadedModel;
use lessen::command;
use lessen_base::{Error, Result};
use lessen_saved::chat::{ChatOptions, Message};
use lessen_saved::continuation::{Continuation, TextGenerator};
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The most tokens of a text that a generator keeps.
const MOST_KEPT: usize = 1 << 14;

/// Time between two questions for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Pieces that a stream may be ahead of its reader.
const AHEAD: usize = 64;

/// The prompt that the chat template makes of messages, a JSON list. `options` is a JSON object: tools,
/// continue_final_message, template, variables.
#[pyfunction]
pub fn chat_prompt(py: Python<'_>, model: &Bound<'_, LoadedModel>, messages: &str, options: &str) -> PyResult<String> {
    let model = model.get();
    released(py, || {
        let malformed = |error| Error::user(format!("the chat is no list of messages ({error}); give dictionaries"));
        let messages: Vec<Value> = serde_json::from_str(messages).map_err(malformed)?;
        let messages: Vec<Message> = messages.into_iter().map(Message::from_json).collect::<Result<_>>()?;
        let options: Map<String, Value> = serde_json::from_str(options).map_err(malformed)?;
        let continues = options.get("continue_final_message") == Some(&Value::Bool(true));
        let options = ChatOptions {
            add_generation_prompt: !continues,
            continue_final_message: continues,
            tools: options.get("tools").and_then(Value::as_array).cloned(),
            template: options.get("template").and_then(Value::as_str).map(str::to_string),
            variables: options
                .get("variables")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            ..ChatOptions::default()
        };
        model.run()?.chat_template()?.prompt(&messages, &options)
    })
}

/// The continuations of prompts, with the flags of `lessen generate`. `whole` prompts have their special tokens.
#[pyfunction]
pub fn generate(
    py: Python<'_>,
    model: &Bound<'_, LoadedModel>,
    prompts: Vec<String>,
    flags: Vec<String>,
    whole: bool,
) -> PyResult<Vec<String>> {
    let model = model.get();
    released(py, || {
        let (generator, how) = model.prepared(&prompts, &flags, whole)?;
        generator.1.generate(&prompts, &how, &mut |_, _| Ok(()))
    })
}

/// The pieces of the continuation of a prompt, as they come.
#[pyfunction]
pub fn stream(
    py: Python<'_>,
    model: &Bound<'_, LoadedModel>,
    prompt: String,
    flags: Vec<String>,
    whole: bool,
) -> PyResult<Stream> {
    let (model, prompts) = (model.get(), vec![prompt]);
    let (generator, how) = released(py, || model.prepared(&prompts, &flags, whole))?;
    let (sender, receiver) = sync_channel(AHEAD);
    let run = move || {
        let said = catch_unwind(AssertUnwindSafe(|| said(&generator.1, &prompts, &how, &sender)));
        if let Err(error) = said.unwrap_or_else(|panic| Err(of_panic(panic.as_ref()))) {
            // Nobody reads a stream that was dropped.
            let _ = sender.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name("lessen stream".to_string()).spawn(run);
    thread.map_err(|error| {
        raised(
            py,
            &Error::user(format!(
                "no thread can be started for the text ({error}); end other programs"
            )),
        )
    })?;
    Ok(Stream(Mutex::new(receiver)))
}

impl LoadedModel {
    /// A generator with room for these prompts, and how they are continued.
    fn prepared(
        &self,
        prompts: &[String],
        flags: &[String],
        whole: bool,
    ) -> Result<(Arc<(usize, TextGenerator)>, Continuation)> {
        let run = self.run()?;
        let mut how = command::continuation(flags, run)?;
        how.whole_prompts = whole;
        let tokenizer = run.saved().reader.tokenizer()?;
        let mut room = 1;
        for prompt in prompts {
            room = room.max(
                tokenizer
                    .encode_prompt(prompt)?
                    .len()
                    .saturating_add(how.sampling.tokens),
            );
        }
        let room = room.min(MOST_KEPT);
        let mut slot = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(generator) = slot.as_ref().filter(|generator| generator.0 >= room) {
            return Ok((generator.clone(), how));
        }
        // Not beside the new one.
        *slot = None;
        let room = room.next_power_of_two().min(MOST_KEPT);
        let generator = Arc::new((room, run.text_generator(room)?));
        *slot = Some(generator.clone());
        Ok((generator, how))
    }
}

/// Sends the pieces of a continuation.
fn said(
    generator: &TextGenerator,
    prompts: &[String],
    how: &Continuation,
    sender: &SyncSender<Result<String>>,
) -> Result<()> {
    let mut show = |_: usize, piece: &str| {
        if piece.is_empty() {
            return Ok(());
        }
        let unread = |_| Error::user("nobody reads the text any more");
        sender.send(Ok(piece.to_string())).map_err(unread)
    };
    generator.generate(prompts, how, &mut show).map(drop)
}

/// The pieces of a text that is being continued.
#[pyclass(frozen, module = "lessen._lessen")]
pub struct Stream(Mutex<Receiver<Result<String>>>);

#[pymethods]
impl Stream {
    fn __iter__(own: Py<Stream>) -> Py<Stream> {
        own
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        loop {
            let received = py.detach(|| {
                self.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .recv_timeout(SLICE)
            });
            match received {
                Ok(Ok(piece)) => return Ok(Some(piece)),
                Ok(Err(error)) => return Err(raised(py, &error)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }
}

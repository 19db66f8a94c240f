//! `POST /v1/chat/completions`: answers in chats, by the model's own template.

use super::chat_message::ChatMessage;
use super::completions::{Asked, answer};
use super::generation_request::GenerationRequest;
use super::streaming::Objects;
use crate::body::{Read, parse};
use crate::given::Prompt;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::service::{Served, Service};
use hyper::StatusCode;
use lessen_saved::chat::{ChatOptions, ChatTemplate, Fault, Message};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// Answers the messages of a request.
///
/// # Errors
/// A model that continues no texts, or has no chat template; fields that are wrong; a full queue; answers that take too
/// long.
pub async fn chat(service: &Service, body: Read) -> Result<Reply, Refusal> {
    let Served::Continuations { template, .. } = &service.model else {
        return Err(service.unsuited("/v1/chat/completions"));
    };
    let Some(template) = template else {
        let message = format!(
            "the model '{}' has no chat template, which says how messages become a prompt; ask /v1/completions",
            service.options.name
        );
        return Err(Refusal::bad(message).with_code("no_chat_template"));
    };
    let mut request: GenerationRequest = parse(&body.bytes)?;
    if request.prompt.is_some() {
        return Err(Refusal::field("prompt", "is of /v1/completions; give messages"));
    }
    let Some(messages) = request.messages.take() else {
        return Err(Refusal::bad("missing field `messages`").about("messages"));
    };
    let said: Vec<_> = messages
        .0
        .into_iter()
        .map(ChatMessage::said)
        .collect::<Result<_, _>>()?;
    let prompt = rendered(service, template, said).await?;
    let asked = Asked {
        objects: Objects::Chat,
        prompts: vec![Prompt::Text(prompt)],
        is_rendered: true,
        field: "messages",
        tokens: request.tokens()?,
        share: body.share,
    };
    answer(service, request, asked).await
}

/// The prompt of messages. A thread of its own fills the template, so that a long one keeps no other client waiting.
///
/// # Errors
/// A template that takes too long, exceeds its bounds or refuses the messages.
async fn rendered(service: &Service, template: &Arc<ChatTemplate>, messages: Vec<Message>) -> Result<String, Refusal> {
    let failed = |message: &str| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message).with_code("chat_template");
    let (template, mut thread) = (template.clone(), JoinSet::new());
    thread.spawn_blocking(move || template.prompt_or_fault(&messages, &ChatOptions::default()));
    match timeout_at(service.deadline().into(), thread.join_next()).await {
        Ok(Some(Ok(Ok(prompt)))) => Ok(prompt),
        Ok(Some(Ok(Err((Fault::Request, error))))) => Err(Refusal::field("messages", error.message())),
        Ok(Some(Ok(Err((Fault::Template, error))))) => Err(failed(error.message())),
        Ok(_) => Err(failed("the chat template could not be applied; ask again")),
        Err(_) => Err(Refusal::late(service.seconds())),
    }
}

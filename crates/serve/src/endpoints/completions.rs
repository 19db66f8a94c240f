//! `POST /v1/completions`: continued texts.

use super::generation_request::GenerationRequest;
use super::streaming::{Heading, Objects, stream, whole};
use crate::body::{Read, parse};
use crate::continuing::{ContinueJob, Event, events};
use crate::given::Prompt;
use crate::memory::Share;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::service::{Served, Service};
use hyper::StatusCode;
use tokio::time::timeout_at;

/// The most tokens to add where neither a request nor the model says it, as OpenAI has it.
const TOKENS: usize = 16;

/// Continues the prompts of a request.
///
/// # Errors
/// A model that continues no texts; fields that are wrong; a full queue; texts that take too long.
pub async fn complete(service: &Service, body: Read) -> Result<Reply, Refusal> {
    let Served::Continuations { sampling, .. } = &service.model else {
        return Err(service.unsuited("/v1/completions"));
    };
    let mut request: GenerationRequest = parse(&body.bytes)?;
    let Some(prompts) = request.prompt.take() else {
        return Err(Refusal::bad("missing field `prompt`").about("prompt"));
    };
    if request.messages.is_some() {
        return Err(Refusal::field("messages", "is of /v1/chat/completions; give a prompt"));
    }
    if request.max_completion_tokens.is_some() {
        return Err(Refusal::field(
            "max_completion_tokens",
            "is of /v1/chat/completions; give max_tokens",
        ));
    }
    let own = (sampling.tokens == usize::MAX).then_some((TOKENS, "max_tokens"));
    let tokens = request.tokens()?.or(own);
    let asked = Asked {
        objects: Objects::Completion,
        prompts: prompts.0,
        is_rendered: false,
        field: "prompt",
        tokens,
        share: body.share,
    };
    answer(service, request, asked).await
}

/// What the endpoints say differently.
pub struct Asked {
    /// The objects of the answer.
    pub objects: Objects,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Whether special tokens stand in the prompts.
    pub is_rendered: bool,
    /// Name of the field that has the prompts.
    pub field: &'static str,
    /// The most tokens to add and the name of the field that says it; none leaves it to the model's
    /// `generation_config.json`, or else to the context.
    pub tokens: Option<(usize, &'static str)>,
    /// The request's share of the memory for bodies.
    pub share: Share,
}

/// Continues prompts, and answers at once or as texts come.
///
/// # Errors
/// As [`complete`].
pub async fn answer(service: &Service, mut request: GenerationRequest, asked: Asked) -> Result<Reply, Refusal> {
    let Served::Continuations {
        queue, sampling, stops, ..
    } = &service.model
    else {
        return Err(service.unsuited("continuation of texts"));
    };
    service.check_model(request.model.as_deref())?;
    request.check_unbuilt()?;
    let (streams, has_usage) = request.streaming()?;
    let (samples, most) = (request.samples()?, service.options.limits.texts);
    let texts = asked.prompts.len().saturating_mul(samples);
    if texts == 0 {
        return Err(Refusal::field(asked.field, "the list is empty; give at least one"));
    }
    if texts > most {
        let message = format!("{texts} texts are more than {most} (--max-texts); ask for them in several requests");
        return Err(Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..Refusal::field(asked.field, message).with_code("too_many_texts")
        });
    }
    let (outlet, mut from) = events(&service.answers);
    let deadline = service.deadline();
    queue.push(ContinueJob {
        prompts: asked.prompts,
        is_rendered: asked.is_rendered,
        field: asked.field,
        samples,
        sampling: request.sampling(service, sampling.as_ref().clone())?,
        tokens: asked.tokens,
        stops: request.stops(stops)?,
        deadline,
        events: outlet,
        _share: asked.share,
    })?;
    // Mistakes of prompts get a status of their own, also where texts are streamed.
    let prompt_tokens = match timeout_at(deadline.into(), from.next()).await {
        Ok(Some(Event::Begun(tokens))) => tokens,
        Ok(Some(Event::Refused(refusal))) => return Err(refusal),
        Ok(_) => return Err(Refusal::stopping()),
        Err(_) => return Err(Refusal::late(service.seconds())),
    };
    let heading = Heading {
        objects: asked.objects,
        number: service.new_number(),
        created: service.now(),
        model: service.options.name.clone(),
        texts,
        prompt_tokens,
    };
    match streams {
        true => Ok(stream(heading, from, has_usage)),
        false => match timeout_at(deadline.into(), whole(&heading, from)).await {
            Ok(reply) => reply,
            Err(_) => Err(Refusal::late(service.seconds())),
        },
    }
}

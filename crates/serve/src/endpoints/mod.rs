//! What a server answers, a file for each sort of request.

mod about;
mod chat;
mod chat_message;
mod completions;
mod embed;
mod generation_request;
mod predict;
mod streaming;

use crate::body;
use crate::client::{Client, ClientPhase};
use crate::refusal::Refusal;
use crate::reply::{Reply, refused};
use crate::service::Service;
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
use std::sync::Arc;
use std::time::Instant;

/// The endpoints with their methods; the first word of each is what metrics call it.
const ENDPOINTS: [(&str, Method); 8] = [
    ("/predict", Method::POST),
    ("/embed", Method::POST),
    ("/v1/embeddings", Method::POST),
    ("/v1/completions", Method::POST),
    ("/v1/chat/completions", Method::POST),
    ("/v1/models", Method::GET),
    ("/health", Method::GET),
    ("/metrics", Method::GET),
];

/// Answers a request of a client and counts the answer.
pub async fn answer(service: &Arc<Service>, client: &Arc<Client>, request: Request<Incoming>) -> Reply {
    client.enter(ClientPhase::Reading);
    let start = Instant::now();
    let endpoint = endpoint(request.uri().path());
    let (head, body) = request.into_parts();
    let reply = match service.options.access.check(service.options.host, &head) {
        Ok(()) => routed(service, client, endpoint, Request::from_parts(head, body)).await,
        Err(refusal) => Err(refusal),
    };
    let reply = reply.unwrap_or_else(|refusal| refused(&refusal));
    service
        .metrics
        .answered(endpoint, reply.status().as_u16(), start.elapsed());
    reply
}

/// The endpoint of a path, as metrics call it.
fn endpoint(path: &str) -> &'static str {
    match ENDPOINTS.iter().find(|(known, _)| *known == path) {
        Some((known, _)) => known,
        None if path.starts_with(ONE_MODEL) => "/v1/models",
        None => "other",
    }
}

/// The path of one model, before its name.
const ONE_MODEL: &str = "/v1/models/";

async fn routed(
    service: &Arc<Service>,
    client: &Arc<Client>,
    endpoint: &str,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let Some((_, method)) = ENDPOINTS.iter().find(|(known, _)| *known == endpoint) else {
        let all: Vec<&str> = ENDPOINTS.iter().map(|(endpoint, _)| *endpoint).collect();
        let message = format!("there is no {}; ask one of {}", request.uri().path(), all.join(", "));
        return Err(Refusal::new(StatusCode::NOT_FOUND, message));
    };
    if request.method() != method {
        return Ok(wrong_method(&request, method));
    }
    match (endpoint, request.uri().path().strip_prefix(ONE_MODEL)) {
        ("/v1/models", Some(name)) => return about::model(service, name),
        ("/v1/models", None) => return Ok(about::models(service)),
        ("/health", _) => return Ok(about::health(service)),
        ("/metrics", _) => return Ok(about::metrics(service)),
        _ => {}
    }
    client.enter(ClientPhase::Sending);
    let body = body::read(request, &service.options.limits, &service.bodies).await;
    client.enter(ClientPhase::Reading);
    let (body, work) = (body?, service.begin(client)?);
    let mut reply = match endpoint {
        "/predict" => predict::predict(service, &body.bytes).await,
        "/embed" => embed::embed(service, &body.bytes).await,
        "/v1/embeddings" => embed::embeddings(service, &body.bytes).await,
        "/v1/completions" => completions::complete(service, body).await,
        _ => chat::chat(service, body).await,
    }?;
    reply.body_mut().keep(work);
    Ok(reply)
}

fn wrong_method(request: &Request<Incoming>, method: &Method) -> Reply {
    let (path, asked) = (request.uri().path(), request.method());
    let message = format!("{path} takes no {asked}; send {method}");
    let mut reply = refused(&Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
    if let Ok(value) = HeaderValue::from_str(method.as_str()) {
        reply.headers_mut().insert(ALLOW, value);
    }
    reply
}

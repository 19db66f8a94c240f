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
use crate::refusal::Refusal;
use crate::reply::{Reply, refused};
use crate::service::Service;
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
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

/// Answers a request and counts the answer.
pub async fn answer(service: &Service, request: Request<Incoming>) -> Reply {
    let (start, path) = (Instant::now(), request.uri().path());
    let known = ENDPOINTS.iter().find(|(known, _)| *known == path);
    let model = path.strip_prefix("/v1/models/").map(str::to_string);
    let endpoint = match (known, &model) {
        (Some((endpoint, _)), _) => endpoint,
        (None, Some(_)) => "/v1/models",
        (None, None) => "other",
    };
    let reply = match (known, model) {
        (Some((_, method)), _) if request.method() != method => wrong_method(&request, method),
        (Some((endpoint, _)), _) => routed(service, endpoint, request)
            .await
            .unwrap_or_else(|refusal| refused(&refusal)),
        (None, Some(_)) if request.method() != Method::GET => wrong_method(&request, &Method::GET),
        (None, Some(name)) => about::model(service, &name).unwrap_or_else(|refusal| refused(&refusal)),
        (None, None) => {
            let all: Vec<&str> = ENDPOINTS.iter().map(|(endpoint, _)| *endpoint).collect();
            let message = format!("there is no {path}; ask one of {}", all.join(", "));
            refused(&Refusal::new(StatusCode::NOT_FOUND, message))
        }
    };
    service
        .metrics
        .answered(endpoint, reply.status().as_u16(), start.elapsed());
    reply
}

async fn routed(service: &Service, endpoint: &str, request: Request<Incoming>) -> Result<Reply, Refusal> {
    match endpoint {
        "/v1/models" => return Ok(about::models(service)),
        "/health" => return Ok(about::health(service)),
        "/metrics" => return Ok(about::metrics(service)),
        _ => {}
    }
    let limits = &service.options.limits;
    let body = body::read(request, limits.body, limits.time, &service.bodies).await?;
    match endpoint {
        "/predict" => predict::predict(service, &body.bytes).await,
        "/embed" => embed::embed(service, &body.bytes).await,
        "/v1/embeddings" => embed::embeddings(service, &body.bytes).await,
        "/v1/completions" => completions::complete(service, body).await,
        _ => chat::chat(service, body).await,
    }
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

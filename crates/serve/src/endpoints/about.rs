//! What a server says of itself.

use crate::refusal::Refusal;
use crate::reply::{Reply, json, text};
use crate::service::Service;
use serde_json::{Value, json};

/// The model that is served, as OpenAI's clients read it.
fn description(service: &Service) -> Value {
    json!({ "id": service.options.name, "object": "model", "created": service.created, "owned_by": "lessen" })
}

/// The list of models, which has one.
pub fn models(service: &Service) -> Reply {
    json(&json!({ "object": "list", "data": [description(service)] }))
}

/// One model by its name.
///
/// # Errors
/// Another name.
pub fn model(service: &Service, name: &str) -> Result<Reply, Refusal> {
    service.check_model(Some(name))?;
    Ok(json(&description(service)))
}

/// That the server can be asked.
pub fn health(service: &Service) -> Reply {
    json(&json!({ "status": "ok", "model": service.options.name, "waiting": service.waiting() }))
}

/// The counters for Prometheus.
pub fn metrics(service: &Service) -> Reply {
    let ty = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    text(ty, service.metrics.text(service.waiting()))
}

//! `POST /embed` as text-embeddings-inference has it, and `POST /v1/embeddings` as OpenAI has it: vectors of texts.

use super::predict::check_direction;
use crate::body::parse;
use crate::given::{Given, Prompt, Prompts, Texts};
use crate::memory::Share;
use crate::refusal::Refusal;
use crate::reply::{Reply, counted_json};
use crate::service::{Served, Service};
use crate::texts::TextsReply;
use lessen_saved::embedding::normalize;
use serde::{Deserialize, Serialize};

/// The fields of a request to `/embed`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbedRequest {
    inputs: Texts,
    #[serde(default)]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Given,
    #[serde(default)]
    normalize: Option<bool>,
    #[serde(default)]
    prompt_name: Given,
    #[serde(default)]
    dimensions: Option<usize>,
}

/// The fields of a request to `/v1/embeddings`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddingsRequest {
    input: Prompts,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    encoding_format: Option<Encoding>,
    #[serde(default)]
    dimensions: Option<usize>,
    /// It has no effect on the answer.
    #[serde(default, rename = "user")]
    _user: Given,
}

/// How vectors are written.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    /// A list of numbers.
    #[default]
    Float,
    /// Base64 of the numbers' bytes, in little-endian order.
    Base64,
}

/// A vector.
#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Float(Vec<f32>),
    Base64(String),
}

/// An element of the answer of `/v1/embeddings`.
#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

/// The answer of `/v1/embeddings`.
#[derive(Serialize)]
struct Embeddings<'a> {
    object: &'static str,
    data: Vec<Embedding>,
    model: &'a str,
    usage: Usage,
}

/// The numbers of tokens that were read.
#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Answers by a list of vectors, one for each text.
///
/// # Errors
/// A model that does not embed; fields that are wrong; texts that are too many or too long; a full queue.
pub async fn embed(service: &Service, body: &[u8]) -> Result<Reply, Refusal> {
    let Served::Embeddings { .. } = &service.model else {
        return Err(service.unsuited("/embed"));
    };
    let request: EmbedRequest = parse(body)?;
    check_direction(&request.truncation_direction)?;
    let why = "texts get the model's default prompt; leave it out, and write another prompt before the texts";
    request.prompt_name.only("prompt_name", &[], why)?;
    let how = How {
        field: "inputs",
        truncate: Some(request.truncate.unwrap_or(false)),
        dimensions: request.dimensions,
        normalize: Some(request.normalize.unwrap_or(true)),
    };
    let (reply, share) = vectors(service, request.inputs.into_vec(), how).await?;
    counted_json(&reply.answers, share)
}

/// Answers by an object with vectors, one for each text.
///
/// # Errors
/// As [`embed`].
pub async fn embeddings(service: &Service, body: &[u8]) -> Result<Reply, Refusal> {
    let Served::Embeddings { .. } = &service.model else {
        return Err(service.unsuited("/v1/embeddings"));
    };
    let request: EmbeddingsRequest = parse(body)?;
    service.check_model(request.model.as_deref())?;
    let texts = request.input.0.into_iter().map(|input| match input {
        Prompt::Text(text) => Ok(text),
        Prompt::Tokens(_) => Err(Refusal::field(
            "input",
            "token ids are of another model's tokenizer; send texts",
        )),
    });
    let how = How {
        field: "input",
        truncate: None,
        dimensions: request.dimensions,
        normalize: None,
    };
    let (reply, share) = vectors(service, texts.collect::<Result<_, _>>()?, how).await?;
    let encoding = request.encoding_format.unwrap_or_default();
    let written = |vector: Vec<f32>| match encoding {
        Encoding::Float => Vector::Float(vector),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            Vector::Base64(base64::encode(bytes))
        }
    };
    let all = reply.answers.into_iter().enumerate().map(|(index, vector)| Embedding {
        object: "embedding",
        index,
        embedding: written(vector),
    });
    let answer = Embeddings {
        object: "list",
        data: all.collect(),
        model: &service.options.name,
        usage: Usage {
            prompt_tokens: reply.tokens,
            total_tokens: reply.tokens,
        },
    };
    counted_json(&answer, share)
}

/// What the endpoints say differently.
struct How {
    field: &'static str,
    /// Whether long texts are cut; none where a request cannot say so.
    truncate: Option<bool>,
    dimensions: Option<usize>,
    /// Whether vectors are divided by their lengths; none does as the model says.
    normalize: Option<bool>,
}

/// The vectors of texts.
async fn vectors(service: &Service, texts: Vec<String>, how: How) -> Result<(TextsReply<Vec<f32>>, Share), Refusal> {
    let Served::Embeddings {
        width,
        normalizes,
        queue,
    } = &service.model
    else {
        return Err(service.unsuited("embedding of texts"));
    };
    if let Some(other) = how.dimensions.filter(|dimensions| dimensions != width) {
        let message = format!("{other} cannot be: vectors of this model have {width} numbers; leave it out");
        return Err(Refusal::field("dimensions", message).with_code("unsupported_value"));
    }
    let texts = texts.into_iter().map(|text| (text, None)).collect();
    let (mut reply, share) = service.ask_texts(queue, texts, how.field, how.truncate).await?;
    if how.normalize.unwrap_or(*normalizes) {
        reply.answers.iter_mut().for_each(|vector| normalize(vector));
    }
    Ok((reply, share))
}

//! The fields of requests for continued texts: of `/v1/completions` and `/v1/chat/completions`.

use super::chat_message::ChatMessage;
use crate::given::{Given, List, Prompts, Texts};
use crate::refusal::Refusal;
use crate::service::Service;
use lessen_train::{Rules, Sampling};
use serde::Deserialize;

/// The fields of both endpoints.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct GenerationRequest {
    pub model: Option<String>,
    pub prompt: Option<Prompts>,
    pub messages: Option<List<ChatMessage>>,
    pub max_tokens: Option<usize>,
    pub max_completion_tokens: Option<usize>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub repetition_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub n: Option<usize>,
    pub seed: Option<i64>,
    pub stop: Option<Texts>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    // Fields that are refused where they ask for something.
    pub logprobs: Given,
    pub top_logprobs: Given,
    pub logit_bias: Given,
    pub echo: Given,
    pub best_of: Given,
    pub suffix: Given,
    pub tools: Given,
    pub tool_choice: Given,
    pub functions: Given,
    pub function_call: Given,
    pub response_format: Option<ResponseFormat>,
    pub modalities: Option<Texts>,
    pub audio: Given,
    pub web_search_options: Given,
    pub reasoning_effort: Given,
    pub verbosity: Given,
    // Fields without an effect on the answer.
    #[serde(rename = "user")]
    pub _user: Given,
    #[serde(rename = "store")]
    pub _store: Given,
    #[serde(rename = "metadata")]
    pub _metadata: Given,
    #[serde(rename = "service_tier")]
    pub _service_tier: Given,
    #[serde(rename = "safety_identifier")]
    pub _safety_identifier: Given,
    #[serde(rename = "prompt_cache_key")]
    pub _prompt_cache_key: Given,
    #[serde(rename = "prompt_cache_retention")]
    pub _prompt_cache_retention: Given,
    #[serde(rename = "prediction")]
    pub _prediction: Given,
    #[serde(rename = "parallel_tool_calls")]
    pub _parallel_tool_calls: Given,
}

/// How a stream is sent.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct StreamOptions {
    pub include_usage: Option<bool>,
    /// Padding of events, which changes no content.
    #[serde(rename = "include_obfuscation")]
    pub _include_obfuscation: Given,
}

/// The format of answers; all but that of plain text is refused.
#[derive(Deserialize)]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    kind: String,
}

/// The most texts for each prompt.
const MOST_SAMPLES: usize = 128;

/// The most strings before which a text ends, and their most bytes.
const MOST_STOPS: (usize, usize) = (16, 1024);

impl GenerationRequest {
    /// Whether texts are sent as they come, and whether the number of tokens ends them.
    ///
    /// # Errors
    /// Options of a stream without a stream.
    pub fn streaming(&self) -> Result<(bool, bool), Refusal> {
        let stream = self.stream.unwrap_or(false);
        match &self.stream_options {
            Some(_) if !stream => Err(Refusal::field(
                "stream_options",
                "is for \"stream\": true; leave it out",
            )),
            options => Ok((
                stream,
                options
                    .as_ref()
                    .is_some_and(|options| options.include_usage == Some(true)),
            )),
        }
    }

    /// Refuses fields that ask for something that is not built.
    ///
    /// # Errors
    /// The first of these fields.
    pub fn check_unbuilt(&self) -> Result<(), Refusal> {
        let (off, zero, one) = (Given::Bool(false), Given::Number(0.0), Given::Number(1.0));
        let word = |text: &str| Given::Text(text.to_string());
        let (none, empty) = ([Given::List(0)], [Given::Object(0)]);
        let fields: [(&str, &Given, &[Given], &str); 13] = [
            (
                "logprobs",
                &self.logprobs,
                &[off.clone(), zero.clone()],
                "log-probabilities are not given; leave it out",
            ),
            (
                "top_logprobs",
                &self.top_logprobs,
                std::slice::from_ref(&zero),
                "log-probabilities are not given; leave it out",
            ),
            ("logit_bias", &self.logit_bias, &empty, "is not built; leave it out"),
            (
                "echo",
                &self.echo,
                std::slice::from_ref(&off),
                "is not built; put the prompt before the text yourself",
            ),
            (
                "best_of",
                &self.best_of,
                std::slice::from_ref(&one),
                "is not built; ask for several texts with n",
            ),
            (
                "suffix",
                &self.suffix,
                &[word("")],
                "models here continue texts at their end alone; leave it out",
            ),
            (
                "tools",
                &self.tools,
                &none,
                "calls of tools are not built; leave it out",
            ),
            (
                "tool_choice",
                &self.tool_choice,
                &[word("none"), word("auto")],
                "calls of tools are not built; leave it out",
            ),
            (
                "functions",
                &self.functions,
                &none,
                "calls of functions are not built; leave it out",
            ),
            (
                "function_call",
                &self.function_call,
                &[word("none"), word("auto")],
                "calls of functions are not built; leave it out",
            ),
            ("audio", &self.audio, &[], "answers are texts; leave it out"),
            (
                "web_search_options",
                &self.web_search_options,
                &[],
                "nothing is searched; leave it out",
            ),
            (
                "verbosity",
                &self.verbosity,
                &[word("medium")],
                "is not built; leave it out",
            ),
        ];
        for (name, given, plain, why) in fields {
            given.only(name, plain, why)?;
        }
        self.reasoning_effort
            .only("reasoning_effort", &[word("none")], "is not built; leave it out")?;
        let is_plain = |format: &ResponseFormat| format.kind == "text";
        if !self.response_format.as_ref().is_none_or(is_plain) {
            let refusal = Refusal::field("response_format", "answers are plain texts; leave it out");
            return Err(refusal.with_code("unsupported_value"));
        }
        let modalities = self.modalities.clone().map(Texts::into_vec).unwrap_or_default();
        if modalities.iter().any(|modality| modality != "text") {
            let refusal = Refusal::field("modalities", "answers are texts; leave it out");
            return Err(refusal.with_code("unsupported_value"));
        }
        Ok(())
    }

    /// The number of texts for each prompt.
    ///
    /// # Errors
    /// None, or too many.
    pub fn samples(&self) -> Result<usize, Refusal> {
        match self.n.unwrap_or(1) {
            n if (1..=MOST_SAMPLES).contains(&n) => Ok(n),
            n => Err(Refusal::field(
                "n",
                format!("{n} cannot be; choose a number from 1 to {MOST_SAMPLES}"),
            )),
        }
    }

    /// Strings before which a text ends: those of the request, else those of the model, `own`.
    ///
    /// # Errors
    /// An empty string; strings that are too many or too long.
    pub fn stops(&mut self, own: &[String]) -> Result<Vec<String>, Refusal> {
        let Some(stops) = self.stop.take().map(Texts::into_vec) else {
            return Ok(own.to_vec());
        };
        let (most, bytes) = MOST_STOPS;
        if stops.len() > most || stops.iter().any(|stop| stop.len() > bytes) {
            let message = format!("give at most {most} strings of at most {bytes} bytes");
            return Err(Refusal::field("stop", message));
        }
        if stops.iter().any(String::is_empty) {
            return Err(Refusal::field("stop", "an empty string is everywhere; leave it out"));
        }
        Ok(stops)
    }

    /// The most tokens to add, and the name of the field that says it.
    ///
    /// # Errors
    /// 0, and two numbers.
    pub fn tokens(&self) -> Result<Option<(usize, &'static str)>, Refusal> {
        let asked = match (self.max_tokens, self.max_completion_tokens) {
            (Some(tokens), Some(other)) if tokens != other => {
                let message = format!("is {tokens}, and max_completion_tokens is {other}; give one of them");
                return Err(Refusal::field("max_tokens", message));
            }
            (_, Some(tokens)) => Some((tokens, "max_completion_tokens")),
            (Some(tokens), None) => Some((tokens, "max_tokens")),
            (None, None) => None,
        };
        match asked {
            Some((0, field)) => Err(Refusal::field(field, "0 adds nothing; ask for at least 1")),
            asked => Ok(asked),
        }
    }

    /// How tokens are chosen: as the request says, else as the model's `generation_config.json`, else from the softmax
    /// of the logits as they are. A request that asks for draws gets no beams. Without a seed, each request draws anew.
    ///
    /// # Errors
    /// A number that is out of range, and more texts of a prompt than there are beams.
    pub fn sampling(&self, service: &Service, own: Sampling) -> Result<Sampling, Refusal> {
        let top_k = match self.top_k {
            None => own.top_k,
            Some(-1 | 0) => None,
            Some(k) if k > 0 => usize::try_from(k).ok(),
            Some(k) => {
                return Err(Refusal::field(
                    "top_k",
                    format!("{k} cannot be; choose at least 1, or -1 for all"),
                ));
            }
        };
        let beams = own
            .beams
            .filter(|_| self.temperature.is_none_or(|temperature| temperature <= 0.0));
        if let (Some(beams), Some(n)) = (beams, self.n)
            && n > beams.count
        {
            let message = format!(
                "{n} texts are more than the {} beams of the model's generation_config.json; ask for at most as many, or \
                 for draws with temperature",
                beams.count
            );
            return Err(Refusal::field("n", message));
        }
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(own.temperature),
            top_k,
            top_p: self.top_p.or(own.top_p),
            beams,
            rules: Rules {
                repetition_penalty: self.repetition_penalty.unwrap_or(own.rules.repetition_penalty),
                presence_penalty: self.presence_penalty.unwrap_or(own.rules.presence_penalty),
                frequency_penalty: self.frequency_penalty.unwrap_or(own.rules.frequency_penalty),
                ..own.rules
            },
            seed: self.seed.map_or_else(|| service.new_number(), |seed| seed as u64),
            ..own
        };
        sampling.check().map_err(|error| {
            let message = error.message().to_string();
            let flag = message.split(' ').next().unwrap_or_default().replace('-', "_");
            Refusal::bad(message).about(&flag)
        })?;
        Ok(sampling)
    }
}

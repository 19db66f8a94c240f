//! Ways of pooling by their names in sentence-transformers.

use super::known_fields::{check_known, must_be};
use lessen_base::{Error, Result};
use lessen_nn::Fields;
use lessen_train::Pooling;
use serde_json::{Value, json};

/// The names, and the fields that older versions of sentence-transformers have for them, in the order in which they are
/// joined.
const NAMES: [(&str, &str, Pooling); 6] = [
    ("cls", "pooling_mode_cls_token", Pooling::First),
    ("max", "pooling_mode_max_tokens", Pooling::Max),
    ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    (
        "mean_sqrt_len_tokens",
        "pooling_mode_mean_sqrt_len_tokens",
        Pooling::MeanSqrtLength,
    ),
    (
        "weightedmean",
        "pooling_mode_weightedmean_tokens",
        Pooling::WeightedMean,
    ),
    ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
];

/// Reads names of ways of pooling with a plus between, such as `mean` or `cls+max`.
///
/// # Errors
/// A name that there is not.
pub fn parse_pooling(text: &str) -> Result<Vec<Pooling>> {
    text.split('+').map(|name| named(name.trim())).collect()
}

fn named(name: &str) -> Result<Pooling> {
    let found = NAMES.iter().find(|(own, ..)| *own == name);
    found.map(|(.., pooling)| *pooling).ok_or_else(|| {
        let known = NAMES.map(|(name, ..)| name).join(", ");
        Error::user(format!("there is no pooling `{name}`; choose among {known}"))
    })
}

/// The names of ways of pooling, as [`parse_pooling`] reads them.
pub fn show_pooling(pooling: &[Pooling]) -> String {
    let name = |pooling: &Pooling| {
        NAMES
            .iter()
            .find(|(.., own)| own == pooling)
            .map_or("", |(name, ..)| name)
    };
    pooling.iter().map(name).collect::<Vec<_>>().join("+")
}

/// How the states of a text's tokens become its vector.
pub(super) struct PoolingConfig {
    /// The ways, whose results are joined.
    pub(super) ways: Vec<Pooling>,
    /// Whether the tokens of a prompt are pooled, too.
    pub(super) include_prompt: bool,
}

impl PoolingConfig {
    /// Reads the `config.json` of the module for states of this width.
    ///
    /// # Errors
    /// A field that is wrong or not known.
    pub(super) fn read(fields: &Fields, width: usize) -> Result<PoolingConfig> {
        let own = [
            "embedding_dimension",
            "word_embedding_dimension",
            "pooling_mode",
            "include_prompt",
        ];
        let older = NAMES.map(|(_, field, _)| field);
        check_known(fields, &[&own[..], &older[..]].concat())?;
        for field in &own[..2] {
            must_be(fields, field, &json!(width))?;
        }
        let wrong = |error: Error| fields.error("pooling_mode", format!("cannot be followed: {}", error.message()));
        let ways: Vec<Pooling> = match fields.get("pooling_mode") {
            Some(Value::String(name)) => vec![named(name).map_err(wrong)?],
            Some(Value::Array(names)) => {
                let name = |name: &Value| match name.as_str() {
                    Some(name) => named(name).map_err(wrong),
                    None => Err(fields.error("pooling_mode", "must be a name or a list of names")),
                };
                names.iter().map(name).collect::<Result<_>>()?
            }
            Some(_) => return Err(fields.error("pooling_mode", "must be a name or a list of names")),
            None => {
                let mut ways = Vec::new();
                for (_, field, pooling) in NAMES {
                    ways.extend(fields.switch_or(field, false)?.then_some(pooling));
                }
                ways
            }
        };
        Ok(PoolingConfig {
            ways: if ways.is_empty() { vec![Pooling::Mean] } else { ways },
            include_prompt: fields.switch_or("include_prompt", true)?,
        })
    }
}

impl Default for PoolingConfig {
    /// The mean, which sentence-transformers takes where no file says otherwise.
    fn default() -> PoolingConfig {
        PoolingConfig {
            ways: vec![Pooling::Mean],
            include_prompt: true,
        }
    }
}

//! Rotary position embeddings as `config.json` describes them.

use lessen_graph::ops::attention::RopeScaling;
use serde_json::{Map, Value, json};

use crate::config::Fields;
use lessen_base::Result;

/// The base of the wavelengths, where nothing else is said.
const BASE: f64 = 10000.0;

const THETA: &str = "rope_theta";
const SCALING: &str = "rope_scaling";
/// What transformers from version 5 on has instead of both.
const PARAMETERS: &str = "rope_parameters";

/// The angles of rotary position embeddings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rotary {
    /// The base of the wavelengths.
    pub base: f64,
    /// How the angles are changed for longer texts.
    pub scaling: RopeScaling,
}

impl Rotary {
    /// A base of 10000 and no scaling.
    pub const DEFAULT: Rotary = Rotary {
        base: BASE,
        scaling: RopeScaling::None,
    };

    /// Reads the fields `rope_theta` and `rope_scaling`, or `rope_parameters`.
    pub(crate) fn from_fields(fields: &Fields) -> Result<Rotary> {
        let place = if fields.get(PARAMETERS).is_some() {
            PARAMETERS
        } else {
            SCALING
        };
        let Some(scaling) = fields.within(place)? else {
            return Ok(Rotary {
                base: fields.positive_or(THETA, BASE)?,
                scaling: RopeScaling::None,
            });
        };
        let base = scaling.positive_or(THETA, fields.positive_or(THETA, BASE)?)?;
        scaling.must_be("partial_rotary_factor", &json!(1.0))?;
        let kind = match scaling.word("rope_type")? {
            None => scaling.word("type")?,
            kind => kind,
        };
        let scaling = match kind.unwrap_or("default") {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear {
                factor: scaling.positive("factor")?,
            },
            "llama3" => RopeScaling::Llama3 {
                factor: scaling.positive("factor")?,
                low: scaling.positive("low_freq_factor")?,
                high: scaling.positive("high_freq_factor")?,
                length: scaling.positive("original_max_position_embeddings")?,
            },
            other => {
                let what = format!("has the type `{other}`, and Lessen has default, linear and llama3");
                return Err(fields.error(place, what));
            }
        };
        scaling
            .check()
            .map_err(|error| fields.error(place, format!("is wrong: {error}")))?;
        Ok(Rotary { base, scaling })
    }

    /// Writes what [`Rotary::from_fields`] reads, in the fields that are there.
    pub(crate) fn put(self, map: &mut Map<String, Value>) {
        let mut scaling = match self.scaling {
            RopeScaling::None => Map::new(),
            RopeScaling::Linear { factor } => object(json!({ "rope_type": "linear", "factor": factor })),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            } => object(json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": length as u64,
            })),
        };
        if map.get(PARAMETERS).is_some_and(Value::is_object) {
            scaling.entry("rope_type").or_insert(json!("default"));
            scaling.insert(THETA.into(), json!(self.base));
            map.insert(PARAMETERS.into(), scaling.into());
            return;
        }
        map.insert(THETA.into(), json!(self.base));
        let scaling = if scaling.is_empty() {
            Value::Null
        } else {
            scaling.into()
        };
        map.insert(SCALING.into(), scaling);
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

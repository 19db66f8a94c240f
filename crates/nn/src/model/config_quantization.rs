//! How the layers of a model are quantized, as its `config.json` says.

use std::collections::BTreeMap;

use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};

use crate::config::{Fields, put_own};
use crate::quantization::{Bits, OWN, Quantization, Ranges};
use crate::quantization_config::fixed_ranges;

impl Quantization {
    /// Reads what a `config.json` says: the field that [`Quantization::put`] writes, or the fixed scales of a model
    /// whose weights are integers.
    ///
    /// # Errors
    /// A field that is wrong; the message names it.
    pub(crate) fn of_fields(fields: &Fields) -> Result<Option<Quantization>> {
        if let Some(floats) = fixed_ranges(fields) {
            let mut all = Quantization::new(Bits::EIGHT, Ranges::Fixed);
            all.layers = floats.into_iter().map(|name| (name, Bits::FLOAT)).collect();
            return Ok(Some(all));
        }
        let Some(own) = fields.get(OWN).filter(|own| !own.is_null()) else {
            return Ok(None);
        };
        let wrong = |what: &str| fields.error(OWN, format!("{what}; train the model again, or restore the file"));
        let own = own.as_object().ok_or_else(|| wrong("is no object"))?;
        let known = ["bits", "layers", "ranges", "start"];
        if let Some(name) = own.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(wrong(&format!("has the field `{name}`, which Lessen does not know")));
        }
        let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_string();
        let in_file = |error: Error| wrong(&format!("is wrong: {}", error.message()));
        let mut layers = BTreeMap::new();
        if let Some(named) = own.get("layers") {
            let named = named
                .as_object()
                .ok_or_else(|| wrong("has layers that are no object"))?;
            for (layer, bits) in named {
                layers.insert(layer.clone(), word(Some(bits)).parse().map_err(in_file)?);
            }
        }
        let start = own.get("start").map_or(Some(0), Value::as_u64);
        Ok(Some(Quantization {
            bits: word(own.get("bits")).parse().map_err(in_file)?,
            layers,
            ranges: word(own.get("ranges")).parse().map_err(in_file)?,
            start: start
                .filter(|start| *start < Quantization::MOST_BATCHES)
                .ok_or_else(|| wrong("has a start that is no number of batches"))?,
        }))
    }

    /// Writes a field that transformers ignores, for a model that is trained to be quantized.
    pub(crate) fn put(own: Option<&Quantization>, map: &mut Map<String, Value>) {
        let trained = own.filter(|own| own.ranges != Ranges::Fixed);
        let value = trained.map(|own| {
            let layers = own
                .layers
                .iter()
                .map(|(name, bits)| (name.clone(), json!(bits.to_string())));
            json!({
                "bits": own.bits.to_string(),
                "layers": Map::from_iter(layers),
                "ranges": own.ranges.name(),
                "start": own.start,
            })
        });
        put_own(map, OWN, value);
    }
}

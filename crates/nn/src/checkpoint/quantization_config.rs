//! The field of `config.json` that says how weights are quantized.

use std::path::Path;

use lessen_base::Result;
use serde_json::{Value, json};

use crate::config::Fields;
use crate::field_effect::is_empty;

/// The field of `config.json` that says how weights are stored.
pub(crate) const CONFIG: &str = "quantization_config";

/// What Lessen reads, in words.
pub(super) const READ: &str = "Lessen reads integers of 8 bits with scales beside, as compressed-tensors writes them in the \
                    format int-quantized";

/// Checks what `config.json` says of quantized weights.
///
/// # Errors
/// Another way of storing them, by its name.
pub(crate) fn check_config(fields: &Fields) -> Result<()> {
    let Some(config) = fields.get(CONFIG).filter(|value| !is_empty(value)) else {
        return Ok(());
    };
    let text = |value: &Value, field: &str| {
        value
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or("nothing")
            .to_string()
    };
    let method = text(config, "quant_method");
    if method != "compressed-tensors" {
        return Err(fields.error(CONFIG, format!("says the method {method}; {READ}")));
    }
    let format = text(config, "format");
    if !["int-quantized", "naive-quantized"].contains(&format.as_str()) {
        return Err(fields.error(CONFIG, format!("says the format {format}; {READ}")));
    }
    let groups = config.get("config_groups").and_then(Value::as_object);
    for (group, own) in groups.into_iter().flatten() {
        let says = |part: &str, field: &str| own.get(part).and_then(|part| part.get(field));
        let of_8 = says("weights", "num_bits").and_then(Value::as_u64) == Some(8)
            && says("weights", "type").and_then(Value::as_str) == Some("int");
        if !of_8 {
            return Err(fields.error(
                CONFIG,
                format!("has weights of another type than int8 in {group}; {READ}"),
            ));
        }
        let inputs = own.get("input_activations").filter(|inputs| !inputs.is_null());
        if inputs.is_some_and(|inputs| inputs.get("dynamic") != Some(&Value::Bool(true))) {
            let what = format!("has fixed ranges of input_activations in {group}, and Lessen takes each row's own");
            return Err(fields.error(CONFIG, what));
        }
    }
    Ok(())
}

/// Whether the `config.json` of a folder says that products take integers.
pub fn has_integer_products(dir: &Path) -> bool {
    let Ok(fields) = Fields::read(&dir.join("config.json")) else {
        return false;
    };
    let groups = fields.get(CONFIG).and_then(|config| config.get("config_groups"));
    let groups = groups.and_then(Value::as_object);
    groups.is_some_and(|groups| {
        groups
            .values()
            .any(|group| group.get("input_activations").is_some_and(|inputs| !inputs.is_null()))
    })
}

/// What `config.json` says of the model.
pub(super) fn config_of(ignored: &[String]) -> Value {
    let of_rows = |strategy: &str, dynamic: bool| json!({"num_bits": 8, "type": "int", "symmetric": true, "strategy": strategy, "dynamic": dynamic});
    json!({
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": of_rows("channel", false),
                "input_activations": of_rows("token", true),
            },
        },
        "ignore": ignored,
    })
}

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
        let is_of = |field: &str, value: Value| inputs.and_then(|inputs| inputs.get(field)) == Some(&value);
        let is_dynamic = is_of("dynamic", json!(true));
        let is_fixed = is_of("strategy", json!("tensor"))
            && is_of("symmetric", json!(true))
            && is_of("num_bits", json!(8))
            && is_of("type", json!("int"));
        if inputs.is_some() && !is_dynamic && !is_fixed {
            let what = format!(
                "has fixed ranges of input_activations in {group} that are not one symmetric scale of 8 bits for each layer"
            );
            return Err(fields.error(CONFIG, what));
        }
        let others = groups.into_iter().flatten().count();
        if is_fixed && !is_dynamic && others > 1 {
            let what = format!(
                "has fixed ranges of input_activations in {group} of {others} groups, and Lessen reads them of one"
            );
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

/// The names of layers without fixed scales of their inputs, where `config.json` says that the others have some.
pub(crate) fn fixed_ranges(fields: &Fields) -> Option<Vec<String>> {
    let config = fields.get(CONFIG)?;
    let inputs = config.get("config_groups")?.as_object()?.values().next()?;
    let inputs = inputs.get("input_activations").filter(|inputs| !inputs.is_null())?;
    if inputs.get("dynamic") == Some(&Value::Bool(true)) {
        return None;
    }
    let ignored = config.get("ignore").and_then(Value::as_array);
    let names = ignored.into_iter().flatten().filter_map(Value::as_str);
    Some(names.map(str::to_string).collect())
}

/// What `config.json` says of the model, whose layers have fixed scales of their inputs or not.
pub(super) fn config_of(ignored: &[String], has_scales: bool) -> Value {
    let of_rows = |strategy: &str, dynamic: bool| json!({"num_bits": 8, "type": "int", "symmetric": true, "strategy": strategy, "dynamic": dynamic});
    json!({
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": of_rows("channel", false),
                "input_activations": if has_scales { of_rows("tensor", false) } else { of_rows("token", true) },
            },
        },
        "ignore": ignored,
    })
}

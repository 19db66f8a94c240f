//! The field of `config.json` that says how weights are quantized.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};

use crate::config::Fields;
use crate::field_effect::is_empty;

/// The field of `config.json` that says how weights are stored.
pub(crate) const CONFIG: &str = "quantization_config";

/// What Lessen reads, in words.
pub(crate) const READ: &str = "Lessen reads integers of 8 bits with scales beside and symmetric ones of 4 bits, as compressed-tensors \
                    writes them in the formats int-quantized and pack-quantized";

/// The method that writes them.
const METHOD: &str = "compressed-tensors";

/// The format of integers of 4 bits.
const PACKED: &str = "pack-quantized";

/// The field for the layers whose matrices of 4 bits are stored as transposes.
const TURNED: &str = "turned";

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
    if method != METHOD {
        return Err(fields.error(CONFIG, format!("says the method {method}; {READ}")));
    }
    let format = text(config, "format");
    let is_packed = format == PACKED;
    if !is_packed && !["int-quantized", "naive-quantized"].contains(&format.as_str()) {
        return Err(fields.error(CONFIG, format!("says the format {format}; {READ}")));
    }
    for other in ["kv_cache_scheme", "sparsity_config", "transform_config"] {
        if config.get(other).is_some_and(|value| !is_empty(value)) {
            return Err(fields.error(CONFIG, format!("has a {other}, which Lessen does not follow; {READ}")));
        }
    }
    let groups = config.get("config_groups").and_then(Value::as_object);
    let count = groups.into_iter().flatten().count();
    for (group, own) in groups.into_iter().flatten() {
        let wrong = |what: String| fields.error(CONFIG, what);
        check_weights(own.get("weights"), is_packed).map_err(|what| wrong(format!("{what} in {group}; {READ}")))?;
        if own.get("output_activations").is_some_and(|outputs| !outputs.is_null()) {
            return Err(wrong(format!(
                "has output_activations in {group}, which Lessen does not follow"
            )));
        }
        check_inputs(own.get("input_activations"), is_packed, count)
            .map_err(|what| wrong(format!("has fixed ranges of input_activations in {group} {what}")))?;
    }
    Ok(())
}

/// Checks what a group of layers says of its weights.
///
/// # Errors
/// Weights that are not read, in words.
fn check_weights(weights: Option<&Value>, is_packed: bool) -> std::result::Result<(), String> {
    let says = |field: &str| weights.and_then(|weights| weights.get(field));
    let wanted = if is_packed { 4 } else { 8 };
    let bits = says("num_bits").and_then(Value::as_u64);
    let of_integers = says("type").is_none_or(|ty| ty == "int");
    if bits != Some(wanted) || !of_integers || (!is_packed && says("type").is_none()) {
        return Err(format!("has weights of another type than int{wanted}"));
    }
    if !is_packed {
        return Ok(());
    }
    if says("symmetric").is_some_and(|symmetric| *symmetric != json!(true)) {
        return Err("has weights of 4 bits that are not symmetric".to_string());
    }
    // Codes and groups are those of the weight in its own order, however their values were found.
    let order = says("actorder").filter(|order| ![json!(null), json!(false)].contains(order));
    match order {
        Some(order) if *order != json!("weight") && *order != json!("static") => {
            Err(format!("has weights in another order of inputs (actorder {order})"))
        }
        _ => Ok(()),
    }
}

/// Checks what one of `count` groups of layers says of its layers' inputs.
///
/// # Errors
/// Fixed ranges that are not read, in words.
fn check_inputs(inputs: Option<&Value>, is_packed: bool, count: usize) -> std::result::Result<(), String> {
    let Some(inputs) = inputs.filter(|inputs| !inputs.is_null()) else {
        return Ok(());
    };
    let is_of = |field: &str, value: Value| inputs.get(field) == Some(&value);
    let is_fixed = is_of("strategy", json!("tensor"))
        && is_of("symmetric", json!(true))
        && is_of("num_bits", json!(8))
        && is_of("type", json!("int"));
    if is_of("dynamic", json!(true)) {
        Ok(())
    } else if is_packed {
        Err("beside weights of 4 bits, with which each row has its own".to_string())
    } else if !is_fixed {
        Err("that are not one symmetric scale of 8 bits for each layer".to_string())
    } else if count > 1 {
        Err(format!("of {count} groups, and Lessen reads them of one"))
    } else {
        Ok(())
    }
}

/// The file of the format GGUF that a path is or, as a folder, has.
pub fn gguf_file(path: &Path) -> Option<PathBuf> {
    let within = fs::read_dir(path).into_iter().flatten().flatten();
    let mut all = within.map(|file| file.path()).chain([path.to_path_buf()]);
    all.find(|path| path.extension().is_some_and(|ending| ending == "gguf"))
}

/// Refuses a file of the format GGUF, and a folder that has one.
///
/// # Errors
/// Such a file, by its name.
pub(crate) fn refuse_gguf(path: &Path) -> Result<()> {
    match gguf_file(path) {
        None => Ok(()),
        Some(file) => Err(Error::user(format!("{} is of the format GGUF; {READ}", file.display()))),
    }
}

/// Whether the `config.json` of a folder says that weights are integers.
pub(crate) fn is_quantized(dir: &Path) -> bool {
    let fields = Fields::read(&dir.join("config.json"));
    fields.is_ok_and(|fields| fields.get(CONFIG).is_some_and(|value| !is_empty(value)))
}

/// Whether the `config.json` of a folder says that weights are integers of 4 bits.
pub fn has_packed_weights(dir: &Path) -> bool {
    let fields = Fields::read(&dir.join("config.json"));
    fields.is_ok_and(|fields| {
        let format = fields.get(CONFIG).and_then(|config| config.get("format"));
        format == Some(&json!(PACKED))
    })
}

/// The layers whose matrices of 4 bits a folder has as transposes.
pub(crate) fn turned_layers(dir: &Path) -> BTreeSet<String> {
    let fields = Fields::read(&dir.join("config.json")).ok();
    let config = fields.as_ref().and_then(|fields| fields.get(CONFIG));
    let turned = config.and_then(|config| config.get(TURNED)).and_then(Value::as_array);
    let names = turned.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_string).collect()
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

/// What `config.json` says of weights of 8 bits, whose layers have fixed scales of their inputs or not.
pub(crate) fn config_of(targets: &BTreeSet<&str>, ignored: &[String], has_scales: bool) -> Value {
    let of_rows = |strategy: &str, dynamic: bool| json!({"num_bits": 8, "type": "int", "symmetric": true, "strategy": strategy, "dynamic": dynamic});
    json!({
        "quant_method": METHOD,
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": targets,
                "weights": of_rows("channel", false),
                "input_activations": if has_scales { of_rows("tensor", false) } else { of_rows("token", true) },
            },
        },
        "ignore": ignored,
    })
}

/// The layers of a folder with weights of 4 bits.
#[derive(Default)]
pub(crate) struct PackedLayers {
    /// Their names by the elements of a group.
    pub of_groups: BTreeMap<usize, Vec<String>>,
    /// Those whose matrices are stored as transposes.
    pub turned: Vec<String>,
    /// All others with a matrix.
    pub ignored: Vec<String>,
}

/// What `config.json` says of weights of 4 bits. The layers of the largest groups are all of their class, of which a
/// reader takes out those that another group names.
pub(crate) fn config_of_packed(layers: &PackedLayers) -> Value {
    let is_turned = |name: &String| layers.turned.contains(name);
    let group = |(number, (size, names)): (usize, (&usize, &Vec<String>))| {
        let class = |name: &String| if is_turned(name) { "Conv1D" } else { "Linear" };
        let targets: BTreeSet<&str> = match number {
            0 => names.iter().map(class).collect(),
            _ => names.iter().map(String::as_str).collect(),
        };
        let own = json!({
            "targets": targets,
            "weights": {
                "num_bits": 4,
                "type": "int",
                "symmetric": true,
                "strategy": "group",
                "group_size": size,
                "dynamic": false,
            },
            "input_activations": null,
        });
        (format!("group_{number}"), own)
    };
    let groups: Map<String, Value> = layers.of_groups.iter().rev().enumerate().map(group).collect();
    let mut config = json!({
        "quant_method": METHOD,
        "format": PACKED,
        "quantization_status": "compressed",
        "config_groups": groups,
        "ignore": layers.ignored,
    });
    if !layers.turned.is_empty() {
        config[TURNED] = json!(layers.turned);
    }
    config
}

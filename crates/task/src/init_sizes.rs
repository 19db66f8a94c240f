//! The sizes of a model that a checkpoint gave: its `config.json` says them, where the recipe says others.

use crate::folder::{Folder, WhichModel};
use crate::recipe::settings::Settings;
use crate::recipe::value::SettingValue;
use crate::recipe_model::FIXED;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The keys of sizes, each with the names of its field in the families' `config.json`.
const FIELDS: [(&str, &[&str]); 8] = [
    ("model.layers", &["num_hidden_layers", "n_layer", "n_layers", "layers"]),
    ("model.width", &["hidden_size", "n_embd", "dim", "width"]),
    ("model.heads", &["num_attention_heads", "n_head", "n_heads", "heads"]),
    ("model.kv_heads", &["num_key_value_heads", "kv_heads"]),
    ("model.ffn", &["intermediate_size", "n_inner", "hidden_dim", "ffn"]),
    ("model.patch", &["patch_size"]),
    ("model.buckets", &["buckets"]),
    ("model.ngrams", &["ngrams"]),
];

/// Replaces the sizes in the settings of a run that starts from a checkpoint by those of its model, and leaves out what
/// is not known of it.
pub fn follow_init(settings: &mut Settings, folder: &Folder) {
    let Some(init) = settings.text("model.init").map(PathBuf::from) else {
        return;
    };
    let own = folder.usable_model(WhichModel::Last).ok().map(|(root, _)| root);
    let config = own.iter().chain([&init]).find_map(|root| config_of(root));
    for key in FIXED {
        let size = config.as_ref().and_then(|config| size_of(config, key));
        match (settings.values.get_mut(key), size) {
            (Some((value, _)), Some(size)) => *value = SettingValue::Count(size),
            _ => {
                settings.values.remove(key);
            }
        }
    }
}

fn config_of(root: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(root.join("config.json")).ok()?).ok()
}

fn size_of(config: &Value, key: &str) -> Option<u64> {
    let (_, names) = FIELDS.iter().find(|(own, _)| *own == key)?;
    names.iter().find_map(|name| config[*name].as_u64())
}

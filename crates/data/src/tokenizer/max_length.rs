//! The most tokens of a text, as `tokenizer_config.json` and `tokenizer.json` say it to transformers.

use std::path::Path;

use lessen_base::Result;
use serde_json::{Value, json};

use super::{CONFIG, TOKENIZER, Tokenizer};
use crate::vocabulary;

/// The field of `tokenizer_config.json`, and its older spelling.
const FIELD: &str = "model_max_length";
const OLD_FIELD: &str = "max_len";

/// Larger numbers stand for no limit, as transformers writes them.
const LARGEST: u64 = i32::MAX as u64;

impl Tokenizer {
    /// The most tokens of a text that the `tokenizer_config.json` of a folder names; none where it names none, or so
    /// large a number that it stands for no limit.
    ///
    /// # Errors
    /// A damaged file.
    pub fn max_length_in(dir: &Path) -> Result<Option<usize>> {
        let path = dir.join(CONFIG);
        if !path.exists() {
            return Ok(None);
        }
        let config = vocabulary::read_object(&path)?;
        let named = [FIELD, OLD_FIELD].iter().find_map(|field| config[field].as_u64());
        Ok(named
            .filter(|most| (1..=LARGEST).contains(most))
            .map(|most| most as usize))
    }

    /// The files of the tokenizer with this most tokens of a text. A file that says so already keeps its bytes.
    pub(super) fn files_for(&self, max_length: usize) -> Vec<(&'static str, Vec<u8>)> {
        let mut files = self.files.clone();
        if !files.iter().any(|(name, _)| *name == CONFIG) {
            files.push((CONFIG, b"{}".to_vec()));
        }
        for (name, bytes) in &mut files {
            // Most files of vocabularies have no truncation, and need not be parsed.
            let is_concerned = *name == CONFIG || (*name == TOKENIZER && names_max_length(bytes));
            let Some(mut json) = is_concerned
                .then(|| serde_json::from_slice::<Value>(bytes).ok())
                .flatten()
            else {
                continue;
            };
            let place = match *name {
                CONFIG => json.as_object_mut().map(|config| {
                    config.remove(OLD_FIELD);
                    config.entry(FIELD).or_insert(Value::Null)
                }),
                TOKENIZER => json
                    .get_mut("truncation")
                    .and_then(|truncation| truncation.get_mut("max_length")),
                _ => None,
            };
            if let Some(place) = place.filter(|place| place.as_u64() != Some(max_length as u64)) {
                *place = json!(max_length);
                *bytes = serde_json::to_vec_pretty(&json).unwrap_or_default();
            }
        }
        files
    }
}

/// Whether a `tokenizer.json` may have a truncation.
fn names_max_length(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"\"max_length\"";
    bytes.windows(NAME.len()).any(|part| part == NAME)
}

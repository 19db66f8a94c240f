//! `generation_config.json` of a language model: how it is to continue texts unless the user says otherwise.

use lessen_base::{Error, Result, atomic};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Fields, Model};
use lessen_train::Sampling;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The name of the file.
const FILE: &str = "generation_config.json";

/// Fields of `config.json` that the file has too.
const TOKENS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// The fields of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct GenerationConfig {
    map: Map<String, Value>,
    /// `max_new_tokens`.
    pub tokens: Option<usize>,
    /// `temperature`; 0 where `do_sample` is false, and 1 where it is true and nothing else is said.
    pub temperature: Option<f64>,
    /// `top_k`; 0 is none.
    pub top_k: Option<usize>,
    /// `top_p`; 1 is none.
    pub top_p: Option<f64>,
    /// `repetition_penalty`.
    pub repetition_penalty: Option<f64>,
    /// The tokens of `eos_token_id`, one or a list, that end a text.
    pub ends: Option<Vec<i32>>,
}

impl GenerationConfig {
    /// Reads the file of a folder, or of the model that adapters in it belong to; none where there is no file.
    ///
    /// # Errors
    /// A damaged file, and a field of another kind or out of range.
    pub fn read(folder: ModelFolder<'_>) -> Result<Option<GenerationConfig>> {
        let own = folder.path().join(FILE);
        if own.exists() {
            return GenerationConfig::of_file(&own).map(Some);
        }
        // A base model that is not there is missed where it is needed.
        let base = folder.base().ok().flatten().map(|base| base.join(FILE));
        base.filter(|path| path.exists())
            .map(|path| GenerationConfig::of_file(&path))
            .transpose()
    }

    /// The configuration of a language model without a file: the special tokens of its `config.json`.
    pub fn of(model: &Model) -> GenerationConfig {
        let config = model.config_json();
        let known = |field: &&str| config.get(*field).is_some_and(|value| !value.is_null());
        let tokens = TOKENS.into_iter().filter(known);
        GenerationConfig {
            map: tokens.map(|field| (field.to_string(), config[field].clone())).collect(),
            tokens: None,
            temperature: None,
            top_k: None,
            top_p: None,
            repetition_penalty: None,
            ends: None,
        }
    }

    fn of_file(path: &Path) -> Result<GenerationConfig> {
        let fields = Fields::read(path)?;
        let number = |field: &str| -> Result<Option<f64>> {
            let value = fields.get(field);
            let wrong = || fields.error(field, "must be a number");
            value.map(|value| value.as_f64().ok_or_else(wrong)).transpose()
        };
        let count = |field: &str| -> Result<Option<usize>> {
            let value = fields.get(field);
            let wrong = || fields.error(field, "must be a whole number, at least 0");
            let count = |value: &Value| usize::try_from(value.as_u64()?).ok();
            value.map(|value| count(value).ok_or_else(wrong)).transpose()
        };
        let temperature = match fields
            .get("do_sample")
            .map(|_| fields.switch_or("do_sample", false))
            .transpose()?
        {
            Some(false) => Some(0.0),
            Some(true) => Some(number("temperature")?.unwrap_or(1.0)),
            None => number("temperature")?,
        };
        let ends = fields.get("eos_token_id").map(|value| {
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let ids = list.iter().map(|id| i32::try_from(id.as_i64()?).ok());
            let ids: Option<Vec<i32>> = ids.collect();
            ids.ok_or_else(|| fields.error("eos_token_id", "must be the number of a token, or a list of them"))
        });
        let config = GenerationConfig {
            tokens: count("max_new_tokens")?,
            temperature,
            top_k: count("top_k")?.filter(|top_k| *top_k > 0),
            top_p: number("top_p")?.filter(|top_p| *top_p != 1.0),
            repetition_penalty: number("repetition_penalty")?,
            ends: ends.transpose()?,
            map: fields.into_map(),
        };
        let shown = path.display();
        match config.over(Sampling::default()).check() {
            Ok(()) => Ok(config),
            Err(error) => Err(Error::user(format!("{shown}: {}", error.message().replace('-', "_")))),
        }
    }

    /// The fields of the file over the defaults `rest`.
    pub fn over(&self, rest: Sampling) -> Sampling {
        Sampling {
            tokens: self.tokens.unwrap_or(rest.tokens),
            temperature: self.temperature.unwrap_or(rest.temperature),
            top_k: self.top_k.or(rest.top_k),
            top_p: self.top_p.or(rest.top_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(rest.repetition_penalty),
            seed: rest.seed,
        }
    }

    /// Writes the file to a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let path: PathBuf = dir.join(FILE);
        let text = serde_json::to_string_pretty(&self.map)
            .map_err(|error| Error::internal(format!("{FILE} cannot be written ({error})")))?;
        atomic::write_file(&path, format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(text: &str) -> Result<GenerationConfig> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        GenerationConfig::read(dir.path().into()).map(Option::unwrap)
    }

    #[test]
    fn a_file_says_how_texts_are_continued() {
        let text = r#"{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 0, "eos_token_id": [5, 7],
                       "max_new_tokens": 30, "repetition_penalty": 1.1, "transformers_version": "4.40.0"}"#;
        let config = read(text).unwrap();
        let expected = Sampling {
            tokens: 30,
            temperature: 0.6,
            top_k: Some(3),
            top_p: Some(0.9),
            repetition_penalty: 1.1,
            seed: 4,
        };
        let rest = Sampling {
            top_k: Some(3),
            seed: 4,
            ..Sampling::default()
        };
        assert_eq!((config.over(rest), config.ends.clone()), (expected, Some(vec![5, 7])));
        let dir = tempfile::tempdir().unwrap();
        config.save(dir.path()).unwrap();
        assert_eq!(GenerationConfig::read(dir.path().into()), Ok(Some(config)));
    }

    #[test]
    fn sampling_decides_the_temperature() {
        let temperature = |text: &str| read(text).unwrap().temperature;
        assert_eq!(temperature(r#"{"do_sample": false, "temperature": 0.6}"#), Some(0.0));
        assert_eq!(temperature(r#"{"do_sample": true}"#), Some(1.0));
        assert_eq!(temperature(r#"{"temperature": 0.6}"#), Some(0.6));
        assert_eq!(temperature("{}"), None);
        assert_eq!(read(r#"{"eos_token_id": 2}"#).unwrap().ends, Some(vec![2]));
    }

    #[test]
    fn mistakes_name_the_file() {
        for (text, expected) in [
            (r#"{"top_p": 2}"#, "generation_config.json: top_p 2 makes no sense"),
            (r#"{"top_k": "many"}"#, "the field `top_k` must be a whole number"),
            (
                r#"{"eos_token_id": ["a"]}"#,
                "the field `eos_token_id` must be the number of a token",
            ),
            ("[]", "generation_config.json must hold a JSON object"),
        ] {
            let sentence = read(text).unwrap_err().to_string();
            assert!(sentence.contains(expected), "{sentence}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(GenerationConfig::read(dir.path().into()), Ok(None));
    }
}

//! `generation_config.json` of a language model: how it is to continue texts unless the user says otherwise.

pub mod fields;

use self::fields::GENERATION_FIELDS;
use lessen_base::{Error, Result, atomic};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{FieldEffect, Fields, Model, is_empty};
use lessen_train::{Beams, EarlyStopping, Rules, Sampling};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The name of the file.
const FILE: &str = "generation_config.json";

/// Fields of `config.json` that the file has too.
const TOKENS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// Tokens from which transformers draws where the file asks for draws and names no `top_k`.
const DRAWN_FROM: usize = 50;

/// The fields of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct GenerationConfig {
    map: Map<String, Value>,
    /// How each token is chosen, by the fields that the file has.
    sampling: Sampling,
    /// `max_new_tokens`.
    tokens: Option<usize>,
    /// 0 where `do_sample` is false or the file asks for beams, and 1 where it is true and nothing else is said.
    temperature: Option<f64>,
    /// The tokens of `eos_token_id`, one or a list, that end a text; without tokens where it is `null`, as in
    /// transformers, and none where the file leaves it to `config.json`.
    pub ends: Option<Vec<i32>>,
    /// `stop_strings`, after which a text ends.
    pub stops: Vec<String>,
    /// The fields that are not followed.
    pub not_followed: Vec<String>,
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
            sampling: Sampling::default(),
            tokens: None,
            temperature: None,
            ends: None,
            stops: Vec::new(),
            not_followed: Vec::new(),
        }
    }

    fn of_file(path: &Path) -> Result<GenerationConfig> {
        let fields = Fields::read(path)?;
        let read = Reading(&fields);
        let is_sampled = fields.get("do_sample").map(|_| fields.switch_or("do_sample", false));
        let is_sampled = is_sampled.transpose()?;
        let beams = read.beams()?;
        let temperature = match is_sampled {
            _ if beams.is_some() => Some(0.0),
            Some(false) => Some(0.0),
            Some(true) => Some(read.number("temperature")?.unwrap_or(1.0)),
            None => read.number("temperature")?,
        };
        let top_k = match (read.count("top_k")?, is_sampled) {
            (None, Some(true)) => Some(DRAWN_FROM),
            (top_k, _) => top_k.filter(|top_k| *top_k > 0),
        };
        let tokens = read.count("max_new_tokens")?;
        let max_length = read.count("max_length")?.filter(|_| tokens.is_none());
        let share = |field: &str, none: f64| Ok::<_, Error>(read.number(field)?.filter(|share| *share != none));
        let mut not_followed = read.not_followed();
        if beams.is_some() && is_sampled == Some(true) {
            not_followed.push("do_sample".to_string());
        }
        let names_ends = fields.all().any(|(field, _)| field == "eos_token_id");
        let ends = names_ends.then(|| read.tokens("eos_token_id")).transpose()?;
        let config = GenerationConfig {
            sampling: Sampling {
                tokens: max_length.unwrap_or_default(),
                max_length,
                temperature: temperature.unwrap_or_default(),
                top_k,
                top_p: share("top_p", 1.0)?,
                min_p: share("min_p", 0.0)?,
                top_h: share("top_h", 1.0)?,
                typical_p: share("typical_p", 1.0)?,
                epsilon_cutoff: share("epsilon_cutoff", 0.0)?,
                eta_cutoff: share("eta_cutoff", 0.0)?,
                beams,
                renormalize: fields.switch_or("renormalize_logits", false)?,
                rules: read.rules()?,
                seed: 0,
            },
            tokens,
            temperature,
            ends,
            stops: read.texts("stop_strings")?,
            not_followed,
            map: fields.into_map(),
        };
        let shown = path.display();
        match config.sampling.check() {
            Ok(()) => Ok(config),
            Err(error) => Err(Error::user(format!("{shown}: {}", error.message().replace('-', "_")))),
        }
    }

    /// The fields of the file over the defaults `rest`.
    pub fn over(&self, rest: Sampling) -> Sampling {
        let own = self.sampling.clone();
        Sampling {
            tokens: self.tokens.or(own.max_length).unwrap_or(rest.tokens),
            temperature: self.temperature.unwrap_or(rest.temperature),
            top_k: own.top_k.or(rest.top_k),
            top_p: own.top_p.or(rest.top_p),
            min_p: own.min_p.or(rest.min_p),
            seed: rest.seed,
            ..own
        }
    }

    /// Writes the file to a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let path: PathBuf = dir.join(FILE);
        let text = serde_json::to_string_pretty(&self.map)
            .map_err(|error| Error::internal(format!("{FILE} cannot be written ({error})")))?;
        atomic::write_file(&path, format!("{text}\n").as_bytes())
    }
}

/// The fields of a file by their types.
struct Reading<'a>(&'a Fields);

impl Reading<'_> {
    fn number(&self, field: &str) -> Result<Option<f64>> {
        let wrong = || self.0.error(field, "must be a number");
        let value = self.0.get(field);
        value.map(|value| value.as_f64().ok_or_else(wrong)).transpose()
    }

    fn count(&self, field: &str) -> Result<Option<usize>> {
        let wrong = || self.0.error(field, "must be a whole number, at least 0");
        let count = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let value = self.0.get(field);
        value.map(|value| count(value).ok_or_else(wrong)).transpose()
    }

    /// A token or a list of tokens; none where the field is missing.
    fn tokens(&self, field: &str) -> Result<Vec<i32>> {
        let what = "must be the number of a token, or a list of them";
        let Some(value) = self.0.get(field) else {
            return Ok(Vec::new());
        };
        tokens_of(value).ok_or_else(|| self.0.error(field, what))
    }

    /// A text or a list of texts; none where the field is missing.
    fn texts(&self, field: &str) -> Result<Vec<String>> {
        let what = "must be a text that is not empty, or a list of them";
        let Some(value) = self.0.get(field) else {
            return Ok(Vec::new());
        };
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_string);
        let texts: Option<Vec<String>> = list.iter().map(text).collect();
        texts.ok_or_else(|| self.0.error(field, what))
    }

    /// The elements of a list; none where the field is missing.
    fn list<T>(&self, field: &str, what: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
        let Some(value) = self.0.get(field) else {
            return Ok(Vec::new());
        };
        let list = value.as_array().and_then(|list| list.iter().map(of).collect());
        list.ok_or_else(|| self.0.error(field, what))
    }

    fn beams(&self) -> Result<Option<Beams>> {
        let wrong = |value: &Value| {
            let what = format!("must be true, false or \"never\", it is {value}");
            self.0.error("early_stopping", what)
        };
        let early_stopping = match self.0.get("early_stopping") {
            None | Some(Value::Bool(false)) => EarlyStopping::Unlikely,
            Some(Value::Bool(true)) => EarlyStopping::Complete,
            Some(Value::String(word)) if word == "never" => EarlyStopping::Never,
            Some(value) => return Err(wrong(value)),
        };
        let length_penalty = self.number("length_penalty")?.unwrap_or(1.0);
        let beams = |count| Beams {
            count,
            length_penalty,
            early_stopping,
        };
        Ok(self.count("num_beams")?.filter(|count| *count != 1).map(beams))
    }

    fn rules(&self) -> Result<Rules> {
        let sequences = "must be a list of lists of tokens";
        let biases = "must be a list of pairs: a list of tokens, and a number";
        let decay = "must be a list of a whole number and a number";
        let pair = |value: &Value| Some((tokens_of(value.get(0)?)?, value.get(1)?.as_f64()?));
        let start = |value: &Value| Some((usize::try_from(value.get(0)?.as_u64()?).ok()?, value.get(1)?.as_f64()?));
        let min_tokens = self.count("min_new_tokens")?;
        let field = "exponential_decay_length_penalty";
        let of_decay = |value| start(value).ok_or_else(|| self.0.error(field, decay));
        Ok(Rules {
            sequence_bias: self.list("sequence_bias", biases, pair)?,
            repetition_penalty: self.number("repetition_penalty")?.unwrap_or(1.0),
            no_repeat_ngram: self.count("no_repeat_ngram_size")?.unwrap_or(0),
            bad_words: self.list("bad_words_ids", sequences, tokens_of)?,
            min_length: self.count("min_length")?.filter(|_| min_tokens.is_none()).unwrap_or(0),
            min_tokens: min_tokens.unwrap_or(0),
            forced_first: self.tokens("forced_bos_token_id")?.first().copied(),
            forced_last: self.tokens("forced_eos_token_id")?,
            remove_invalid: self.0.switch_or("remove_invalid_values", false)?,
            decay: self.0.get(field).map(of_decay).transpose()?,
            suppressed: self.tokens("suppress_tokens")?,
            suppressed_first: self.tokens("begin_suppress_tokens")?,
            ..Rules::default()
        })
    }

    /// The fields that change what is generated and are not followed.
    fn not_followed(&self) -> Vec<String> {
        let is_neutral = |field: &str, value: &Value| {
            let known = GENERATION_FIELDS.iter().find(|(name, _)| *name == field);
            match known {
                Some((_, FieldEffect::Named(neutral))) => {
                    let neutral: Option<f64> = neutral.parse().ok();
                    is_empty(value) || (neutral.is_some() && value.as_f64() == neutral)
                }
                Some(_) => true,
                None => is_empty(value),
            }
        };
        let named = self.0.all().filter(|(field, value)| !is_neutral(field, value));
        named.map(|(field, _)| field.to_string()).collect()
    }
}

/// The tokens of a value: one, or a list.
fn tokens_of(value: &Value) -> Option<Vec<i32>> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().map(|id| i32::try_from(id.as_i64()?).ok()).collect()
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
            rules: Rules {
                repetition_penalty: 1.1,
                ..Rules::default()
            },
            seed: 4,
            ..Sampling::default()
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
    }

    #[test]
    fn tokens_that_end_texts_are_one_or_several_or_none_or_those_of_the_model() {
        let ends = |text: &str| read(text).unwrap().ends;
        assert_eq!(ends(r#"{"eos_token_id": 2}"#), Some(vec![2]));
        assert_eq!(ends(r#"{"eos_token_id": [2, 7]}"#), Some(vec![2, 7]));
        assert_eq!(ends(r#"{"eos_token_id": []}"#), Some(Vec::new()));
        assert_eq!(ends(r#"{"eos_token_id": null}"#), Some(Vec::new()));
        assert_eq!(ends("{}"), None);
        // Any other field may be null, which is as if it were not there.
        let fields = [
            "do_sample",
            "temperature",
            "top_k",
            "max_length",
            "stop_strings",
            "num_beams",
            "early_stopping",
        ];
        for field in fields {
            let text = format!(r#"{{"{field}": null}}"#);
            let (found, plain) = (read(&text).unwrap(), read("{}").unwrap());
            let ways = |config: &GenerationConfig| (config.over(Sampling::default()), config.stops.clone());
            assert_eq!(ways(&found), ways(&plain), "{field}");
            assert_eq!((found.temperature, found.not_followed), (None, Vec::new()), "{field}");
        }
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

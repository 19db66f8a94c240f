//! The special tokens of a tokenizer: their ids, and the ones around texts.

use lessen_base::{Error, Result};
use tokenizers::{Encoding, Token};

use super::{Tokenizer, ids_of, not_encoded};

/// The special tokens that a tokenizer puts around a pair of texts, and the token types of the pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AroundPair {
    /// Before the first text.
    pub(crate) before: Vec<i32>,
    /// Between the two.
    pub(crate) between: Vec<i32>,
    /// After the second one.
    pub(crate) after: Vec<i32>,
    /// The types of `before`, the first text, `between`, the second text, and `after`.
    pub(crate) types: [Vec<i32>; 5],
}

impl AroundPair {
    /// The number of special tokens.
    pub(crate) fn len(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }
}

impl Tokenizer {
    /// Returns the padding id: that of `pad_token`, or else of `<|endoftext|>`, or else 0.
    pub fn pad_id(&self) -> i32 {
        self.pad
    }

    /// Returns the id of the mask token: that of `mask_token`, or else of `[MASK]` or `<mask>`.
    pub fn mask_id(&self) -> Option<i32> {
        self.mask
    }

    /// Returns the special tokens that it puts before and after a single text.
    ///
    /// # Errors
    /// A template that cannot be applied.
    pub fn around_a_text(&self) -> Result<(Vec<i32>, Vec<i32>)> {
        let text = Encoding::from_tokens(vec![Token::new(0, String::new(), (0, 0))], 0);
        let whole = self.inner.post_process(text, None, true).map_err(not_encoded)?;
        let (ids, special) = (ids_of(&whole), whole.get_special_tokens_mask());
        let before = special.iter().take_while(|&&special| special == 1).count();
        Ok((
            ids[..before].to_vec(),
            ids.get(before + 1..).unwrap_or_default().to_vec(),
        ))
    }

    /// The special tokens that it puts around a pair of texts, the first before the second.
    ///
    /// # Errors
    /// A template that cannot be applied, or has the texts in another order.
    pub(crate) fn around_a_pair(&self) -> Result<AroundPair> {
        let text = |id, kind| {
            let mut text = Encoding::from_tokens(vec![Token::new(id, String::new(), (0, 0))], kind);
            text.set_type_ids(vec![kind]);
            text
        };
        let whole = self
            .inner
            .post_process(text(0, 0), Some(text(1, 1)), true)
            .map_err(not_encoded)?;
        let special = whole.get_special_tokens_mask();
        let places: Vec<usize> = (0..special.len()).filter(|&place| special[place] == 0).collect();
        let ids = ids_of(&whole);
        let &[first, second] = &places[..] else {
            return Err(unusable());
        };
        if (ids[first], ids[second]) != (0, 1) {
            return Err(unusable());
        }
        let types: Vec<i32> = whole.get_type_ids().iter().map(|&kind| kind as i32).collect();
        let parts = [
            0..first,
            first..first + 1,
            first + 1..second,
            second..second + 1,
            second + 1..ids.len(),
        ];
        Ok(AroundPair {
            before: ids[..first].to_vec(),
            between: ids[first + 1..second].to_vec(),
            after: ids[second + 1..].to_vec(),
            types: parts.map(|part| types[part].to_vec()),
        })
    }

    /// Returns the id that stands for what the vocabulary does not have; `None` if it can write everything, as
    /// byte-level BPE.
    pub fn unknown_id(&self) -> Option<i32> {
        self.unknown
    }

    /// Returns the id of the token that ends a text: that of `eos_token`, or else of `<|endoftext|>`, `</s>` or
    /// `<|end_of_text|>`.
    pub fn end_id(&self) -> Option<i32> {
        self.end
    }

    /// Returns the id of the token that it puts before every text, if that is its `bos_token`.
    pub fn begin_id(&self) -> Option<i32> {
        self.begin
    }

    /// Encodes a text that a language model is to continue: where the tokenizer puts a token before texts, the text
    /// begins with it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<i32>> {
        let ids = self.encode(text)?;
        let begin = self.begin.filter(|begin| ids.first() != Some(begin));
        Ok(begin.into_iter().chain(ids).collect())
    }
}

fn unusable() -> Error {
    Error::user(
        "the tokenizer's template does not put a text before its pair; use the tokenizer that belongs to the model",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;

    /// A tokenizer of two characters with the special tokens of Llama, as its folder describes it.
    fn llama(template: &Value, config: &Value) -> Tokenizer {
        let dir = tempfile::tempdir().unwrap();
        let special = ["<unk>", "<s>", "</s>"];
        let added = special.iter().enumerate().map(|(id, token)| {
            json!({ "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        });
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
            "decoder": null, "post_processor": template, "added_tokens": added.collect::<Vec<_>>(),
            "model": { "type": "BPE", "unk_token": "<unk>", "merges": [],
                       "vocab": { "<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4 } },
        });
        fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
        fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        Tokenizer::from_dir(dir.path()).unwrap()
    }

    /// A template with tokens before and after a text.
    fn template(before: &[&str], after: &[&str]) -> Value {
        let piece = |token: &&str| json!({ "SpecialToken": { "id": token, "type_id": 0 } });
        let text = |id: &str| vec![json!({ "Sequence": { "id": id, "type_id": 0 } })];
        let ends = |middle| -> Vec<Value> {
            let (before, after) = (before.iter().map(piece), after.iter().map(piece));
            before.chain(middle).chain(after).collect()
        };
        json!({
            "type": "TemplateProcessing", "single": ends(text("A")), "pair": ends([text("A"), text("B")].concat()),
            "special_tokens": { "<s>": { "id": "<s>", "ids": [1], "tokens": ["<s>"] },
                                "</s>": { "id": "</s>", "ids": [2], "tokens": ["</s>"] } },
        })
    }

    #[test]
    fn prompts_begin_as_the_template_says() {
        let config = json!({ "bos_token": "<s>", "eos_token": "</s>" });
        let beginning = llama(&template(&["<s>"], &[]), &config);
        assert_eq!((beginning.begin_id(), beginning.end_id()), (Some(1), Some(2)));
        assert_eq!(beginning.encode_prompt("ab").unwrap(), [1, 3, 4]);
        assert_eq!(beginning.encode_prompt("").unwrap(), [1]);
        assert_eq!(beginning.encode_prompt("<s>a").unwrap(), [1, 3], "not twice");
        assert_eq!(beginning.encode("ab").unwrap(), [3, 4]);
        // A text that is to be continued has no end.
        let both = llama(&template(&["<s>"], &["</s>"]), &config);
        assert_eq!(both.encode_prompt("ab").unwrap(), [1, 3, 4]);
        // As in transformers 5, where a tokenizer.json alone decides.
        let flag = json!({ "bos_token": { "content": "<s>" }, "eos_token": "</s>", "add_bos_token": true });
        assert_eq!(llama(&Value::Null, &flag).encode_prompt("ab").unwrap(), [3, 4]);
        let flag = json!({ "bos_token": { "content": "<s>" }, "eos_token": "</s>", "add_bos_token": false });
        assert_eq!(
            llama(&template(&["<s>"], &[]), &flag).encode_prompt("ab").unwrap(),
            [1, 3, 4]
        );
        // What stands before texts is no beginning if it is another token.
        let other = llama(&template(&["</s>"], &[]), &config);
        assert_eq!(other.encode_prompt("ab").unwrap(), [3, 4]);
    }

    #[test]
    fn vocabulary_files_begin_texts_where_their_config_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("vocab.json", r#"{"a":0,"b":1,"ab":2,"<|endoftext|>":3}"#);
        write("merges.txt", "#version: 0.2\na b\n");
        let prompt = || Tokenizer::from_dir(dir.path()).unwrap().encode_prompt("ab").unwrap();
        assert_eq!(prompt(), [2]);
        let roles = r#""bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>""#;
        write(
            "tokenizer_config.json",
            &format!("{{{roles}, \"add_bos_token\": true}}"),
        );
        assert_eq!(prompt(), [3, 2]);
        let saved = dir.path().join("saved");
        Tokenizer::from_dir(dir.path()).unwrap().save(&saved).unwrap();
        assert_eq!(
            Tokenizer::from_dir(&saved).unwrap().encode_prompt("ab").unwrap(),
            [3, 2]
        );
        write(
            "tokenizer_config.json",
            &format!("{{{roles}, \"add_bos_token\": false}}"),
        );
        assert_eq!(prompt(), [2]);
    }
}

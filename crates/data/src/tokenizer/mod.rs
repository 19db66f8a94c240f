//! Tokenizers: text to token ids and back.

mod added;
mod chat_files;
mod class;
mod decoding;
mod detokenizer;
mod learned;
mod max_length;
mod shortcut;
mod spans;
mod special;
mod stop_strings;
mod text_stream;
mod words;

use std::path::Path;

use crc32c::crc32c_append;
use lessen_base::{Error, Result, atomic};
use serde_json::Value;
use tokenizers::utils::truncation::{TruncationDirection, TruncationParams, truncate_encodings};
use tokenizers::{Encoding, PostProcessor};

use crate::files::{make_folder, read_text};
use crate::parallel::in_parallel;
use crate::vocabulary::{self, BERT_MASK, Description, END_OF_TEXT, PAD, ROBERTA_MASK, UNKNOWN};
pub(crate) use special::AroundPair;
pub use stop_strings::StopStrings;
pub use text_stream::TextStream;
pub(crate) use words::WordIds;

use added::{ADDED, Beside, ROLES};
use chat_files::ChatFiles;
use shortcut::{Shortcut, pieces};

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
/// Files of a Hugging Face folder that `save` writes as `from_dir` read them.
const KEPT: [&str; 5] = ["vocab.txt", "vocab.json", "merges.txt", ADDED, ROLES];

/// Size in bytes of the pieces in which long texts are encoded; see [`Shortcut::Pieces`].
const PIECE: usize = 64 * 1024;

/// Size in bytes from which a text is encoded in parts by every tokenizer; see [`Tokenizer::last_cut`].
const LINES: usize = 16 << 20;

/// A Hugging Face tokenizer, one with a token per character, or one that was learned from texts.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    shortcut: Shortcut,
    vocab_size: usize,
    pad: i32,
    mask: Option<i32>,
    unknown: Option<i32>,
    end: Option<i32>,
    /// The token that it puts before a text of a language model.
    begin: Option<i32>,
    /// Whether texts that are too long lose their beginning.
    cuts_left: bool,
    /// Names and contents of the files that `save` writes.
    files: Vec<(&'static str, Vec<u8>)>,
    /// The chat templates that `save` writes, too.
    chat: ChatFiles,
}

impl Tokenizer {
    /// Whether a folder has the files of a tokenizer.
    pub fn is_in(dir: &Path) -> bool {
        [TOKENIZER, "vocab.txt", "vocab.json"]
            .iter()
            .any(|name| dir.join(name).exists())
    }

    /// Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, changed as `tokenizer_config.json` says, or else
    /// `vocab.txt` (WordPiece of BERT or MPNet, lower case unless `tokenizer_config.json` says otherwise), or else
    /// `vocab.json` and `merges.txt` (byte-level BPE of GPT-2 or RoBERTa). The latter two are extended by
    /// `added_tokens.json` and `added_tokens_decoder` in `tokenizer_config.json`.
    ///
    /// # Errors
    /// A folder without these files; files that are damaged or inconsistent.
    pub fn from_dir(dir: &Path) -> Result<Tokenizer> {
        let has = |name: &str| dir.join(name).exists();
        let config = if has(CONFIG) {
            vocabulary::read_object(&dir.join(CONFIG))?
        } else {
            Value::Null
        };
        let mut kept = Vec::new();
        for name in [TOKENIZER, CONFIG].into_iter().chain(KEPT).filter(|name| has(name)) {
            kept.push((name, read_text(&dir.join(name))?.into_bytes()));
        }
        let beside = Beside::read(dir)?;
        let mut description = if has(TOKENIZER) {
            let mut tokenizer = vocabulary::read_json(&dir.join(TOKENIZER))?;
            class::apply(&mut tokenizer, &config, beside.roles(), dir)?;
            Description { tokenizer, config }
        } else if has("vocab.txt") {
            overlay(vocabulary::word_piece(&dir.join("vocab.txt"), &config)?, config)
        } else if has("vocab.json") {
            let (vocab, merges) = (dir.join("vocab.json"), dir.join("merges.txt"));
            let is_whole = |token: &str| beside.lists(token, &config);
            overlay(vocabulary::byte_pairs(&vocab, &merges, &config, is_whole)?, config)
        } else {
            return Err(Error::user(format!(
                "there is no tokenizer in {}; add tokenizer.json, or vocab.txt, or vocab.json and merges.txt",
                dir.display()
            )));
        };
        let added = if has(TOKENIZER) {
            vec![]
        } else {
            beside.add_to(&mut description.tokenizer, &description.config, dir)?
        };
        beside.name_padding(&mut description.config);
        let tokenizer = Tokenizer::new(description, kept, dir)?;
        // The library assigns ids to added tokens itself, counting on from the vocabulary.
        let own = |token: &str| tokenizer.inner.token_to_id(token).map(u64::from);
        match added.into_iter().find(|(token, id)| own(token) != Some(*id)) {
            Some((token, id)) => Err(Error::user(format!(
                "{} gives the added token {token} the id {id}, which is not the next one after its vocabulary; \
                 restore its files",
                dir.display()
            ))),
            None => Ok(Tokenizer {
                chat: ChatFiles::read(dir)?,
                ..tokenizer
            }),
        }
    }

    /// Builds a tokenizer with a token for each character that occurs at least `min_count` times in the texts: id 0 is
    /// padding, 1 unknown, then the characters by code point. It adds no special tokens to a text.
    pub fn characters<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, min_count: usize) -> Tokenizer {
        Tokenizer::of_characters(vocabulary::characters(texts, min_count, &[PAD, UNKNOWN]))
    }

    /// The same with a token for the end of a text, id 2.
    pub fn characters_of_documents<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, min_count: usize) -> Tokenizer {
        Tokenizer::of_characters(vocabulary::characters(texts, min_count, &[PAD, UNKNOWN, END_OF_TEXT]))
    }

    /// Builds a tokenizer of characters, as [`Tokenizer::characters`] does, for a masked language model: ids 0 to 4 are
    /// the special tokens of BERT, which it puts around texts.
    pub fn marked_characters<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, min_count: usize) -> Tokenizer {
        Tokenizer::of_characters(vocabulary::marked_characters(texts, min_count))
    }

    fn of_characters(description: Description) -> Tokenizer {
        Tokenizer::new(description, vec![], Path::new("a vocabulary of characters"))
            .expect("a description of our own making is valid")
    }

    fn new(description: Description, kept: Vec<(&'static str, Vec<u8>)>, place: &Path) -> Result<Tokenizer> {
        let Description {
            tokenizer: json,
            config,
        } = description;
        let mut files = kept;
        for (name, value) in [(TOKENIZER, &json), (CONFIG, &config)] {
            if !value.is_null() && !files.iter().any(|(file, _)| *file == name) {
                files.push((name, value.to_string().into_bytes()));
            }
        }
        let (splits_special, cuts_left) = (
            class::splits_special(&config, place)?,
            class::cuts_left(&config, place)?,
        );
        let shortcut = if splits_special {
            Shortcut::None
        } else {
            Shortcut::of(&json)
        };
        if let Some(token) = undefined_special(&json["post_processor"]) {
            return Err(Error::user(format!(
                "the template in {TOKENIZER} of {} names {token} without its ids; restore the file",
                place.display()
            )));
        }
        let invalid = |error: tokenizers::Error| {
            Error::user(format!(
                "the tokenizer of {} is not valid ({error}); restore its files",
                place.display()
            ))
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(json.to_string()).map_err(invalid)?;
        // Padding and truncation belong to the caller; the file may hold the caller's settings of its last use.
        inner.set_encode_special_tokens(splits_special);
        inner.with_padding(None);
        inner.with_truncation(None).map_err(invalid)?;
        let largest = inner.get_vocab(true).values().copied().max();
        let vocab_size = largest.map_or(0, |id| id as usize + 1);
        if vocab_size == 0 || vocab_size > i32::MAX as usize {
            let place = place.display();
            return Err(Error::user(format!(
                "the tokenizer of {place} has no usable vocabulary; restore its files"
            )));
        }
        let named = added::content(&config["pad_token"]);
        let candidates = named.into_iter().chain([PAD, "<pad>", "<|pad|>", END_OF_TEXT]);
        let pad = candidates
            .filter_map(|token| inner.token_to_id(token))
            .next()
            .unwrap_or(0) as i32;
        let named = added::content(&config["mask_token"]);
        let mut candidates = named.into_iter().chain([BERT_MASK, ROBERTA_MASK]);
        let mask = candidates.find_map(|token| inner.token_to_id(token));
        let unknown = json["model"]["unk_token"].as_str();
        let unknown = unknown.and_then(|token| inner.token_to_id(token)).map(|id| id as i32);
        let named = added::content(&config["eos_token"]);
        let candidates = named.into_iter().chain([END_OF_TEXT, "</s>", "<|end_of_text|>"]);
        let end = candidates.filter_map(|token| inner.token_to_id(token)).next();
        let tokenizer = Tokenizer {
            inner,
            shortcut,
            vocab_size,
            pad,
            mask: mask.map(|id| id as i32),
            unknown,
            end: end.map(|id| id as i32),
            begin: None,
            cuts_left,
            files,
            chat: ChatFiles::default(),
        };
        let named = added::content(&config["bos_token"]).and_then(|token| tokenizer.inner.token_to_id(token));
        let (before, _) = tokenizer.around_a_text()?;
        let begin = named.map(|id| id as i32).filter(|id| before.first() == Some(id));
        let tokenizer = Tokenizer { begin, ..tokenizer };
        for second in [None, Some("")] {
            let (special, _) = tokenizer.encode_pair("", second, usize::MAX)?;
            if let Some(id) = special.into_iter().find(|&id| id < 0 || id as usize >= vocab_size) {
                return Err(Error::user(format!(
                    "the tokenizer of {} puts the token {id} around a text, but its vocabulary ends at {}; \
                     restore its files",
                    place.display(),
                    vocab_size - 1
                )));
            }
        }
        Ok(tokenizer)
    }

    /// Encodes a text without adding special tokens.
    ///
    /// # Errors
    /// A text with unknown words, if the vocabulary has no unknown token.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>> {
        match &self.shortcut {
            Shortcut::Characters(characters) => {
                if let Some(ids) = characters.encode(text, usize::MAX) {
                    return Ok(ids);
                }
            }
            Shortcut::Pieces => {
                let pieces: Vec<&str> = pieces(text, PIECE).collect();
                let encoded = in_parallel(&pieces, |piece| Ok(ids_of(&self.encoding(piece)?)))?;
                return Ok(encoded.concat());
            }
            Shortcut::None | Shortcut::Words => {}
        }
        Ok(ids_of(&self.encoding(text)?))
    }

    /// Returns the last place at which a text that goes on can be cut so that the ids of the parts are those of the
    /// whole; 0 where there is none. A tokenizer that may join anything is given the lines of a text in parts of at
    /// least 16 MiB.
    pub(crate) fn last_cut(&self, text: &str) -> usize {
        let between_words = || {
            let is_cut = |at: &usize| {
                text[..*at]
                    .chars()
                    .next_back()
                    .is_some_and(|before| !before.is_whitespace())
            };
            text.rmatch_indices([' ', '\n'])
                .map(|(at, _)| at)
                .find(is_cut)
                .unwrap_or(0)
        };
        match &self.shortcut {
            Shortcut::Characters(characters) if !characters.has_spaces() => between_words(),
            Shortcut::Pieces => between_words(),
            _ if text.len() < LINES => 0,
            _ => text.rfind('\n').map_or(0, |at| at + 1),
        }
    }

    /// Encodes a text or a pair with special tokens, truncated to `max_length`; returns token ids and token types. The
    /// longer text of a pair is truncated first, as in transformers.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`]; a `max_length` that leaves no room for text.
    pub fn encode_pair(&self, a: &str, b: Option<&str>, max_length: usize) -> Result<(Vec<i32>, Vec<i32>)> {
        self.encode_cut(a, b, max_length).map(|(ids, types, _)| (ids, types))
    }

    /// [`Tokenizer::encode_pair`], and whether tokens were left out.
    pub(crate) fn encode_cut(&self, a: &str, b: Option<&str>, max_length: usize) -> Result<(Vec<i32>, Vec<i32>, bool)> {
        let special = self
            .inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(b.is_some()));
        if max_length <= special {
            return Err(Error::user(format!(
                "a length of {max_length} leaves no room for text beside {special} special tokens; \
                 raise data.max_length"
            )));
        }
        if let (None, Shortcut::Characters(characters), false) = (b, &self.shortcut, self.cuts_left)
            && let Some(ids) = characters.encode(a, max_length)
        {
            let (types, is_cut) = (vec![0; ids.len()], a.chars().nth(max_length).is_some());
            return Ok((ids, types, is_cut));
        }
        let room = TruncationParams {
            max_length: max_length - special,
            direction: if self.cuts_left {
                TruncationDirection::Left
            } else {
                TruncationDirection::Right
            },
            ..TruncationParams::default()
        };
        let (a, mut b) = (self.encoding(a)?, b.map(|b| self.encoding(b)).transpose()?);
        if let Some(b) = &mut b {
            // A tokenizer without a template keeps these token types for the second text.
            b.set_type_ids(vec![1; b.len()]);
        }
        let is_cut = a.len() + b.as_ref().map_or(0, Encoding::len) > room.max_length;
        let whole = truncate_encodings(a, b, &room)
            .and_then(|(a, b)| self.inner.post_process(a, b, true))
            .map_err(not_encoded)?;
        let types = whole.get_type_ids().iter().map(|&id| id as i32).collect();
        Ok((ids_of(&whole), types, is_cut))
    }

    /// [`Tokenizer::encode_pair`] of many single texts, on all cores; in order.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_pair`].
    pub fn encode_all(&self, texts: &[impl AsRef<str> + Sync], max_length: usize) -> Result<Vec<(Vec<i32>, Vec<i32>)>> {
        in_parallel(texts, |text| self.encode_pair(text.as_ref(), None, max_length))
    }

    fn encoding(&self, text: &str) -> Result<Encoding> {
        self.inner.encode_fast(text, false).map_err(not_encoded)
    }

    /// Returns the size of the vocabulary: the largest id plus one.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Whether it has every token of another tokenizer, with the same id.
    pub fn extends(&self, other: &Tokenizer) -> bool {
        let tokens = other.inner.get_vocab(true);
        tokens
            .iter()
            .all(|(token, id)| self.inner.token_to_id(token) == Some(*id))
    }

    /// Whether all tokens from this id on were added to its vocabulary, as transformers' `add_tokens` does.
    pub fn is_extended_from(&self, id: usize) -> bool {
        self.inner.get_vocab(false).values().all(|own| (*own as usize) < id)
    }

    /// Returns a checksum of the files that [`Tokenizer::save`] writes, whatever most tokens of a text they name.
    pub(crate) fn digest(&self) -> u32 {
        let files = self.files_for(0);
        let all = files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes]);
        // Tokens of earlier versions did not follow all fields of tokenizer_config.json.
        all.fold(2, crc32c_append)
    }

    /// Returns the token of an id.
    pub fn token(&self, id: i32) -> Option<String> {
        self.inner.id_to_token(u32::try_from(id).ok()?)
    }

    /// Returns the id of a token.
    pub fn id_of(&self, token: &str) -> Option<i32> {
        self.inner.token_to_id(token).map(|id| id as i32)
    }

    /// Writes `tokenizer.json` and `tokenizer_config.json`, which transformers' `PreTrainedTokenizerFast` and
    /// `AutoTokenizer` load, and the vocabulary files that the tokenizer was read from. Each file is written
    /// atomically.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub fn save(&self, dir: &Path) -> Result<()> {
        write_files(&self.files, dir)?;
        self.chat.save(dir)
    }

    /// The same, with the most tokens of a text where transformers reads it: `model_max_length` in
    /// `tokenizer_config.json`, and the truncation of a `tokenizer.json` that has one.
    ///
    /// # Errors
    /// As [`Tokenizer::save`].
    pub fn save_for(&self, dir: &Path, max_length: usize) -> Result<()> {
        write_files(&self.files_for(max_length), dir)?;
        self.chat.save(dir)
    }
}

fn write_files(files: &[(&'static str, Vec<u8>)], dir: &Path) -> Result<()> {
    make_folder(dir)?;
    let mut files = files.iter();
    files.try_for_each(|(name, bytes)| atomic::write_file(&dir.join(name), bytes))
}

/// Returns a special token that a post-processor's template uses but does not define.
fn undefined_special(processor: &Value) -> Option<&str> {
    let nested = processor["processors"].as_array().into_iter().flatten();
    let pieces = ["single", "pair"]
        .into_iter()
        .filter_map(|template| processor[template].as_array())
        .flatten();
    let used = pieces.filter_map(|piece| piece["SpecialToken"]["id"].as_str());
    let undefined = |token: &&str| processor["special_tokens"].get(token).is_none();
    used.filter(undefined)
        .chain(nested.filter_map(undefined_special))
        .next()
}

/// Replaces the default config of a vocabulary by the folder's own, if it has one.
fn overlay(description: Description, config: Value) -> Description {
    match config {
        Value::Null => description,
        config => Description { config, ..description },
    }
}

fn ids_of(encoding: &Encoding) -> Vec<i32> {
    encoding.get_ids().iter().map(|&id| id as i32).collect()
}

fn not_encoded(error: tokenizers::Error) -> Error {
    Error::user(format!(
        "the tokenizer cannot encode a text ({error}); use one with a token for the unknown"
    ))
}

fn not_decoded(error: tokenizers::Error) -> Error {
    Error::user(format!(
        "the tokenizer cannot decode its ids ({error}); restore its files"
    ))
}

#[cfg(test)]
mod tests;

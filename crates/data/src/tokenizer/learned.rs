//! Vocabularies that are learned from texts: WordPiece and byte-level BPE, by the trainer of the crate `tokenizers`.
//!
//! The trainer breaks ties by the ids of tokens, and gives tokens that continue a word their ids in the order of a
//! hashed map, another one in each process. So it gets these tokens as tokens of their own, in order: the same texts
//! give the same vocabulary.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Trainer,
};

use super::Tokenizer;
use super::words::SPACES;
use crate::parallel::in_parallel;
use crate::vocabulary::{BERT, END_OF_TEXT, describe_byte_pairs, describe_word_piece};

/// The mark of a token that continues a word.
const CONTINUING: &str = "##";

/// Characters of a word from which on WordPiece takes it for unknown.
const LONGEST_WORD: usize = 100;

/// How often two tokens must follow each other to become one.
const LEAST_COUNT: u64 = 2;

/// Bytes of texts that are split into words at once.
const AT_ONCE: usize = 1 << 22;

/// Words that are counted at once; where there are more, the most seldom ones are forgotten.
const MOST_WORDS: usize = 1 << 19;

/// Characters that all counted words have together at most, so that the trainer's counts of pairs fit their `i32`.
const MOST_CHARACTERS: u64 = 1 << 30;

impl Tokenizer {
    /// Learns a WordPiece vocabulary (Schuster and Nakajima 2012) of at most `vocab` tokens from texts, with the words,
    /// the special tokens and the template of BERT. Where characters do not fit into the vocabulary, the most seldom
    /// ones are unknown. With `lower_case`, texts are read in lower case and without accents.
    ///
    /// # Errors
    /// The first text that cannot be read, and a vocabulary without room beside the special tokens.
    pub fn word_piece_of(
        texts: impl IntoIterator<Item = Result<String>>,
        vocab: usize,
        lower_case: bool,
    ) -> Result<Tokenizer> {
        let room = room_beside(vocab, BERT.len())?;
        let normalizer = BertNormalizer::new(true, true, None, lower_case);
        let mut words = counted(texts, Parts::Words, |text| {
            let mut normalized = NormalizedString::from(text);
            normalizer.normalize(&mut normalized)?;
            split(normalized, &BertPreTokenizer)
        })?;
        words.retain(|word, _| word.chars().count() <= LONGEST_WORD);
        keep_frequent_characters(&mut words, room);
        let continuing: BTreeSet<char> = words.keys().flat_map(|word| word.chars().skip(1)).collect();
        let continuing = continuing.iter().map(|character| format!("{CONTINUING}{character}"));
        let first: Vec<String> = BERT.iter().map(|token| token.to_string()).chain(continuing).collect();
        let trainer = BpeTrainer::builder().continuing_subword_prefix(CONTINUING.to_string());
        let model = trained(trainer, first, &words, vocab)?;
        let config = json!({ "do_lower_case": lower_case });
        Tokenizer::learned(describe_word_piece(vocabulary_of(&model), &config))
    }

    /// Learns a byte-level BPE vocabulary (Sennrich, Haddow and Birch 2016; Radford et al. 2019) of at most `vocab`
    /// tokens from texts: all bytes, the end of a text, which is the padding, too, and what is merged. No character is
    /// unknown.
    ///
    /// # Errors
    /// The first text that cannot be read, and a vocabulary without room beside the bytes.
    pub fn byte_pairs_of(texts: impl IntoIterator<Item = Result<String>>, vocab: usize) -> Result<Tokenizer> {
        let bytes = ByteLevel::alphabet();
        room_beside(vocab, bytes.len() + 1)?;
        let byte_level = ByteLevel::new(false, true, true);
        let words = counted(texts, Parts::Whole, |text| {
            split(NormalizedString::from(text), &byte_level)
        })?;
        let trainer = BpeTrainer::builder().initial_alphabet(bytes.into_iter().collect());
        let mut model = trained(trainer, vec![END_OF_TEXT.to_string()], &words, vocab)?;
        let merges = match model["merges"].take() {
            Value::Array(merges) => merges,
            _ => Vec::new(),
        };
        let mut description = describe_byte_pairs(vocabulary_of(&model), merges, &json!({}));
        description.config["pad_token"] = json!(END_OF_TEXT);
        Tokenizer::learned(description)
    }

    fn learned(description: crate::vocabulary::Description) -> Result<Tokenizer> {
        Tokenizer::new(description, vec![], Path::new("a learned vocabulary"))
    }
}

/// The tokens that a vocabulary can have beside some.
fn room_beside(vocab: usize, first: usize) -> Result<usize> {
    match vocab.checked_sub(first) {
        Some(room) if room > 0 => Ok(room),
        _ => Err(Error::user(format!(
            "a learned vocabulary of {vocab} tokens has no room beside the {first} that it always has; raise data.vocab"
        ))),
    }
}

/// The parts of a text whose words do not depend on what stands around them.
#[derive(Clone, Copy)]
enum Parts {
    /// What is between spaces.
    Words,
    /// The text.
    Whole,
}

impl Parts {
    /// The parts of texts in the order of their first places, each with how often it occurs.
    fn of(self, texts: &[String]) -> Vec<(&str, u64)> {
        let mut places = HashMap::new();
        let mut all: Vec<(&str, u64)> = Vec::new();
        let mut add = |part| {
            let place = *places.entry(part).or_insert(all.len());
            match all.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => all.push((part, 1)),
            }
        };
        for text in texts {
            match self {
                Parts::Words => text.split(SPACES).filter(|part| !part.is_empty()).for_each(&mut add),
                Parts::Whole => add(text),
            }
        }
        all
    }
}

/// How often texts have each word. Equal parts are split into words once.
fn counted(
    texts: impl IntoIterator<Item = Result<String>>,
    parts: Parts,
    words: impl Fn(&str) -> tokenizers::Result<Vec<String>> + Sync,
) -> Result<BTreeMap<String, u64>> {
    let mut counts = Counts::default();
    let (mut waiting, mut bytes) = (Vec::new(), 0);
    let mut count = |waiting: &mut Vec<String>| {
        let parts = parts.of(waiting);
        let found = in_parallel(&parts, |(part, _)| words(part).map_err(super::not_encoded))?;
        for (words, (_, count)) in found.into_iter().zip(parts) {
            words.into_iter().for_each(|word| counts.add(word, count));
        }
        waiting.clear();
        Ok(())
    };
    for text in texts {
        let text = text?;
        bytes += text.len();
        waiting.push(text);
        if bytes >= AT_ONCE {
            count(&mut waiting)?;
            bytes = 0;
        }
    }
    count(&mut waiting)?;
    Ok(counts.words.into_iter().collect())
}

/// Words with their counts, of which the most seldom are forgotten where there are too many.
#[derive(Default)]
struct Counts {
    words: HashMap<String, u64>,
    /// The greatest count that was forgotten.
    forgotten: u64,
}

impl Counts {
    fn add(&mut self, word: String, count: u64) {
        *self.words.entry(word).or_default() += count;
        while self.words.len() > MOST_WORDS {
            self.forgotten += 1;
            self.words.retain(|_, count| *count > self.forgotten);
        }
    }
}

/// The words of a text.
fn split(text: NormalizedString, by: &impl PreTokenizer) -> tokenizers::Result<Vec<String>> {
    let mut text = PreTokenizedString::from(text);
    by.pre_tokenize(&mut text)?;
    let words = text.get_splits(OffsetReferential::Normalized, OffsetType::None);
    Ok(words.into_iter().map(|(word, ..)| word.to_string()).collect())
}

/// Leaves out words with characters that do not fit into a vocabulary, the most seldom ones. A character needs a token
/// at the beginning of words, and where words have it later, another one there.
fn keep_frequent_characters(words: &mut BTreeMap<String, u64>, room: usize) {
    let mut characters = BTreeMap::<char, (u64, usize)>::new();
    for (word, count) in words.iter() {
        for (place, character) in word.chars().enumerate() {
            let (sum, tokens) = characters.entry(character).or_insert((0, 1));
            *sum = sum.saturating_add(*count);
            if place > 0 {
                *tokens = 2;
            }
        }
    }
    let mut by_count: Vec<(char, (u64, usize))> = characters.into_iter().collect();
    by_count.sort_by_key(|(character, (count, _))| (std::cmp::Reverse(*count), *character));
    let mut used = 0;
    let unknown: BTreeSet<char> = by_count
        .into_iter()
        .filter(|(_, (_, tokens))| {
            used += tokens;
            used > room
        })
        .map(|(character, _)| character)
        .collect();
    if !unknown.is_empty() {
        words.retain(|word, _| !word.chars().any(|character| unknown.contains(&character)));
    }
}

/// The model that the trainer makes of counted words, as in `tokenizer.json`. The tokens `first` have the first ids.
fn trained(
    trainer: tokenizers::models::bpe::BpeTrainerBuilder,
    first: Vec<String>,
    words: &BTreeMap<String, u64>,
    vocab: usize,
) -> Result<Value> {
    let failed = |error: &dyn std::fmt::Display| Error::internal(format!("no vocabulary was learned: {error}"));
    let first = first.into_iter().map(|token| AddedToken::from(token, true)).collect();
    let trainer = trainer
        .vocab_size(vocab)
        .min_frequency(LEAST_COUNT)
        .show_progress(false)
        .special_tokens(first)
        .build();
    let all = words.iter().fold(0_u64, |sum, (word, count)| {
        sum.saturating_add(count.saturating_mul(word.len() as u64))
    });
    let by = all / MOST_CHARACTERS + 1;
    let counts: Map<String, Value> = words
        .iter()
        .map(|(word, count)| (word.clone(), json!(count.div_ceil(by))))
        .collect();
    // The trainer counts words of texts itself, one by one; counts are one of its fields.
    let mut fields = serde_json::to_value(trainer).map_err(|error| failed(&error))?;
    fields["words"] = Value::Object(counts);
    let trainer: BpeTrainer = serde_json::from_value(fields).map_err(|error| failed(&error))?;
    let mut model = BPE::default();
    trainer.train(&mut model).map_err(|error| failed(&error))?;
    serde_json::to_value(model).map_err(|error| failed(&error))
}

/// The tokens of a model and their ids.
fn vocabulary_of(model: &Value) -> Map<String, Value> {
    model["vocab"].as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 8] = ["low", "lower", "lowest", "newer", "newest", "wide", "Wider", "café"];

    /// Texts of words in a fixed order, some of them frequent.
    fn texts() -> Vec<String> {
        let mut random = lessen_base::SplitMix64::new(3);
        let mut text = || {
            let words = (0..6).map(|_| WORDS[random.below(4) as usize + random.below(5) as usize]);
            words.collect::<Vec<_>>().join(" ")
        };
        (0..200).map(|_| text()).collect()
    }

    fn given(texts: &[impl ToString]) -> impl Iterator<Item = Result<String>> {
        texts.iter().map(|text| Ok(text.to_string()))
    }

    fn pieces(texts: &[impl ToString], vocab: usize, lower_case: bool) -> Tokenizer {
        Tokenizer::word_piece_of(given(texts), vocab, lower_case).unwrap()
    }

    fn pairs(texts: &[impl ToString], vocab: usize) -> Tokenizer {
        Tokenizer::byte_pairs_of(given(texts), vocab).unwrap()
    }

    fn tokens(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let ids = tokenizer.encode(text).unwrap();
        ids.iter().map(|id| tokenizer.token(*id).unwrap()).collect()
    }

    #[test]
    fn frequent_words_become_tokens_and_others_are_made_of_pieces() {
        let tokenizer = pieces(&texts(), 60, true);
        assert!(tokenizer.vocab_size() <= 60);
        assert_eq!(tokens(&tokenizer, "Low, newest"), ["low", "[UNK]", "newest"]);
        assert_eq!(tokens(&tokenizer, "CAFÉ"), tokens(&tokenizer, "cafe"));
        let made = tokens(&tokenizer, "wowed");
        assert!(
            made.len() > 1 && made[1..].iter().all(|piece| piece.starts_with(CONTINUING)),
            "{made:?}"
        );
        let (ids, types) = tokenizer.encode_pair("low", Some("wide"), 16).unwrap();
        let shown: Vec<_> = ids.iter().map(|id| tokenizer.token(*id).unwrap()).collect();
        assert_eq!(shown, ["[CLS]", "low", "[SEP]", "wide", "[SEP]"]);
        assert_eq!(types, [0, 0, 0, 1, 1]);
        assert_eq!((tokenizer.pad_id(), tokenizer.mask_id()), (0, Some(4)));
        let cased = pieces(&texts(), 60, false);
        assert_ne!(tokens(&cased, "Wide"), tokens(&cased, "wide"));
    }

    #[test]
    fn words_are_counted_as_in_whole_texts() {
        let texts = [
            "Ein Café, cafe\u{301} café\tein\r\nEIN  don't don't",
            "a\u{85}b a\u{a0}b a\u{2003}b a\u{c}b 今天 天气今天 \u{301}x x\u{0}y [SEP] ein",
            " ein\u{200d}s ein\u{feff} ",
        ]
        .map(str::to_string);
        let normalizer = BertNormalizer::new(true, true, None, true);
        let words = |text: &str| {
            let mut normalized = NormalizedString::from(text);
            normalizer.normalize(&mut normalized)?;
            split(normalized, &BertPreTokenizer)
        };
        let of = |parts| counted(given(&texts), parts, words).unwrap();
        let whole = of(Parts::Whole);
        assert_eq!((whole["ein"], whole["cafe"], whole["don"]), (5, 3, 2), "{whole:?}");
        assert_eq!(of(Parts::Words), whole);
    }

    #[test]
    fn bytes_know_every_character() {
        let tokenizer = pairs(&texts(), 300);
        assert!((258..=300).contains(&tokenizer.vocab_size()));
        for text in ["low newest", "牛 ?\u{1F600}\n\tx", ""] {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
        assert_eq!(tokens(&tokenizer, "low lower").len(), 2);
        assert_eq!(tokenizer.token(tokenizer.pad_id()).as_deref(), Some(END_OF_TEXT));
    }

    #[test]
    fn the_same_texts_give_the_same_bytes_and_are_read_back() {
        let texts = texts();
        let makes: [&dyn Fn() -> Tokenizer; 2] = [&|| pieces(&texts, 50, true), &|| pairs(&texts, 290)];
        for make in makes {
            let first = make();
            for _ in 0..5 {
                assert_eq!(make().files, first.files);
            }
            let dir = tempfile::tempdir().unwrap();
            first.save(dir.path()).unwrap();
            let again = Tokenizer::from_dir(dir.path()).unwrap();
            assert_eq!(again.vocab_size(), first.vocab_size());
            for text in texts[..20].iter().map(String::as_str).chain(["", "xyz 牛 [MASK]"]) {
                let pair = |tokenizer: &Tokenizer| tokenizer.encode_pair(text, Some("lower"), 24).unwrap();
                assert_eq!(pair(&again), pair(&first), "{text}");
            }
        }
    }

    #[test]
    fn chinese_characters_are_tokens_and_the_rarest_are_unknown_where_there_is_no_room() {
        let texts = ["今天天气很好", "今天很好", "天气"];
        let all = pieces(&texts, 100, true);
        assert_eq!(tokens(&all, "天气很好牛"), ["天", "气", "很", "好", "[UNK]"]);
        let few = pieces(&texts, 5 + 2, true);
        assert_eq!(few.vocab_size(), 7);
        assert_eq!(tokens(&few, "今天好"), ["今", "天", "[UNK]"]);
    }

    #[test]
    fn a_vocabulary_can_be_larger_than_the_data_and_the_data_empty() {
        assert!(pieces(&["ab ab"], 8000, true).vocab_size() < 20);
        for nothing in [vec![], vec!["", "  "]] {
            assert_eq!(pieces(&nothing, 8000, true).vocab_size(), BERT.len());
            assert_eq!(tokens(&pieces(&nothing, 8000, true), "a b"), ["[UNK]", "[UNK]"]);
            assert_eq!(pairs(&nothing, 8000).vocab_size(), 257);
        }
        for made in [Tokenizer::word_piece_of([], 5, true), Tokenizer::byte_pairs_of([], 257)] {
            let sentence = made.err().expect("no room").to_string();
            assert!(sentence.ends_with("that it always has; raise data.vocab"), "{sentence}");
        }
    }

    #[test]
    fn the_first_text_that_cannot_be_read_is_told() {
        let texts = || [Ok("a".to_string()), Err(Error::user("gone"))];
        for made in [
            Tokenizer::word_piece_of(texts(), 99, true),
            Tokenizer::byte_pairs_of(texts(), 999),
        ] {
            assert_eq!(made.err().map(|error| error.to_string()).as_deref(), Some("gone"));
        }
    }
}

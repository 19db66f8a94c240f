//! Batches of sentences whose words have labels.

use lessen_base::{Error, Result};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::cache::TokenCache;
use crate::encoded_rows::{EncodedRows, Numbers, RowWriter};
use crate::epoch::Order;
use crate::example_batches::check_sizes;
use crate::packed_texts::{PackedTexts, Turn};
use crate::packing::Row;
use crate::parallel::in_parallel;
use crate::sentences::{Sentence, Sentences};
use crate::tokenizer::Tokenizer;

/// Sentences that are encoded at once.
const BLOCK: usize = 1 << 12;

/// Sentences, encoded once and served in batches without padding; see [`Batch`] for the fields. `labels` (i32 `[1, N]`)
/// are those of the words at their first tokens, and [`IGNORE`] elsewhere.
pub struct TaggedBatches {
    /// With the number of the label plus one beside, and 0 for none.
    rows: EncodedRows,
    /// The sentence of each row; none where each is a sentence of its own.
    sentence_of: Option<Vec<usize>>,
    pad: i32,
    batches: Batches,
}

impl TaggedBatches {
    /// Encodes sentences, their words with spaces between, truncated to `max_length` tokens. Large data goes to the
    /// cache.
    ///
    /// # Errors
    /// No sentences; a batch or length of 0; a length that leaves no room for words beside the special tokens; a text
    /// that the tokenizer cannot encode; a batch of fewer tokens than a sentence has; a file or cache that cannot be
    /// read or written.
    pub fn new(
        sentences: &Sentences,
        tokenizer: &Tokenizer,
        max_length: usize,
        cache: Option<&TokenCache>,
        batching: Batching,
        order: Order,
    ) -> Result<TaggedBatches> {
        if sentences.is_empty() {
            return Err(Error::user(
                "there are no sentences to make batches of; add some to the data",
            ));
        }
        let cutter = Cutter::new(tokenizer, max_length)?;
        let key = || {
            let (unknown, digest, sentences) = (tokenizer.unknown_id(), tokenizer.digest(), sentences.key());
            format!("cut sentences {max_length} {unknown:?}\n{digest:08x}\n{sentences}")
        };
        let entry = cache.and_then(|cache| cache.entry(sentences.file_bytes(), key()));
        let numbers = cutter.numbers(sentences.classes());
        let fill = |writer: &mut RowWriter| {
            let mut all = sentences.iter();
            loop {
                let block: Vec<Sentence> = all.by_ref().take(BLOCK).collect::<Result<_>>()?;
                if block.is_empty() {
                    return Ok(());
                }
                for parts in in_parallel(&block, |sentence| cutter.parts(sentence))? {
                    parts.first().map_or(Ok(()), |(ids, labels)| writer.add(ids, labels))?;
                    writer.count_cut(usize::from(parts.len() > 1));
                }
            }
        };
        let rows = EncodedRows::new(entry, numbers, Some(sentences.len()), fill)?;
        TaggedBatches::of(rows, None, tokenizer, batching, order)
    }

    /// Encodes sentences as words, in balanced batches of at most `batch` rows: what does not fit into `max_length`
    /// tokens goes on in a row of its own. The label of a word is its number in the sentence.
    ///
    /// # Errors
    /// As [`TaggedBatches::new`].
    pub fn in_parts(
        sentences: &[Vec<String>],
        tokenizer: &Tokenizer,
        max_length: usize,
        batch: usize,
    ) -> Result<TaggedBatches> {
        check_sizes(max_length, batch)?;
        let cutter = Cutter::new(tokenizer, max_length)?;
        let most = sentences.iter().map(Vec::len).max().unwrap_or(0);
        let mut sentence_of = Vec::new();
        let parts = in_parallel(sentences, |words| {
            cutter.parts(&Sentence {
                words: words.clone(),
                labels: (0..words.len() as i32).collect(),
            })
        })?;
        let fill = |writer: &mut RowWriter| {
            for (number, parts) in parts.into_iter().enumerate() {
                for (ids, labels) in parts {
                    writer.add(&ids, &labels)?;
                    sentence_of.push(number);
                }
            }
            Ok(())
        };
        let rows = EncodedRows::new(None, cutter.numbers(most), None, fill)?;
        TaggedBatches::of(
            rows,
            Some(sentence_of),
            tokenizer,
            Batching::Examples(batch),
            Order::InOrder,
        )
        .map(TaggedBatches::with_balanced_evaluations)
    }

    fn of(
        rows: EncodedRows,
        sentence_of: Option<Vec<usize>>,
        tokenizer: &Tokenizer,
        batching: Batching,
        order: Order,
    ) -> Result<TaggedBatches> {
        Ok(TaggedBatches {
            batches: Batches::new(rows.len(), batching, order, |row| rows.tokens_of(row))?,
            rows,
            sentence_of,
            pad: tokenizer.pad_id(),
        })
    }

    /// Makes evaluation batches of rows from anywhere in the data, so that they have about equal numbers of tokens and
    /// share a layout. Batches that are bounded by tokens stay in order.
    pub fn with_balanced_evaluations(mut self) -> TaggedBatches {
        self.batches.balance_evaluations();
        self
    }

    /// Returns the number of rows: sentences, or parts of them.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of the sentence of each row of an evaluation batch.
    pub fn sentences_of(&self, index: u64) -> Vec<usize> {
        let sentence_of = |row: usize| self.sentence_of.as_ref().map_or(row, |of| of[row]);
        self.texts_of(index).iter().map(sentence_of).collect()
    }
}

/// Cuts the tokens of sentences into rows.
struct Cutter<'a> {
    tokenizer: &'a Tokenizer,
    before: Vec<i32>,
    after: Vec<i32>,
    max_length: usize,
}

impl Cutter<'_> {
    fn new(tokenizer: &Tokenizer, max_length: usize) -> Result<Cutter<'_>> {
        check_sizes(max_length, 1)?;
        let (before, after) = tokenizer.around_a_text()?;
        let special = before.len() + after.len();
        if max_length <= special {
            return Err(Error::user(format!(
                "a length of {max_length} leaves no room for words beside {special} special tokens; raise data.max_length"
            )));
        }
        Ok(Cutter {
            tokenizer,
            before,
            after,
            max_length,
        })
    }

    fn numbers(&self, classes: usize) -> Numbers {
        Numbers {
            id: (self.tokenizer.vocab_size() - 1) as i32,
            unknown: self.tokenizer.unknown_id(),
            beside: i32::try_from(classes).unwrap_or(i32::MAX),
            length: i32::try_from(self.max_length).unwrap_or(i32::MAX),
        }
    }

    /// The rows of a sentence, at least one, each with the labels plus one of the words that begin in it: the first has
    /// as many tokens as fit, and where it ends within a word, the second begins with the next word.
    fn parts(&self, sentence: &Sentence) -> Result<Vec<(Vec<i32>, Vec<i32>)>> {
        let room = self.max_length - self.before.len() - self.after.len();
        let tokens = self.tokenizer.encode_words(&sentence.words)?;
        let (mut parts, mut start, mut last) = (Vec::new(), 0, None);
        while start < tokens.len() || parts.is_empty() {
            let end = (start + room).min(tokens.len());
            let mut ids = self.before.clone();
            let mut labels = vec![0; ids.len()];
            for (id, word) in &tokens[start..end] {
                ids.push(*id);
                labels.push(
                    word.filter(|_| *word != last)
                        .map_or(0, |word| sentence.labels[word] + 1),
                );
                last = word.or(last);
            }
            ids.extend(&self.after);
            if ids.is_empty() {
                ids.push(self.tokenizer.pad_id());
            }
            labels.resize(ids.len(), 0);
            parts.push((ids, labels));
            let is_new = |(_, word): &(i32, Option<usize>)| word.is_some() && *word != last;
            start = tokens[end..]
                .iter()
                .position(is_new)
                .map_or(tokens.len(), |more| end + more);
        }
        Ok(parts)
    }
}

impl PackedTexts for TaggedBatches {
    fn batches(&self) -> &Batches {
        &self.batches
    }

    fn tokens_of(&self, row: usize) -> usize {
        self.rows.tokens_of(row)
    }

    fn unknown(&self) -> Option<(u64, u64)> {
        self.rows.unknown()
    }

    fn cut(&self) -> Option<(u64, u64)> {
        let rows = self.rows.len() as u64;
        self.sentence_of.is_none().then_some((self.rows.cut(), rows))
    }

    fn collect(&self, members: &Members, turn: Turn) -> Result<Batch> {
        let (examples, real) = (members.len(), self.tokens_of_all(members));
        let [size, n] = self.layout(members, turn);
        let mut row = Row::new([size, n], real, self.pad);
        let (mut labels, mut start) = (vec![0; n], 0);
        for member in members.iter() {
            let (tokens, _) = row.add(self.rows.tokens_of(member));
            let own = start..start + tokens.len();
            start = own.end;
            self.rows.read(member, tokens, &mut labels[own])?;
        }
        let label = |beside: i32| if beside == 0 { IGNORE } else { beside - 1 };
        labels.iter_mut().for_each(|beside| *beside = label(*beside));
        let mut fields = row.into_fields();
        fields.push(("labels".into(), Field::i32([1, n], labels)));
        Ok(Batch {
            fields,
            examples,
            tokens: real,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::tagged::split_words;

    fn sentences(all: &[&str]) -> Sentences {
        let sentence = |words: &&str| Sentence {
            words: split_words(words),
            labels: (0..split_words(words).len() as i32).collect(),
        };
        Sentences::new(all.iter().map(sentence).collect())
    }

    fn ints(batch: &Batch, name: &str) -> Vec<i32> {
        batch.get(name).unwrap().as_i32().unwrap().to_vec()
    }

    #[test]
    fn the_first_token_of_a_word_has_its_label() {
        // a is 5, b is 6, a space is unknown (1).
        let tokenizer = Tokenizer::marked_characters(["ab"], 1);
        let data = sentences(&["ab b", "a", "aaaa b"]);
        let source = TaggedBatches::new(&data, &tokenizer, 6, None, Batching::Examples(2), Order::InOrder).unwrap();
        let batch = source.batch(0).unwrap();
        assert_eq!(ints(&batch, "tokens")[..9], [2, 5, 6, 1, 6, 3, 2, 5, 3]);
        let i = IGNORE;
        assert_eq!(ints(&batch, "labels")[..10], [i, 0, i, i, 1, i, i, 0, i, i]);
        assert_eq!(ints(&batch, "starts"), [0, 6, 9]);
        assert_eq!((batch.examples, batch.tokens, batch.labels()), (2, 9, 3));
        // A word that does not fit has no label.
        let batch = source.batch(1).unwrap();
        assert_eq!(ints(&batch, "labels")[..6], [i, 0, i, i, i, i]);
        assert_eq!(source.largest_layout(0..2), Some((2, 16)));
    }

    #[test]
    fn byte_level_words_are_those_of_the_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let vocab = r#"{"a":0,"b":1,"Ġ":2,"ab":3,"Ġab":4}"#;
        std::fs::write(dir.path().join("vocab.json"), vocab).unwrap();
        std::fs::write(dir.path().join("merges.txt"), "a b\nĠ ab\n").unwrap();
        let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
        let words: Vec<String> = ["ab", "abb", "ab"].map(str::to_string).into();
        let encoded = tokenizer.encode_words(&words).unwrap();
        assert_eq!(encoded, [(3, Some(0)), (4, Some(1)), (1, Some(1)), (4, Some(2))]);
    }

    #[test]
    fn long_sentences_go_on_behind_the_word_that_is_cut() {
        let tokenizer = Tokenizer::marked_characters(["ab"], 1);
        let words = ["ab abbb a", "", "b"].map(split_words);
        let source = TaggedBatches::in_parts(&words, &tokenizer, 7, 2).unwrap();
        assert_eq!((source.rows(), source.eval_batches()), (4, 2));
        let (first, second) = (source.eval_batch(0).unwrap(), source.eval_batch(1).unwrap());
        let i = IGNORE;
        assert_eq!(ints(&first, "tokens")[..10], [2, 5, 6, 1, 5, 6, 3, 2, 3, 0]);
        assert_eq!(ints(&first, "labels")[..10], [i, 0, i, i, 1, i, i, i, i, i]);
        assert_eq!(ints(&second, "tokens")[..7], [2, 5, 3, 2, 6, 3, 0]);
        assert_eq!(ints(&second, "labels")[..7], [i, 2, i, i, 0, i, i]);
        // The batches have about equal numbers of tokens.
        assert_eq!([source.sentences_of(0), source.sentences_of(1)], [[0, 1], [0, 2]]);
    }

    #[test]
    fn a_cache_holds_what_memory_does_and_batches_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..60).map(|i| "ab\tX\nb\tO\n".repeat(1 + i % 7) + "\n").collect();
        for split in ["train.txt", "dev.txt"] {
            std::fs::write(dir.path().join(split), &text).unwrap();
        }
        let data = crate::tagged::read(dir.path(), &Default::default()).unwrap();
        let tokenizer = Tokenizer::marked_characters(["ab"], 1);
        let cache = TokenCache::new(dir.path().join("cache"), 1);
        let order = Order::Shuffled(1);
        let new = |cache, batching| TaggedBatches::new(&data.train, &tokenizer, 24, cache, batching, order).unwrap();
        for batching in [Batching::Tokens(48), Batching::Grouped(4), Batching::Examples(4)] {
            let (memory, cached) = (new(None, batching), new(Some(&cache), batching));
            let steps = 0..memory.batches_per_epoch();
            let batches: Vec<Batch> = steps.clone().map(|step| memory.batch(step).unwrap()).collect();
            assert_eq!(batches.iter().map(|batch| batch.examples).sum::<usize>(), 60);
            assert!(batching != Batching::Tokens(48) || batches.iter().all(|batch| batch.tokens <= 48));
            for step in steps {
                assert_eq!(cached.batch(step).unwrap(), batches[step as usize]);
            }
        }
        assert_eq!(std::fs::read_dir(cache.folder()).unwrap().count(), 1);
    }
}

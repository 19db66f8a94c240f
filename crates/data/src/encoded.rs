//! Labelled texts as token ids.

use std::fs;
use std::path::Path;

use lessen_base::{Error, Result};

use crate::cache::TokenCache;
use crate::examples::{Examples, Labels, TextPair};
use crate::parallel::in_parallel;
use crate::tokenizer::Tokenizer;
use crate::tokens::{Tokens, Writer};

/// Most texts, and about the most bytes of them, that are encoded at once.
const BLOCK: (usize, usize) = (1 << 13, 1 << 20);

/// Files of an entry in the cache.
const TOKENS: &str = "tokens";
const TYPES: &str = "types";
const LENGTHS: &str = "lengths";

/// Labelled texts as token ids, in memory or in a cache.
pub struct EncodedExamples {
    tokens: Tokens,
    /// Token types; none where all are 0.
    types: Option<Tokens>,
    /// Start of each example, then the end of the last one.
    starts: Vec<usize>,
    labels: Labels,
    pad: i32,
}

impl EncodedExamples {
    /// Encodes the examples, truncated to `max_length` tokens. A text without tokens gets a token of padding, so that
    /// every model has a state for it. Large data goes to the cache.
    ///
    /// # Errors
    /// No examples; a length of 0, or that leaves no room for text beside the special tokens; a text that the tokenizer
    /// cannot encode; a file or cache that cannot be read or written.
    pub fn new(
        examples: &Examples,
        tokenizer: &Tokenizer,
        max_length: usize,
        cache: Option<&TokenCache>,
    ) -> Result<EncodedExamples> {
        if examples.is_empty() {
            return Err(Error::user(
                "there are no examples to make batches of; add some to the data",
            ));
        }
        if max_length == 0 {
            return Err(Error::user("data.max_length is 0; set it to at least 1"));
        }
        let unknown = tokenizer.unknown_id();
        let key = || {
            let (digest, examples) = (tokenizer.digest(), examples.key());
            format!("examples {max_length} {unknown:?}\n{digest:08x}\n{examples}")
        };
        let entry = cache.and_then(|cache| cache.entry(examples.file_bytes(), key()));
        let largest = (tokenizer.vocab_size() - 1) as i32;
        let longest = i32::try_from(max_length).unwrap_or(i32::MAX);
        let mut job = Job {
            tokens: Writer::in_memory(largest).counting(unknown),
            types: Writer::in_memory(LARGEST_TYPE),
            lengths: Writer::in_memory(longest),
            has_types: false,
        };
        let (tokens, types, lengths) = match entry {
            None => {
                job.encode(examples, tokenizer, max_length)?;
                let types = job.has_types.then(|| job.types.in_its_memory());
                (job.tokens.in_its_memory(), types, job.lengths.in_its_memory())
            }
            Some(entry) => {
                let dir = entry.folder(|aside| {
                    job.tokens = Writer::in_file(&aside.join(TOKENS), largest)?.counting(unknown);
                    job.types = Writer::in_file(&aside.join(TYPES), LARGEST_TYPE)?;
                    job.lengths = Writer::in_file(&aside.join(LENGTHS), longest)?;
                    job.encode(examples, tokenizer, max_length)?;
                    job.close(aside)
                })?;
                let open = |name, largest| Tokens::open(&dir.join(name), largest);
                let types = Some(TYPES).filter(|name| dir.join(name).exists());
                let types = types.map(|name| open(name, LARGEST_TYPE)).transpose()?;
                (open(TOKENS, largest)?, types, open(LENGTHS, longest)?)
            }
        };
        let mut each = vec![0; lengths.len()];
        lengths.read(0, &mut each);
        let mut starts = vec![0; each.len() + 1];
        for (example, length) in each.into_iter().enumerate() {
            starts[example + 1] = starts[example] + length as usize;
        }
        let whole = starts.last() == Some(&tokens.len())
            && types.as_ref().is_none_or(|types| types.len() == tokens.len())
            && starts.len() == examples.len() + 1;
        if !whole {
            let folder = cache.map(TokenCache::folder).unwrap_or(Path::new("")).display();
            return Err(Error::user(format!(
                "the cache of tokens in {folder} is damaged; remove the folder"
            )));
        }
        Ok(EncodedExamples {
            tokens,
            types,
            starts,
            labels: examples.labels.clone(),
            pad: tokenizer.pad_id(),
        })
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no examples, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of tokens of an example.
    pub fn tokens_of(&self, example: usize) -> usize {
        self.starts[example + 1] - self.starts[example]
    }

    /// How many tokens stand for what the vocabulary lacks, and how many there are; see [`Tokens::unknown`].
    pub(crate) fn unknown(&self) -> Option<(u64, u64)> {
        self.tokens.unknown()
    }

    /// The labels, one for each example.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The padding id.
    pub(crate) fn pad(&self) -> i32 {
        self.pad
    }

    /// Reads ids and token types of an example into places of its length.
    pub(crate) fn read(&self, example: usize, tokens: &mut [i32], types: &mut [i32]) {
        self.tokens.read(self.starts[example], tokens);
        match &self.types {
            Some(of) => of.read(self.starts[example], types),
            None => types.fill(0),
        }
    }
}

/// No tokenizer has a larger token type.
const LARGEST_TYPE: i32 = 0xFF;

/// The encoding of examples.
struct Job {
    tokens: Writer,
    types: Writer,
    lengths: Writer,
    has_types: bool,
}

impl Job {
    /// Encodes all examples, block by block.
    fn encode(&mut self, examples: &Examples, tokenizer: &Tokenizer, max_length: usize) -> Result<()> {
        let (mut block, mut bytes) = (Vec::new(), 0);
        for pair in examples.texts() {
            let pair = pair?;
            bytes += pair.0.len() + pair.1.as_ref().map_or(0, String::len);
            block.push(pair);
            if block.len() == BLOCK.0 || bytes >= BLOCK.1 {
                self.add(&block, tokenizer, max_length)?;
                block.clear();
                bytes = 0;
            }
        }
        self.add(&block, tokenizer, max_length)
    }

    fn add(&mut self, block: &[TextPair], tokenizer: &Tokenizer, max_length: usize) -> Result<()> {
        let encode = |(a, b): &TextPair| tokenizer.encode_pair(a, b.as_deref(), max_length);
        for (mut ids, mut types) in in_parallel(block, encode)? {
            if ids.is_empty() {
                (ids, types) = (vec![tokenizer.pad_id()], vec![0]);
            }
            self.has_types |= types.iter().any(|kind| *kind != 0);
            self.tokens.add(&ids)?;
            self.types.add(&types)?;
            self.lengths.add(&[ids.len() as i32])?;
        }
        Ok(())
    }

    /// Completes the files in a folder.
    fn close(&mut self, dir: &Path) -> Result<()> {
        for writer in [&mut self.tokens, &mut self.types, &mut self.lengths] {
            std::mem::replace(writer, Writer::in_memory(0)).close()?;
        }
        if !self.has_types {
            // A file that stays costs space only.
            let _ = fs::remove_file(dir.join(TYPES));
        }
        Ok(())
    }
}

//! A text for language models as token ids.

use lessen_base::Result;

use crate::cache::TokenCache;
use crate::text::TextSplit;
use crate::tokenizer::Tokenizer;
use crate::tokens::{Tokens, Writer};

/// The file of an entry in the cache.
const TOKENS: &str = "tokens";

/// Encodes a text as a whole, block by block. A large one goes to the cache.
///
/// # Errors
/// A text with unknown words, if the vocabulary has no unknown token; a file or cache that cannot be read or written.
pub fn encode_text(text: &TextSplit, tokenizer: &Tokenizer, cache: Option<&TokenCache>) -> Result<Tokens> {
    let key = || format!("text\n{:08x}\n{}", tokenizer.digest(), text.key());
    let largest = (tokenizer.vocab_size() - 1) as i32;
    match cache.and_then(|cache| cache.entry(text.bytes(), key())) {
        None => {
            let mut writer = Writer::in_memory(largest);
            add(text, tokenizer, &mut writer)?;
            Ok(writer.in_its_memory())
        }
        Some(entry) => {
            let dir = entry.folder(|aside| {
                let mut writer = Writer::in_file(&aside.join(TOKENS), largest)?;
                add(text, tokenizer, &mut writer)?;
                writer.close()
            })?;
            Tokens::open(&dir.join(TOKENS), largest)
        }
    }
}

/// Encodes a text up to the last place of each block at which it can be cut.
fn add(text: &TextSplit, tokenizer: &Tokenizer, writer: &mut Writer) -> Result<()> {
    let mut rest = String::new();
    for block in text.blocks() {
        rest.push_str(&block?);
        let cut = tokenizer.last_cut(&rest);
        if cut > 0 {
            writer.add(&tokenizer.encode(&rest[..cut])?)?;
            rest.drain(..cut);
        }
    }
    writer.add(&tokenizer.encode(&rest)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Text, TextOptions};
    use std::fs;

    #[test]
    fn a_text_of_many_blocks_has_the_ids_of_the_whole_in_memory_and_in_a_cache() {
        let dir = tempfile::tempdir().unwrap();
        let whole: String = (0..200_000u32)
            .map(|i| format!("{} 牛 {i}\n", i.wrapping_mul(2_654_435_761)))
            .collect();
        fs::write(dir.path().join("t.txt"), &whole).unwrap();
        let options = TextOptions {
            held_out: 0.01,
            ..TextOptions::default()
        };
        let text = Text::read(&dir.path().join("t.txt"), &options).unwrap().train;
        let tokenizer = Tokenizer::characters(["0123456789 \n牛"], 1);
        let expected = tokenizer.encode(&whole[..text.bytes() as usize]).unwrap();
        let cache = TokenCache::new(dir.path().join("cache"), 1);
        for cache in [None, Some(&cache), Some(&cache)] {
            let tokens = encode_text(&text, &tokenizer, cache).unwrap();
            let mut found = vec![0; tokens.len()];
            tokens.read(0, &mut found);
            assert!(found == expected);
        }
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
    }
}

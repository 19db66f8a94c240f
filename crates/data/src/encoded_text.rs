//! A text for language models as token ids.

use lessen_base::{Error, Result};

use crate::cache::TokenCache;
use crate::documents::{Cutter, Documents};
use crate::parallel::in_parallel;
use crate::text::TextSplit;
use crate::tokenizer::Tokenizer;
use crate::tokens::{Tokens, Writer};

/// The file of an entry in the cache.
const TOKENS: &str = "tokens";

/// Encodes a text, chunk by chunk. A large one goes to the cache. Each document, if there are such, begins with the
/// end-of-text token, and one more ends the last document. Where the tokenizer puts a token before texts, the whole
/// text begins with it, and each document that is no part between marks does in place of the end-of-text token, which
/// then ends it.
///
/// # Errors
/// Documents, if the tokenizer has no end-of-text token; a text with unknown words, if the vocabulary has no unknown
/// token; a file or cache that cannot be read or written.
pub fn encode_text(
    text: &TextSplit,
    tokenizer: &Tokenizer,
    documents: Documents,
    cache: Option<&TokenCache>,
) -> Result<Tokens> {
    if documents != Documents::Off {
        end_of_text(tokenizer)?;
    }
    let unknown = tokenizer.unknown_id();
    let begins = tokenizer.begin_id().map_or("", |_| " begun");
    let key = || {
        let (digest, text) = (tokenizer.digest(), text.key());
        format!("text {documents:?} {unknown:?}{begins}\n{digest:08x}\n{text}")
    };
    let largest = (tokenizer.vocab_size() - 1) as i32;
    match cache.and_then(|cache| cache.entry(text.file_bytes(), key())) {
        None => {
            let mut writer = Writer::in_memory(largest).counting(unknown);
            add(text, tokenizer, documents, &mut writer)?;
            Ok(writer.in_its_memory())
        }
        Some(entry) => {
            let dir = entry.folder(|aside| {
                let mut writer = Writer::in_file(&aside.join(TOKENS), largest)?.counting(unknown);
                add(text, tokenizer, documents, &mut writer)?;
                writer.close()
            })?;
            Tokens::open(&dir.join(TOKENS), largest)
        }
    }
}

/// The token between documents.
///
/// # Errors
/// A tokenizer without one.
pub fn end_of_text(tokenizer: &Tokenizer) -> Result<i32> {
    tokenizer.end_id().ok_or_else(|| {
        Error::user(
            "data.documents needs a token between documents, and the tokenizer has none; name it as eos_token in its \
             tokenizer_config.json",
        )
    })
}

/// The token that documents of a text begin with.
///
/// # Errors
/// A tokenizer without a token between documents.
pub fn document_start(tokenizer: &Tokenizer, documents: Documents) -> Result<i32> {
    let end = end_of_text(tokenizer)?;
    Ok(match documents {
        Documents::Marked => end,
        _ => tokenizer.begin_id().unwrap_or(end),
    })
}

fn add(text: &TextSplit, tokenizer: &Tokenizer, documents: Documents, writer: &mut Writer) -> Result<()> {
    if matches!(documents, Documents::Off | Documents::Marked) {
        writer.add(tokenizer.begin_id().as_slice())?;
        return stream(text.blocks(), tokenizer, writer);
    }
    let (begin, end) = (document_start(tokenizer, documents)?, end_of_text(tokenizer)?);
    // Where one token is both, that before a document ends the one before it.
    let ends = [end];
    let after: &[i32] = if begin == end { &[] } else { &ends };
    match documents {
        Documents::Off | Documents::Marked => {}
        Documents::Files => {
            for part in text.parts() {
                writer.add(&[begin])?;
                stream(part?, tokenizer, writer)?;
                writer.add(after)?;
            }
        }
        Documents::Lines | Documents::Paragraphs => {
            let mut cutter = Cutter::new(documents);
            let mut write = |documents: Vec<String>| -> Result<()> {
                for ids in in_parallel(&documents, |text| tokenizer.encode(text))? {
                    writer.add(&[begin])?;
                    writer.add(&ids)?;
                    writer.add(after)?;
                }
                Ok(())
            };
            for part in text.parts() {
                for chunk in part? {
                    write(cutter.take(&chunk?))?;
                }
                write(cutter.end())?;
            }
        }
    }
    if after.is_empty() { writer.add(&[end]) } else { Ok(()) }
}

/// Encodes a text up to the last place of each chunk at which it can be cut.
fn stream(chunks: impl Iterator<Item = Result<String>>, tokenizer: &Tokenizer, writer: &mut Writer) -> Result<()> {
    let mut rest = String::new();
    for chunk in chunks {
        rest.push_str(&chunk?);
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
    fn a_text_of_many_chunks_has_the_ids_of_the_whole_in_memory_and_in_a_cache() {
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
            let tokens = encode_text(&text, &tokenizer, Documents::Off, cache).unwrap();
            let mut found = vec![0; tokens.len()];
            tokens.read(0, &mut found).unwrap();
            assert!(found == expected);
        }
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1);
    }

    #[test]
    fn documents_begin_with_the_end_of_text() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "ab\n\nb\n").unwrap();
        fs::write(dir.path().join("b.txt"), "a<|endoftext|>ba").unwrap();
        let options = TextOptions {
            held_out: 0.01,
            ..TextOptions::default()
        };
        let text = Text::read(dir.path(), &options).unwrap().train;
        let tokenizer = Tokenizer::characters_of_documents(["ab\n"], 1);
        assert_eq!((tokenizer.end_id(), tokenizer.vocab_size()), (Some(2), 6));
        let ids = |documents| {
            let tokens = encode_text(&text, &tokenizer, documents, None).unwrap();
            let mut found = vec![0; tokens.len()];
            tokens.read(0, &mut found).unwrap();
            found
        };
        let (e, n, a, b) = (2, 3, 4, 5);
        // The last character is held out.
        assert_eq!(ids(Documents::Off), [a, b, n, n, b, n, a, e, b]);
        assert_eq!(ids(Documents::Marked), ids(Documents::Off));
        assert_eq!(ids(Documents::Files), [e, a, b, n, n, b, n, e, a, e, b, e]);
        assert_eq!(ids(Documents::Lines), [e, a, b, e, b, e, a, e, b, e]);
        assert_eq!(ids(Documents::Paragraphs), ids(Documents::Lines));

        // With a token before texts, documents begin with it and end with the other one.
        let text_of = |id: &str| serde_json::json!({ "Sequence": { "id": id, "type_id": 0 } });
        let begin = serde_json::json!({ "SpecialToken": { "id": "[UNK]", "type_id": 0 } });
        let folder = dir.path().join("tokenizer");
        tokenizer.save(&folder).unwrap();
        let change = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
            let path = folder.join(name);
            let mut json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            change(&mut json);
            fs::write(path, json.to_string()).unwrap();
        };
        change("tokenizer_config.json", &|config| config["bos_token"] = "[UNK]".into());
        change("tokenizer.json", &|json| {
            json["post_processor"] = serde_json::json!({
                "type": "TemplateProcessing", "single": [begin, text_of("A")], "pair": [begin, text_of("A"), text_of("B")],
                "special_tokens": { "[UNK]": { "id": "[UNK]", "ids": [1], "tokens": ["[UNK]"] } },
            });
        });
        let beginning = Tokenizer::from_dir(&folder).unwrap();
        let ids = |documents| {
            let tokens = encode_text(&text, &beginning, documents, None).unwrap();
            let mut found = vec![0; tokens.len()];
            tokens.read(0, &mut found).unwrap();
            (document_start(&beginning, documents), found)
        };
        let s = 1;
        assert_eq!(ids(Documents::Off).1, [s, a, b, n, n, b, n, a, e, b]);
        assert_eq!(ids(Documents::Marked), (Ok(e), ids(Documents::Off).1));
        assert_eq!(
            ids(Documents::Files),
            (Ok(s), vec![s, a, b, n, n, b, n, e, s, a, e, b, e])
        );
        assert_eq!(ids(Documents::Lines), (Ok(s), vec![s, a, b, e, s, b, e, s, a, e, b, e]));
        let without = Tokenizer::characters(["ab\n"], 1);
        let error = encode_text(&text, &without, Documents::Lines, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("data.documents needs a token between documents"),
            "{error}"
        );
    }
}

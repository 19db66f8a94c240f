//! Questions about texts as the data of a run.

use crate::folder::manifest::DataDigest;
use crate::recipe::config::Config;
use crc32c::crc32c_append;
use lessen_base::{Error, Result};
use lessen_data::{Questions, Squad, squad};
use std::path::Path;

/// Reads the questions that a recipe names.
///
/// # Errors
/// See [`squad::read`]; a column, which these files do not have.
pub(super) fn read(path: &Path, config: &Config) -> Result<Squad> {
    let data = &config.data;
    let named = [("data.text", &data.text), ("data.text_pair", &data.text_pair)];
    if let Some((key, _)) = named.into_iter().find(|(_, name)| name.is_some()) {
        return Err(Error::user(format!(
            "{} names a column of a table for `lessen predict`, and data.format = squad has none; leave it out",
            config.place(key)
        )));
    }
    let options = squad::Options {
        dev: data.dev.clone(),
        test: data.test.clone(),
        held_out: data.held_out,
        held_out_seed: data.held_out_seed,
    };
    squad::read(path, &options)
}

/// All texts of a split, to build a vocabulary.
pub(super) fn texts(split: &Questions) -> impl Iterator<Item = &str> {
    let questions = split.iter().map(|question| question.text.as_str());
    split.contexts().iter().map(|context| &**context).chain(questions)
}

/// The digest of a split. Bytes that no text has end the parts.
pub(super) fn digest_of(split: &Questions) -> DataDigest {
    let mut crc = 0;
    let mut add = |bytes: &[u8], end: u8| crc = crc32c_append(crc32c_append(crc, bytes), &[end]);
    split
        .contexts()
        .iter()
        .for_each(|context| add(context.as_bytes(), 0xFC));
    for question in split {
        add(&(question.context as u64).to_le_bytes(), 0xFD);
        add(question.text.as_bytes(), 0xFE);
        for answer in &question.answers {
            add(&(answer.start as u64).to_le_bytes(), 0xFD);
            add(answer.text.as_bytes(), 0xFF);
        }
    }
    DataDigest {
        size: split.len() as u64,
        crc,
    }
}

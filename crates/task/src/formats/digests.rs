//! Digests, which tell data from other data: the number of examples and a checksum.

use crate::folder::manifest::DataDigest;
use crc32c::crc32c_append;
use lessen_base::Result;
use lessen_data::tagged::Sentences;
use lessen_data::{Examples, LabelKind, Labels};

/// The digest of a split. Bytes that no text has end the parts.
pub(super) fn digest_of(target: &LabelKind, split: &Examples) -> Result<DataDigest> {
    let mut crc = 0;
    let mut add = |bytes: &[u8], end: u8| crc = crc32c_append(crc32c_append(crc, bytes), &[end]);
    if let LabelKind::Classes(names) | LabelKind::Sets(names) = target {
        names.iter().for_each(|name| add(name.as_bytes(), 0xFF));
    }
    for text in split.texts() {
        let (first, second) = text?;
        add(first.as_bytes(), 0xFE);
        add(second.as_deref().unwrap_or_default().as_bytes(), 0xFF);
    }
    match &split.labels {
        Labels::Classes(classes) => classes.iter().for_each(|class| add(&class.to_le_bytes(), 0xFF)),
        Labels::Sets(sets) => sets.iter().for_each(|set| {
            set.iter().for_each(|class| add(&class.to_le_bytes(), 0xFE));
            add(&[], 0xFF);
        }),
        Labels::Scores(scores) => scores.iter().for_each(|score| add(&score.to_le_bytes(), 0xFF)),
    }
    Ok(DataDigest {
        size: split.len() as u64,
        crc,
    })
}

/// The digest of sentences whose words have labels.
pub(super) fn digest_of_words(names: &[String], split: &Sentences) -> Result<DataDigest> {
    let mut crc = 0;
    let mut add = |bytes: &[u8], end: u8| crc = crc32c_append(crc32c_append(crc, bytes), &[end]);
    names.iter().for_each(|name| add(name.as_bytes(), 0xFF));
    for sentence in split.iter() {
        let sentence = sentence?;
        sentence.words.iter().for_each(|word| add(word.as_bytes(), 0xFE));
        sentence.labels.iter().for_each(|label| add(&label.to_le_bytes(), 0xFF));
    }
    Ok(DataDigest {
        size: split.len() as u64,
        crc,
    })
}

//! Digests, which tell data from other data: the number of examples and a checksum. Bytes that no text has end the
//! parts.

use crate::folder::manifest::DataDigest;
use crc32c::crc32c_append;
use lessen_base::Result;
use lessen_data::tagged::Sentences;
use lessen_data::{Examples, LabelKind, Labels, Questions, TextSplit};

/// A checksum of parts.
#[derive(Default)]
struct Checksum(u32);

impl Checksum {
    fn add(&mut self, bytes: &[u8], end: u8) {
        self.0 = crc32c_append(crc32c_append(self.0, bytes), &[end]);
    }

    fn of(self, examples: usize) -> DataDigest {
        DataDigest {
            size: examples as u64,
            crc: self.0,
        }
    }
}

/// The digest of a split.
pub(super) fn digest_of(target: &LabelKind, split: &Examples) -> Result<DataDigest> {
    let mut checksum = Checksum::default();
    if let LabelKind::Classes(names) | LabelKind::Sets(names) = target {
        names.iter().for_each(|name| checksum.add(name.as_bytes(), 0xFF));
    }
    for text in split.texts() {
        let (first, second) = text?;
        checksum.add(first.as_bytes(), 0xFE);
        checksum.add(second.as_deref().unwrap_or_default().as_bytes(), 0xFF);
    }
    let weights = split.weights.as_deref().unwrap_or_default();
    weights
        .iter()
        .for_each(|weight| checksum.add(&weight.to_le_bytes(), 0xFD));
    match &split.labels {
        Labels::Classes(classes) => classes
            .iter()
            .for_each(|class| checksum.add(&class.to_le_bytes(), 0xFF)),
        Labels::Sets(sets) => sets.iter().for_each(|set| {
            set.iter().for_each(|class| checksum.add(&class.to_le_bytes(), 0xFE));
            checksum.add(&[], 0xFF);
        }),
        Labels::Scores(scores) => scores.iter().for_each(|score| checksum.add(&score.to_le_bytes(), 0xFF)),
    }
    Ok(checksum.of(split.len()))
}

/// The digest of sentences whose words have labels.
pub(super) fn digest_of_words(names: &[String], split: &Sentences) -> Result<DataDigest> {
    let mut checksum = Checksum::default();
    names.iter().for_each(|name| checksum.add(name.as_bytes(), 0xFF));
    for sentence in split.iter() {
        let sentence = sentence?;
        sentence
            .words
            .iter()
            .for_each(|word| checksum.add(word.as_bytes(), 0xFE));
        sentence
            .labels
            .iter()
            .for_each(|label| checksum.add(&label.to_le_bytes(), 0xFF));
    }
    Ok(checksum.of(split.len()))
}

/// The digest of questions about texts.
pub(super) fn digest_of_questions(split: &Questions) -> DataDigest {
    let mut checksum = Checksum::default();
    let contexts = split.contexts().iter();
    contexts.for_each(|context| checksum.add(context.as_bytes(), 0xFC));
    for question in split {
        checksum.add(&(question.context as u64).to_le_bytes(), 0xFD);
        checksum.add(question.text.as_bytes(), 0xFE);
        for answer in &question.answers {
            checksum.add(&(answer.start as u64).to_le_bytes(), 0xFD);
            checksum.add(answer.text.as_bytes(), 0xFF);
        }
    }
    checksum.of(split.len())
}

/// The digest of a plain text, whose size is in bytes.
pub(super) fn digest_of_text(split: &TextSplit) -> Result<DataDigest> {
    let mut blocks = split.blocks();
    let crc = blocks.try_fold(0, |crc, block| Ok(crc32c_append(crc, block?.as_bytes())));
    crc.map(|crc| DataDigest {
        size: split.bytes(),
        crc,
    })
}

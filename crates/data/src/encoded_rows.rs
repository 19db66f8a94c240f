//! Texts as token ids, in memory or in a cache.

use std::fs;
use std::path::Path;

use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};

use crate::cache::Entry;
use crate::tokens::{Tokens, Writer};

/// Files of an entry in the cache.
const TOKENS: &str = "tokens";
const BESIDE: &str = "types";
const LENGTHS: &str = "lengths";
const CUT: &str = "cut";

/// The numbers that rows are made of.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// The largest token id.
    pub(crate) id: i32,
    /// The id that is counted: that of the token for what the vocabulary lacks.
    pub(crate) unknown: Option<i32>,
    /// The largest number beside a token.
    pub(crate) beside: i32,
    /// The largest number of tokens of a row.
    pub(crate) length: i32,
}

/// Rows of token ids, with a number beside each token, such as its type or its label.
pub(crate) struct EncodedRows {
    tokens: Tokens,
    /// None where all are 0.
    beside: Option<Tokens>,
    /// Start of each row, then the end of the last one.
    starts: Vec<usize>,
    /// The number of rows that lack tokens of their texts.
    cut: u64,
}

impl EncodedRows {
    /// Collects what `fill` adds: in memory, or in the cache's entry, where that does not exist yet. There must be
    /// `count` rows, if that is known.
    ///
    /// # Errors
    /// The errors of `fill`; a cache that cannot be written or read, or is damaged.
    pub(crate) fn new(
        entry: Option<Entry>,
        numbers: Numbers,
        count: Option<usize>,
        fill: impl FnOnce(&mut RowWriter) -> Result<()>,
    ) -> Result<EncodedRows> {
        let (tokens, beside, lengths, cut) = match &entry {
            None => {
                let mut writer = RowWriter::in_memory(numbers);
                fill(&mut writer)?;
                let beside = writer.has_beside.then(|| writer.beside.in_its_memory());
                let (tokens, lengths) = (writer.tokens.in_its_memory(), writer.lengths.in_its_memory());
                (tokens, beside, lengths, Some(writer.cut))
            }
            Some(entry) => {
                let dir = entry.folder(|aside| {
                    let mut writer = RowWriter::in_files(aside, numbers)?;
                    fill(&mut writer)?;
                    writer.close(aside)
                })?;
                let open = |name, largest| Tokens::open(&dir.join(name), largest);
                let beside = Some(BESIDE).filter(|name| dir.join(name).exists());
                let beside = beside.map(|name| open(name, numbers.beside)).transpose()?;
                let cut = fs::read_to_string(dir.join(CUT)).ok().and_then(|cut| cut.parse().ok());
                (open(TOKENS, numbers.id)?, beside, open(LENGTHS, numbers.length)?, cut)
            }
        };
        let mut each = vec![0; lengths.len()];
        lengths.read(0, &mut each)?;
        let mut starts = vec![0; each.len() + 1];
        for (row, length) in each.into_iter().enumerate() {
            starts[row + 1] = starts[row] + length as usize;
        }
        let whole = starts.last() == Some(&tokens.len())
            && beside.as_ref().is_none_or(|beside| beside.len() == tokens.len())
            && count.is_none_or(|count| starts.len() == count + 1);
        let Some(cut) = cut.filter(|_| whole) else {
            let folder = entry.as_ref().map_or(Path::new(""), Entry::cache).display();
            return Err(Error::user(format!(
                "the cache of tokens in {folder} is damaged; remove the folder"
            )));
        };
        Ok(EncodedRows {
            tokens,
            beside,
            starts,
            cut,
        })
    }

    /// The same tokens in rows of `length` tokens; the last one has the rest.
    pub(crate) fn in_windows(self, length: usize) -> EncodedRows {
        let count = self.tokens.len();
        let starts = (0..count).step_by(length).chain([count]).collect();
        EncodedRows { starts, ..self }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of rows that lack tokens of their texts.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }

    /// See [`Tokens::unknown`].
    pub(crate) fn unknown(&self) -> Option<(u64, u64)> {
        self.tokens.unknown()
    }

    /// The number of tokens of a row.
    pub(crate) fn tokens_of(&self, row: usize) -> usize {
        self.starts[row + 1] - self.starts[row]
    }

    /// Reads the ids of a row into places of its length.
    ///
    /// # Errors
    /// A cache that cannot be read any more.
    pub(crate) fn read_ids(&self, row: usize, ids: &mut [i32]) -> Result<()> {
        self.tokens.read(self.starts[row], ids)
    }

    /// Reads ids and the numbers beside them.
    ///
    /// # Errors
    /// As [`EncodedRows::read_ids`].
    pub(crate) fn read(&self, row: usize, ids: &mut [i32], beside: &mut [i32]) -> Result<()> {
        self.read_ids(row, ids)?;
        match &self.beside {
            Some(of) => of.read(self.starts[row], beside),
            None => {
                beside.fill(0);
                Ok(())
            }
        }
    }
}

/// Rows that are being written.
pub(crate) struct RowWriter {
    tokens: Writer,
    beside: Writer,
    lengths: Writer,
    has_beside: bool,
    cut: u64,
}

impl RowWriter {
    fn in_memory(numbers: Numbers) -> RowWriter {
        RowWriter {
            tokens: Writer::in_memory(numbers.id).counting(numbers.unknown),
            beside: Writer::in_memory(numbers.beside),
            lengths: Writer::in_memory(numbers.length),
            has_beside: false,
            cut: 0,
        }
    }

    fn in_files(dir: &Path, numbers: Numbers) -> Result<RowWriter> {
        Ok(RowWriter {
            tokens: Writer::in_file(&dir.join(TOKENS), numbers.id)?.counting(numbers.unknown),
            beside: Writer::in_file(&dir.join(BESIDE), numbers.beside)?,
            lengths: Writer::in_file(&dir.join(LENGTHS), numbers.length)?,
            has_beside: false,
            cut: 0,
        })
    }

    /// Adds a row: ids, and as many numbers beside them, which are not negative.
    pub(crate) fn add(&mut self, ids: &[i32], beside: &[i32]) -> Result<()> {
        self.has_beside |= beside.iter().any(|number| *number != 0);
        self.tokens.add(ids)?;
        self.beside.add(beside)?;
        self.lengths.add(&[ids.len() as i32])
    }

    /// Counts rows that lack tokens of their texts.
    pub(crate) fn count_cut(&mut self, rows: usize) {
        self.cut += rows as u64;
    }

    /// Completes the files in a folder.
    fn close(self, dir: &Path) -> Result<()> {
        for writer in [self.tokens, self.beside, self.lengths] {
            writer.close()?;
        }
        let path = dir.join(CUT);
        fs::write(&path, self.cut.to_string()).map_err(|error| unwritable(&path, &error))?;
        if !self.has_beside {
            // A file that stays costs space only.
            let _ = fs::remove_file(dir.join(BESIDE));
        }
        Ok(())
    }
}

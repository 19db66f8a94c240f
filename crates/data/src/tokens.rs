//! Long lists of token ids, packed in memory or in a file.

use std::fs;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};

use crate::lines::open;

/// A list of token ids of one, two or four bytes each, as the largest one needs. A list in a file takes no memory.
#[derive(Debug)]
pub struct Tokens {
    len: usize,
    width: usize,
    place: Place,
    /// How many are the token for what the vocabulary lacks, where they have been counted.
    unknown: Option<u64>,
}

#[derive(Debug)]
enum Place {
    /// Little-endian.
    Memory(Vec<u8>),
    File(Mutex<File>),
}

impl From<Vec<i32>> for Tokens {
    /// Keeps non-negative ids in memory; others are taken for 0.
    fn from(ids: Vec<i32>) -> Tokens {
        let mut writer = Writer::in_memory(ids.iter().copied().max().unwrap_or(0));
        writer.pack(&ids);
        writer.in_its_memory()
    }
}

impl Tokens {
    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Opens a file of ids up to `largest` that a [`Writer`] has written.
    pub(crate) fn open(path: &Path, largest: i32) -> Result<Tokens> {
        let (file, width) = (open(path)?, width_of(largest));
        let bytes = file.metadata().map_or(0, |about| about.len());
        Ok(Tokens {
            len: usize::try_from(bytes).unwrap_or(usize::MAX) / width,
            width,
            place: Place::File(Mutex::new(file)),
            unknown: fs::read_to_string(count_of(path))
                .ok()
                .and_then(|count| count.parse().ok()),
        })
    }

    /// How many ids are the token for what the vocabulary lacks, and how many there are; none where they have not been
    /// counted.
    pub fn unknown(&self) -> Option<(u64, u64)> {
        Some((self.unknown?, self.len as u64))
    }

    /// Reads the ids from number `start` on.
    ///
    /// # Panics
    /// If there are not so many, or if the file cannot be read any more.
    pub(crate) fn read(&self, start: usize, ids: &mut [i32]) {
        assert!(
            start + ids.len() <= self.len,
            "ids up to {} of {}",
            start + ids.len(),
            self.len
        );
        let (from, count) = (start * self.width, ids.len() * self.width);
        match &self.place {
            Place::Memory(bytes) => self.unpack(&bytes[from..from + count], ids),
            Place::File(file) => {
                let mut bytes = vec![0; count];
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                let read = file
                    .seek(SeekFrom::Start(from as u64))
                    .and_then(|_| file.read_exact(&mut bytes));
                if let Err(error) = read {
                    panic!("the cached tokens cannot be read ({error}); restore or remove the cache");
                }
                self.unpack(&bytes, ids);
            }
        }
    }

    fn unpack(&self, bytes: &[u8], ids: &mut [i32]) {
        match self.width {
            1 => ids.iter_mut().zip(bytes).for_each(|(id, byte)| *id = i32::from(*byte)),
            2 => {
                let words = bytes.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
                ids.iter_mut().zip(words).for_each(|(id, word)| *id = i32::from(word));
            }
            _ => {
                let words = bytes
                    .chunks_exact(4)
                    .map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                ids.iter_mut().zip(words).for_each(|(id, word)| *id = word);
            }
        }
    }
}

/// The file with the number of unknown tokens beside a file of tokens.
fn count_of(path: &Path) -> PathBuf {
    path.with_extension("unknown")
}

/// Bytes of an id where this is the largest one.
fn width_of(largest: i32) -> usize {
    match largest {
        ..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    }
}

/// Writes a list of token ids, block by block.
pub(crate) struct Writer {
    len: usize,
    width: usize,
    /// The whole list, or the block that is being written.
    packed: Vec<u8>,
    file: Option<(PathBuf, BufWriter<File>)>,
    /// The id that is counted, and how often it came.
    counted: Option<(i32, u64)>,
}

impl Writer {
    /// A list in memory, of ids up to `largest`.
    pub(crate) fn in_memory(largest: i32) -> Writer {
        Writer {
            len: 0,
            width: width_of(largest),
            packed: Vec::new(),
            file: None,
            counted: None,
        }
    }

    /// Counts how often an id comes, that of the token for what the vocabulary lacks; none has no count.
    pub(crate) fn counting(self, unknown: Option<i32>) -> Writer {
        Writer {
            counted: unknown.map(|id| (id, 0)),
            ..self
        }
    }

    /// A list in a new file.
    pub(crate) fn in_file(path: &Path, largest: i32) -> Result<Writer> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Writer {
            file: Some((path.to_path_buf(), BufWriter::with_capacity(1 << 20, file))),
            ..Writer::in_memory(largest)
        })
    }

    /// Adds ids.
    pub(crate) fn add(&mut self, ids: &[i32]) -> Result<()> {
        self.pack(ids);
        if let Some((_, file)) = &mut self.file {
            file.write_all(&self.packed).map_err(|error| full(&error))?;
            self.packed.clear();
        }
        Ok(())
    }

    fn pack(&mut self, ids: &[i32]) {
        self.len += ids.len();
        if let Some((id, count)) = &mut self.counted {
            *count += count_in(ids, *id);
        }
        let ids = ids.iter().map(|id| id.max(&0));
        match self.width {
            1 => self.packed.extend(ids.map(|id| *id as u8)),
            2 => self.packed.extend(ids.flat_map(|id| (*id as u16).to_le_bytes())),
            _ => self.packed.extend(ids.flat_map(|id| id.to_le_bytes())),
        }
    }

    /// Completes a list in a file, which [`Tokens::open`] opens.
    pub(crate) fn close(self) -> Result<()> {
        let Some((path, mut file)) = self.file else {
            return Ok(());
        };
        file.flush().map_err(|error| full(&error))?;
        match self.counted {
            Some((_, count)) => fs::write(count_of(&path), count.to_string()).map_err(|error| full(&error)),
            None => Ok(()),
        }
    }

    /// The list, of one in memory.
    pub(crate) fn in_its_memory(mut self) -> Tokens {
        self.packed.shrink_to_fit();
        Tokens {
            len: self.len,
            width: self.width,
            place: Place::Memory(self.packed),
            unknown: self.counted.map(|(_, count)| count),
        }
    }
}

/// How many of the ids are this one.
pub(crate) fn count_in(ids: &[i32], id: i32) -> u64 {
    ids.iter().filter(|own| **own == id).count() as u64
}

fn full(error: &std::io::Error) -> Error {
    Error::user(format!(
        "the tokens cannot be written to the cache ({error}); free some space, or name another folder with data.cache"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_memory_and_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        for largest in [3, 255, 256, 65_535, 65_536, i32::MAX] {
            let ids = [0, largest, 1, largest / 2, 2, largest];
            let mut writer = Writer::in_file(&path, largest).unwrap();
            ids.chunks(4).for_each(|part| writer.add(part).unwrap());
            writer.close().unwrap();
            for tokens in [Tokens::from(ids.to_vec()), Tokens::open(&path, largest).unwrap()] {
                let mut found = [7; 4];
                tokens.read(1, &mut found);
                assert_eq!((found, tokens.len()), ([largest, 1, largest / 2, 2], 6));
                assert_eq!(tokens.unknown(), None);
            }
        }
    }

    #[test]
    fn unknown_tokens_are_counted_in_memory_and_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let filled = |writer: Writer| {
            let mut writer = writer.counting(Some(1));
            [&[1, 2][..], &[3, 1, 1]]
                .iter()
                .for_each(|ids| writer.add(ids).unwrap());
            writer
        };
        assert_eq!(filled(Writer::in_memory(9)).in_its_memory().unknown(), Some((3, 5)));
        filled(Writer::in_file(&path, 9).unwrap()).close().unwrap();
        assert_eq!(Tokens::open(&path, 9).unwrap().unknown(), Some((3, 5)));
    }
}

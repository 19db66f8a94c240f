//! Zip archives, which `numpy.savez` and `numpy.savez_compressed` write (`.npz`): at the end a directory with name,
//! sizes, checksum and place of each member; members are stored as they are or deflated.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use lessen_base::{Error, Result};

use crate::files::{quoted, unreadable};

/// An archive in memory.
pub(crate) struct Archive {
    path: PathBuf,
    bytes: Vec<u8>,
    members: Vec<Member>,
}

/// What the directory says of a member.
struct Member {
    name: String,
    method: u16,
    crc: u32,
    packed: usize,
    unpacked: usize,
    /// Where its own header begins.
    place: usize,
}

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// How many times as long as packed data what is unpacked can be at most: deflate writes 258 bytes with 2 bits.
const LARGEST_RATIO: usize = 1032;

/// Sizes of the fixed parts of headers.
const END: usize = 22;
const ENTRY: usize = 46;
const LOCAL: usize = 30;

/// The value of a size that stands elsewhere, in 64 bits.
const ELSEWHERE: usize = 0xFFFF_FFFF;

impl Archive {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    /// A file that cannot be read, or is no sound archive.
    pub(crate) fn read(path: &Path) -> Result<Archive> {
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
        let members = directory(&bytes).ok_or_else(|| {
            Error::user(format!(
                "{} is no sound archive of NumPy arrays; it is cut off or damaged, so save it again with numpy.savez",
                path.display()
            ))
        })?;
        if members
            .iter()
            .any(|member| [member.packed, member.unpacked, member.place].contains(&ELSEWHERE))
        {
            return Err(Error::user(format!(
                "{} has more than 4 GiB, which cannot be read; save its arrays as .npy files in a folder",
                path.display()
            )));
        }
        let path = path.to_path_buf();
        Ok(Archive { path, bytes, members })
    }

    /// The names of the members in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &member.name[..])
    }

    /// The content of a member.
    ///
    /// # Errors
    /// No such member, or one that is packed in another way or damaged.
    pub(crate) fn content(&self, name: &str) -> Result<Vec<u8>> {
        let wrong = |what: &str| {
            let shown = self.path.display();
            Error::user(format!("{shown}: its member {} {what}", quoted(name)))
        };
        let damaged = || wrong("is damaged; save the archive again with numpy.savez");
        let member = self.members.iter().find(|member| member.name == name);
        let member = member.ok_or_else(|| wrong("does not exist; check the name"))?;
        let packed = self.packed(member).ok_or_else(damaged)?;
        let content = match member.method {
            STORED => packed.to_vec(),
            DEFLATED if member.unpacked <= packed.len().saturating_mul(LARGEST_RATIO) => {
                let mut content = Vec::with_capacity(member.unpacked);
                let unpacking = DeflateDecoder::new(packed).take(member.unpacked as u64 + 1);
                { unpacking }.read_to_end(&mut content).map_err(|_| damaged())?;
                content
            }
            DEFLATED => return Err(damaged()),
            _ => {
                return Err(wrong(
                    "is packed in another way than by deflate; save it with numpy.savez",
                ));
            }
        };
        let mut crc = Crc::new();
        crc.update(&content);
        if content.len() == member.unpacked && crc.sum() == member.crc {
            Ok(content)
        } else {
            Err(damaged())
        }
    }

    /// The bytes of a member as they are in the archive.
    fn packed(&self, member: &Member) -> Option<&[u8]> {
        let local = self.bytes.get(member.place..)?;
        local.get(..LOCAL)?.strip_prefix(b"PK\x03\x04")?;
        let start = LOCAL + number(local, 26, 2)? + number(local, 28, 2)?;
        local.get(start..)?.get(..member.packed)
    }
}

/// The members of an archive; none where it is damaged.
fn directory(bytes: &[u8]) -> Option<Vec<Member>> {
    // A comment of up to 65,535 bytes may follow the end.
    let first = bytes.len().saturating_sub(END + 0xFFFF);
    let last = bytes.len().checked_sub(END)?;
    let end = (first..=last)
        .rev()
        .find(|at| bytes[*at..].starts_with(b"PK\x05\x06"))?;
    let end = &bytes[end..];
    let (count, mut at) = (number(end, 10, 2)?, number(end, 16, 4)?);
    let mut members = Vec::new();
    for _ in 0..count {
        let entry = bytes.get(at..)?;
        entry.get(..ENTRY)?.strip_prefix(b"PK\x01\x02")?;
        let name = number(entry, 28, 2)?;
        members.push(Member {
            name: String::from_utf8_lossy(entry.get(ENTRY..ENTRY + name)?).into_owned(),
            method: number(entry, 10, 2)? as u16,
            crc: number(entry, 16, 4)? as u32,
            packed: number(entry, 20, 4)?,
            unpacked: number(entry, 24, 4)?,
            place: number(entry, 42, 4)?,
        });
        at += ENTRY + name + number(entry, 30, 2)? + number(entry, 32, 2)?;
    }
    // Members that lie over each other would stand for more than a file of this length can.
    let packed = members
        .iter()
        .map(|member| member.packed)
        .filter(|size| *size != ELSEWHERE);
    (packed.sum::<usize>() <= bytes.len()).then_some(members)
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + size)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | usize::from(*byte)),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// An archive of members, each stored or deflated.
    pub(crate) fn archive(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, content, deflated) in members {
            let packed = if *deflated {
                let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
                packer.write_all(content).unwrap();
                packer.finish().unwrap()
            } else {
                content.to_vec()
            };
            let mut crc = Crc::new();
            crc.update(content);
            let mut common = vec![20, 0, 0, 0, if *deflated { 8 } else { 0 }, 0, 0, 0, 0, 0];
            for number in [crc.sum(), packed.len() as u32, content.len() as u32] {
                common.extend(number.to_le_bytes());
            }
            common.extend((name.len() as u16).to_le_bytes());
            directory.extend(b"PK\x01\x02\x14\x00");
            directory.extend(&common);
            directory.extend([0; 12]);
            directory.extend((bytes.len() as u32).to_le_bytes());
            directory.extend(name.as_bytes());
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&common);
            // Some bytes that a reader has to pass over, as NumPy writes them.
            bytes.extend([4, 0]);
            bytes.extend(name.as_bytes());
            bytes.extend([1, 0, 0, 0]);
            bytes.extend(packed);
        }
        let (place, count) = (bytes.len() as u32, members.len() as u16);
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend(count.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend(place.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn members_are_found_and_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let long = vec![5; 10_000];
        let bytes = archive(&[("a.npy", b"hello", false), ("b.npy", &long, true)]);
        assert!(bytes.len() < 500);
        std::fs::write(&path, &bytes).unwrap();
        let found = Archive::read(&path).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["a.npy", "b.npy"]);
        assert_eq!(found.content("a.npy").unwrap(), b"hello");
        assert_eq!(found.content("b.npy").unwrap(), long);
        let sentence = found.content("c.npy").unwrap_err().to_string();
        assert!(sentence.contains("its member 'c.npy' does not exist"), "{sentence}");
    }

    #[test]
    fn members_that_lie_over_each_other_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let mut bytes = archive(&[("a.npy", &[5; 1000], false), ("b.npy", &[5; 200], false)]);
        std::fs::write(&path, &bytes).unwrap();
        assert!(Archive::read(&path).is_ok());
        // The second one says that it has as many bytes as both.
        let entry = bytes.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        bytes[entry + 20..entry + 24].copy_from_slice(&1000u32.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert!(Archive::read(&path).is_err());
    }

    #[test]
    fn damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let long = vec![5; 10_000];
        let sound = archive(&[("a.npy", b"hello", false), ("b.npy", &long, true)]);
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Archive::read(&path)
        };
        assert!(read(&sound[..sound.len() - 1]).is_err());
        assert!(read(b"PK").is_err());
        let at = sound.windows(5).position(|bytes| bytes == b"hello").unwrap();
        let mut flipped = sound.clone();
        flipped[at] = b'j';
        let sentence = read(&flipped).unwrap().content("a.npy").unwrap_err().to_string();
        assert!(sentence.contains("is damaged; save the archive again"), "{sentence}");
        // A directory that claims 4 GiB less one byte for the deflated member.
        let entry = sound.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        let mut lying = sound.clone();
        lying[entry + 24..entry + 28].copy_from_slice(&[0xFE, 0xFF, 0xFF, 0xFF]);
        assert!(read(&lying).unwrap().content("b.npy").is_err());
    }
}

//! Zip archives of members that are stored as they are.

use std::io::{self, Write};

use flate2::Crc;

/// A member: a header and what follows it.
pub(super) struct Member<'a> {
    name: String,
    header: Vec<u8>,
    data: &'a [u8],
    crc: u32,
}

impl<'a> Member<'a> {
    pub(super) fn new(name: String, header: Vec<u8>, data: &'a [u8]) -> Member<'a> {
        let mut crc = Crc::new();
        crc.update(&header);
        crc.update(data);
        Member {
            name,
            header,
            data,
            crc: crc.sum(),
        }
    }

    fn bytes(&self) -> usize {
        self.header.len() + self.data.len()
    }

    /// What the member's own header and the directory both say, from the version on that a reader needs.
    fn common(&self) -> Vec<u8> {
        /// Version 2.0 of the format.
        const VERSION: u16 = 20;
        /// The name is UTF-8.
        const UTF8: u16 = 1 << 11;
        /// The first of January 1980, the earliest date.
        const DATE: u16 = 1 << 5 | 1;
        let flags = if self.name.is_ascii() { 0 } else { UTF8 };
        let (method, time, extra) = (0, 0, 0);
        let mut bytes = Vec::new();
        [VERSION, flags, method, time, DATE]
            .iter()
            .for_each(|x| bytes.extend(x.to_le_bytes()));
        let size = self.bytes() as u32;
        [self.crc, size, size]
            .iter()
            .for_each(|x| bytes.extend(x.to_le_bytes()));
        [self.name.len() as u16, extra]
            .iter()
            .for_each(|x| bytes.extend(x.to_le_bytes()));
        bytes
    }

    /// Its entry in the directory, where its own header begins at this byte.
    fn entry(&self, place: u32) -> Vec<u8> {
        let mut bytes = b"PK\x01\x02\x14\x00".to_vec();
        bytes.extend(self.common());
        // No comment, the first disk, no attributes.
        bytes.extend([0; 10]);
        bytes.extend(place.to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes
    }
}

/// Bytes of the fixed parts of a member's header and its entry, with some to spare.
const FIXED: usize = 128;

/// Whether an archive holds these members: numbers of members have 16 bits, as lengths of names do, and places 32.
pub(super) fn fits(members: &[Member<'_>]) -> bool {
    let few = |count: usize| count < 1 << 16;
    let bytes = members
        .iter()
        .map(|member| FIXED + 2 * member.name.len() + member.bytes());
    few(members.len())
        && members.iter().all(|member| few(member.name.len()))
        && bytes.sum::<usize>() < u32::MAX as usize
}

/// Writes an archive of members that fit.
pub(super) fn write(out: &mut dyn Write, members: &[Member<'_>]) -> io::Result<()> {
    let (mut place, mut directory) = (0, Vec::new());
    for member in members {
        directory.extend(member.entry(place as u32));
        let own = [b"PK\x03\x04", &member.common()[..], member.name.as_bytes()].concat();
        place += own.len() + member.bytes();
        for part in [&own[..], &member.header, member.data] {
            out.write_all(part)?;
        }
    }
    out.write_all(&directory)?;
    let count = (members.len() as u16).to_le_bytes();
    let (size, place) = ((directory.len() as u32).to_le_bytes(), (place as u32).to_le_bytes());
    out.write_all(&[b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &place, &[0, 0]].concat())
}

//! Arrays with names in one zip archive, as `numpy.savez` and `numpy.savez_compressed` write it (`.npz`).

use std::collections::HashSet;
use std::path::Path;

use lessen_base::atomic::write_with;
use lessen_base::{Error, Result};

use super::array::Array;
use super::npy;
use super::zip::Archive;
use super::zip_writer::{self, Member};
use crate::files::quoted;

/// The arrays of an archive with their names, in order.
///
/// # Errors
/// A file that cannot be read or is no sound archive, a member that is no array, two arrays of one name.
pub fn read(path: &Path) -> Result<Vec<(String, Array)>> {
    let archive = Archive::read(path)?;
    let mut seen = HashSet::new();
    let members = archive.names().map(|member| {
        let name = member.strip_suffix(".npy").unwrap_or(member);
        let wrong = |what: &str| Error::user(format!("{}: its member {} {what}", path.display(), quoted(name)));
        if !seen.insert(name) {
            return Err(wrong("is there twice; save the archive again with numpy.savez"));
        }
        let array = npy::parse(archive.content(member)?).map_err(|fault| wrong(&fault))?;
        Ok((name.to_string(), array))
    });
    members.collect()
}

/// Writes an archive of arrays, which are not compressed, atomically.
///
/// # Errors
/// More than 4 GiB, a folder that cannot be written to, a full disk.
pub fn write(path: &Path, arrays: &[(String, Array)]) -> Result<()> {
    let named = arrays
        .iter()
        .map(|(name, array)| (format!("{name}.npy"), npy::header(array), array));
    let members = named.map(|(name, header, array)| Ok(Member::new(name, header?, array.bytes())));
    let members = members.collect::<Result<Vec<Member<'_>>>>()?;
    if !zip_writer::fits(&members) {
        return Err(Error::user(format!(
            "{} would take more than an archive holds, 4 GiB and 65,535 arrays; save fewer arrays",
            path.display()
        )));
    }
    write_with(path, |out| zip_writer::write(out, &members))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::zip::tests::archive;

    fn arrays() -> Vec<(String, Array)> {
        vec![
            ("x".to_string(), Array::new(&[2, 2], [1.0f32, 2.0, 3.0, f32::NAN])),
            ("/model/ids:0".to_string(), Array::new(&[3], [1i64, -1, i64::MAX])),
            ("größe".to_string(), Array::new(&[], [true])),
            ("none".to_string(), Array::new::<f64>(&[0], [])),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write(&path, &arrays()).unwrap();
        assert_eq!(read(&path).unwrap(), arrays());
        write(&path, &[]).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn stored_and_deflated_members_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, single) = (dir.path().join("a.npz"), dir.path().join("a.npy"));
        let array = Array::new(&[1000], (0..1000).map(|i| i % 7));
        npy::write(&single, &array).unwrap();
        let bytes = std::fs::read(single).unwrap();
        std::fs::write(&path, archive(&[("a.npy", &bytes, false), ("b.npy", &bytes, true)])).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found, [("a".to_string(), array.clone()), ("b".to_string(), array)]);
        std::fs::write(&path, archive(&[("a.npy", &bytes, false), ("a.npy", &bytes, true)])).unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("its member 'a' is there twice")
        );
        std::fs::write(&path, archive(&[("a.txt", b"hello", false)])).unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("its member 'a.txt' is no NumPy array")
        );
    }

    #[test]
    fn a_cut_or_changed_archive_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write(&path, &arrays()[..2]).unwrap();
        let sound = std::fs::read(&path).unwrap();
        for end in 0..sound.len() {
            std::fs::write(&path, &sound[..end]).unwrap();
            assert!(read(&path).is_err(), "{end}");
        }
        // The last byte of the first array's elements.
        let at = sound
            .windows(4)
            .position(|bytes| bytes == f32::NAN.to_le_bytes())
            .unwrap();
        let mut changed = sound;
        changed[at] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("'x.npy' is damaged"));
    }
}

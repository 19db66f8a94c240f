//! Binary files of CIFAR-10 and CIFAR-100: records of one label byte, or a coarse and a fine one, and 3,072 bytes, the
//! red, green and blue planes of an image of 32 x 32 pixels.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::parts::{Part, PartLabels, interleaved};
use super::set::Pixels;
use super::unpack;

/// Rows and columns.
const SIDE: usize = 32;
const PIXELS: usize = SIDE * SIDE * 3;

/// The data set that a file's records belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CifarSet {
    Cifar10,
    Cifar100,
}

impl CifarSet {
    fn label_bytes(self) -> usize {
        match self {
            CifarSet::Cifar10 => 1,
            CifarSet::Cifar100 => 2,
        }
    }

    fn classes(self) -> u8 {
        match self {
            CifarSet::Cifar10 => 10,
            CifarSet::Cifar100 => 100,
        }
    }

    /// Whether a file can consist of such records.
    fn fits(self, bytes: &[u8]) -> bool {
        let record = self.label_bytes() + PIXELS;
        let is_label = |record: &[u8]| record[self.label_bytes() - 1] < self.classes();
        bytes.len().is_multiple_of(record) && bytes.chunks_exact(record).all(is_label)
    }
}

/// Reads files of one of the two data sets as one split. The labels of CIFAR-100 are the fine ones.
///
/// # Errors
/// A file that cannot be read, is empty, or does not consist of records of images and labels.
pub(super) fn read(files: &[PathBuf]) -> Result<Part> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let mut set: Option<(CifarSet, &Path)> = None;
    for file in files {
        let bytes = unpack::content(file)?;
        let own = set_of(&bytes, file)?;
        match set {
            Some((first, other)) if first != own => {
                return Err(Error::user(format!(
                    "{} has records of CIFAR-100 and {} has records of CIFAR-10; keep them in folders of their own",
                    if own == CifarSet::Cifar100 { file } else { other }.display(),
                    if own == CifarSet::Cifar100 { other } else { file }.display()
                )));
            }
            _ => set = Some((own, file)),
        }
        for record in bytes.chunks_exact(own.label_bytes() + PIXELS) {
            let (label, planes) = record.split_at(own.label_bytes());
            labels.push(i64::from(label[label.len() - 1]));
            pixels.extend(interleaved(planes, 3));
        }
    }
    Ok(Part {
        pixels: Pixels::InMemory([SIDE, SIDE, 3], pixels.into()),
        labels: PartLabels::Numbers(labels),
        place: files.first().cloned().unwrap_or_default(),
    })
}

fn set_of(bytes: &[u8], file: &Path) -> Result<CifarSet> {
    let shown = file.display();
    if bytes.is_empty() {
        return Err(Error::user(format!("{shown} is empty; copy or download it again")));
    }
    let sets = [CifarSet::Cifar10, CifarSet::Cifar100];
    sets.into_iter().find(|set| set.fits(bytes)).ok_or_else(|| {
        let fault = if sets
            .iter()
            .any(|set| bytes.len().is_multiple_of(set.label_bytes() + PIXELS))
        {
            "has labels that are none of CIFAR's, 0 to 9 or 0 to 99".to_string()
        } else {
            format!(
                "has {} bytes, which are no whole number of CIFAR's records, of {} or {} bytes",
                bytes.len(),
                1 + PIXELS,
                2 + PIXELS
            )
        };
        Error::user(format!("{shown} {fault}; copy or download it again"))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;

    /// A record whose planes are full of three bytes, but for the first pixel.
    pub(crate) fn record(labels: &[u8], colour: [u8; 3]) -> Vec<u8> {
        let mut record = labels.to_vec();
        for byte in colour {
            record.push(byte / 2);
            record.extend(vec![byte; SIDE * SIDE - 1]);
        }
        record
    }

    #[test]
    fn planes_become_pixels_and_the_fine_label_counts() {
        let dir = tempfile::tempdir().unwrap();
        for labels in [&[7][..], &[3, 77]] {
            let path = dir.path().join("a.bin");
            fs::write(
                &path,
                [record(labels, [2, 4, 6]), record(labels, [10, 20, 30])].concat(),
            )
            .unwrap();
            let part = read(&[path]).unwrap();
            let PartLabels::Numbers(found) = &part.labels else {
                panic!("numbers")
            };
            assert_eq!(found, &[i64::from(labels[labels.len() - 1]); 2]);
            let Pixels::InMemory(shape, bytes) = &part.pixels else {
                panic!("in memory")
            };
            assert_eq!((*shape, bytes.len()), ([32, 32, 3], 2 * PIXELS));
            assert_eq!(bytes[..6], [1, 2, 3, 2, 4, 6]);
            assert_eq!(bytes[PIXELS..PIXELS + 6], [5, 10, 15, 10, 20, 30]);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: Vec<u8>| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let refused = |paths: &[PathBuf]| read(paths).err().unwrap().to_string();
        let mut short = record(&[1], [0; 3]);
        short.pop();
        assert!(refused(&[path("a.bin", short)]).contains("has 3072 bytes, which are no whole number"));
        assert!(refused(&[path("b.bin", record(&[10], [0; 3]))]).contains("none of CIFAR's"));
        assert!(refused(&[path("c.bin", vec![])]).contains("c.bin is empty"));
        let both = [
            path("d.bin", record(&[1], [0; 3])),
            path("e.bin", record(&[1, 2], [0; 3])),
        ];
        let sentence = refused(&both);
        assert!(sentence.contains("e.bin has records of CIFAR-100 and "), "{sentence}");
    }
}

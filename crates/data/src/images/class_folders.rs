//! Folders with a folder of PNG and JPEG files for each class, either at once or within folders of splits; a split may
//! have a file with the classes of its images instead.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::annotated::{self, IMAGES};
use super::decode::is_image;
use super::parts::{Part, PartLabels, Parts};
use super::set::Pixels;
use crate::folders::{for_each_file, hidden_in};
use crate::places::{DEV, class_folders, class_name, is_split};

/// Endings of images in other formats, which are left out.
const OTHERS: [&str; 7] = ["gif", "webp", "bmp", "tif", "tiff", "heic", "avif"];

/// The splits of a folder, and what there is to say of it; none where there are no folders of images.
///
/// # Errors
/// A folder that cannot be read; one class; a class without images.
pub(super) fn read(dir: &Path) -> Result<Option<(Parts, Vec<String>)>> {
    let mut left_out = LeftOut::default();
    let within = dir.join("train");
    let place = if within.is_dir() && is_split(&within)? {
        &within
    } else {
        dir
    };
    let Some(train) = part(place, &mut left_out)? else {
        return Ok(None);
    };
    let PartLabels::Names(names, places) = &train.labels else {
        return Ok(None);
    };
    if let [name] = &names[..] {
        return Err(Error::user(format!(
            "{} has the folder {name} only, and with one class there is nothing to tell apart; make a folder for each class",
            train.place.display()
        )));
    }
    let count = |class: usize| places.iter().filter(|place| **place == class as u32).count();
    if let Some(empty) = (0..names.len()).find(|class| count(*class) == 0) {
        return Err(Error::user(format!(
            "{} has no PNG or JPEG file; add some, or take the folder away",
            train.place.join(&names[empty]).display()
        )));
    }
    let has_images = names.iter().any(|name| name == IMAGES);
    let mut split = |names: &[&str]| -> Result<Option<Part>> {
        for path in names.iter().map(|name| dir.join(name)).filter(|path| path.is_dir()) {
            if is_split(&path)? {
                let own = part(&path, &mut left_out)?;
                if own.as_ref().is_some_and(|own| !has_images && own.is_without_classes()) {
                    left_out.unlabelled.push(path);
                    continue;
                }
                return Ok(own);
            }
            if place != dir {
                left_out.splits.push(path);
            }
        }
        Ok(None)
    };
    let parts = Parts {
        dev: split(&DEV)?,
        test: split(&["test"])?,
        train,
        names: None,
    };
    Ok(Some((parts, left_out.remarks())))
}

/// Files and folders that are not read.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Images in other formats.
    others: Vec<PathBuf>,
    /// Images with the name of a hidden file.
    hidden: Vec<PathBuf>,
    /// Folders with the name of a split, but without folders of classes.
    splits: Vec<PathBuf>,
    /// Folders of splits whose images have no classes.
    unlabelled: Vec<PathBuf>,
}

impl LeftOut {
    /// A sentence for each reason.
    fn remarks(&self) -> Vec<String> {
        let of = |paths: &[PathBuf], [one, several]: [&str; 2]| {
            let (first, count) = (paths.first()?, paths.len());
            let are = if count == 1 { one } else { several };
            Some(format!("{count} {are} and left out, such as {}", first.display()))
        };
        let all = [
            of(
                &self.others,
                ["file is neither PNG nor JPEG", "files are neither PNG nor JPEG"],
            ),
            of(&self.hidden, ["image is hidden", "images are hidden"]),
            of(
                &self.splits,
                [
                    "folder has the name of a split but no folders of classes",
                    "folders have the name of a split but no folders of classes",
                ],
            ),
            of(
                &self.unlabelled,
                [
                    "folder has images without classes",
                    "folders have images without classes",
                ],
            ),
        ];
        all.into_iter().flatten().collect()
    }
}

impl Part {
    /// Whether all images lie in a folder of no class.
    fn is_without_classes(&self) -> bool {
        matches!(&self.labels, PartLabels::Names(names, _) if names[..] == [IMAGES])
    }
}

/// The images in the folders of a folder, or those of its file of classes; none where there are none at all. What is
/// not read is added to `left_out`.
fn part(dir: &Path, left_out: &mut LeftOut) -> Result<Option<Part>> {
    if let Some(file) = annotated::annotations(dir) {
        return annotated::read(dir, &file).map(Some);
    }
    let (mut files, mut names, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for class in class_folders(dir)? {
        for_each_file(&class, &mut |path| {
            let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            if is_image(&path) {
                files.push(path);
            } else if OTHERS.contains(&&extension[..]) {
                left_out.others.push(path);
            }
            Ok(())
        })?;
        left_out
            .hidden
            .extend(hidden_in(&class)?.into_iter().filter(|path| is_image(path)));
        places.resize(files.len(), names.len() as u32);
        names.push(class_name(&class)?);
    }
    Ok((!files.is_empty()).then(|| Part {
        pixels: Pixels::InFiles(files.into()),
        labels: PartLabels::Names(names, places),
        place: dir.to_path_buf(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    fn shown(dir: &Path, part: &Part) -> Vec<String> {
        let (Pixels::InFiles(files), PartLabels::Names(names, places)) = (&part.pixels, &part.labels) else {
            panic!("files and names");
        };
        let show = |(file, place): (&PathBuf, &u32)| {
            format!(
                "{} {}",
                file.strip_prefix(dir).unwrap().display(),
                names[*place as usize]
            )
        };
        files.iter().zip(places).map(show).collect()
    }

    #[test]
    fn classes_are_folders_also_within_those_of_splits() {
        let dir = folder(&[
            "b/2.PNG",
            "b/1.jpg",
            "a/deep/3.jpeg",
            "a/.x.png",
            "a/notes.txt",
            "a/4.webp",
        ]);
        let (parts, remarks) = read(dir.path()).unwrap().unwrap();
        assert_eq!(
            shown(dir.path(), &parts.train),
            ["a/deep/3.jpeg a", "b/1.jpg b", "b/2.PNG b"]
        );
        assert!(parts.dev.is_none() && parts.test.is_none());
        assert!(
            remarks[0].starts_with("1 file is neither PNG nor JPEG and left out, ") && remarks[0].ends_with("a/4.webp")
        );
        assert!(
            remarks[1].starts_with("1 image is hidden and left out, ") && remarks[1].ends_with("a/.x.png"),
            "{remarks:?}"
        );
        let dir = folder(&["train/a/1.png", "train/b/2.png", "val/b/3.png", "test/a/4.png"]);
        let (parts, remarks) = read(dir.path()).unwrap().unwrap();
        assert_eq!(shown(dir.path(), &parts.train), ["train/a/1.png a", "train/b/2.png b"]);
        assert_eq!(shown(dir.path(), &parts.dev.unwrap()), ["val/b/3.png b"]);
        assert_eq!(shown(dir.path(), &parts.test.unwrap()), ["test/a/4.png a"]);
        assert!(remarks.is_empty());
    }

    #[test]
    fn a_folder_with_the_name_of_a_split_is_one_where_it_holds_folders() {
        let of = |files: &[&str]| {
            let dir = folder(files);
            let (parts, remarks) = read(dir.path()).unwrap().unwrap();
            let shown = |part: Option<&Part>| part.map_or(Vec::new(), |part| shown(dir.path(), part)).join(", ");
            let all = [Some(&parts.train), parts.dev.as_ref(), parts.test.as_ref()].map(shown);
            (all, remarks.len())
        };
        let all = |train: &str, dev: &str, test: &str| [train, dev, test].map(str::to_string);
        assert_eq!(
            of(&["bus/1.png", "car/2.png", "train/3.png"]),
            (all("bus/1.png bus, car/2.png car, train/3.png train", "", ""), 0)
        );
        assert_eq!(
            of(&["bus/1.png", "train/2.png", "test/bus/3.png", "val/train/4.JPG"]),
            (
                all(
                    "bus/1.png bus, train/2.png train",
                    "val/train/4.JPG train",
                    "test/bus/3.png bus"
                ),
                0
            )
        );
        for split in ["dev", "valid", "validation", "val", "test"] {
            let class = format!("{split}/1.png");
            assert_eq!(
                of(&["zoo/2.png", &class]),
                (all(&format!("{class} {split}, zoo/2.png zoo"), "", ""), 0)
            );
            // Beside a folder of training images, files alone are no split.
            assert_eq!(
                of(&["train/a/2.png", "train/b/3.png", &class]),
                (all("train/a/2.png a, train/b/3.png b", "", ""), 1)
            );
        }
    }

    #[test]
    fn a_file_has_the_classes_of_a_split_as_in_tiny_imagenet() {
        let dir = folder(&[
            "train/n01/images/n01_0.JPEG",
            "train/n01/n01_boxes.txt",
            "train/n02/images/n02_0.JPEG",
            "val/images/val_0.JPEG",
            "val/images/val_1.JPEG",
            "test/images/test_0.JPEG",
        ]);
        let annotations = dir.path().join("val/val_annotations.txt");
        fs::write(
            &annotations,
            "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t52\t55\t57\t59\n",
        )
        .unwrap();
        let (parts, remarks) = read(dir.path()).unwrap().unwrap();
        assert_eq!(
            shown(dir.path(), &parts.train),
            ["train/n01/images/n01_0.JPEG n01", "train/n02/images/n02_0.JPEG n02"]
        );
        let expected = ["val/images/val_0.JPEG n02", "val/images/val_1.JPEG n01"];
        assert_eq!(shown(dir.path(), &parts.dev.unwrap()), expected);
        assert!(parts.test.is_none());
        assert!(
            remarks[..].len() == 1 && remarks[0].starts_with("1 folder has images without classes and left out, "),
            "{remarks:?}"
        );
        // The split alone.
        let (alone, _) = read(&dir.path().join("val")).unwrap().unwrap();
        assert_eq!(shown(dir.path(), &alone.train), expected);
        for (line, fault) in [
            ("val_0.JPEG", "line 1 has no class; write "),
            (
                "val_2.JPEG\tn01",
                "val_2.JPEG, which is not there; copy it, or take the line away",
            ),
            ("", "names no image; copy or download it again"),
        ] {
            fs::write(&annotations, line).unwrap();
            let sentence = read(dir.path()).err().unwrap().to_string();
            assert!(
                sentence.contains("val_annotations.txt") && sentence.contains(fault),
                "{sentence}"
            );
        }
    }

    #[test]
    fn one_class_and_empty_ones_are_refused() {
        let refused = |files: &[&str]| read(folder(files).path()).err().unwrap().to_string();
        assert!(refused(&["a/1.png"]).contains("has the folder a only"));
        let empty = refused(&["train/a/1.png", "train/b/2.gif"]);
        assert!(empty.contains("train/b has no PNG or JPEG file; add some"), "{empty}");
        assert!(read(folder(&["1.png", "a/x.txt"]).path()).unwrap().is_none());
    }

    #[test]
    #[cfg(unix)]
    fn names_that_are_no_lines_of_text_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        for (name, how) in [
            (&b"caf\xe9"[..], "is not valid UTF-8"),
            (b"two\nlines", "has a line end"),
            (b"end ", "begins or ends with white space"),
        ] {
            let dir = folder(&["caf\u{fffd}/1.png"]);
            let class = dir.path().join(std::ffi::OsStr::from_bytes(name));
            fs::create_dir(&class).unwrap();
            fs::write(class.join("2.png"), "x").unwrap();
            let sentence = read(dir.path()).err().unwrap().to_string();
            let expected = format!("{how}, so that it cannot name a class; give it another one");
            assert!(sentence.ends_with(&expected) && !sentence.contains('\n'), "{sentence}");
            // Folders of texts name classes, too.
            fs::rename(class.join("2.png"), class.join("2.txt")).unwrap();
            fs::rename(
                dir.path().join("caf\u{fffd}/1.png"),
                dir.path().join("caf\u{fffd}/1.txt"),
            )
            .unwrap();
            let sentence = crate::places::Places::of(dir.path()).unwrap_err().to_string();
            assert!(sentence.ends_with(&expected), "{sentence}");
        }
    }
}

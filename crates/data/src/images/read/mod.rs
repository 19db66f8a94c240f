//! From a path to a data set of images of any format.

mod condensed_folder;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::arrays::{HasTraining, Role, of_idx, of_npy, of_npz, role};
use super::image::Image;
use super::in_memory::ImagesInMemory;
use super::parts::{Part, Parts};
use super::preprocessing::Preprocessing;
use super::set::{ImageSet, Pixels};
use super::{cifar, class_folders, condensed, decode};
use crate::classes::Classes;
use crate::folders::listed;
use crate::held_out;
use crate::parallel::in_parallel;
use crate::places::files_of;
use crate::splits::{DataPlace, split_of, weights_of};

/// How images are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// 1 for grey images, 3 for colours; by default that of the training images, colours where some have them.
    pub channels: Option<usize>,
    /// A file, folder or pattern for the split `dev`; over that of the folder.
    pub dev: Option<PathBuf>,
    /// The same for the split `test`.
    pub test: Option<PathBuf>,
    /// Where there is no split `dev`, the share of the training split that is kept for it, below 1; 0 is none, and the
    /// split `test` is evaluated.
    pub held_out: f64,
    /// Which images these are, of every class its share.
    pub held_out_seed: u64,
    /// Whether the share is kept only where there is no split `test` either, which else is evaluated.
    pub only_without_test: bool,
    /// Whether in place of a share all images are the split `dev`, where there is none.
    pub whole: bool,
    /// Whether the training split is left out, where there are others: it is empty then.
    pub without_training: bool,
    /// The classes of the model that the data is for, in order; a file with their names goes before them.
    pub classes: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            channels: None,
            dev: None,
            test: None,
            held_out: 0.1,
            held_out_seed: 1,
            only_without_test: false,
            whole: false,
            without_training: false,
            classes: None,
        }
    }
}

/// A data set of labelled images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageData {
    /// The training split.
    pub train: ImageSet,
    /// The split of evaluations.
    pub dev: ImageSet,
    /// Whether that is all of the training split, as the data has none of its own for it.
    pub is_whole: bool,
    /// The test split, if there is one.
    pub test: Option<ImageSet>,
    /// The names of the classes in the order of their numbers.
    pub names: Vec<String>,
    /// Height and width of all images; none where they differ. Of images in files some hundreds are looked at.
    pub size: Option<[usize; 2]>,
    /// How images become what a model sees, where the data decides that.
    pub preprocessing: Option<Preprocessing>,
    /// What there is to say of how it was read, a sentence each.
    pub remarks: Vec<String>,
}

impl ImageData {
    /// Returns the split `train`, `dev` or `test`.
    ///
    /// # Errors
    /// An unknown split; the message lists the known ones.
    pub fn split(&self, name: &str) -> Result<&ImageSet> {
        split_of(name, [&self.train, &self.dev], self.test.as_ref())
    }
}

/// Files with the names of classes, one in each line.
const NAMES: [&str; 4] = ["class.txt", "classes.txt", "batches.meta.txt", "fine_label_names.txt"];

/// Files of a split that are looked at before the first step.
const LOOKED_AT: usize = 512;

/// Reads a data set: a folder, a file, or a pattern for files.
///
/// - idx files, as MNIST has them: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-...`, packed by gzip or
///   not.
/// - Binary files of CIFAR-10 or CIFAR-100 (`.bin`).
/// - NumPy's arrays: a `.npz` file, or `.npy` files in a folder, named `x_train` and `y_train`, `train_images` and
///   `train_labels` and the like.
/// - PNG and JPEG files in a folder for each class, at once or within folders `train`, `dev` and `test`; or, as tiny
///   ImageNet has `val`, a split's images in its folder `images`, with their classes in `val_annotations.txt`.
/// - Folders of condensed images, for training; the other splits are those of the data that was condensed.
///
/// # Errors
/// Data that is missing, cut off or damaged, or of one class only. The message names the file and the remedy.
pub fn read(path: &Path, options: &Options) -> Result<ImageData> {
    read_from(DataPlace::Path(path), options)
}

/// Reads what [`read`] reads, or images in memory.
///
/// # Errors
/// As [`read`].
pub fn read_from(place: DataPlace<'_, ImagesInMemory>, options: &Options) -> Result<ImageData> {
    match place {
        DataPlace::InMemory(splits) => {
            let weights = splits.weights.as_deref();
            of_parts((Parts::in_memory(splits)?, Vec::new()), weights, options)
        }
        DataPlace::Path(path) => match condensed::folder_of(path) {
            Some(dir) => condensed_folder::read(dir, options),
            None => read_splits(path, options),
        },
    }
}

/// Reads a data set of images that are bytes.
fn read_splits(path: &Path, options: &Options) -> Result<ImageData> {
    let has_others = options.dev.is_some() || options.test.is_some();
    of_parts(parts_of(path, Wanted::of(options, has_others))?, None, options)
}

/// The data set of these splits, with these weights of the training images, and of the splits that the options name;
/// there are these remarks on the splits.
fn of_parts(
    (mut parts, mut remarks): (Parts, Vec<String>),
    weights: Option<&[f32]>,
    options: &Options,
) -> Result<ImageData> {
    for (given, split) in [(&options.dev, &mut parts.dev), (&options.test, &mut parts.test)] {
        if let Some(path) = given {
            *split = Some(one_part(path)?);
        }
    }
    let classes = match (parts.names.take(), &options.classes) {
        (Some(names), _) => names,
        (None, Some(names)) => Classes::of_model(names.clone()),
        (None, None) => Classes::of_file(parts.train.classes()?, &parts.train.place, false)?.of_names(),
    };
    let looks = looks(&parts)?;
    let channels = options.channels.unwrap_or(looks.channels());
    remarks.extend(looks.remarks(channels));
    let set = |part: &mut Part| -> Result<ImageSet> {
        let labels = part.numbered(&classes)?;
        let pixels = std::mem::replace(&mut part.pixels, Pixels::InFiles(Default::default()));
        Ok(ImageSet::of(pixels, channels, labels))
    };
    let train = set(&mut parts.train)?;
    let test = parts.test.as_mut().map(set).transpose()?;
    let (examples, mut is_whole, mut held) = (train.len(), false, None);
    let (train, dev) = match (parts.dev.as_mut(), &test) {
        (Some(dev), _) => (train, set(dev)?),
        (None, Some(test)) if options.held_out == 0.0 || options.only_without_test => (train, test.clone()),
        (None, _) if options.whole => {
            is_whole = true;
            (train.clone(), train)
        }
        (None, _) => {
            let chosen = held_out_of(&train, &parts.train.place, options)?;
            let (train, dev) = (train.part(&chosen, false), train.part(&chosen, true));
            held = Some(chosen);
            remarks.push(format!(
                "there are no images for validation: {} of {} examples are kept for it",
                dev.len(),
                dev.len() + train.len()
            ));
            (train, dev)
        }
    };
    if parts.train.has_names() {
        remarks.extend(classes.remark());
    }
    let weights = weights.map(|all| weights_of(all, examples, held.as_deref()));
    Ok(ImageData {
        train: train.with_weights(weights.transpose()?),
        dev,
        is_whole,
        test,
        names: classes.into_names(),
        size: looks.size(),
        preprocessing: None,
        remarks,
    })
}

/// The splits of a path that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// All of them, each by its name.
    All,
    /// Those for evaluations, and that for training only where there are no others, here or elsewhere.
    Others { are_elsewhere: bool },
    /// All images as one split.
    One,
}

impl Wanted {
    fn of(options: &Options, are_elsewhere: bool) -> Wanted {
        if options.without_training {
            Wanted::Others { are_elsewhere }
        } else {
            Wanted::All
        }
    }

    /// Whether the training split is read, of data that has other splits or not.
    fn has_training(self, has_others: bool) -> bool {
        match self {
            Wanted::All | Wanted::One => true,
            Wanted::Others { are_elsewhere } => !has_others && !are_elsewhere,
        }
    }
}

/// Which images are kept for validation.
fn held_out_of(all: &ImageSet, place: &Path, options: &Options) -> Result<Vec<bool>> {
    if all.len() < 2 || options.held_out == 0.0 {
        return Err(Error::user(format!(
            "of the images of {} none are kept for validation; name some with data.dev, or set data.held_out above 0",
            place.display()
        )));
    }
    Ok(held_out::chosen(all.labels(), options.held_out, options.held_out_seed))
}

/// All that a path names as one split.
fn one_part(path: &Path) -> Result<Part> {
    let (parts, _) = parts_of(path, Wanted::One)?;
    Ok(parts.train)
}

/// The splits that a path names, and what there is to say of them. Where it names one split, or files, that is for
/// training, whatever its name.
fn parts_of(path: &Path, wanted: Wanted) -> Result<(Parts, Vec<String>)> {
    let is_folder = path.is_dir();
    let is_one = wanted == Wanted::One;
    let are_one = is_one || !is_folder;
    let has_training = |has_others: bool| wanted.has_training(has_others);
    let files = if is_folder {
        listed(path)?.into_iter().filter(|path| path.is_file()).collect()
    } else {
        files_of(path)?
    };
    let dir = match (is_folder, files.first().and_then(|file| file.parent())) {
        (false, Some(parent)) => parent,
        _ => path,
    };
    let of_kind = |is_kind: fn(&str) -> bool| -> Vec<PathBuf> {
        let name = |file: &&PathBuf| is_kind(&file.file_name().unwrap_or_default().to_string_lossy().to_lowercase());
        files.iter().filter(name).cloned().collect()
    };
    let idx = of_kind(|name| name.contains("idx") && !name.ends_with(".txt"));
    let bin = of_kind(|name| name.ends_with(".bin"));
    let npz = of_kind(|name| name.ends_with(".npz"));
    let npy = of_kind(|name| name.ends_with(".npy"));
    let mut parts = match (&idx[..], &bin[..], &npz[..], &npy[..]) {
        ([_, ..], ..) => of_idx(&with_siblings(idx, is_folder, dir)?, dir, (are_one, &has_training))?,
        (_, [_, ..], ..) => of_records(&bin, (are_one, &has_training))?,
        (_, _, [archive], _) => of_npz(archive, (is_one, &has_training))?,
        (_, _, [first, second, ..], _) => {
            return Err(Error::user(format!(
                "{} and {} are two archives; keep one of them in the folder, or name one",
                first.display(),
                second.display()
            )));
        }
        (_, _, _, [_, ..]) => of_npy(&with_siblings(npy, is_folder, dir)?, dir, (are_one, &has_training))?,
        _ => {
            let found = if is_folder { class_folders::read(path)? } else { None };
            let (mut parts, remarks) = found.ok_or_else(|| nothing_in(path, is_folder))?;
            parts.names = names(dir)?;
            return Ok((parts, remarks));
        }
    };
    parts.names = names(dir)?;
    Ok((parts, Vec::new()))
}

/// A file of an array that is named alone has that of its labels beside it.
fn with_siblings(files: Vec<PathBuf>, is_folder: bool, dir: &Path) -> Result<Vec<PathBuf>> {
    let [file] = &files[..] else { return Ok(files) };
    if is_folder {
        return Ok(files);
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = name(file);
    let of_labels = own
        .replace("images", "labels")
        .replace("idx3", "idx1")
        .replace("x_", "y_")
        .replace("_x", "_y");
    let stem = of_labels.trim_end_matches(".gz");
    let siblings = listed(dir)?.into_iter().filter(|path| {
        let name = name(path);
        name != own && name.trim_end_matches(".gz") == stem
    });
    Ok(siblings.chain([file.clone()]).collect())
}

/// The splits of files of records, by their names, unless they are one.
fn of_records(files: &[PathBuf], (are_one, has_training): (bool, HasTraining<'_>)) -> Result<Parts> {
    let of = |wanted: Role| -> Result<Option<Part>> {
        let name = |file: &&PathBuf| role(&file.file_name().unwrap_or_default().to_string_lossy()) == wanted;
        let own: Vec<PathBuf> = files.iter().filter(name).cloned().collect();
        if own.is_empty() {
            Ok(None)
        } else {
            cifar::read(&own).map(Some)
        }
    };
    if are_one {
        return Ok(Parts {
            train: cifar::read(files)?,
            dev: None,
            test: None,
            names: None,
        });
    }
    let (dev, test) = (of(Role::Dev)?, of(Role::Test)?);
    if !has_training(dev.is_some() || test.is_some()) {
        return Ok(Parts {
            train: Part::empty(&files[0]),
            dev,
            test,
            names: None,
        });
    }
    let train = of(Role::Train)?.ok_or_else(|| {
        Error::user(format!(
            "{} and the files beside it are none for training; name one train.bin or data_batch_1.bin",
            files[0].display()
        ))
    })?;
    Ok(Parts {
        train,
        dev,
        test,
        names: None,
    })
}

/// The names of classes in a file of a folder.
fn names(dir: &Path) -> Result<Option<Classes>> {
    let found = NAMES.iter().map(|name| dir.join(name)).find(|path| path.is_file());
    found.map(|path| Classes::read(&path, false)).transpose()
}

fn nothing_in(path: &Path, is_folder: bool) -> Error {
    let shown = path.display();
    if path.extension().is_some_and(|ending| ending == "mat") {
        return Error::user(format!(
            "{shown} is a file of MATLAB, as SVHN's are; convert it to a .npz file as `lessen recipes images` shows"
        ));
    }
    Error::user(if is_folder {
        format!(
            "there are no images in {shown} that can be read: neither idx files (train-images-idx3-ubyte), nor records of \
             CIFAR (.bin), nor arrays (.npz, .npy), nor a folder of PNG and JPEG files for each class; add some, or check the \
             path (`lessen recipes --data` shows the formats)"
        )
    } else {
        format!("{shown} is no data set of images; name a folder, an idx file, a .bin file of CIFAR or a .npz file")
    })
}

/// What some of the images look like.
#[derive(Default)]
struct Looks {
    sizes: BTreeSet<[usize; 2]>,
    grey: usize,
    all: usize,
    /// Whether only some of the images were looked at.
    are_sampled: bool,
}

/// Looks at the images of all splits: at one image in memory, since all of them are alike, and at some images in files.
fn looks(parts: &Parts) -> Result<Looks> {
    let mut looks = Looks::default();
    let splits = [Some(&parts.train), parts.dev.as_ref(), parts.test.as_ref()];
    for part in splits.into_iter().flatten().filter(|part| part.len() > 0) {
        let (shapes, weight) = match &part.pixels {
            Pixels::InMemory(shape, _) => (vec![*shape], part.len()),
            Pixels::Numbers(normalization, _) => (vec![normalization.shape()], part.len()),
            Pixels::OfSizes(images) => (images.iter().map(Image::shape).collect(), 1),
            Pixels::InFiles(files) => {
                let count = files.len().min(LOOKED_AT);
                looks.are_sampled |= count < files.len();
                let some: Vec<&PathBuf> = (0..count).map(|at| &files[at * files.len() / count]).collect();
                (in_parallel(&some, |file| decode::shape(file))?, 1)
            }
        };
        for [height, width, channels] in shapes {
            looks.sizes.insert([height, width]);
            looks.all += weight;
            looks.grey += if channels == 1 { weight } else { 0 };
        }
    }
    Ok(looks)
}

impl Looks {
    /// 1 where all images are grey, else 3.
    fn channels(&self) -> usize {
        if self.grey == self.all { 1 } else { 3 }
    }

    /// Height and width of all images, if they have the same ones.
    fn size(&self) -> Option<[usize; 2]> {
        let mut sizes = self.sizes.iter();
        sizes.next().copied().filter(|_| sizes.next().is_none())
    }

    /// What there is to say of images that are read with so many channels.
    fn remarks(&self, channels: usize) -> Vec<String> {
        let mut remarks = Vec::new();
        let (wrong, from, to) = match channels {
            1 => (self.all - self.grey, "colour", "grey"),
            _ => (self.grey, "grey", "colour"),
        };
        let looked_at = if self.are_sampled { " that were looked at" } else { "" };
        if wrong > 0 {
            let (all, are) = (self.all, if wrong == 1 { "is" } else { "are" });
            remarks.push(format!(
                "{wrong} of {all} images{looked_at} {are} in {from}; such images are converted to {to}"
            ));
        }
        if let (Some([least, a]), Some([most, b]), None) = (self.sizes.first(), self.sizes.last(), self.size()) {
            remarks.push(format!(
                "images{looked_at} differ in size, such as {least} x {a} and {most} x {b} (height x width); each is resized \
                 to what the model sees"
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;

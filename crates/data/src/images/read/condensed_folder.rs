//! Condensed images as a data set: they are the training split, and the data that was condensed has the others.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::{ImageData, Options, names, one_part, read_splits};
use crate::classes::Classes;
use crate::images::condensed::{CondensedImages, TrainingImages};
use crate::images::preprocessing::Preprocessing;
use crate::images::set::{ImageSet, Pixels};

/// Reads the folder of condensed images.
///
/// # Errors
/// Files that are damaged or do not go together, a number of channels that the images do not have, and splits that are
/// missing.
pub(super) fn read(dir: &Path, options: &Options) -> Result<ImageData> {
    let shown = dir.display();
    let preprocessing = Preprocessing::load(dir)?.ok_or_else(|| {
        Error::user(format!(
            "{shown} has condensed images but no preprocessor_config.json, which says what their numbers mean; restore \
             the file"
        ))
    })?;
    let classes = names(dir)?.ok_or_else(|| {
        Error::user(format!(
            "{shown} has condensed images but no classes.txt with the names of their classes; restore the file"
        ))
    })?;
    let classes = classes.into_names();
    let [height, width, channels] = preprocessing.shape();
    if options.channels.is_some_and(|asked| asked != channels) {
        return Err(Error::user(format!(
            "the condensed images in {shown} have {channels} channels, and another number is asked for; leave \
             image.channels out"
        )));
    }
    let images = CondensedImages::read(dir, &preprocessing, classes.len())?;
    let origin = TrainingImages::read(dir)?;
    let others = others(&origin, options, channels, &classes).map_err(|error| {
        Error::user(format!(
            "{shown} was condensed from {}, whose test images score what is learned, and they cannot be read: {error}; \
             name others with data.test",
            origin.place()
        ))
    })?;
    let labels: Vec<i32> = images.labels.iter().map(|label| *label as i32).collect();
    let pixels = Pixels::Numbers(preprocessing.normalization().into(), images.pixels.into());
    let mut train = ImageSet::of(pixels, channels, labels);
    if let Some(shares) = images.soft_labels {
        train = train.with_shares(shares, classes.len());
    }
    let mut remarks = vec![format!(
        "the {} training images are condensed from {} of {}; they are read as they are, as numbers and not as bytes",
        train.len(),
        origin.images,
        origin.place()
    )];
    remarks.extend(others.remarks);
    Ok(ImageData {
        train,
        dev: others.dev,
        is_whole: false,
        test: others.test,
        names: classes,
        size: Some([height, width]),
        preprocessing: Some(preprocessing),
        remarks,
    })
}

/// The splits for evaluations.
struct Others {
    dev: ImageSet,
    test: Option<ImageSet>,
    remarks: Vec<String>,
}

/// The splits for evaluations: those that are named, or else those of the data that was condensed, of which the
/// training split is read only where it has no others.
fn others(origin: &TrainingImages, options: &Options, channels: usize, classes: &[String]) -> Result<Others> {
    let named = |path: &Option<PathBuf>| -> Result<Option<ImageSet>> {
        let Some(path) = path else { return Ok(None) };
        let part = one_part(path)?;
        let labels = part.numbered(&Classes::of_model(classes.to_vec()))?;
        Ok(Some(ImageSet::of(part.pixels, channels, labels)))
    };
    let (dev, test) = (named(&options.dev)?, named(&options.test)?);
    if let Some(dev) = dev.or_else(|| test.clone()) {
        return Ok(Others {
            dev,
            test,
            remarks: Vec::new(),
        });
    }
    if origin.is_in_memory() {
        return Err(Error::user("they are in no file"));
    }
    let options = Options {
        channels: Some(channels),
        dev: origin.dev.clone(),
        test: origin.test.clone(),
        held_out: origin.held_out,
        held_out_seed: origin.held_out_seed,
        only_without_test: false,
        without_training: true,
        whole: false,
        classes: Some(classes.to_vec()),
    };
    let data = read_splits(&origin.path, &options)?;
    Ok(Others {
        dev: data.dev,
        test: data.test,
        remarks: data.remarks,
    })
}

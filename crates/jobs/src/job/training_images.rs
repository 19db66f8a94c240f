//! The images that a job reads: what is noted of them, and that a resumed job reads the same ones.

use super::{JobKind, RecipeImages};
use lessen_base::{Error, Result};
use lessen_data::images::condensed::TrainingImages;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::counted;
use std::path::Path;

/// What is noted of the images.
///
/// # Errors
/// A file of an image that cannot be read.
pub(crate) fn noted(config: &Config, images: &RecipeImages) -> Result<TrainingImages> {
    let (keys, digest) = (&config.data, images.digest()?);
    Ok(TrainingImages {
        path: keys.path.clone().unwrap_or_default(),
        dev: keys.dev.clone(),
        test: keys.test.clone(),
        held_out: images.held_out,
        held_out_seed: keys.held_out_seed,
        images: digest.size,
        crc32c: digest.crc,
    })
}

/// Refuses other images than the job in `out` began with.
///
/// # Errors
/// Other images.
pub(crate) fn check_images(kind: JobKind, out: &Path, before: &TrainingImages, now: &TrainingImages) -> Result<()> {
    if (before.images, before.crc32c) == (now.images, now.crc32c) {
        return Ok(());
    }
    let how = if before.images == now.images {
        "its contents differ".to_string()
    } else {
        format!("{} then, {} now", counted(before.images, "training image"), now.images)
    };
    Err(Error::user(format!(
        "the data {} is not what the {noun} {} began with, {} ({how}); name that data, or start another {noun} with another \
         --out",
        now.place(),
        out.display(),
        before.place(),
        noun = kind.noun
    )))
}

/// The settings for the folder of a job, which read the same images again.
///
/// # Errors
/// None, as long as a share is one that the key takes.
pub(crate) fn reading_the_same(config: &Config, images: &RecipeImages) -> Result<Settings> {
    let mut settings = config.settings.clone();
    let share = SettingValue::Number(images.held_out);
    settings.set_named("data.held_out", share, "the test split of the data".to_string())?;
    Ok(settings)
}

//! What can be wrong with a condensation, found without planning it.

use super::settings::{Iterations, check_network, condensation, iterations, network};
use crate::job::{CONDENSATION, RecipeImages};
use crate::schema::CondenseKeys;
use crate::schema::check_flags;
use lessen_base::{Error, Result};
use lessen_condense::ImageSource;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::counted;

/// Images that were read, with the settings that name them.
pub(crate) type ReadImages = Option<(Vec<(String, String)>, RecipeImages)>;

/// Checks the settings of a condensation, which may share the images that were `read` before. Returns the settings with
/// their types, and the number of outer iterations: 0 of a coreset, none where a time is to be filled.
///
/// # Errors
/// A mistake in the settings or the images, a network that does not fit, a class with fewer images than are asked for.
pub(crate) fn check(settings: &Settings, read: &mut ReadImages) -> Result<(Config, Option<usize>)> {
    check_flags(settings, CONDENSATION, "condense")?;
    let config = Config::new(settings.clone().with_absolute_paths())?;
    let own = condensation(&config)?;
    let images = images_of(&config, read)?;
    let network = network(&config, images.names.len())?;
    check_network(&config, &network, images.train.shape())?;
    check_classes(&config, images, own.per_class)?;
    let count = match iterations(&config.settings.section::<CondenseKeys>()?, &own) {
        Iterations::Count(count) => Some(count),
        Iterations::Minutes(_) => None,
    };
    Ok((config, count))
}

/// The images of a recipe, which may be those that were `read` before.
///
/// # Errors
/// Images that cannot be read.
pub(crate) fn images_of<'a>(config: &Config, read: &'a mut ReadImages) -> Result<&'a RecipeImages> {
    let mut named = config.settings.entries();
    named.retain(|(name, _)| name.starts_with("data.") || name.starts_with("image."));
    let images = match read.take().filter(|(before, _)| *before == named) {
        Some((_, images)) => images,
        None => RecipeImages::read(config)?,
    };
    Ok(&read.insert((named, images)).1)
}

/// Refuses a class with fewer images to learn from than are asked for, by its name.
pub(super) fn check_classes(config: &Config, images: &RecipeImages, per_class: usize) -> Result<()> {
    let by_class = images.train.by_class();
    let mut named = by_class.iter().map(Vec::len).zip(&images.names);
    match named.find(|(count, _)| *count < per_class) {
        None => Ok(()),
        Some((0, name)) => Err(Error::user(format!(
            "the class {name} has no image to learn from; give images of every class"
        ))),
        Some((count, name)) => Err(Error::user(format!(
            "{}: the class {name} has only {}; ask for no more",
            config.place("condense.per_class"),
            counted(count as u64, "image")
        ))),
    }
}

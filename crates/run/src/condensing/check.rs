//! What can be wrong with a condensation, found without planning it.

use super::settings::{Iterations, check_flags, check_network, condensation, iterations, network};
use crate::jobs::RecipeImages;
use crate::recipe::config::Config;
use crate::recipe::settings::Settings;
use crate::wording::counted;
use lessen_base::{Error, Result};
use lessen_condense::ImageSource;

/// Images that were read, with the settings that name them.
pub(crate) type ReadImages = Option<(Vec<(String, String)>, RecipeImages)>;

/// Checks the settings of a condensation, which may share the images that were `read` before. Returns the settings with
/// their types, and the number of outer iterations: 0 of a coreset, none where a time is to be filled.
///
/// # Errors
/// A mistake in the settings or the images, a network that does not fit, a class with fewer images than are asked for.
pub(crate) fn check(settings: &Settings, read: &mut ReadImages) -> Result<(Config, Option<usize>)> {
    check_flags(settings)?;
    let config = Config::new(settings.clone().with_absolute_paths())?;
    let own = condensation(&config)?;
    let mut named = config.settings.entries();
    named.retain(|(name, _)| name.starts_with("data.") || name.starts_with("image."));
    let images = match read.take().filter(|(before, _)| *before == named) {
        Some((_, images)) => images,
        None => RecipeImages::read(&config)?,
    };
    let network = network(&config, images.names.len())?;
    check_network(&config, &network, images.train.shape())?;
    let by_class = images.train.by_class();
    if let Some(class) = by_class.iter().position(|own_class| own_class.len() < own.per_class) {
        return Err(Error::user(format!(
            "{}: the class {} has only {}; ask for no more",
            config.place("condense.per_class"),
            images.names[class],
            counted(by_class[class].len() as u64, "image")
        )));
    }
    *read = Some((named, images));
    let count = match iterations(&config.condense, &own) {
        Iterations::Count(count) => Some(count),
        Iterations::Minutes(_) => None,
    };
    Ok((config, count))
}

//! What can be wrong with a search, found without planning it, and what its networks cost.

use super::hardware::candidates;
use super::settings::{job, reader};
use crate::condensing::{ReadImages, images_of};
use crate::job::SEARCH;
use crate::schema::{SearchKeys, SearchMethod};
use crate::schema::{check_flags, unread};
use lessen_base::{Error, Result};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;

/// Checks the settings of a search by which a network is trained and tested then; it may share the images that were
/// `read` before. Returns the least and the greatest cost of its networks.
///
/// # Errors
/// A mistake in the settings or the images, a limit that no network meets, data without a test split.
pub(crate) fn check(settings: &Settings, read: &mut ReadImages) -> Result<[f64; 2]> {
    check_flags(settings, SEARCH, "search")?;
    let config = Config::new(settings.clone().with_absolute_paths())?;
    let images = images_of(&config, read)?;
    if !images.has_test {
        return Err(Error::user(format!(
            "{} has no test split, by which networks are judged; add one",
            config.place("data.path")
        )));
    }
    Ok(job(&config, images, candidates(&config)?)?.table.range())
}

/// The settings of a search without the keys of searches that its method does not read, as far as these may go.
///
/// # Errors
/// A value that a key does not take.
pub(crate) fn without_unread(mut settings: Settings, may_go: &dyn Fn(&str) -> bool) -> Result<Settings> {
    let method = settings.section::<SearchKeys>()?.method.unwrap_or(SearchMethod::Joint);
    for key in unread::<SearchKeys>(reader(method)).filter(|key| may_go(key.name)) {
        settings.values.remove(key.name);
    }
    Ok(settings)
}

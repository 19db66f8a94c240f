//! The parts of the training images: those on which weights are trained, and those that judge.

use crate::settings::Settings;
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::ImageSource;

/// The images on which weights are trained, and those on which an architecture is updated or bits are judged: of each
/// class the same share, `settings.validation` of it for the second part.
///
/// # Errors
/// Fewer images for the weights than a batch has, and none for the second part.
pub fn parted(source: &dyn ImageSource, settings: &Settings) -> Result<[Vec<usize>; 2]> {
    let mut random = SplitMix64::named(settings.seed, "search.parts");
    let mut parts = [Vec::new(), Vec::new()];
    for mut class in source.by_class() {
        random.shuffle(&mut class);
        let kept = (class.len() as f64 * settings.validation).round() as usize;
        parts[1].extend_from_slice(&class[..kept]);
        parts[0].extend_from_slice(&class[kept..]);
    }
    if parts[0].len() < settings.batch || parts[1].is_empty() {
        return Err(Error::user(format!(
            "of {} images {} are left for the weights and {} to judge by, and a batch has {}; give more images or \
             choose a smaller batch",
            source.labels().len(),
            parts[0].len(),
            parts[1].len(),
            settings.batch
        )));
    }
    Ok(parts)
}

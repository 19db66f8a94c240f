//! Condensation of a recipe's images: a few synthetic images of each class, in a folder of their own.

mod arrays;
mod folder;
mod manifest;
mod recipe_images;
mod report;
mod request;
mod settings;

pub use self::folder::CondensedFolder;
pub use self::manifest::{CondensedData, Manifest};
pub use self::recipe_images::{PreparedSource, RecipeImages};
pub use self::report::Report;
pub use self::request::Request;
pub use self::settings::{check_no_condensation, network};

use self::settings::{check_flags, condensation, resolved};
use crate::device::NewBackend;
use crate::recipe::config::Config;
use lessen_base::Result;

/// Condenses the images of a recipe.
///
/// # Errors
/// A mistake in data, settings or folder, before any iteration.
pub fn condense(request: &Request, new_backend: NewBackend<'_>) -> Result<Report> {
    check_flags(&request.settings)?;
    let config = Config::new(request.settings.clone().with_absolute_paths())?;
    let settings = condensation(&config)?;
    CondensedFolder::check_free(&request.out)?;
    let images = RecipeImages::read(&config)?;
    let network = network(&config, images.names.len())?;
    let iterations = settings.iterations;
    let resolved = resolved(&config, &settings);
    let mut condensation = lessen_condense::condensation(new_backend()?, &network, &images.train, settings, None)?;
    let (folder, guard) = CondensedFolder::create(&request.out)?;
    for _ in 0..iterations {
        condensation.iterate(&mut |_| Ok(()))?;
    }
    let manifest = Manifest {
        lessen: env!("CARGO_PKG_VERSION").to_string(),
        recipe: config.recipe().to_string(),
        done: condensation.done(),
        iterations: Some(iterations),
        settings: resolved
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
        data: CondensedData::new(config.data.path.clone().unwrap_or_default(), images.digest()?),
        shape: images.preprocessing().shape(),
        mean: images.preprocessing().mean.clone(),
        std: images.preprocessing().std.clone(),
        classes: images.names.clone(),
    };
    let made = condensation.images()?;
    arrays::write_npz(&folder.root().join(folder::ARRAYS), &made, &manifest)?;
    arrays::write_safetensors(&folder.root().join("condensed.safetensors"), &made, &manifest)?;
    manifest.write(&folder.root().join(folder::MANIFEST))?;
    folder.write_settings(&config.settings)?;
    guard.keep();
    Ok(Report {
        out: request.out.clone(),
        done: condensation.done(),
        interrupted: false,
    })
}

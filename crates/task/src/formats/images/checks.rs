//! Checks of the keys of images and of models of images.

use crate::recipe::config::Config;
use crate::recipe::keys::ModelKind;
use lessen_base::{Error, Result};

/// Most rows and columns.
const LARGEST: usize = 1 << 14;

/// Checks the keys of a recipe for images.
///
/// # Errors
/// The key.
pub(super) fn check(config: &Config) -> Result<()> {
    let image = &config.image;
    let wrong = |key: &str, what: String| Err(Error::user(format!("{} {what}", config.place(key))));
    if let (ModelKind::Network(network), None) = (config.model.kind, &config.model.init) {
        let of_transformers = [
            "model.layers",
            "model.width",
            "model.heads",
            "model.ffn",
            "model.patch",
            "model.attention",
            "model.position",
            "model.fire_width",
            "model.fire_layers",
            "model.fire_length",
            "model.fire_length_learned",
            "model.fire_shared",
            "model.norm",
        ];
        let given = of_transformers.into_iter().find(|key| config.is_given(key));
        if let Some(key) = given {
            return wrong(
                key,
                format!("is for Transformers, and this is {}; leave it out", network.name()),
            );
        }
    }
    if config.train.tokens > 0 {
        return wrong(
            "train.tokens",
            "is for texts, and images have no tokens; set train.batch".to_string(),
        );
    }
    if image.size.is_some_and(|size| size > LARGEST) {
        return wrong(
            "image.size",
            format!("is more than Lessen can do; choose at most {LARGEST}"),
        );
    }
    if image.channels.is_some_and(|channels| channels != 1 && channels != 3) {
        return wrong(
            "image.channels",
            "is neither 1, for grey images, nor 3, for colours; choose one of them".to_string(),
        );
    }
    // Less would resize every image to many times what is seen of it.
    if image.crop.is_some_and(|crop| crop < 0.1) {
        return wrong(
            "image.crop",
            "leaves nearly nothing of an image; choose at least 0.1".to_string(),
        );
    }
    let (mean, std) = match (&image.mean, &image.std) {
        (Some(mean), Some(std)) => (&mean.0, &std.0),
        (None, None) => return Ok(()),
        (Some(_), None) => return wrong("image.mean", "needs image.std beside it; give both".to_string()),
        (None, Some(_)) => return wrong("image.std", "needs image.mean beside it; give both".to_string()),
    };
    if std.iter().any(|std| *std <= 0.0) {
        return wrong(
            "image.std",
            "is not above 0 in every channel; choose larger numbers".to_string(),
        );
    }
    let channels = image.channels.unwrap_or(mean.len());
    if mean.len() != channels || std.len() != channels {
        return wrong(
            if mean.len() == channels {
                "image.std"
            } else {
                "image.mean"
            },
            format!("has not as many numbers as images have channels, {channels}; give one for each"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::recipe::config::Config;
    use crate::recipe::settings::Settings;

    #[test]
    fn keys_of_images_are_checked() {
        let message = |text: &str| {
            let settings = Settings::parse(text, "mine.toml").unwrap();
            Config::new(settings).unwrap_err().to_string()
        };
        assert_eq!(
            message("data.format = \"text\"\nimage.size = 32"),
            "image.size = 32 (mine.toml line 2) is for data.format = images, and this is text; leave it out"
        );
        let patch = message("data.format = \"text\"\nmodel.patch = 4");
        assert!(
            patch.starts_with("model.patch = 4 (mine.toml line 2) is for "),
            "{patch}"
        );
        let of_images = |text: &str| message(&format!("data.format = \"images\"\n{text}"));
        assert!(of_images("image.channels = 4").contains("is neither 1, for grey images, nor 3"));
        assert!(of_images("image.size = 99999").contains("choose at most 16384"));
        assert!(of_images("image.crop = 0.01").contains("choose at least 0.1"));
        assert!(of_images("image.mean = [0.5]").contains("needs image.std beside it"));
        assert!(of_images("image.std = [0.5]").contains("needs image.mean beside it"));
        assert!(of_images("image.mean = [0.5]\nimage.std = [0]").contains("is not above 0"));
        assert!(of_images("image.mean = [0,0,0]\nimage.std = [1]").starts_with("image.std = "));
        assert!(
            of_images("image.channels = 1\nimage.mean = [0,0,0]\nimage.std = [1,1,1]").starts_with("image.mean = ")
        );
        assert!(of_images("train.tokens = 4096").contains("images have no tokens"));
        assert!(of_images("data.held_out = 1").contains("leaves nothing to learn from"));
    }
}

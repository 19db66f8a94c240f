//! The value of `--adapter`: a folder, and perhaps its weight.

use lessen_base::{Error, Result};
use lessen_nn::checkpoint::WeightedAdapter;
use std::ffi::OsStr;
use std::path::Path;

/// Reads `DIR` or `DIR=WEIGHT`. A folder that exists as written is one without a weight; otherwise the weight is what
/// follows the last `=`. Without one it is 1.
///
/// # Errors
/// A text after the last `=` of what is no folder that is no number.
pub fn parse(given: &OsStr) -> Result<WeightedAdapter> {
    let whole = WeightedAdapter {
        dir: given.into(),
        weight: 1.0,
    };
    if Path::new(given).is_dir() {
        return Ok(whole);
    }
    let Some((dir, weight)) = given.to_str().and_then(|text| text.rsplit_once('=')) else {
        return Ok(whole);
    };
    match weight.parse() {
        Ok(weight) => Ok(WeightedAdapter {
            dir: dir.into(),
            weight,
        }),
        Err(_) => {
            let given = given.display();
            Err(Error::user(format!(
                "--adapter {given}: there is no folder {given}, and \"{weight}\" is no weight for a folder {dir}; write DIR or \
                 DIR=WEIGHT, with a number such as 0.5"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sign_separates_a_weight_unless_the_folder_exists() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let read = |text: &str| {
            let WeightedAdapter { dir, weight } = parse(OsStr::new(text)).unwrap();
            (dir.display().to_string(), weight)
        };
        for name in ["a", "a=2", "lr=0.1"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for (text, name, weight) in [
            ("a", "a", 1.0),
            ("a=2", "a=2", 1.0),
            ("a=3", "a", 3.0),
            ("a=-0.5", "a", -0.5),
            ("a=1e-3", "a", 1e-3),
            ("a=2=0.5", "a=2", 0.5),
            ("lr=0.1", "lr=0.1", 1.0),
            ("lr=0.1=2", "lr=0.1", 2.0),
            ("lr=0.2", "lr", 0.2),
            ("nowhere", "nowhere", 1.0),
        ] {
            assert_eq!(read(&at(text)), (at(name), weight), "{text}");
        }
        for text in ["a=", "a=much", "lr=0.1=", "nowhere=1,5"] {
            let sentence = parse(OsStr::new(text)).unwrap_err().to_string();
            assert!(sentence.contains("is no weight for a folder"), "{sentence}");
        }
    }
}

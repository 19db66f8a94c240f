//! Recipes: the built-in ones and files; their keys, their settings, and the typed [`Config`](config::Config) that
//! these make.

pub mod class_weights;
pub mod column_names;
pub mod config;
pub mod document;
mod image_keys;
pub mod image_lists;
pub mod keys;
mod names;
pub mod optimizer;
pub mod phase_tables;
pub mod phases;
pub mod settings;
pub mod value;
mod values;
pub mod warmup;

use self::document::Document;
use self::keys::{CORE, Schema};
use self::settings::Settings;
use self::value::SettingValue;
use lessen_base::{Error, Result};
use std::fs;
use std::path::Path;

/// A recipe that comes with Lessen.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Name on the command line.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// The recipes that come with Lessen, the default first.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "adder",
        text: include_str!("../../recipes/adder.toml"),
    },
    BuiltIn {
        name: "thucnews",
        text: include_str!("../../recipes/thucnews.toml"),
    },
    BuiltIn {
        name: "shakespeare",
        text: include_str!("../../recipes/shakespeare.toml"),
    },
    BuiltIn {
        name: "bert-classifier",
        text: include_str!("../../recipes/bert-classifier.toml"),
    },
    BuiltIn {
        name: "bert-mlm",
        text: include_str!("../../recipes/bert-mlm.toml"),
    },
    BuiltIn {
        name: "ner",
        text: include_str!("../../recipes/ner.toml"),
    },
    BuiltIn {
        name: "squad",
        text: include_str!("../../recipes/squad.toml"),
    },
    BuiltIn {
        name: "gpt2-lm",
        text: include_str!("../../recipes/gpt2-lm.toml"),
    },
    BuiltIn {
        name: "llama-lm",
        text: include_str!("../../recipes/llama-lm.toml"),
    },
    BuiltIn {
        name: "glue",
        text: include_str!("../../recipes/glue.toml"),
    },
    BuiltIn {
        name: "mnist",
        text: include_str!("../../recipes/mnist.toml"),
    },
    BuiltIn {
        name: "cifar10",
        text: include_str!("../../recipes/cifar10.toml"),
    },
    BuiltIn {
        name: "image-folder",
        text: include_str!("../../recipes/image-folder.toml"),
    },
    BuiltIn {
        name: "vit",
        text: include_str!("../../recipes/vit.toml"),
    },
];

impl BuiltIn {
    /// Its description in one sentence: the comment in its first line.
    pub fn description(&self) -> &'static str {
        self.text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches(['#', ' '])
    }
}

/// The settings of a run's recipe; see [`Schema::load`].
///
/// # Errors
/// As there.
pub fn load(recipe: &str) -> Result<Settings> {
    CORE.load(recipe)
}

impl Schema {
    /// The settings of a recipe: a built-in one, or a TOML file, whose name is the recipe's where it does not say
    /// another. A relative path in a file is relative to the folder that the file is in.
    ///
    /// # Errors
    /// Neither of both, or a file with a mistake.
    pub fn load(&'static self, recipe: &str) -> Result<Settings> {
        match BUILT_IN.iter().find(|built_in| built_in.name == recipe) {
            Some(built_in) => named(self.parse(built_in.text, &format!("the recipe {recipe}"))?, recipe),
            None => load_file(self, recipe),
        }
    }
}

/// The settings of a recipe's file.
fn load_file(schema: &'static Schema, recipe: &str) -> Result<Settings> {
    let path = Path::new(recipe);
    if path.is_dir() {
        return Err(Error::user(format!(
            "'{recipe}' is a folder; name a recipe (`lessen recipes` lists the built-in ones) or a TOML file, and a \
             folder of data with --data"
        )));
    }
    if !path.is_file() {
        let alike = |name: &str| strsim::normalized_damerau_levenshtein(name, recipe);
        let nearest = BUILT_IN
            .iter()
            .map(|built_in| built_in.name)
            .max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let hint = match nearest {
            Some(name) if alike(name) > 0.5 => format!("did you mean {name}?"),
            _ => "`lessen recipes` lists the built-in ones".to_string(),
        };
        return Err(Error::user(format!(
            "there is no recipe and no file called '{recipe}'; {hint}"
        )));
    }
    let bytes = fs::read(path).map_err(|error| {
        Error::user(format!(
            "the recipe {recipe} cannot be read ({error}); check its permissions"
        ))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
            + 1;
        Error::user(format!(
            "{recipe} line {line} is not valid UTF-8; save the file as UTF-8"
        ))
    })?;
    let settings = Settings::of(schema, &Document::parse(&text, recipe, path.parent())?)?;
    named(settings, &path.file_stem().unwrap_or_default().to_string_lossy())
}

/// The settings under a name, unless they have one.
fn named(mut settings: Settings, name: &str) -> Result<Settings> {
    if settings.get("run.recipe").is_none() {
        let value = SettingValue::Text(name.to_string());
        settings.set_named("run.recipe", value, "the recipe's name".to_string())?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::config::Config;
    use super::*;

    #[test]
    fn every_built_in_recipe_is_sound_and_describes_itself() {
        for built_in in BUILT_IN {
            let config = Config::new(load(built_in.name).unwrap()).unwrap();
            assert_eq!(config.recipe(), built_in.name);
            assert!(built_in.description().ends_with('.'), "{}", built_in.name);
        }
    }

    #[test]
    fn a_file_is_a_recipe_and_the_nearest_name_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        fs::write(&path, "[train]\nlr = 0.25\n").unwrap();
        let settings = load(path.to_str().unwrap()).unwrap();
        assert_eq!(settings.text("run.recipe"), Some("mine"));
        assert_eq!(settings.get("train.lr"), Some(&SettingValue::Number(0.25)));
        fs::write(&path, b"[train]\nlr = \xff\n").unwrap();
        assert!(
            load(path.to_str().unwrap())
                .unwrap_err()
                .to_string()
                .contains("line 2 is not valid UTF-8")
        );
        let error = load(dir.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("is a folder; name a recipe"), "{error}");
        let error = load("thucnew").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no recipe and no file called 'thucnew'; did you mean thucnews?"
        );
        assert!(
            load("my/own.toml")
                .unwrap_err()
                .to_string()
                .ends_with("`lessen recipes` lists the built-in ones")
        );
    }

    #[test]
    fn paths_in_a_file_are_relative_to_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.toml");
        let found = |text: &str, key: &str| {
            fs::write(&file, text).unwrap();
            let settings = load(file.to_str().unwrap()).unwrap();
            (settings.text(key).map(str::to_string), settings.origin(key).to_string())
        };
        let (path, place) = found("[data]\npath = \"../titles\"\n", "data.path");
        assert_eq!(path.as_deref(), dir.path().join("../titles").to_str());
        assert_eq!(place, format!("{} line 2", file.display()));
        let absolute = found("model.init = \"/models/bert\"", "model.init").0;
        assert_eq!(absolute.as_deref(), Some("/models/bert"));
        let word = found("data.tokenizer = \"characters\"", "data.tokenizer").0;
        assert_eq!(word.as_deref(), Some("characters"));
        assert_eq!(found("", "data.path").0, None);
    }
}

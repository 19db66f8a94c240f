//! The training phases of a recipe: successive parts of a run that differ in some settings.
//!
//! ```toml
//! [train]                 # what holds for all phases, as long as none changes it
//! steps = 1000
//! [[phase]]
//! name = "learned"
//! [[phase]]
//! name = "fire"           # everything as in the phase before, but for
//! model.position = "fire"
//! train = { steps = 500, lr = 3e-4 }
//! ```
//!
//! A phase has the settings of the phase before it, with its own changes; the first phase has the settings of the
//! recipe. So a recipe reads as a sequence of changes. Every phase counts its own steps and begins its learning-rate
//! schedule anew. A phase in which `train.patience` evaluations in a row are no better ends early; the next phase goes
//! on from there. Settings that name the run, the data, the vocabulary or the seed cannot change, and adapters are the
//! same in all phases.

use super::config::Config;
use super::keys::DataFormat;
use super::optimizer;
use super::phase_tables::KEY;
use super::settings::Settings;
use super::value::{Origin, SettingValue};
use crate::wording::in_phase;
use lessen_base::word::Word;
use lessen_base::{Error, Result};

/// A recipe with the checked settings of its training phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Its training phases in order; a single one without a name where the recipe has none.
    pub phases: Vec<Config>,
    /// All of its settings, for `config.toml`.
    pub settings: Settings,
}

impl Recipe {
    /// Reads the settings of a recipe.
    ///
    /// # Errors
    /// Settings that do not go together, in any of the training phases.
    pub fn new(mut settings: Settings) -> Result<Recipe> {
        check_flags(&settings)?;
        let format = settings.text("data.format").and_then(DataFormat::from_word);
        let length = format.and_then(|format| format.format().fixed_length());
        if let (Some(format), Some(length), Origin::Default) = (format, length, settings.origin("data.max_length")) {
            let own = SettingValue::Count(length as u64);
            settings.set_named("data.max_length", own, format!("the {format}'s own length"))?;
        }
        let phases: Vec<_> = settings
            .phases
            .iter()
            .map(|phase| (&*phase.name, &phase.changes))
            .collect();
        optimizer::check(&settings.values, &phases)?;
        let mut whole = Settings {
            schema: settings.schema,
            values: settings.values.clone(),
            phases: Vec::new(),
        };
        if settings.phases.is_empty() {
            let phases = vec![Config::of(whole, None)?];
            return Ok(Recipe { phases, settings });
        }
        let mut phases = Vec::with_capacity(settings.phases.len());
        for phase in &settings.phases {
            whole.values.extend(phase.changes.clone());
            phases.push(Config::of(whole.clone(), Some(&phase.name)).map_err(|error| error.at(in_phase(&phase.name)))?);
        }
        Ok(Recipe { phases, settings })
    }

    /// The name of the recipe.
    pub fn name(&self) -> &str {
        self.phases.first().map_or("without a name", Config::recipe)
    }
}

impl Config {
    /// Reads the settings of a recipe without phases.
    ///
    /// # Errors
    /// Settings that do not go together, and a recipe with phases, which [`Recipe::new`] reads.
    pub fn new(settings: Settings) -> Result<Config> {
        let mut phases = Recipe::new(settings)?.phases;
        let single = phases.pop_if(|config| config.phase.is_none());
        single.ok_or_else(|| Error::user("the recipe has phases; name one without them"))
    }
}

/// An error with the training phase in front, where the recipe has several.
pub fn in_phase_of(config: &Config, error: Error) -> Error {
    match &config.phase {
        Some(name) => error.at(in_phase(name)),
        None => error,
    }
}

/// Refuses a flag over a setting that the first training phase replaces: it would have no effect.
fn check_flags(settings: &Settings) -> Result<()> {
    let Some(first) = settings.phases.first() else {
        return Ok(());
    };
    for key in first.changes.keys() {
        if let origin @ Origin::Flag(_) = settings.origin(key) {
            return Err(Error::user(format!(
                "{origin} has no effect, since the phase {0} has a {key} of its own; write --set {KEY}.{0}.{key}=VALUE",
                first.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "[model]\nwidth = 8\nheads = 2\n[data]\nformat = \"text\"\n[train]\nsteps = 5\nlr = 0.5\n\
                          [[phase]]\nname = \"one\"\n\n[[phase]]\nname = \"two\"\nmodel.layers = 3\n\
                          [phase.train]\nlr = 0.25\n[[phase]]\nname = \"three\"\ntrain = { steps = 7 }\n";

    fn settings(text: &str) -> Result<Settings> {
        let mut settings = Settings::parse(text, "my.toml")?;
        settings.set_flag("run.recipe=mine")?;
        Ok(settings)
    }

    fn refused(text: &str) -> String {
        settings(text).and_then(Recipe::new).unwrap_err().to_string()
    }

    #[test]
    fn a_phase_has_the_settings_of_the_one_before_and_its_own() {
        let recipe = Recipe::new(settings(RECIPE).unwrap()).unwrap();
        let found: Vec<_> = recipe
            .phases
            .iter()
            .map(|phase| {
                (
                    phase.phase.as_deref().unwrap(),
                    phase.model.layers,
                    phase.train.steps,
                    phase.train.lr,
                )
            })
            .collect();
        assert_eq!(found, [("one", 2, 5, 0.5), ("two", 3, 5, 0.25), ("three", 3, 7, 0.25)]);
        assert_eq!(recipe.phases[2].place("train.lr"), "train.lr = 0.25 (my.toml line 16)");
        assert_eq!(recipe.name(), "mine");
    }

    #[test]
    fn a_recipe_without_phases_is_one_phase_without_name() {
        let recipe = Recipe::new(settings("data.format = \"text\"").unwrap()).unwrap();
        assert_eq!((recipe.phases.len(), &recipe.phases[0].phase), (1, &None));
    }

    #[test]
    fn phases_are_read_back_and_compared() {
        let mut written = settings(RECIPE).unwrap();
        written.set_flag("phase.three.train.lr=0.125").unwrap();
        let back = Settings::parse(&written.to_toml(), "config.toml").unwrap();
        assert_eq!(written.difference(&back, &[]), None);
        let phases = |settings: &Settings| Recipe::new(settings.clone()).unwrap().phases;
        assert_eq!(phases(&back)[2].train, phases(&written)[2].train);
        written.set_flag("phase.two.train.lr=1").unwrap();
        let lr = ("phase.two.train.lr".to_string(), "0.25".to_string(), "1.0".to_string());
        assert_eq!(back.difference(&written, &[]), Some(lr));
        assert_eq!(back.difference(&written, &["train.lr"]), None);
        let fewer = settings("[[phase]]\nname = \"one\"").unwrap();
        let names = fewer.difference(&back, KEYS_BUT_PHASES).unwrap();
        assert_eq!(names, ("phase".into(), "one".into(), "one, two, three".into()));
    }

    const KEYS_BUT_PHASES: &[&str] = &[
        "run.recipe",
        "model.width",
        "model.heads",
        "data.format",
        "train.steps",
        "train.lr",
    ];

    #[test]
    fn mistakes_name_the_phase_its_key_and_its_line() {
        let phase = |text: &str| refused(&format!("data.format = \"text\"\n[[phase]]\nname = \"a\"\n{text}"));
        assert_eq!(
            phase("train.stps = 3"),
            "my.toml line 4: there is no key 'phase.a.train.stps'; did you mean phase.a.train.steps?"
        );
        assert_eq!(
            phase("train.lr = \"fast\""),
            "my.toml line 4: phase.a.train.lr must be a number, at least 0, not \"fast\""
        );
        assert_eq!(
            phase("train.seed = 4"),
            "my.toml line 4: phase.a.train.seed cannot be, since train.seed is the same in all phases; set it for the \
             whole recipe"
        );
        for key in [
            "data.path = \"x\"",
            "model.init = \"x\"",
            "model.kind = \"bert\"",
            "run.budget = \"5MiB\"",
        ] {
            assert!(phase(key).contains("is the same in all phases"), "{key}");
        }
        assert_eq!(
            phase("model.heads = 3"),
            "phase a: my.toml line 4: model.heads = 3 does not divide model.width = 128; choose a divisor"
        );
        assert_eq!(
            phase("[[phase]]\nname = \"a\""),
            "my.toml line 4: there are two phases called 'a'; give each a name of its own"
        );
        for unnamed in [
            "[[phase]]\ntrain.lr = 1",
            "[[phase]]\nname = \"\"",
            "[[phase]]\nname = \"a b\"",
            "phase = [{}]",
        ] {
            let sentence = refused(unnamed);
            assert!(
                sentence.starts_with("my.toml line 1: a phase needs a name of letters"),
                "{sentence}"
            );
        }
        for other in ["phase = 3", "[phase]\nname = \"a\"", "phase = [3]"] {
            let sentence = refused(other);
            assert_eq!(
                sentence,
                "my.toml line 1: phase must be a list of tables, each begun by [[phase]]"
            );
        }
    }

    #[test]
    fn flags_are_for_a_phase_or_for_all() {
        let flag = |assignment: &str| {
            let mut settings = settings(RECIPE)?;
            settings.set_flag(assignment)?;
            Recipe::new(settings)
        };
        let steps = |recipe: Recipe| -> Vec<u64> { recipe.phases.iter().map(|phase| phase.train.steps).collect() };
        assert_eq!(steps(flag("train.steps=2").unwrap()), [2, 2, 7]);
        assert_eq!(steps(flag("phase.two.train.steps=2").unwrap()), [5, 2, 7]);
        let refused = |assignment: &str| flag(assignment).unwrap_err().to_string();
        assert_eq!(
            refused("phase.tow.train.lr=1"),
            "--set phase.tow.train.lr=1: there is no phase 'tow'; the recipe's phases are one, two, three"
        );
        assert!(refused("phase.two.lr=1").ends_with("did you mean phase.two.train.lr?"));
        assert!(refused("phase.two=1").contains("there is no key 'phase.two.'"));
        let mut without = settings("data.format = \"text\"").unwrap();
        assert_eq!(
            without.set_flag("phase.a.train.lr=1").unwrap_err().to_string(),
            "--set phase.a.train.lr=1: the recipe has no phases; leave out 'phase.a.'"
        );
        let mut own = settings("data.format = \"text\"\n[[phase]]\nname = \"a\"\ntrain.lr = 1").unwrap();
        own.set_flag("train.lr=2").unwrap();
        assert_eq!(
            Recipe::new(own).unwrap_err().to_string(),
            "--set train.lr=2 has no effect, since the phase a has a train.lr of its own; write --set \
             phase.a.train.lr=VALUE"
        );
    }
}

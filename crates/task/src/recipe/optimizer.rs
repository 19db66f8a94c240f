//! The keys of `optimizer`: which optimizer reads which of them, and the configuration that they make.

use super::keys::{OptimizerKeys, OptimizerKind, Section};
use super::value::{Origin, Values};
use crate::wording::in_phase;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_nn::{AdamSettings, OptimizerConfig};

/// The key of the optimizer's name.
pub(crate) const KIND: &str = "optimizer.kind";

/// Removes values from lines of recipes that the optimizer does not read. They were meant for the optimizer that it
/// replaces, in a recipe that a user may be unable to change.
pub(crate) fn leave_out_unread(values: &mut Values) {
    let Some(kind) = kind_of(values) else { return };
    for key in OptimizerKeys::KEYS {
        if matches!(values.get(key.name), Some((_, Origin::Line(..)))) && !key.is_read_by(kind.word()) {
            values.remove(key.name);
        }
    }
}

/// Refuses a key that is read neither by the optimizer of its training phase nor by the optimizers of later phases,
/// which keep the key. `phases` are the names and changes of the training phases.
///
/// # Errors
/// The first such key.
pub fn check(values: &Values, phases: &[(&str, &Values)]) -> Result<()> {
    let Some(base) = kind_of(values) else {
        return Ok(());
    };
    let kinds = phases.iter().scan(base, |kind, (_, changes)| {
        *kind = kind_of(changes).unwrap_or(*kind);
        Some(*kind)
    });
    let kinds: Vec<OptimizerKind> = kinds.collect();
    let all = if kinds.is_empty() { &[base][..] } else { &kinds };
    check_read(values, all)?;
    let mut phases = phases.iter().enumerate();
    phases.try_for_each(|(number, (name, changes))| {
        let checked = check_read(changes, &kinds[number..]);
        checked.map_err(|error| error.at(in_phase(name)))
    })
}

/// The optimizer that these values name.
fn kind_of(values: &Values) -> Option<OptimizerKind> {
    OptimizerKind::from_word(&values.get(KIND)?.0.joined())
}

/// Refuses a key that no optimizer in `kinds` reads.
fn check_read(values: &Values, kinds: &[OptimizerKind]) -> Result<()> {
    for key in OptimizerKeys::KEYS {
        if let Some((value, origin)) = values.get(key.name)
            && !kinds.iter().any(|kind| key.is_read_by(kind.word()))
        {
            let mut found: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
            found.dedup();
            return Err(Error::user(format!(
                "{} = {value} ({origin}) is for {KIND} = {}, and this is {}; leave it out",
                key.name,
                key.readers.join(" or "),
                found.join(" and ")
            )));
        }
    }
    Ok(())
}

/// The optimizer that the keys name, with its own defaults for missing keys.
pub fn config(keys: &OptimizerKeys, weight_decay: f64) -> OptimizerConfig {
    let set = |setting: &mut f64, given: Option<f64>| *setting = given.unwrap_or(*setting);
    let mut config = match keys.kind {
        OptimizerKind::Adamw => OptimizerConfig::adamw(weight_decay),
        OptimizerKind::Adamw8bit => OptimizerConfig::adamw_8bit(weight_decay),
        OptimizerKind::Adam => OptimizerConfig::adam(weight_decay),
        OptimizerKind::Sgd => OptimizerConfig::Sgd {
            momentum: 0.9,
            nesterov: keys.nesterov == Some(true),
            weight_decay,
        },
        OptimizerKind::Adagrad => OptimizerConfig::adagrad(weight_decay),
        OptimizerKind::Adadelta => OptimizerConfig::adadelta(weight_decay),
        OptimizerKind::Rmsprop => OptimizerConfig::rmsprop(weight_decay),
        OptimizerKind::Lion => OptimizerConfig::lion(weight_decay),
        OptimizerKind::Adafactor => OptimizerConfig::adafactor(weight_decay),
    };
    match &mut config {
        OptimizerConfig::AdamW(AdamSettings { beta1, beta2, eps, .. })
        | OptimizerConfig::AdamW8bit(AdamSettings { beta1, beta2, eps, .. })
        | OptimizerConfig::Adam(AdamSettings { beta1, beta2, eps, .. }) => {
            set(beta1, keys.beta1);
            set(beta2, keys.beta2);
            set(eps, keys.epsilon);
        }
        OptimizerConfig::Sgd { momentum, .. } => set(momentum, keys.momentum),
        OptimizerConfig::Adagrad {
            lr_decay,
            initial_accumulator,
            eps,
            ..
        } => {
            set(lr_decay, keys.lr_decay);
            set(initial_accumulator, keys.initial_accumulator);
            set(eps, keys.epsilon);
        }
        OptimizerConfig::Adadelta { rho, eps, .. } => {
            set(rho, keys.rho);
            set(eps, keys.epsilon);
        }
        OptimizerConfig::RmsProp {
            alpha, eps, momentum, ..
        } => {
            set(alpha, keys.alpha);
            set(eps, keys.epsilon);
            set(momentum, keys.momentum);
        }
        OptimizerConfig::Lion { beta1, beta2, .. } => {
            set(beta1, keys.beta1);
            set(beta2, keys.beta2);
        }
        OptimizerConfig::Adafactor {
            beta2_decay,
            eps,
            least_scale,
            clip_threshold,
            ..
        } => {
            set(beta2_decay, keys.beta2_decay);
            set(eps, keys.epsilon);
            set(least_scale, keys.least_scale);
            set(clip_threshold, keys.clip_threshold);
        }
    }
    config
}

/// The key of a setting with which the optimizer would not learn, and the remedy.
pub fn mistake(config: &OptimizerConfig) -> Option<(&'static str, &'static str)> {
    let never_learns = "would never learn from a gradient; choose a number below 1";
    let stays_zero = "would keep the mean of squares at 0; choose a number below 1";
    match *config {
        OptimizerConfig::AdamW(AdamSettings { beta1, beta2, .. })
        | OptimizerConfig::AdamW8bit(AdamSettings { beta1, beta2, .. })
        | OptimizerConfig::Adam(AdamSettings { beta1, beta2, .. }) => match (beta1, beta2) {
            (1.0, _) => Some(("optimizer.beta1", never_learns)),
            (_, 1.0) => Some(("optimizer.beta2", never_learns)),
            _ => None,
        },
        OptimizerConfig::Lion { beta2: 1.0, .. } => Some(("optimizer.beta2", never_learns)),
        OptimizerConfig::Sgd {
            momentum: 0.0,
            nesterov: true,
            ..
        } => Some((
            "optimizer.nesterov",
            "needs a momentum; leave it out, or choose an optimizer.momentum above 0",
        )),
        OptimizerConfig::RmsProp { alpha: 1.0, .. } => Some(("optimizer.alpha", stays_zero)),
        OptimizerConfig::Adadelta { rho: 1.0, .. } => Some(("optimizer.rho", stays_zero)),
        OptimizerConfig::Adadelta { eps: 0.0, .. } => Some((
            "optimizer.epsilon",
            "would never take a step; choose a number above 0, such as 1e-6",
        )),
        OptimizerConfig::Adafactor { eps, .. } if ((eps * eps) as f32) < f32::MIN_POSITIVE => Some((
            "optimizer.epsilon",
            "has a square that is 0 in f32, by which rows without a gradient would be divided; choose at least 1e-18",
        )),
        OptimizerConfig::Adafactor {
            clip_threshold: 0.0, ..
        } => Some((
            "optimizer.clip_threshold",
            "would never take a step; choose a number above 0, such as 1",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::phases::Recipe;
    use crate::recipe::settings::Settings;

    fn settings(text: &str) -> Settings {
        let mut settings = Settings::parse(&format!("data.format = \"text\"\n{text}"), "my.toml").unwrap();
        settings.set_flag("run.recipe=mine").unwrap();
        settings
    }

    fn optimizer(settings: Settings) -> Result<OptimizerConfig> {
        Ok(Recipe::new(settings)?.phases[0].optimizer)
    }

    fn refused(text: &str) -> String {
        optimizer(settings(text)).unwrap_err().to_string()
    }

    #[test]
    fn each_key_changes_the_optimizers_that_read_it_and_is_refused_by_the_others() {
        for kind in OptimizerKind::WORDS {
            let plain = optimizer(settings(&format!("{KIND} = \"{kind}\""))).unwrap();
            for key in OptimizerKeys::KEYS.iter().filter(|key| !key.readers.is_empty()) {
                let (key, is_read) = (key.name, key.is_read_by(kind));
                let value = match key {
                    "optimizer.nesterov" => "true",
                    "optimizer.beta2_decay" => "-0.5",
                    _ => "0.5",
                };
                let found = optimizer(settings(&format!("{KIND} = \"{kind}\"\n{key} = {value}")));
                if is_read {
                    assert_ne!(found.unwrap(), plain, "{kind} {key}")
                } else {
                    assert!(found.is_err(), "{kind} {key}")
                }
            }
        }
        assert_eq!(
            refused("optimizer.momentum = 0.5"),
            "optimizer.momentum = 0.5 (my.toml line 2) is for optimizer.kind = sgd or rmsprop, and this is adamw; leave it out"
        );
    }

    #[test]
    fn a_kind_takes_out_what_an_earlier_place_said_of_another_one() {
        let mut flagged = settings("optimizer.beta2 = 0.5\noptimizer.epsilon = 0.25");
        flagged.set_flag("optimizer.kind=rmsprop").unwrap();
        assert_eq!(
            optimizer(flagged.clone()).unwrap(),
            OptimizerConfig::RmsProp {
                alpha: 0.99,
                eps: 0.25,
                momentum: 0.0,
                weight_decay: 0.0
            }
        );
        let written = Settings::parse(&flagged.to_toml(), "config.toml").unwrap();
        assert_eq!(flagged.difference(&written, &[]), None);
        flagged.set_flag("optimizer.beta2=0.5").unwrap();
        assert_eq!(
            optimizer(flagged).unwrap_err().to_string(),
            "optimizer.beta2 = 0.5 (--set optimizer.beta2=0.5) is for optimizer.kind = adamw or adamw_8bit or adam or lion, and \
             this is rmsprop; leave it out"
        );
        // Flags stay in any order.
        let mut flagged = settings("");
        flagged.set_flag("optimizer.beta2=0.5").unwrap();
        flagged.set_flag("optimizer.kind=sgd").unwrap();
        assert!(optimizer(flagged).is_err());
    }

    #[test]
    fn a_key_holds_for_the_phases_that_read_it() {
        let phases = |first: &str, second: &str| {
            settings(&format!(
                "optimizer.momentum = 0.5\n[[phase]]\nname = \"a\"\n{first}\n[[phase]]\nname = \"b\"\n{second}"
            ))
        };
        let recipe = Recipe::new(phases("optimizer.beta1 = 0.5", "optimizer.kind = \"sgd\"")).unwrap();
        let expected = OptimizerConfig::Sgd {
            momentum: 0.5,
            nesterov: false,
            weight_decay: 0.0,
        };
        assert_eq!(recipe.phases[1].optimizer, expected);
        let refused = |first: &str, second: &str| optimizer(phases(first, second)).unwrap_err().to_string();
        assert!(refused("", "").ends_with("and this is adamw; leave it out"));
        assert_eq!(
            refused("optimizer.rho = 0.5", "optimizer.kind = \"sgd\""),
            "phase a: optimizer.rho = 0.5 (my.toml line 5) is for optimizer.kind = adadelta, and this is adamw and sgd; leave it \
             out"
        );
        assert!(refused("optimizer.kind = \"sgd\"", "optimizer.beta1 = 0.5").starts_with("phase b: optimizer.beta1"));
    }

    #[test]
    fn settings_that_never_learn_are_refused() {
        for (kind, setting, what) in [
            ("adamw", "beta1 = 1", "would never learn"),
            ("adamw_8bit", "beta2 = 1", "would never learn"),
            ("adam", "beta2 = 1", "would never learn"),
            ("lion", "beta2 = 1", "would never learn"),
            ("rmsprop", "alpha = 1", "would keep the mean of squares at 0"),
            ("adadelta", "rho = 1", "would keep the mean of squares at 0"),
            ("adadelta", "epsilon = 0", "would never take a step"),
            ("adafactor", "epsilon = 1e-30", "has a square that is 0 in f32"),
            ("adafactor", "clip_threshold = 0", "would never take a step"),
            ("sgd", "nesterov = true\nmomentum = 0", "needs a momentum"),
        ] {
            let sentence = refused(&format!("[optimizer]\nkind = \"{kind}\"\n{setting}"));
            assert!(
                sentence.starts_with("optimizer.") && sentence.contains("(my.toml line 4)") && sentence.contains(what),
                "{sentence}"
            );
        }
        let range = |setting: &str| {
            let text = format!("optimizer = {{ kind = \"adafactor\", {setting} }}");
            Settings::parse(&text, "my.toml").unwrap_err().to_string()
        };
        assert!(range("beta2_decay = 0.8").ends_with("must be a number from -1 to 0, not 0.8"));
        assert!(range("least_scale = -1").ends_with("must be a number, at least 0, not -1.0"));
        assert!(range("rho = 1.5").ends_with("must be a number from 0 to 1, not 1.5"));
    }
}

//! The keys of all jobs, and which of them have a part in which job.

mod condense_keys;
mod search_keys;

pub use self::condense_keys::CondenseKeys;
pub use self::search_keys::SearchKeys;
pub(crate) use self::search_keys::{SearchMethod, SpaceKind};

use crate::job_kind::JobKind;
use lessen_base::{Error, Result};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::keys::{Key, SECTIONS, Schema, Section};
use lessen_task::recipe::settings::Settings;
use std::fmt::Display;

/// The keys of runs, condensations and searches.
pub static SCHEMA: Schema = Schema {
    sections: &{
        let [run, model, data, image, train, optimizer, lora, record] = SECTIONS;
        let (condense, search) = (CondenseKeys::KEYS, SearchKeys::KEYS);
        [
            run, model, data, image, train, optimizer, lora, record, condense, search,
        ]
    },
    kept: &[],
};

/// The keys with a part in every job on images: names, or sections.
const READ: [&str; 8] = [
    "run",
    "data.path",
    "data.test",
    "data.dev",
    "data.format",
    "data.held_out",
    "data.held_out_seed",
    "image",
];

/// Keys of these sections that have none.
const UNREAD: [&str; 3] = ["image.augment", "image.mixup", "image.cutmix"];

/// Whether a key has a part in a job on images with a section of its own.
pub(crate) fn is_read(own: &str, name: &str) -> bool {
    let section = name.split_once('.').map_or(name, |(section, _)| section);
    section == own || !UNREAD.contains(&name) && (READ.contains(&name) || READ.contains(&section))
}

/// Refuses a flag over a key that has no part in a job on images with a section of its own.
///
/// # Errors
/// The flag.
pub(crate) fn check_flags(settings: &Settings, kind: JobKind, own: &str) -> Result<()> {
    match settings.flags().find(|(name, _)| !is_read(own, name)) {
        None => Ok(()),
        Some((name, flag)) => Err(Error::user(format!(
            "{flag}: {name} has no part in a {}; leave it out (keys of `{}` are those of {own}, image and data, by `lessen \
             recipes --keys`)",
            kind.noun, kind.command
        ))),
    }
}

/// Refuses a flag over a key of condensations or searches for another command, such as `lessen train`.
///
/// # Errors
/// The flag.
pub fn check_trains(settings: &Settings) -> Result<()> {
    let own = |(name, flag)| {
        Some((
            ["condense", "search"].into_iter().find(|own| is_in(own, name))?,
            name,
            flag,
        ))
    };
    match settings.flags().find_map(own) {
        None => Ok(()),
        Some((own, name, flag)) => Err(Error::user(format!(
            "{flag}: {name} is for `lessen {own}`, and has no part in a training; leave it out"
        ))),
    }
}

fn is_in(section: &str, name: &str) -> bool {
    name.split_once('.').is_some_and(|(own, _)| own == section)
}

/// The keys of a section that a reader does not read.
pub(crate) fn unread<S: Section>(reader: &str) -> impl Iterator<Item = &'static Key> {
    S::KEYS.iter().filter(move |key| !key.is_read_by(reader))
}

/// Refuses a key of a section that is given and that the reader does not read, in words the method.
///
/// # Errors
/// The first such key.
pub(crate) fn check_read<S: Section>(config: &Config, reader: &str, method: (&str, impl Display)) -> Result<()> {
    match unread::<S>(reader).find(|key| config.is_given(key.name)) {
        None => Ok(()),
        Some(key) => Err(Error::user(format!(
            "{} has no part in {} = \"{}\"; leave it out",
            config.place(key.name),
            method.0,
            method.1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::word::Word;
    use lessen_task::recipe::value::{SettingValue, ValueKind};

    fn word(own: Option<impl Word>) -> &'static str {
        own.map_or("", Word::word)
    }

    #[test]
    fn every_word_of_a_choice_is_read_as_itself_and_other_words_are_refused() {
        for key in [CondenseKeys::KEYS, SearchKeys::KEYS].concat() {
            let ValueKind::Choice(words) = key.kind else { continue };
            let read = |text: &str| {
                let value = SettingValue::Text(text.to_string());
                let get = |name: &str| (name == key.name).then_some(&value);
                let (condense, search) = (CondenseKeys::read(&get)?, SearchKeys::read(&get)?);
                Ok::<_, &str>(match key.name {
                    "condense.network" => word(condense.network),
                    "condense.method" => word(condense.method),
                    "condense.level" => word(condense.level),
                    "condense.start" => word(condense.start),
                    "condense.precision" => word(condense.precision),
                    "search.method" => word(search.method),
                    "search.space" => word(search.space),
                    "search.cost" => word(search.cost),
                    "search.cost_gradient" => word(search.cost_gradient),
                    "search.spread" => word(search.spread),
                    "search.precision" => word(search.precision),
                    other => panic!("{other} has no line in this test"),
                })
            };
            for word in words {
                assert_eq!(read(word).unwrap(), *word, "{}", key.name);
            }
            assert_eq!(read("nonsense").unwrap_err(), key.name);
        }
    }

    #[test]
    fn names_are_unique_and_values_that_were_kept_are_read() {
        let keys: Vec<&Key> = SCHEMA.keys().collect();
        for (index, key) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|other| other.name != key.name), "{}", key.name);
        }
        let kept = |text: &str| Settings::parse(text, "my.toml").and_then(|settings| settings.under(&SCHEMA));
        let read = kept("[condense]\nminutes = 3\nper_class = 2\n").unwrap();
        assert_eq!(
            read.to_toml(),
            SCHEMA
                .parse("condense = { per_class = 2, minutes = 3 }", "x")
                .unwrap()
                .to_toml()
        );
        assert_eq!(read.section::<CondenseKeys>().unwrap().minutes, Some(3.0));
        assert_eq!(
            kept("[search]\nepochs = 0\n").unwrap_err().to_string(),
            "my.toml line 2: search.epochs must be a whole number, at least 1, not 0"
        );
        assert_eq!(
            kept("[condense]\nminuts = 1\n").unwrap_err().to_string(),
            "my.toml line 2: there is no key 'condense.minuts'; did you mean condense.minutes?"
        );
    }

    #[test]
    fn every_reader_reads_some_key() {
        let readers = |keys: &[Key]| -> Vec<&str> {
            let mut all: Vec<&str> = keys.iter().flat_map(|key| key.readers).copied().collect();
            all.sort();
            all.dedup();
            all
        };
        assert_eq!(
            readers(CondenseKeys::KEYS),
            ["distribution", "gradients", "trained", "trajectories"]
        );
        assert_eq!(readers(SearchKeys::KEYS), ["allocation", "haq", "supernet"]);
    }
}

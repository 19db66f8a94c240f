//! Data that tasks share: where successive ones ask for the same data, it is read once, its vocabulary is learned once,
//! and its texts are encoded once.

use crate::formats::{ALL, KnownModel};
use crate::recipe::config::Config;
use crate::recipe::keys::DataKeys;
use crate::task_data::ReadData;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_data::memory::DataInMemory;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The data of a task, for tasks that follow it.
#[derive(Clone, Default)]
pub struct SharedData {
    /// Data in memory, in place of that which recipes name.
    given: Option<Arc<DataInMemory>>,
    kept: Arc<Mutex<Option<Kept>>>,
    /// What was said of the data.
    said: Arc<Mutex<BTreeSet<String>>>,
    /// Whether nothing is to be said of it.
    is_silent: bool,
}

/// Data that was read, with the settings that it was read by.
struct Kept {
    keys: ReadingKeys,
    data: ReadData,
}

/// The settings that reading depends on.
#[derive(PartialEq)]
struct ReadingKeys {
    data: DataKeys,
    is_whole: bool,
    spares_training: bool,
}

impl ReadingKeys {
    fn of(config: &Config) -> ReadingKeys {
        ReadingKeys {
            // Tokens are made after reading.
            data: DataKeys {
                tokenizer: None,
                vocab: 0,
                min_count: 0,
                max_length: 0,
                group: false,
                shuffle: false,
                cache: None,
                cache_from: 0,
                ..config.data.clone()
            },
            is_whole: config.is_whole,
            spares_training: config.spares_training,
        }
    }
}

impl fmt::Debug for SharedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedData").finish_non_exhaustive()
    }
}

impl SharedData {
    /// Data in memory, in place of that which recipes name.
    pub fn of(data: DataInMemory) -> SharedData {
        SharedData {
            given: Some(Arc::new(data)),
            ..SharedData::default()
        }
    }

    /// Whether there is data for a recipe: it is given, or the recipe names it or makes its own.
    pub fn has_data_for(&self, config: &Config) -> bool {
        self.given.is_some() || config.has_data()
    }

    /// The data that is given in memory for a recipe.
    ///
    /// # Errors
    /// A recipe that names data, too, or has a format that does not read such data.
    pub fn given_for(&self, config: &Config) -> Result<Option<&DataInMemory>> {
        let Some(data) = self.given.as_deref() else {
            return Ok(None);
        };
        if config.data.path.is_some() {
            return Err(Error::user(format!(
                "{} names data, and data in memory is given, too; leave out one of the two",
                config.place("data.path")
            )));
        }
        if config.data.format.format().takes(data) {
            return Ok(Some(data));
        }
        let takes = ALL.iter().filter(|format| format.format().takes(data));
        let words: Vec<&str> = takes.map(|format| format.word()).collect();
        Err(Error::user(format!(
            "{} does not read {} in memory, which is what is given; set it to {}",
            config.place("data.format"),
            data.word(),
            words.join(" or ")
        )))
    }

    /// The data of a recipe: what was read before, or else what is read now, which is kept.
    ///
    /// # Errors
    /// Data that is missing, not named, or damaged.
    pub(crate) fn read(&self, config: &Config, known: &KnownModel) -> Result<ReadData> {
        let format = config.data.format.format();
        let given = self.given_for(config)?;
        if !format.is_read_by_data_keys() {
            return Ok(ReadData::new(format.read(config, known, given)?));
        }
        let keys = ReadingKeys::of(config);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && kept.keys == keys
            && kept.data.is_for(known)
        {
            return Ok(kept.data.clone());
        }
        let corpus = format.read(config, known, given)?;
        if known.schema.is_some() {
            // Other tasks learn the columns themselves.
            return Ok(ReadData::new(corpus));
        }
        let data = ReadData::shared(corpus);
        *kept = Some(Kept {
            keys,
            data: data.clone(),
        });
        Ok(data)
    }

    /// Data of which nothing is said.
    pub fn silent() -> SharedData {
        SharedData {
            is_silent: true,
            ..SharedData::default()
        }
    }

    /// Whether a sentence about the data is to be said, and was not said yet; from now on it was.
    pub fn is_news(&self, sentence: &str) -> bool {
        if self.is_silent {
            return false;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(sentence.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckedTask;
    use crate::recipe::settings::Settings;
    use std::fs;
    use std::path::Path;

    fn task(path: &Path, more: &str, shared: &SharedData) -> CheckedTask {
        let text = format!("data.path = \"{}\"\nmodel.kind = \"linear\"\n{more}", path.display());
        let config = Config::of(Settings::parse(&text, "mine.toml").unwrap(), None).unwrap();
        CheckedTask::assemble_on(config, None, shared).unwrap()
    }

    #[test]
    fn a_sentence_is_news_once_and_never_of_silent_data() {
        let shared = SharedData::default();
        let of = |sentence| shared.clone().is_news(sentence);
        assert_eq!([of("a"), of("b"), of("a")], [true, true, false]);
        assert!(!SharedData::silent().is_news("a"));
    }

    #[test]
    fn tasks_with_equal_settings_of_data_share_what_was_made_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mail.csv");
        let row = |i: usize| format!("word{i} and more,{}\n", ["ham", "spam"][i % 2]);
        let rows: String = (0..40).map(row).collect();
        fs::write(&path, format!("text,label\n{rows}")).unwrap();
        let shared = SharedData::default();
        let first = task(&path, "data.max_length = 16\n", &shared);
        let (batches, dev) = (first.training().unwrap(), first.evaluation("dev").unwrap());
        let digests = first.data().unwrap().digests().unwrap();
        // Whoever read the file once more would find nothing.
        fs::remove_file(&path).unwrap();
        let second = task(&path, "data.max_length = 16\ntrain.lr = 0.5\n", &shared);
        assert!(Arc::ptr_eq(
            &first.data().unwrap().reader,
            &second.data().unwrap().reader
        ));
        assert!(Arc::ptr_eq(&batches, &second.training().unwrap()));
        assert!(Arc::ptr_eq(&dev, &second.evaluation("dev").unwrap()));
        assert_eq!(second.data().unwrap().digests().unwrap(), digests);

        fs::write(&path, format!("text,label\n{rows}")).unwrap();
        // Other batches of the same data.
        let of_two = task(&path, "data.max_length = 16\ntrain.batch = 2\n", &shared);
        assert!(!Arc::ptr_eq(&batches, &of_two.training().unwrap()));
        let shorter = task(&path, "data.max_length = 8\n", &shared);
        assert!(!Arc::ptr_eq(&batches, &shorter.training().unwrap()));
        // Other data.
        let other = task(&path, "data.max_length = 16\ndata.held_out = 0.5\n", &shared);
        assert_eq!(other.evaluation("dev").unwrap().eval_batches(), 1);
        assert_ne!(other.data().unwrap().digests().unwrap(), digests);
        // Tasks that share nothing.
        let alone = task(&path, "data.max_length = 16\n", &SharedData::default());
        assert!(!Arc::ptr_eq(
            &first.data().unwrap().reader,
            &alone.data().unwrap().reader
        ));
        assert_eq!(alone.data().unwrap().digests().unwrap(), digests);
    }
}

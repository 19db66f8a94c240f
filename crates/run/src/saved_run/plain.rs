//! A Hugging Face folder as if a run had saved it: the settings that its model implies.

use crate::folder::Which;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataFormat, Transformer};
use crate::recipe::settings::Settings;
use crate::recipe::value::SettingValue;
use crate::recipe::words::Word;
use lessen_base::{Error, Result};
use lessen_data::{Asking, Problem};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Model, Task};
use std::path::Path;

/// Most tokens of an example for a classifier, and of a window for a language model, unless other settings are given.
const LENGTHS: (usize, usize) = (512, 1024);
/// Texts in a batch, and tokens in a batch of windows.
const BATCH: (usize, usize) = (32, 2048);

/// Whether a folder holds a model, but no run.
pub(super) fn is_plain(root: &Path) -> bool {
    let has_model = root.join("config.json").is_file() || ModelFolder::from(root).has_adapters();
    has_model && !root.join("config.toml").is_file()
}

/// Refuses any but the only model of a Hugging Face folder.
///
/// # Errors
/// The flag.
pub(super) fn check_only(root: &Path, which: Which) -> Result<()> {
    let flag = match which {
        Which::Last => return Ok(()),
        Which::Best => "--best".to_string(),
        Which::Step(step) => format!("--step {step}"),
    };
    let shown = root.display();
    Err(Error::user(format!(
        "{shown} holds a single model and no run; leave out {flag}"
    )))
}

/// The settings that fit the model of a Hugging Face folder.
///
/// # Errors
/// A `config.json` that is damaged or of a model that Lessen does not have.
pub(super) fn config(folder: ModelFolder<'_>) -> Result<Config> {
    let shown = folder.path().display().to_string();
    let model = Model::from_dir(folder)?;
    let is_language_model = model.task() == Task::LanguageModelling;
    let most = |length: usize| model.max_length().unwrap_or(length).min(length);
    // Of the kinds that learn the same data any one serves: the model is that of the folder.
    let (kind, length, batch) = match is_language_model {
        true => (Transformer::Gpt2, most(LENGTHS.1), BATCH.1 / most(LENGTHS.1)),
        false if model.image().is_some() => (Transformer::Vit, most(LENGTHS.0), BATCH.0),
        false if model.task() == Task::QuestionAnswering => {
            (Transformer::Bert, most(Asking::default().max_length), BATCH.0)
        }
        false => (Transformer::Bert, most(LENGTHS.0), BATCH.0),
    };
    let format = match model.task() {
        Task::LanguageModelling => Some(DataFormat::Text),
        Task::MaskedLanguageModelling => Some(DataFormat::Masked),
        Task::TokenClassification { .. } => Some(DataFormat::Tagged),
        Task::QuestionAnswering => Some(DataFormat::Squad),
        _ if model.image().is_some() => Some(DataFormat::Images),
        _ => None,
    };
    let problem = match model.task() {
        _ if model.image().is_some() => None,
        Task::MultiLabelClassification { .. } => Some(Problem::MultiLabel),
        Task::Regression => Some(Problem::Regression),
        _ => None,
    };
    let (text, count) = (
        |text: &str| SettingValue::Text(text.to_string()),
        |count: usize| SettingValue::Count(count as u64),
    );
    let mut settings = Settings::parse("", &shown)?;
    for (key, value) in [
        ("run.recipe", text(&shown)),
        ("model.init", text(&shown)),
        ("model.kind", text(kind.word())),
        ("data.max_length", count(length.max(1))),
        ("train.batch", count(batch.max(1))),
        ("train.loss", text(&model.loss().to_string())),
    ] {
        settings.set_named(key, value, shown.clone())?;
    }
    if let Some(format) = format {
        settings.set_named("data.format", text(format.word()), shown.clone())?;
    }
    if let Some(problem) = problem {
        settings.set_named("data.problem", text(problem.word()), shown)?;
    }
    Config::of(settings, None)
}

//! The settings of a Hugging Face folder, which follow from its model.

use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::{ModelFolder, gguf_file};
use lessen_nn::{Fields, Model};
use lessen_task::folder::WhichModel;
use lessen_task::formats;
use lessen_task::reader::max_length_of;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::keys::DataFormat;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::tell;
use std::path::Path;

/// Whether a folder holds a model, but no run; a folder of sentence-transformers may hold it in a folder of its own.
pub(super) fn is_plain(root: &Path) -> bool {
    let has = |name: &str| root.join(name).is_file();
    let has_model = has("config.json") || has("modules.json") || ModelFolder::from(root).has_adapters();
    // Files of another format are refused as models, not as runs.
    let has_model = has_model || gguf_file(root).is_some();
    has_model && !root.join("config.toml").is_file()
}

/// Refuses any but the only model of a Hugging Face folder.
///
/// # Errors
/// The flag.
pub(super) fn check_only(root: &Path, which: WhichModel) -> Result<()> {
    let flag = match which {
        WhichModel::Last => return Ok(()),
        WhichModel::Best => "--best".to_string(),
        WhichModel::Step(step) => format!("--step {step}"),
    };
    let shown = root.display();
    Err(Error::user(format!(
        "{shown} holds a single model and no run; leave out {flag}"
    )))
}

/// What there is to say of a model with a single logit of which its folder does not say what it is; nothing of others.
fn remark_on_one_logit(folder: ModelFolder<'_>, model: &Model) -> Option<String> {
    let fields = Fields::read(&folder.path().join("config.json")).ok()?;
    let is_said = fields.get("problem_type").is_some();
    let [class] = model.labels() else { return None };
    (!is_said && model.is_multi_label()).then(|| {
        format!(
            "{} has the one class {class:?} and no problem_type, so its logit is that of a probability (sigmoid), as in \
             transformers; for a number, write \"problem_type\": \"regression\" into its config.json",
            folder.path().display()
        )
    })
}

/// The settings that fit the model of a Hugging Face folder.
///
/// # Errors
/// A `config.json` that is damaged or of a model that Lessen does not have.
pub(super) fn config(folder: ModelFolder<'_>) -> Result<Config> {
    let shown = folder.path().display().to_string();
    let model = Model::from_dir(folder)?;
    remark_on_one_logit(folder, &model)
        .iter()
        .for_each(|remark| tell(&format!("note: {remark}")));
    let settings_in = |format: &DataFormat| Some((*format, format.format().settings_of_model(&model)?));
    let found = formats::ALL.iter().find_map(settings_in);
    let (format, own) =
        found.ok_or_else(|| Error::internal(format!("the model of {shown} reads data in no format")))?;
    let named = max_length_of(folder)?.filter(|named| own.longest.is_some_and(|longest| *named <= longest));
    let length = named.unwrap_or(own.length);
    let (text, count) = (
        |text: &str| SettingValue::Text(text.to_string()),
        |count: usize| SettingValue::Count(count as u64),
    );
    let mut settings = Settings::parse("", &shown)?;
    for (key, value) in [
        ("run.recipe", text(&shown)),
        ("model.init", text(&shown)),
        ("model.kind", text(own.kind.word())),
        ("data.max_length", count(length.max(1))),
        ("train.batch", count(own.batch.max(1))),
        ("train.loss", text(&model.loss().to_string())),
    ] {
        settings.set_named(key, value, shown.clone())?;
    }
    // The default stays a default, which the name of the data's folder may replace.
    if settings.text("data.format") != Some(format.word()) {
        settings.set_named("data.format", text(format.word()), shown.clone())?;
    }
    if let Some(problem) = own.problem {
        settings.set_named("data.problem", text(problem.word()), shown)?;
    }
    Config::of(settings, None)
}

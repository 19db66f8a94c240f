//! Whether settings, data and model go together: checked in one place, before anything is traced, whoever changed them.

mod inputs;

use self::inputs::{check_inputs, check_reader};
use super::goal::{Goal, LOSS};
use super::reader::Reader;
use super::tokenizer_of;
use crate::recipe::config::Config;
use crate::recipe::value::Origin;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Architecture, AttentionConfig, Loss, Model, Task};
use std::path::Path;

pub(crate) use self::inputs::check_image_size;

/// Elements beyond which no array can be meant: 1024 TiB of four bytes each.
const MOST_ELEMENTS: f64 = (1u64 << 48) as f64;

/// Refuses what is no folder with a model to start from, before anything else is looked for in it.
///
/// # Errors
/// A path without folder, the folder of a run instead of that of its model, a base model for what are no adapters, and
/// adapters to which others are to be added.
pub(crate) fn check_init(config: &Config, folder: ModelFolder<'_>) -> Result<()> {
    let dir = folder.path();
    let (place, shown) = (config.settings.origin("model.init"), dir.display());
    if !dir.is_dir() {
        return Err(Error::user(format!(
            "{place}: there is no folder {shown}; check the path"
        )));
    }
    if !dir.join("config.json").exists() && dir.join("model/config.json").exists() {
        let model = dir.join("model");
        return Err(Error::user(format!(
            "{place}: {shown} is a run; start from its model, {}",
            model.display()
        )));
    }
    if folder.has_adapters() && config.lora.rank > 0 {
        return Err(Error::user(format!(
            "{} needs a checkpoint whose weights stay as they are, but {shown} has adapters; merge them first, with \
             `lessen export`, or leave it out",
            config.place("lora.rank")
        )));
    }
    match &config.model.base {
        Some(base) => check_base(folder, base).map_err(|error| error.at(config.settings.origin("model.base"))),
        None => Ok(()),
    }
}

/// Refuses what is no base model of adapters.
///
/// # Errors
/// A path without folder, and a folder that has no adapters.
pub(crate) fn check_base(adapters: ModelFolder<'_>, base: &Path) -> Result<()> {
    if !base.is_dir() {
        let base = base.display();
        return Err(Error::user(format!("there is no folder {base}; check the path")));
    }
    if !adapters.has_adapters() {
        return Err(Error::user(format!(
            "{} has a model of its own and no adapters; leave out the base model {}",
            adapters.path().display(),
            base.display()
        )));
    }
    Ok(())
}

/// Refuses a model from scratch of more elements than can be meant, before anything is made of them. `vocab` is the
/// number of its tokens.
///
/// # Errors
/// The key that has the largest share in it.
pub(crate) fn check_sizes(config: &Config, vocab: usize) -> Result<()> {
    let model = &config.model;
    if model.init.is_some() {
        return Ok(());
    }
    let (layers, width, ffn) = (model.layers as f64, model.width as f64, model.ffn as f64);
    // A pair of sizes for every matrix, the layers' with their number.
    let shares = [
        ("model.width", 4.0 * layers * width * width),
        ("model.ffn", 2.0 * layers * width * ffn),
        ("model.vocab", vocab as f64 * width),
        ("data.max_length", config.data.max_length as f64 * width),
    ];
    if shares.iter().map(|(_, share)| share).sum::<f64>() < MOST_ELEMENTS {
        return Ok(());
    }
    Err(too_large(config, shares))
}

/// Refuses a batch whose arrays, about one for every parameter, have more elements than can be meant.
///
/// # Errors
/// The key that has the largest share in it.
pub(crate) fn check_batch(config: &Config, model: &Model) -> Result<()> {
    let parameters = model.parameters();
    let widest = parameters
        .iter()
        .map(|param| param.shape.iter().copied().max().unwrap_or(1) as f64);
    let (size, tokens) = (config.train.batch, config.train.tokens);
    // An image has at most as many states as pixels.
    let (what, length) = match model.image() {
        Some([rows, columns, _]) => ("image.size", rows * columns),
        None => ("data.max_length", config.data.max_length),
    };
    let most = match tokens {
        0 => size as f64 * length as f64,
        tokens => tokens as f64,
    };
    if most * widest.sum::<f64>() < MOST_ELEMENTS {
        return Ok(());
    }
    let mut keys = match tokens {
        0 => vec![("train.batch", size), (what, length)],
        tokens => vec![("train.tokens", tokens)],
    };
    if config.model.init.is_none() {
        keys.extend([("model.width", config.model.width), ("model.ffn", config.model.ffn)]);
    }
    Err(too_large(config, keys))
}

/// The refusal of sizes, naming the key with the greatest share in them.
fn too_large<T: PartialOrd>(config: &Config, shares: impl IntoIterator<Item = (&'static str, T)>) -> Error {
    let greatest = shares
        .into_iter()
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
        .map_or("train.batch", |(name, _)| name);
    Error::user(format!(
        "{} asks for more than 1000 TiB of memory; choose a smaller number",
        config.place(greatest)
    ))
}

/// Refuses a new model that the data and the settings do not go with. Without data, the vocabulary is only assumed, and
/// there is nothing that reads examples.
///
/// # Errors
/// A tokenizer of another model, examples that are longer than the model's positions, images of another size, and a
/// model that reads other data.
pub(crate) fn check_new(config: &Config, model: &Model, reader: Option<&Reader>) -> Result<()> {
    let Some(dir) = &config.model.init else {
        return Ok(());
    };
    let whose = format!("the checkpoint {}", dir.display());
    check_inputs(config, model, &whose)?;
    if let Some(reader) = reader {
        check_reader(reader, model, &whose)?;
    }
    check_length(config, model, &whose, "set data.max_length to at most that")
}

/// The vocabulary of a model that starts from a checkpoint: larger than that of the checkpoint where tokens were added
/// to the tokenizer that belongs to it. Another tokenizer is not for this model, and [`check_new`] refuses it.
pub(crate) fn vocabulary_for(config: &Config, model: &Model, tokenizer: Option<&Tokenizer>) -> usize {
    let knows = model.vocab_size();
    let (Some(folder), Some(tokenizer)) = (config.init(), tokenizer) else {
        return knows;
    };
    let grows = tokenizer.vocab_size() > knows
        && (tokenizer.is_extended_from(knows)
            || tokenizer_of(folder).is_ok_and(|own| is_longer(tokenizer, &own, knows)));
    match grows {
        true => tokenizer.vocab_size(),
        false => knows,
    }
}

/// Whether a tokenizer has the tokens of the checkpoint's own one, which fits its model, and more.
fn is_longer(tokenizer: &Tokenizer, own: &Tokenizer, knows: usize) -> bool {
    own.vocab_size() <= knows && tokenizer.extends(own)
}

/// Refuses a model of a run, in its folder or in that of a checkpoint, that the run's settings do not describe.
/// `described` is the model that they describe, unless it came from a checkpoint.
///
/// # Errors
/// The reader of another model, settings of another model, and examples that are longer than the model's positions.
pub(crate) fn check_saved(
    config: &Config,
    model: &Model,
    described: Option<&Model>,
    reader: &Reader,
    dir: &Path,
) -> Result<()> {
    let whose = format!("the model in {}", dir.display());
    check_inputs(config, model, &whose)?;
    check_reader(reader, model, &whose)?;
    let remedy = match config.settings.origin("data.max_length") {
        Origin::Flag(_) => "set data.max_length to at most that",
        _ => "restore the run's config.toml",
    };
    check_length(config, model, &whose, remedy)?;
    check_words(config, model, described, &whose)?;
    let Some(described) = described else {
        return Ok(());
    };
    let shapes = |model: &Model| -> Vec<(String, Vec<usize>)> {
        let params = model.parameters().into_iter();
        params.map(|param| (param.name, param.shape)).collect()
    };
    let (wanted, found) = (shapes(described), shapes(model));
    if wanted == found {
        return Ok(());
    }
    let what = match wanted.iter().find(|param| !found.contains(param)) {
        Some((name, shape)) => format!("a model with {name} of shape {shape:?}"),
        None => "a smaller model".to_string(),
    };
    Err(Error::user(format!(
        "the settings under [model] describe {what}, unlike {whose}; restore the run's config.toml"
    )))
}

/// Refuses a saved model of other activation, attention, positions or loss than the run's settings. Where `described`
/// is missing, only keys that are given count.
fn check_words(config: &Config, model: &Model, described: Option<&Model>, whose: &str) -> Result<()> {
    let of_model = |model: &Model| {
        let attention = model.attention();
        [
            model.activation().to_string(),
            attention.weighting.to_string(),
            attention.position.to_string(),
        ]
    };
    let given = &config.model;
    let given = [
        given.activation.map(|activation| activation.to_string()),
        given.attention.map(|attention| attention.to_string()),
        given.position.map(|position| position.to_string()),
    ];
    let wanted = described.map_or(given, |described| of_model(described).map(Some));
    let names = ["model.activation", "model.attention", "model.position"];
    let words = names.into_iter().zip(wanted).zip(of_model(model));
    let loss = (
        ("train.loss", Some(config.train.loss.to_string())),
        model.loss().to_string(),
    );
    for ((name, wanted), found) in words.chain([loss]) {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(Error::user(format!(
                "{name} = {wanted} is not that of {whose}, {found}; restore the run's config.toml"
            )));
        }
    }
    Ok(())
}

/// Refuses other positions than the checkpoint's where these cannot be taken away or added: in a BERT, whose norms
/// follow the sum of words and positions.
///
/// # Errors
/// The key.
pub(crate) fn check_positions_of_checkpoint(config: &Config, model: &Model, wanted: AttentionConfig) -> Result<()> {
    let own = model.attention().position;
    let is_bert = matches!(model.architecture(), Architecture::Bert(..));
    if wanted.position == own || !is_bert {
        return Ok(());
    }
    let dir = config.model.init.as_deref().unwrap_or(Path::new("")).display();
    Err(Error::user(format!(
        "{} cannot replace the positions ({own}) of the checkpoint {dir}, a post-LN BERT; leave it out, or train from \
         scratch without model.init",
        config.place("model.position")
    )))
}

/// Refuses a normalized cross entropy where scores or answers are learned.
///
/// # Errors
/// The key.
pub(crate) fn check_loss(config: &Config, goal: &Goal) -> Result<()> {
    match (config.train.loss, goal) {
        (Loss::Norm(_), Goal::Labels(..)) => Err(Error::user(format!(
            "{} is a cross entropy over classes that exclude each other, but a text of the data can have several; leave it \
             out",
            config.place("train.loss")
        ))),
        (Loss::Norm(_), Goal::Score(_)) => Err(Error::user(format!(
            "{} is a cross entropy, but the data has scores, which are learned by squared errors; leave it out",
            config.place("train.loss")
        ))),
        (Loss::Norm(_), Goal::Answers) => Err(Error::user(format!(
            "{} is for classes and tokens, but the data has questions with answers; leave it out",
            config.place("train.loss")
        ))),
        _ => Ok(()),
    }
}

/// The goal with what the recipe says of its scores: the one that decides which evaluation is best, if the recipe names
/// one, among them, and the probability from which on a label is predicted.
///
/// # Errors
/// A score that the data does not have.
pub(crate) fn scored(config: &Config, goal: Goal) -> Result<Goal> {
    let goal = goal.with_threshold(config.data.threshold);
    let Some(best) = &config.train.best else {
        return Ok(goal);
    };
    if best == LOSS || goal.scores().contains(&best.as_str()) {
        return Ok(goal);
    }
    let known = goal.possible_scores();
    if let Some(metric) = known.iter().find(|metric| metric.name() == best) {
        return Ok(goal.with(*metric));
    }
    let mut names = goal.scores();
    names.extend(known.iter().map(|metric| metric.name()));
    names.sort_unstable();
    names.dedup();
    names.push(LOSS);
    Err(Error::user(format!(
        "{} is no score of this data; choose one of {}",
        config.place("train.best"),
        names.join(", ")
    )))
}

/// Refuses data that asks for other answers than the model gives.
///
/// # Errors
/// Classes where the model gives scores, texts where it is a classifier, and so on.
pub(crate) fn check_goal(goal: &Goal, model: &Model) -> Result<()> {
    let wants = match goal {
        Goal::Classes(..) => "classes",
        Goal::Labels(..) => "several labels for a text",
        Goal::WordClasses(_) => "classes of words",
        Goal::Answers => "questions with answers",
        Goal::Score(_) => "scores",
        Goal::NextToken | Goal::Sum => "texts to continue",
        Goal::MaskedTokens => "texts with masked tokens",
    };
    let (gives, fits) = match model.task() {
        Task::Classification { .. } => ("tells classes apart", matches!(goal, Goal::Classes(..))),
        Task::MultiLabelClassification { .. } => ("gives texts several labels", matches!(goal, Goal::Labels(..))),
        Task::TokenClassification { .. } => ("tells classes of words apart", matches!(goal, Goal::WordClasses(_))),
        Task::QuestionAnswering => ("finds answers", matches!(goal, Goal::Answers)),
        Task::Regression => ("gives scores", matches!(goal, Goal::Score(_))),
        Task::MaskedLanguageModelling => ("fills in masked tokens", matches!(goal, Goal::MaskedTokens)),
        Task::LanguageModelling => ("continues texts", matches!(goal, Goal::NextToken | Goal::Sum)),
    };
    if fits {
        return Ok(());
    }
    Err(Error::user(format!(
        "the data has {wants} but the model {gives}; name data of the same task"
    )))
}

/// Refuses examples that are longer than the model's positions.
fn check_length(config: &Config, model: &Model, whose: &str, remedy: &str) -> Result<()> {
    let Some(longest) = model.max_length().filter(|longest| config.data.max_length > *longest) else {
        return Ok(());
    };
    Err(Error::user(format!(
        "{} is more than the {longest} positions of {whose}; {remedy}",
        config.place("data.max_length")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::settings::Settings;

    #[test]
    fn a_normalized_cross_entropy_is_refused_for_scores() {
        let text = "model.kind = \"bert\"\ndata.format = \"glue\"\ntrain.loss = \"norm_softmax\"";
        let config = Config::new(Settings::parse(text, "mine.toml").unwrap()).unwrap();
        assert_eq!(check_loss(&config, &Goal::Classes(Vec::new(), Vec::new())), Ok(()));
        assert_eq!(
            check_loss(&config, &Goal::Score(Vec::new())).unwrap_err().to_string(),
            "train.loss = \"norm_softmax\" (mine.toml line 3) is a cross entropy, but the data has scores, which are \
             learned by squared errors; leave it out"
        );
    }
}

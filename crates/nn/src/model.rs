//! Any of the models, as a `config.json` or a recipe asks for it.

use std::path::Path;

use lessen_graph::{Tensor, Trace};
use serde_json::{Map, Value, json};

use crate::config::Fields;
use crate::context::{Context, ParamSpec};
use crate::models::bert::{BertConfig, BertForMaskedLM, BertForSequenceClassification};
use crate::models::encoder::{EncoderConfig, LessenEncoder};
use crate::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use crate::models::{BatchShape, Outputs};
use lessen_base::Result;

/// The classes of models, called as in the field `architectures` of `config.json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Architecture {
    /// BERT with a classifier or a regression on top.
    BertForSequenceClassification,
    /// BERT that predicts hidden words.
    BertForMaskedLM,
    /// GPT-2 that predicts the next token.
    GPT2LMHeadModel,
    /// Lessen's small encoder with a classifier or a regression on top.
    LessenEncoder,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Architecture; 4] = [
        Architecture::BertForSequenceClassification,
        Architecture::BertForMaskedLM,
        Architecture::GPT2LMHeadModel,
        Architecture::LessenEncoder,
    ];

    /// The name in `architectures`.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::BertForSequenceClassification => BertForSequenceClassification::ARCHITECTURE,
            Architecture::BertForMaskedLM => BertForMaskedLM::ARCHITECTURE,
            Architecture::GPT2LMHeadModel => GPT2LMHeadModel::ARCHITECTURE,
            Architecture::LessenEncoder => LessenEncoder::ARCHITECTURE,
        }
    }

    /// The family in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Architecture::BertForSequenceClassification | Architecture::BertForMaskedLM => "bert",
            Architecture::GPT2LMHeadModel => "gpt2",
            Architecture::LessenEncoder => "lessen-encoder",
        }
    }

    /// What a `config.json` says that its checkpoint is.
    fn of(fields: &Fields) -> Result<Architecture> {
        let known = || Architecture::ALL.map(Architecture::name).join(", ");
        match fields.get("architectures") {
            Some(value) => {
                let name = value.get(0).and_then(Value::as_str);
                // The headless class has all that the language model needs, whose head is tied.
                let name = name.map(|name| {
                    if name == "GPT2Model" {
                        GPT2LMHeadModel::ARCHITECTURE
                    } else {
                        name
                    }
                });
                Architecture::ALL
                    .into_iter()
                    .find(|a| Some(a.name()) == name)
                    .ok_or_else(|| {
                        fields.error(
                            "architectures",
                            format!("is {value}, and Lessen has only {}", known()),
                        )
                    })
            }
            None => match fields.word("model_type")? {
                Some("gpt2") => Ok(Architecture::GPT2LMHeadModel),
                Some("lessen-encoder") => Ok(Architecture::LessenEncoder),
                _ => Err(fields.error(
                    "architectures",
                    format!("is missing; it names the model's class, one of {}", known()),
                )),
            },
        }
    }
}

/// What a model is trained for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// One of several classes for each text: data input `labels`, `i32[B]`.
    Classification {
        /// Number of classes.
        classes: usize,
    },
    /// A number for each text: data inputs `targets` and `weights`, `f32[B]`.
    Regression,
    /// The next token at every place: data input `labels`, `i32[B, T]`.
    LanguageModelling,
    /// The hidden tokens: data input `labels`, `i32[B, T]`.
    MaskedLanguageModelling,
}

/// A model: its class and its configuration.
#[derive(Clone, PartialEq, Debug)]
pub enum Model {
    /// BERT with a classifier or a regression on top.
    BertForSequenceClassification(BertForSequenceClassification),
    /// BERT that predicts hidden words.
    BertForMaskedLM(BertForMaskedLM),
    /// GPT-2 that predicts the next token.
    GPT2LMHeadModel(GPT2LMHeadModel),
    /// Lessen's small encoder with a classifier or a regression on top.
    LessenEncoder(LessenEncoder),
}

impl Model {
    /// The model that `DIR/config.json` describes.
    ///
    /// # Errors
    /// A sentence that names the file, and the field that is missing, wrong or beyond Lessen.
    pub fn from_dir(dir: &Path) -> Result<Model> {
        let fields = Fields::read(&dir.join("config.json"))?;
        let model = Model::from_fields(&fields, Architecture::of(&fields)?)?;
        if !model.labels().is_empty() {
            fields.check_problem(model.labels().len())?;
        }
        Ok(model)
    }

    /// A model of this class in the dimensions of `DIR/config.json`, which may be for another class of the
    /// same family: a classifier on a BERT that was trained to predict words. What a classifier's
    /// `problem_type` says of its old head does not matter here.
    ///
    /// # Errors
    /// As [`Model::from_dir`], and if the family is another.
    pub fn from_dir_as(dir: &Path, architecture: Architecture) -> Result<Model> {
        let fields = Fields::read(&dir.join("config.json"))?;
        let found = family(&fields)?;
        if found != architecture.model_type() {
            let (name, family) = (architecture.name(), architecture.model_type());
            return Err(fields.error(
                "model_type",
                format!("is `{found}`, but {name} needs a `{family}` model"),
            ));
        }
        Model::from_fields(&fields, architecture)
    }

    fn from_fields(fields: &Fields, architecture: Architecture) -> Result<Model> {
        Ok(match architecture {
            Architecture::BertForSequenceClassification => BertForSequenceClassification {
                config: BertConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::BertForMaskedLM => {
                fields.must_be("tie_word_embeddings", &json!(true))?;
                BertForMaskedLM {
                    config: BertConfig::from_fields(fields)?,
                }
                .into()
            }
            Architecture::GPT2LMHeadModel => GPT2LMHeadModel {
                config: Gpt2Config::from_fields(fields)?,
            }
            .into(),
            Architecture::LessenEncoder => LessenEncoder {
                config: EncoderConfig::from_fields(fields)?,
            }
            .into(),
        })
    }

    /// The family that `DIR/config.json` names, as in [`Architecture::model_type`], or one that Lessen does
    /// not have.
    ///
    /// # Errors
    /// A sentence that names the file if it cannot be read or names no family.
    pub fn family(dir: &Path) -> Result<String> {
        Ok(family(&Fields::read(&dir.join("config.json"))?)?.to_string())
    }

    /// The fields of the model's `config.json`: those of the file that it was read from, brought up to date.
    pub fn config_json(&self) -> Map<String, Value> {
        match self {
            Model::BertForSequenceClassification(model) => model.config_json(),
            Model::BertForMaskedLM(model) => model.config_json(),
            Model::GPT2LMHeadModel(model) => model.config_json(),
            Model::LessenEncoder(model) => model.config_json(),
        }
    }

    /// The model's class.
    pub fn architecture(&self) -> Architecture {
        match self {
            Model::BertForSequenceClassification(_) => Architecture::BertForSequenceClassification,
            Model::BertForMaskedLM(_) => Architecture::BertForMaskedLM,
            Model::GPT2LMHeadModel(_) => Architecture::GPT2LMHeadModel,
            Model::LessenEncoder(_) => Architecture::LessenEncoder,
        }
    }

    /// What it is trained for. A classifier with a single class is a regression.
    pub fn task(&self) -> Task {
        match self {
            Model::BertForMaskedLM(_) => Task::MaskedLanguageModelling,
            Model::GPT2LMHeadModel(_) => Task::LanguageModelling,
            Model::BertForSequenceClassification(_) | Model::LessenEncoder(_) => match self.labels().len() {
                1 => Task::Regression,
                classes => Task::Classification { classes },
            },
        }
    }

    /// Names of the classes; none for a language model.
    pub fn labels(&self) -> &[String] {
        match self {
            Model::BertForSequenceClassification(model) => &model.config.labels,
            Model::LessenEncoder(model) => &model.config.labels,
            Model::BertForMaskedLM(_) | Model::GPT2LMHeadModel(_) => &[],
        }
    }

    /// Gives a classifier other classes; a single one makes it a regression.
    ///
    /// # Panics
    /// For a language model, and without any class.
    #[track_caller]
    pub fn set_labels(&mut self, labels: Vec<String>) {
        assert!(!labels.is_empty(), "a classifier needs a class");
        match self {
            Model::BertForSequenceClassification(model) => model.config.labels = labels,
            Model::LessenEncoder(model) => model.config.labels = labels,
            Model::BertForMaskedLM(_) | Model::GPT2LMHeadModel(_) => {
                panic!("a language model has no classes")
            }
        }
    }

    /// Sets every dropout of the model to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        match self {
            Model::BertForSequenceClassification(model) => model.config.set_dropout(p),
            Model::BertForMaskedLM(model) => model.config.set_dropout(p),
            Model::GPT2LMHeadModel(model) => model.config.set_dropout(p),
            Model::LessenEncoder(model) => model.config.dropout = p,
        }
    }

    /// Number of tokens that it knows.
    pub fn vocab_size(&self) -> usize {
        match self {
            Model::BertForSequenceClassification(model) => model.config.vocab_size,
            Model::BertForMaskedLM(model) => model.config.vocab_size,
            Model::GPT2LMHeadModel(model) => model.config.vocab_size,
            Model::LessenEncoder(model) => model.config.vocab_size,
        }
    }

    /// Tokens of the longest text that it can read. A longer batch makes [`Model::forward`] panic.
    pub fn max_length(&self) -> usize {
        match self {
            Model::BertForSequenceClassification(model) => model.config.max_position_embeddings,
            Model::BertForMaskedLM(model) => model.config.max_position_embeddings,
            Model::GPT2LMHeadModel(model) => model.config.n_positions,
            Model::LessenEncoder(model) => model.config.max_length,
        }
    }

    /// Loss and scores. Declares the data inputs `tokens` (`i32[B, T]`), `mask` (`bool[B, T]`, true for a
    /// real token; not for GPT-2), `types` (`i32[B, T]`, BERT only), and those of its [`Task`].
    #[track_caller]
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        match self {
            Model::BertForSequenceClassification(model) => model.forward(cx, batch),
            Model::BertForMaskedLM(model) => model.forward(cx, batch),
            Model::GPT2LMHeadModel(model) => model.forward(cx, batch),
            Model::LessenEncoder(model) => model.forward(cx, batch),
        }
    }

    /// The scores alone, with no input for what is to be predicted: `f32[B, classes]` (`f32[B, 1]` for a
    /// regression) or `f32[B, T, vocabulary]`.
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        match self {
            Model::BertForSequenceClassification(model) => model.logits(cx, batch),
            Model::BertForMaskedLM(model) => model.logits(cx, batch),
            Model::GPT2LMHeadModel(model) => model.logits(cx, batch),
            Model::LessenEncoder(model) => model.logits(cx, batch),
        }
    }

    /// All parameters, in the order in which the model uses them.
    pub fn parameters(&self) -> Vec<ParamSpec> {
        let trace = Trace::new();
        let cx = Context::new(&trace, false);
        self.logits(&cx, BatchShape { size: 1, length: 1 });
        cx.params()
    }

    /// Whether a parameter belongs to the head, which the checkpoint of a model for another task does not
    /// have.
    pub fn is_head(&self, name: &str) -> bool {
        match self {
            Model::BertForSequenceClassification(_) => {
                name.starts_with("classifier.") || name.starts_with("bert.pooler.")
            }
            Model::BertForMaskedLM(_) => name.starts_with("cls."),
            Model::GPT2LMHeadModel(_) => false,
            Model::LessenEncoder(_) => name.starts_with("classifier."),
        }
    }
}

/// The family that a `config.json` names, by itself or through its class.
fn family(fields: &Fields) -> Result<&str> {
    match fields.word("model_type")? {
        Some(family) => Ok(family),
        None => Ok(Architecture::of(fields)?.model_type()),
    }
}

macro_rules! into_model {
    ($($class:ident),*) => {$(
        impl From<$class> for Model {
            fn from(model: $class) -> Model {
                Model::$class(model)
            }
        }
    )*};
}

into_model!(
    BertForSequenceClassification,
    BertForMaskedLM,
    GPT2LMHeadModel,
    LessenEncoder
);

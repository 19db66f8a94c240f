//! The `config.json` of a model: reading and writing it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Model;
use super::config_fields::{check, spelled};
use crate::architecture::{Architecture, family};
use crate::checkpoint::ModelFolder;
use crate::checkpoint::quantization_config::CONFIG;
use crate::config::Fields;
use crate::loss::Loss;
use crate::models::bert::{Bert, Family, Head};
use crate::models::encoder::{EncoderConfig, LessenEncoder};
use crate::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use crate::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use crate::models::gptj::{GPTJForCausalLM, GptjConfig};
use crate::models::linear::{LessenLinear, LinearConfig};
use crate::models::llama::{LlamaConfig, LlamaForCausalLM};
use crate::models::onnx::{OnnxClassifier, OnnxClassifierConfig};
use crate::models::vision::{ImageClassifier, ImageClassifierConfig};
use crate::models::vit::{Vit, VitConfig};
use crate::quantization::OWN as LESSEN_QUANTIZE;
use crate::task::Task;
use lessen_base::{Result, atomic};

impl Model {
    /// Reads the model that the `config.json` of a folder describes; of adapters without one, that of their base model
    /// with the head that they are for.
    ///
    /// # Errors
    /// A missing or damaged file; a field that is missing, wrong, contradictory or not implemented. The message names
    /// file and field.
    pub fn from_dir<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<Model> {
        let fields = folder.into().fields()?;
        let architecture = Architecture::of(&fields)?;
        architecture.check_family(&fields, fields.word("model_type")?.unwrap_or(architecture.model_type()))?;
        let model = Model::from_fields(&fields, architecture)?;
        if matches!(model.task(), Task::Classification { .. } | Task::Regression) {
            fields.check_problem(model.labels().len())?;
        }
        if let Some(own) = model.quantization() {
            model
                .check_quantization(own)
                .map_err(|error| fields.error(LESSEN_QUANTIZE, format!("is wrong: {}", error.message())))?;
        }
        Ok(model)
    }

    /// Reads a model of this class with the dimensions of the folder's `config.json`, which may describe another class
    /// of the same family: a classifier on a BERT that was pretrained as a masked language model. The `problem_type`
    /// and the loss of the replaced head are ignored.
    ///
    /// # Errors
    /// As [`Model::from_dir`]; a model of another family.
    pub fn from_dir_as<'a>(folder: impl Into<ModelFolder<'a>>, architecture: Architecture) -> Result<Model> {
        let fields = folder.into().fields()?;
        architecture.check_family(&fields, family(&fields)?)?;
        let mut model = Model::from_fields(&fields, architecture)?;
        model.forget_foreign_layers();
        model.set_multi_label(false);
        if Architecture::of(&fields) != Ok(architecture) {
            model.set_loss(Loss::default());
        }
        Ok(model)
    }

    /// [`Model::from_dir_as`] of the class with this head in the family of the folder's `config.json`.
    ///
    /// # Errors
    /// As [`Model::from_dir_as`]; a family without such a head.
    pub fn from_dir_with<'a>(folder: impl Into<ModelFolder<'a>>, head: Head) -> Result<Model> {
        let folder = folder.into();
        let family = Model::family(folder)?;
        // The error about a family without the head names BERT's class.
        let bert = Architecture::Bert(Family::Bert, head);
        Model::from_dir_as(folder, Architecture::with_head(&family, head).unwrap_or(bert))
    }

    /// Reads the model of which only the hidden states are asked ([`Model::states`]), whatever its head: also of a
    /// checkpoint without one, such as a `BertModel`.
    ///
    /// # Errors
    /// As [`Model::from_dir`]; a family without states of tokens, and one that Lessen does not have.
    pub fn from_dir_for_states<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<Model> {
        let folder = folder.into();
        let fields = folder.fields()?;
        let family = family(&fields)?;
        let of_texts = |family: &str| {
            if !Architecture::has_states(family) {
                return None;
            }
            let classifier = Architecture::with_head(family, Head::SequenceClassification);
            classifier.or_else(|| Architecture::language_model(family))
        };
        let model = of_texts(family).map(|architecture| Model::from_dir_as(folder, architecture));
        if let Some(model) = model.transpose()? {
            return Ok(model);
        }
        let mut known: Vec<&str> = Architecture::all().map(Architecture::model_type).collect();
        known.dedup();
        known.retain(|family| Architecture::has_states(family));
        let what = format!(
            "is `{family}`, and Lessen computes the states of texts only of {}",
            known.join(", ")
        );
        Err(fields.error("model_type", what))
    }

    /// Reads the family that the folder's `config.json` names, which Lessen need not implement; see
    /// [`Architecture::model_type`].
    ///
    /// # Errors
    /// A file that cannot be read or names no family.
    pub fn family<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<String> {
        Ok(family(&folder.into().fields()?)?.to_string())
    }

    /// Returns the fields of the model's `config.json`: the fields of the file it was read from, updated, but for the
    /// way that it stores weights.
    pub fn config_json(&self) -> Map<String, Value> {
        let mut fields = self.class().config_json();
        fields.remove(CONFIG);
        fields
    }

    /// Writes the files that belong beside the model's `config.json` into a folder, each atomically: of the network of
    /// an ONNX file its nodes.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save_files(&self, dir: &Path) -> Result<()> {
        let write = |(name, bytes): (&str, Arc<[u8]>)| atomic::write_file(&dir.join(name), &bytes);
        self.class().files().into_iter().try_for_each(write)
    }

    /// The model of this class that the fields of a `config.json` describe.
    ///
    /// # Errors
    /// As [`Model::from_dir`].
    pub(crate) fn from_fields(fields: &Fields, architecture: Architecture) -> Result<Model> {
        check(fields, architecture)?;
        let fields = &spelled(fields.clone(), architecture);
        Ok(match architecture {
            Architecture::Bert(family, head) => Bert::from_fields(fields, family, head)?.into(),
            Architecture::GPT2LMHeadModel => GPT2LMHeadModel {
                config: Gpt2Config::from_fields(fields)?,
            }
            .into(),
            Architecture::GPTNeoXForCausalLM => GPTNeoXForCausalLM {
                config: GptNeoxConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::GPTJForCausalLM => GPTJForCausalLM {
                config: GptjConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::Llama(family) => LlamaForCausalLM {
                config: LlamaConfig::from_fields(fields, family)?,
            }
            .into(),
            Architecture::LessenEncoder => LessenEncoder {
                config: EncoderConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::LessenLinear => LessenLinear {
                config: LinearConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::Vit(family) => Vit {
                config: VitConfig::from_fields(fields, family)?,
            }
            .into(),
            Architecture::ImageClassifier => ImageClassifier {
                config: ImageClassifierConfig::from_fields(fields)?,
            }
            .into(),
            Architecture::OnnxClassifier => OnnxClassifier {
                config: OnnxClassifierConfig::from_fields(fields)?,
            }
            .into(),
        })
    }
}

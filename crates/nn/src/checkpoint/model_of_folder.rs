//! The model that a folder describes.

use super::folder::ModelFolder;
use crate::architecture::{Architecture, family};
use crate::loss::Loss;
use crate::model::Model;
use crate::models::bert::{Family, Head};
use crate::quantization::OWN as LESSEN_QUANTIZE;
use crate::task::Task;
use lessen_base::Result;

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
}

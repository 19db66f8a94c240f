//! The `config.json` of a model: reading and writing it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Model;
use super::config_fields::{check, spelled};
use crate::architecture::Architecture;
use crate::config::Fields;
use crate::models::bert::Bert;
use crate::models::encoder::{EncoderConfig, LessenEncoder};
use crate::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use crate::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use crate::models::gptj::{GPTJForCausalLM, GptjConfig};
use crate::models::linear::{LessenLinear, LinearConfig};
use crate::models::llama::{LlamaConfig, LlamaForCausalLM};
use crate::models::onnx::{OnnxClassifier, OnnxClassifierConfig};
use crate::models::vision::{ImageClassifier, ImageClassifierConfig};
use crate::models::vit::{Vit, VitConfig};
use crate::quantization_config::CONFIG;
use lessen_base::{Result, atomic};

impl Model {
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

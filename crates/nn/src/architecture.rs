//! Model classes, as `config.json` names them.

use serde_json::Value;

use crate::config::Fields;
use crate::models::bert::{Family, Head};
use crate::models::encoder::LessenEncoder;
use crate::models::gpt_neox::GPTNeoXForCausalLM;
use crate::models::gpt2::GPT2LMHeadModel;
use crate::models::gptj::GPTJForCausalLM;
use crate::models::linear::LessenLinear;
use crate::models::llama::LlamaFamily;
use crate::models::onnx::OnnxClassifier;
use crate::models::vision::ImageClassifier;
use crate::models::vit::VitFamily;
use lessen_base::Result;

/// A model class, by its name in the field `architectures` of `config.json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Architecture {
    /// BERT, RoBERTa, DistilBERT or MPNet with a head.
    Bert(Family, Head),
    /// GPT-2 with a language-model head.
    GPT2LMHeadModel,
    /// GPT-NeoX with a language-model head.
    GPTNeoXForCausalLM,
    /// GPT-J with a language-model head.
    GPTJForCausalLM,
    /// Llama, Mistral, Qwen2 or OLMo with a language-model head.
    Llama(LlamaFamily),
    /// Lessen's small encoder with a classification or regression head.
    LessenEncoder,
    /// Lessen's linear classifier of texts.
    LessenLinear,
    /// ViT or DeiT with a classification or regression head.
    Vit(VitFamily),
    /// A convolutional network.
    ImageClassifier,
    /// The network of an ONNX file that classifies images.
    OnnxClassifier,
}

impl Architecture {
    /// All classes.
    pub fn all() -> impl Iterator<Item = Architecture> {
        let of_family = |family| Head::ALL.map(|head| Architecture::Bert(family, head));
        let berts = Family::ALL.into_iter().flat_map(of_family);
        let llamas = LlamaFamily::ALL.map(Architecture::Llama);
        let others = [
            Architecture::GPT2LMHeadModel,
            Architecture::GPTNeoXForCausalLM,
            Architecture::GPTJForCausalLM,
            Architecture::LessenEncoder,
            Architecture::LessenLinear,
            Architecture::ImageClassifier,
            Architecture::OnnxClassifier,
        ];
        let vits = VitFamily::ALL.map(Architecture::Vit);
        berts.chain(others).chain(llamas).chain(vits)
    }

    /// The name in `architectures`.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Bert(family, head) => family.class(head),
            Architecture::GPT2LMHeadModel => GPT2LMHeadModel::ARCHITECTURE,
            Architecture::GPTNeoXForCausalLM => GPTNeoXForCausalLM::ARCHITECTURE,
            Architecture::GPTJForCausalLM => GPTJForCausalLM::ARCHITECTURE,
            Architecture::Llama(family) => family.class(),
            Architecture::LessenEncoder => LessenEncoder::ARCHITECTURE,
            Architecture::LessenLinear => LessenLinear::ARCHITECTURE,
            Architecture::Vit(family) => family.class(),
            Architecture::ImageClassifier => ImageClassifier::ARCHITECTURE,
            Architecture::OnnxClassifier => OnnxClassifier::ARCHITECTURE,
        }
    }

    /// The family in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Architecture::Bert(family, _) => family.model_type(),
            Architecture::GPT2LMHeadModel => "gpt2",
            Architecture::GPTNeoXForCausalLM => GPTNeoXForCausalLM::MODEL_TYPE,
            Architecture::GPTJForCausalLM => GPTJForCausalLM::MODEL_TYPE,
            Architecture::Llama(family) => family.model_type(),
            Architecture::LessenEncoder => "lessen-encoder",
            Architecture::LessenLinear => LessenLinear::MODEL_TYPE,
            Architecture::Vit(family) => family.model_type(),
            Architecture::ImageClassifier => ImageClassifier::MODEL_TYPE,
            Architecture::OnnxClassifier => OnnxClassifier::MODEL_TYPE,
        }
    }

    /// The class of a family, by its `model_type`, with this head. A family of images has no head but
    /// [`Head::SequenceClassification`], the head for classes of a whole example.
    pub fn with_head(family: &str, head: Head) -> Option<Architecture> {
        let berts = Family::ALL.map(|family| Architecture::Bert(family, head));
        let vits = VitFamily::ALL.map(Architecture::Vit);
        let own = [
            Architecture::LessenEncoder,
            Architecture::LessenLinear,
            Architecture::ImageClassifier,
            Architecture::OnnxClassifier,
        ];
        let classifiers = own.into_iter().chain(vits);
        let is_classifier = head == Head::SequenceClassification;
        let mut all = berts.into_iter().chain(classifiers.filter(|_| is_classifier));
        all.find(|architecture| architecture.model_type() == family)
    }

    /// Whether models of a family, by its `model_type`, have hidden states of tokens: those of texts but for the linear
    /// one.
    pub(crate) fn has_states(family: &str) -> bool {
        let vits = VitFamily::ALL.map(Architecture::Vit);
        let own = [
            Architecture::LessenLinear,
            Architecture::ImageClassifier,
            Architecture::OnnxClassifier,
        ];
        let mut without = vits.into_iter().chain(own);
        without.all(|architecture| architecture.model_type() != family)
    }

    /// The class of a family, by its `model_type`, that continues texts.
    pub fn language_model(family: &str) -> Option<Architecture> {
        let llamas = LlamaFamily::ALL.map(Architecture::Llama);
        let gpts = [
            Architecture::GPT2LMHeadModel,
            Architecture::GPTNeoXForCausalLM,
            Architecture::GPTJForCausalLM,
        ];
        let mut all = gpts.into_iter().chain(llamas);
        all.find(|architecture| architecture.model_type() == family)
    }

    /// The class of the checkpoint that a `config.json` describes.
    pub(crate) fn of(fields: &Fields) -> Result<Architecture> {
        let known = || {
            Architecture::all()
                .map(Architecture::name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match fields.get("architectures") {
            Some(value) => {
                let name = value.get(0).and_then(Value::as_str);
                // The class without a head has all parameters of the language model, whose head is tied.
                let name = name.map(|name| {
                    if name == "GPT2Model" {
                        GPT2LMHeadModel::ARCHITECTURE
                    } else {
                        name
                    }
                });
                Architecture::all().find(|a| Some(a.name()) == name).ok_or_else(|| {
                    fields.error("architectures", format!("is {value}, and Lessen has only {}", known()))
                })
            }
            None => {
                let family = fields.word("model_type")?;
                let of_family = |a: &Architecture| Some(a.model_type()) == family;
                let mut candidates = Architecture::all().filter(of_family);
                match (candidates.next(), candidates.next()) {
                    (Some(only), None) => Ok(only),
                    _ => Err(fields.error(
                        "architectures",
                        format!("is missing; it names the model's class, one of {}", known()),
                    )),
                }
            }
        }
    }

    /// Refuses a `model_type` of another family.
    pub(crate) fn check_family(self, fields: &Fields, family: &str) -> Result<()> {
        if family == self.model_type() {
            return Ok(());
        }
        let (name, needed) = (self.name(), self.model_type());
        let what = format!("is `{family}`, but {name} needs a `{needed}` model");
        Err(fields.error("model_type", what))
    }
}

/// The family in a `config.json`: its `model_type`, or else the family of its class.
pub(crate) fn family(fields: &Fields) -> Result<&str> {
    match fields.word("model_type")? {
        Some(family) => Ok(family),
        None => Ok(Architecture::of(fields)?.model_type()),
    }
}

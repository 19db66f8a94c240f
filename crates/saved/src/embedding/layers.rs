//! Layers between the pooled states and the embedding.

use super::known_fields::{check_known, must_be};
use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_nn::layers::{layer_norm, linear, projection};
use lessen_nn::{Activation, Cx, Fields, Init, Weights, checkpoint};
use lessen_train::Session;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A module of sentence-transformers that changes the vector of a text.
pub(super) struct Layer {
    /// The name of its folder, which begins the names of its parameters.
    name: String,
    dir: PathBuf,
    operation: Operation,
}

enum Operation {
    Dense {
        out: usize,
        biased: bool,
        /// None is the identity.
        activation: Option<Activation>,
    },
    LayerNorm,
}

/// Activations by the last parts of their names in PyTorch; none is the identity.
const ACTIVATIONS: [(&str, Option<Activation>); 5] = [
    ("torch.nn.modules.linear.Identity", None),
    ("torch.nn.modules.activation.Tanh", Some(Activation::Tanh)),
    ("torch.nn.modules.activation.ReLU", Some(Activation::Relu)),
    ("torch.nn.modules.activation.GELU", Some(Activation::Gelu)),
    ("torch.nn.modules.activation.SiLU", Some(Activation::Silu)),
];

impl Layer {
    /// Reads the module `Dense` in a folder, for vectors of this width; the width of its results as well.
    ///
    /// # Errors
    /// A field that is wrong or not known.
    pub(super) fn dense(dir: &Path, width: usize) -> Result<(Layer, usize)> {
        let fields = Fields::read(&dir.join("config.json"))?;
        let known = [
            "in_features",
            "out_features",
            "bias",
            "activation_function",
            "module_input_name",
            "module_output_name",
            "use_residual",
        ];
        check_known(&fields, &known)?;
        for field in ["module_input_name", "module_output_name"] {
            must_be(&fields, field, &json!("sentence_embedding"))?;
        }
        must_be(&fields, "use_residual", &json!(false))?;
        must_be(&fields, "in_features", &json!(width))?;
        let activation = match fields.word("activation_function")? {
            None => Some(Activation::Tanh),
            Some(word) => {
                let found = ACTIVATIONS.iter().find(|(name, _)| *name == word);
                let known = ACTIVATIONS.map(|(name, _)| name).join(", ");
                let other = || fields.error("activation_function", format!("is `{word}`; Lessen has {known}"));
                found.ok_or_else(other)?.1
            }
        };
        let out = fields.size("out_features")?;
        let operation = Operation::Dense {
            out,
            biased: fields.switch_or("bias", true)?,
            activation,
        };
        Ok((Layer::new(dir, operation), out))
    }

    /// Reads the module `LayerNorm` in a folder, for vectors of this width.
    ///
    /// # Errors
    /// A field that is wrong or not known.
    pub(super) fn layer_norm(dir: &Path, width: usize) -> Result<Layer> {
        let fields = Fields::read(&dir.join("config.json"))?;
        check_known(&fields, &["dimension"])?;
        must_be(&fields, "dimension", &json!(width))?;
        Ok(Layer::new(dir, Operation::LayerNorm))
    }

    fn new(dir: &Path, operation: Operation) -> Layer {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Layer {
            name,
            dir: dir.to_path_buf(),
            operation,
        }
    }

    /// Adds the layer to the graph.
    pub(super) fn apply(&self, cx: Cx, x: Tensor) -> Tensor {
        cx.scope(&self.name, |cx| match self.operation {
            Operation::Dense {
                out,
                biased,
                activation,
            } => {
                let y = if biased {
                    linear(cx, "linear", x, out, Init::Zeros)
                } else {
                    projection(cx, "linear", x, out, Init::Zeros)
                };
                activation.map_or(y, |activation| activation.apply(y))
            }
            // PyTorch's epsilon.
            Operation::LayerNorm => layer_norm(cx, "norm", x, 1e-5),
        })
    }

    /// Sets the layer's parameters in a session.
    ///
    /// # Errors
    /// A folder without `model.safetensors`, or with a damaged one.
    pub(super) fn load(&self, session: &mut Session) -> Result<()> {
        let prefix = format!("{}.", self.name);
        let own = session.params().iter().filter_map(|param| {
            let name = param.name.strip_prefix(&prefix)?;
            let mut param = param.clone();
            param.name = name.to_string();
            Some(param)
        });
        let own: Vec<_> = own.collect();
        let weights: Weights = checkpoint::load(&self.dir, &own, &|_| false)?.weights;
        for (name, weight) in &weights {
            session.set_part(&format!("{prefix}{name}"), 0, &weight.data)?;
        }
        Ok(())
    }
}

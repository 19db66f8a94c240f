//! The layers of what a user names: a published network, a list of layers, an ONNX file, a saved model or a recipe.

use crate::schema::SCHEMA;
use lessen_base::{Error, Result};
use lessen_graph::{Graph, InputKind, Trace};
use lessen_hardware::networks::{NETWORKS, PublishedNetwork};
use lessen_hardware::{Bits, BitsByLayer, GraphLayers, Layer, Uncounted, layers_of_graphs, read_network};
use lessen_nn::{BatchShape, Cx, Model};
use lessen_onnx::{Imported, Sizes, fitting_sizes, size_names};
use lessen_onnx_sessions::{Session, random_values};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe::phases::Recipe;

/// Tokens of a text where nothing else says it, as far as the model reads so many.
const LENGTH: usize = 128;

/// The most examples of a batch, and tokens of a text.
const MOST: usize = 1 << 20;

/// The bits of numbers that are not rounded.
const FLOAT: u32 = 32;

/// The bits of a quantized layer as hardware has them.
fn hardware_bits(own: lessen_nn::Bits) -> Bits {
    Bits {
        weights: own.weights.unwrap_or(FLOAT),
        activations: own.inputs.unwrap_or(FLOAT),
    }
}

/// What layers are asked for.
#[derive(Clone, Debug)]
pub struct LayerSource<'a> {
    /// A published network, a TOML file with a list of layers, an ONNX file, a folder of a run or of Hugging Face, or a
    /// recipe.
    pub model: &'a str,
    /// Examples of a batch.
    pub batch: usize,
    /// Tokens of a text; none stands for 128, or the most that the model reads.
    pub length: Option<usize>,
    /// The bits of the layers; none stands for those of the model, where it has its own.
    pub bits: Option<BitsByLayer>,
}

/// The layers of a model.
#[derive(Clone, Debug)]
pub struct ModelLayers {
    /// What the model is called.
    pub name: String,
    /// What the layers were read from, as a part of a sentence.
    pub source: String,
    /// Examples of a batch.
    pub batch: usize,
    /// The layers, for the whole batch.
    pub layers: Vec<Layer>,
    /// Operations that multiply and are not among them, with the reason, a sentence each without a full stop.
    pub missing: Vec<String>,
    /// Remarks on how the layers were found, a sentence each without a full stop.
    pub notes: Vec<String>,
    /// Operations without products.
    pub without_products: Vec<Uncounted>,
}

impl LayerSource<'_> {
    /// Reads the layers. `new_backend` opens the device that saved models need.
    ///
    /// # Errors
    /// A model that is none of these, files with a mistake, a batch or length that the model does not have, a model of
    /// no layers, and bits for a layer that it does not have.
    pub fn layers(&self, new_backend: &NewBackend) -> Result<ModelLayers> {
        for (flag, value) in [("--batch", Some(self.batch)), ("--length", self.length)] {
            if let Some(value) = value.filter(|value| !(1..=MOST).contains(value)) {
                return Err(Error::user(format!("{flag} {value} cannot be; give 1 to {MOST}")));
            }
        }
        let path = Path::new(self.model);
        let is = |extension: &str| path.extension().is_some_and(|own| own == extension);
        let mut found = if let Some(network) = PublishedNetwork::named(self.model) {
            self.published(network)?
        } else if path.is_dir() {
            self.saved(path, new_backend)?
        } else if is("onnx") {
            self.onnx(path, new_backend)?
        } else if let Some(text) = is("toml").then(|| listed(path)).flatten() {
            self.listed(path, &text)?
        } else {
            self.recipe()?
        };
        if found.layers.is_empty() {
            return Err(Error::user(format!(
                "{} has no layers that multiply, so there is nothing to model; give a model with a convolution or a \
                 product",
                self.model
            )));
        }
        if let Some(bits) = &self.bits {
            bits.apply(&mut found.layers).map_err(|e| e.at("--bits"))?;
        }
        Ok(found)
    }

    /// The bits of layers that are not named.
    ///
    /// # Errors
    /// None that are given.
    fn default_bits(&self) -> Result<Bits> {
        self.bits
            .as_ref()
            .map(|bits| bits.default)
            .ok_or_else(|| self.without_bits())
    }

    /// The error of a model without bits of its own where none are given.
    fn without_bits(&self) -> Error {
        Error::user(format!(
            "{} has no bits of its own; name them with --bits, such as --bits 8",
            self.model
        ))
    }

    /// Refuses a length where the model has none.
    fn without_length(&self) -> Result<()> {
        match self.length {
            Some(_) => Err(Error::user(format!(
                "--length is for models of texts; leave it out for {}",
                self.model
            ))),
            None => Ok(()),
        }
    }

    fn published(&self, network: PublishedNetwork) -> Result<ModelLayers> {
        self.without_length()?;
        Ok(ModelLayers {
            name: network.name.to_string(),
            source: network.title.to_string(),
            batch: self.batch,
            layers: network.layers(self.batch as u64, self.default_bits()?)?,
            missing: Vec::new(),
            notes: Vec::new(),
            without_products: Vec::new(),
        })
    }

    fn listed(&self, path: &Path, text: &str) -> Result<ModelLayers> {
        self.without_length()?;
        let default = self.default_bits();
        let bits = default.as_ref().map_or(Bits::both(FLOAT), |bits| *bits);
        let network = read_network(text, self.batch as u64, bits).map_err(|e| e.at(path.display()))?;
        if network.has_own_bits.contains(&false) {
            default?;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(ModelLayers {
            name: network.name.unwrap_or(stem),
            source: format!("the layers listed in {}", path.display()),
            batch: self.batch,
            layers: network.layers,
            missing: Vec::new(),
            notes: Vec::new(),
            without_products: Vec::new(),
        })
    }

    fn onnx(&self, path: &Path, new_backend: &NewBackend) -> Result<ModelLayers> {
        let bits = self.default_bits()?;
        let model = Arc::new(lessen_onnx::Model::open(path)?);
        let names = size_names(&model);
        // The first extent with a name is the batch, the others lengths.
        let length = self.length.unwrap_or(LENGTH);
        let size = |at: usize| if at == 0 { self.batch } else { length };
        let sizes: Sizes = names
            .iter()
            .cloned()
            .enumerate()
            .map(|(at, name)| (name, size(at)))
            .collect();
        let free: Vec<String> = match self.length {
            Some(_) => Vec::new(),
            None => names.iter().skip(1).cloned().collect(),
        };
        let sizes = fitting_sizes(&model, &sizes, &free)?;
        let imported = Imported::of(&model, &sizes).map_err(|e| e.at(path.display()))?;
        let opaque: Vec<(String, &String)> = imported
            .opaque
            .iter()
            .filter_map(|(node, reason)| Some((model.nodes.get(*node)?.shown(), reason)))
            .collect();
        // A run resolves operations on integers and shapes that depend on elements.
        let run = match opaque.is_empty() {
            true => None,
            false => Some(run_once(&model, &sizes, new_backend)),
        };
        let notes = match &run {
            Some(Err(error)) => vec![format!(
                "the file could not be run, so products of operations on integers are not counted: {}",
                error.message()
            )],
            _ => Vec::new(),
        };
        let (graphs, in_memory) = run.and_then(Result::ok).unwrap_or_else(|| {
            let all = opaque.iter().map(|(node, _)| node.clone()).collect();
            (vec![imported.graph.clone()], all)
        });
        let mut found = self.traced(&graphs, bits)?;
        let left = opaque.iter().filter(|(node, _)| in_memory.contains(node));
        let mut missing: Vec<String> = left
            .map(|(node, reason)| {
                format!(
                    "{node} has no cost model ({reason}): it would be counted by the products of its own definition, \
                     if it has any, which are missing here"
                )
            })
            .collect();
        missing.append(&mut found.missing);
        let mut shown: Vec<String> = sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
        shown.sort();
        let data = imported.graph.inputs.iter().find(|input| input.kind == InputKind::Data);
        let batch = data.and_then(|input| imported.graph.ty(input.value).shape.first().copied());
        let sizes = if shown.is_empty() {
            "sizes as in the file: --batch changes nothing".to_string()
        } else {
            shown.join(", ")
        };
        Ok(ModelLayers {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            source: format!("the ONNX file {} ({sizes})", path.display()),
            batch: batch.unwrap_or(1).max(1),
            missing,
            notes,
            ..found
        })
    }

    fn saved(&self, folder: &Path, new_backend: &NewBackend) -> Result<ModelLayers> {
        let run = SavedRun::open(folder, WhichModel::Last, AdapterOptions::default(), new_backend)?;
        let most = run.config().data.max_length;
        self.model(
            &run.saved().model,
            most,
            format!("the model in {}", run.source().display()),
        )
    }

    fn recipe(&self) -> Result<ModelLayers> {
        let settings = SCHEMA.load(self.model).map_err(|e| {
            let names: Vec<&str> = NETWORKS.iter().map(|network| network.name).collect();
            Error::user(format!(
                "{}; a folder of a run, an ONNX file, a TOML file with [[layer]] tables and {} are models too",
                e.message(),
                names.join(", ")
            ))
        })?;
        let config = Recipe::new(settings)?.phases.into_iter().next();
        let config = config.ok_or_else(|| Error::internal("a recipe without a training phase"))?;
        let most = config.data.max_length;
        let task = CheckedTask::assemble(config, None)?;
        self.model(task.model(), most, format!("the recipe {}", self.model))
    }

    /// The layers of a model's answers.
    fn model(&self, model: &Model, most: usize, source: String) -> Result<ModelLayers> {
        let own = model.quantization().filter(|_| self.bits.is_none());
        let bits = match own {
            Some(own) => hardware_bits(own.bits),
            None => self.default_bits()?,
        };
        let (batch, shown) = match model.smallest_batch() {
            BatchShape::Images { image, mixed, .. } => {
                self.without_length()?;
                let [height, width, channels] = image;
                let shown = format!("images of {height} x {width} x {channels}");
                let size = self.batch;
                (BatchShape::Images { size, image, mixed }, shown)
            }
            _ => {
                let most = model.max_length().map_or(most, |limit| limit.min(most));
                let length = self.length.unwrap_or(most.min(LENGTH));
                model.check_length(length)?;
                let size = self.batch;
                (BatchShape::Padded { size, length }, format!("texts of {length} tokens"))
            }
        };
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        trace.output("logits", model.logits(cx, batch));
        let mut found = self.traced(&[trace.finish()], bits)?;
        if let Some(own) = own {
            let names: HashSet<String> = model.layers().into_iter().collect();
            for layer in &mut found.layers {
                // The second use of a layer is called `NAME#2`.
                let name = layer.name.split('#').next().unwrap_or(&layer.name);
                layer.bits = if names.contains(name) {
                    hardware_bits(own.of(name))
                } else {
                    Bits::both(FLOAT)
                };
            }
        }
        let bits = if own.is_some() { ", at its own bits" } else { "" };
        Ok(ModelLayers {
            name: self.model.to_string(),
            source: format!("{source}, {shown}{bits}"),
            ..found
        })
    }

    fn traced(&self, graphs: &[Graph], bits: Bits) -> Result<ModelLayers> {
        let GraphLayers {
            layers,
            without_model,
            without_products,
        } = layers_of_graphs(graphs, bits)?;
        Ok(ModelLayers {
            name: String::new(),
            source: String::new(),
            batch: self.batch,
            layers,
            missing: without_model.iter().map(Uncounted::sentence).collect(),
            notes: Vec::new(),
            without_products,
        })
    }
}

/// Runs a model on random inputs; the graphs of its programs, and the nodes that were computed in memory.
///
/// # Errors
/// An operator that is not known, inputs whose extents are not known, memory that the device does not have.
fn run_once(
    model: &Arc<lessen_onnx::Model>,
    sizes: &Sizes,
    new_backend: &NewBackend,
) -> Result<(Vec<Graph>, HashSet<String>)> {
    let session = Session::new(model.clone(), new_backend.open()?)?;
    session.run(random_values(model, sizes, 1)?)?;
    let (graphs, nodes) = session.last_run();
    Ok((graphs, nodes.iter().map(|node| node.shown()).collect()))
}

/// The text of a TOML file that lists layers; none for a recipe, or a file that cannot be read.
fn listed(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let is_table = |line: &str| {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        line == "[[layer]]" || line.starts_with("layer=")
    };
    text.lines().any(is_table).then_some(text)
}

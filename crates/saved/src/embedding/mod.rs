//! Embeddings: texts as vectors whose angles say how much alike the texts are.
//!
//! A folder of sentence-transformers says itself how: `modules.json` lists its modules, `1_Pooling` says how the states
//! of a text's tokens become one vector, layers and a normalization may follow. Of any other model of texts the mean of
//! the last states is taken, as sentence-transformers does.

mod exported;
mod folder;
mod joined;
mod known_fields;
mod layers;
mod pooling;
mod prompts;

use self::folder::{Modules, Reading, tokenizer_length};
use self::layers::Layer;
use self::pooling::PoolingConfig;
use self::prompts::Prompts;
use crate::locked::locked;
use crate::saved_run::{AdapterOptions, Chosen, model_dir};
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_compile::Precision;
use lessen_data::{EncodedText, Tokenizer, packed_batch};
use lessen_device::Host;
use lessen_graph::{DType, Trace};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{BatchShape, Cx, Model, NormKind};
use lessen_task::agreement::check_vocabulary;
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_task::device::NewBackend;
use lessen_task::first_weights;
use lessen_task::folder::WhichModel;
use lessen_task::reader::tokenizer_of;
use lessen_train::{Function, Session};
use std::borrow::Borrow;
use std::path::Path;
use std::sync::Mutex;

pub(crate) use self::exported::EmbeddingFunction;
pub use self::folder::is_embedder;
pub(crate) use self::folder::{copy_modules, copy_reading, transformer_of};
pub use self::joined::{JoinedEmbedder, normalize};
pub use self::pooling::{parse_pooling, show_pooling};
pub use self::prompts::Prompt;
pub use lessen_train::Pooling;

/// The most texts of a batch, for which every batch has room.
const ROOM: usize = 64;

/// The most tokens of a batch of several texts.
const TOKENS: usize = 4096;

/// How a model is opened for embedding, where that is not as its folder says.
#[derive(Clone, Debug, Default)]
pub struct EmbedOptions {
    /// Which of the models of a run.
    pub which: WhichModel,
    /// Where its own adapters belong, and which others are added to it.
    pub adapters: AdapterOptions,
    /// The precision of products; none is that of the folder's integers, or `f32`.
    pub precision: Option<Precision>,
    /// How states are pooled.
    pub pooling: Option<Vec<Pooling>>,
    /// Whether vectors are divided by their lengths.
    pub normalize: Option<bool>,
    /// The most tokens of a text; what is beyond is cut off.
    pub max_length: Option<usize>,
}

/// A model that embeds texts, on a device. Threads that ask it wait for each other.
pub struct Embedder {
    loaded: Mutex<Loaded>,
    multiplies_integers: bool,
    model: Model,
    tokenizer: Tokenizer,
    pooling: PoolingConfig,
    layers: Vec<Layer>,
    pooled_width: usize,
    width: usize,
    normalize: bool,
    max_length: usize,
    lower_case: bool,
    prompts: Prompts,
    notes: Vec<String>,
    group: Group,
}

/// The parameters on the device.
struct Loaded {
    session: Session,
    /// The layers as a function of the pooled states, compiled when it is first needed.
    layers_function: Option<Function>,
}

/// The vectors of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// The vector of each text, in order.
    pub rows: Vec<Vec<f32>>,
    /// The tokens that were read of each text, special tokens and prompt among them.
    pub tokens: Vec<usize>,
    /// The number of texts that were cut, as they have more tokens than [`Embedder::max_length`].
    pub cut: usize,
}

impl Embedder {
    /// Opens the model in the folder of a run, a Hugging Face folder or a folder of sentence-transformers.
    ///
    /// # Errors
    /// A folder without a model of texts; a module, field or option that Lessen does not have, or that does not fit the
    /// model; a damaged file.
    pub fn open(root: &Path, options: &EmbedOptions, new_backend: &NewBackend) -> Result<Embedder> {
        let dir = model_dir(root, options.which)?;
        let modules = Modules::read(&dir)?;
        let folder = options.adapters.of(&modules.transformer)?;
        let model = Model::from_dir_for_states(folder)?;
        let tokenizer = tokenizer_of(folder)?;
        let whose = format!("the model in {}", folder.path().display());
        check_vocabulary(&tokenizer, &model, &whose)?;
        let states = model
            .width()
            .ok_or_else(|| Error::internal("a model of texts without states"))?;
        let mut notes = Vec::new();
        let mut pooling = modules.pooling(states)?;
        if pooling.is_none() && options.pooling.is_none() {
            notes.push(format!(
                "{} names no pooling; the mean of the last states is taken (--pooling)",
                dir.display()
            ));
        }
        if let Some(ways) = &options.pooling {
            pooling.get_or_insert_default().ways = ways.clone();
        }
        let pooling = pooling.unwrap_or_default();
        let pooled_width = states * pooling.ways.len();
        let (layers, width) = modules.layers(pooled_width)?;
        let reading = Reading::read(&modules.transformer)?;
        let max_length = max_length(options, &reading, &model, folder, &mut notes)?;
        let precision = options.precision.map(Chosen::Asked);
        let precision = precision.or_else(|| Chosen::of_folder(folder.path()));
        let (session, remark) = session(&model, &layers, pooled_width, folder, precision, new_backend)?;
        notes.extend(remark);
        Ok(Embedder {
            loaded: Mutex::new(Loaded {
                session,
                layers_function: None,
            }),
            multiplies_integers: matches!(
                precision.map(Chosen::precision),
                Some(Precision::Int8 | Precision::Int4)
            ),
            model,
            tokenizer,
            pooling,
            layers,
            pooled_width,
            width,
            normalize: options.normalize.unwrap_or(modules.normalizes),
            max_length,
            lower_case: reading.lower_case,
            prompts: Prompts::read(&dir)?,
            notes,
            group: Group::alone(),
        })
    }

    /// What there is to say of how the model was opened, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The number of elements of a vector.
    pub fn dim(&self) -> usize {
        self.width
    }

    /// The most tokens of a text.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Whether vectors are divided by their lengths, unless [`Embedder::embed_with`] is told otherwise.
    pub fn normalizes(&self) -> bool {
        self.normalize
    }

    /// The prompts that the model has.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The number of texts that are best embedded at once.
    pub fn at_once(&self) -> usize {
        8 * ROOM
    }

    /// Whether products read `bf16` that the device has no instructions for, which takes longer than `f32`.
    pub fn widens_bf16(&self) -> bool {
        locked(&self.loaded).session.widens_bf16()
    }

    /// Whether products take integers.
    pub fn multiplies_integers(&self) -> bool {
        self.multiplies_integers
    }

    /// The model, of whose batches the processes of a group embed their parts: all of them ask for the same.
    pub fn shared_by(self, group: Group) -> Embedder {
        Embedder { group, ..self }
    }

    /// Embeds texts with the model's default prompt, if it has one.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn embed(&self, texts: &[&str]) -> Result<Embedded> {
        self.embed_with(texts, Prompt::Default, self.normalize)
    }

    /// Embeds texts with a prompt before each; `normalize` says whether the vectors are divided by their lengths.
    ///
    /// # Errors
    /// A prompt that the model does not have or that leaves no room for texts, and a text that cannot be encoded.
    pub fn embed_with(&self, texts: &[&str], prompt: Prompt<'_>, normalize: bool) -> Result<Embedded> {
        let prompt = self.prompts.text(prompt)?.to_string();
        let skipped = if self.pooling.include_prompt {
            0
        } else {
            self.prompt_tokens(&prompt)?
        };
        let whole: Vec<String> = texts.iter().map(|text| self.prepared(&prompt, text)).collect();
        let encoded = self.tokenizer.encode_all(&whole, self.max_length)?;
        let mut found = Embedded {
            rows: Vec::with_capacity(texts.len()),
            tokens: encoded.iter().map(|(ids, _)| ids.len()).collect(),
            cut: 0,
        };
        for (text, (ids, _)) in whole.iter().zip(&encoded) {
            let is_cut = ids.len() == self.max_length && {
                let (all, _) = self.tokenizer.encode_pair(text, None, usize::MAX)?;
                all.len() > ids.len()
            };
            found.cut += usize::from(is_cut);
        }
        let (mut first, mut batches) = (0, Vec::new());
        while first < encoded.len() {
            let mut tokens = 0;
            let fits = encoded[first..].iter().take(ROOM).take_while(|(ids, _)| {
                tokens += ids.len().max(1);
                tokens <= TOKENS
            });
            let count = fits.count().max(1);
            batches.push(&encoded[first..first + count]);
            first += count;
        }
        found.rows = self.batches(&batches, skipped)?;
        if normalize {
            found.rows.iter_mut().for_each(|row| divide_by_length(row));
        }
        Ok(found)
    }

    /// Embeds texts that are encoded already, without a prompt, before a last normalization.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn embed_encoded(&self, texts: &[EncodedText]) -> Result<Vec<Vec<f32>>> {
        self.batches(&texts.chunks(ROOM).collect::<Vec<_>>(), 0)
    }

    /// The number of tokens that the model knows.
    pub fn vocab_size(&self) -> usize {
        self.model.vocab_size()
    }

    /// The text that is encoded.
    fn prepared(&self, prompt: &str, text: &str) -> String {
        let whole = [prompt, text].concat();
        if !self.lower_case {
            return whole;
        }
        whole.chars().flat_map(char::to_lowercase).collect()
    }

    /// The number of tokens of a prompt, without a special token after it.
    fn prompt_tokens(&self, prompt: &str) -> Result<usize> {
        if prompt.is_empty() {
            return Ok(0);
        }
        let (ids, _) = self
            .tokenizer
            .encode_pair(&self.prepared(prompt, ""), None, usize::MAX)?;
        let (_, after) = self.tokenizer.around_a_text()?;
        let tokens = ids.len() - after.len();
        if tokens + after.len() >= self.max_length {
            return Err(Error::user(format!(
                "the prompt `{prompt}` has {tokens} tokens, which leaves no room for a text in the {} of the model; \
                 shorten it",
                self.max_length
            )));
        }
        Ok(tokens)
    }

    /// Compiles what batches of a layout need.
    fn prepare(&self, layout: BatchShape) -> Result<()> {
        let session = &mut locked(&self.loaded).session;
        session.prepare_to_embed(&self.model, layout, &self.pooling.ways)
    }

    /// The vectors of the texts of all batches. The processes of a group embed one batch each at a time.
    fn batches<T: Borrow<EncodedText>>(&self, batches: &[&[T]], skipped: usize) -> Result<Vec<Vec<f32>>> {
        let mut rows = Vec::new();
        for batches in batches.chunks(self.group.size()) {
            if self.group.size() == 1 {
                rows.extend(self.batch(batches[0], skipped)?);
                continue;
            }
            let own = batches.get(self.group.rank()).map(|own| self.batch(own, skipped));
            let own = own.unwrap_or(Ok(Vec::new())).map(|rows| rows.concat());
            for all in self.group.agree_f32s("the vectors", own)? {
                rows.extend(all.chunks_exact(self.width).map(<[f32]>::to_vec));
            }
        }
        Ok(rows)
    }

    /// The vectors of the texts of one batch.
    fn batch<T: Borrow<EncodedText>>(&self, texts: &[T], skipped: usize) -> Result<Vec<Vec<f32>>> {
        let batch = packed_batch(texts, ROOM.max(texts.len()), self.tokenizer.pad_id());
        let (shape, inputs) = (shape_of(&batch), inputs_of(&batch));
        let mut loaded = locked(&self.loaded);
        let mut rows = loaded
            .session
            .embed(&self.model, shape, &inputs, &self.pooling.ways, skipped)?;
        if !self.layers.is_empty() {
            let function = self.layers_function(&mut loaded)?;
            let results = loaded.session.run(function, &[("pooled", Host::F32(&rows.concat()))])?;
            rows = results
                .f32("vectors")?
                .chunks_exact(self.width)
                .map(<[f32]>::to_vec)
                .collect();
        }
        rows.truncate(texts.len());
        Ok(rows)
    }

    fn layers_function(&self, loaded: &mut Loaded) -> Result<Function> {
        if let Some(function) = loaded.layers_function {
            return Ok(function);
        }
        let (layers, width) = (&self.layers, self.pooled_width);
        let function = loaded.session.function(|cx| {
            let pooled = cx.input("pooled", DType::F32, &[ROOM, width]);
            vec![("vectors", layers.iter().fold(pooled, |x, layer| layer.apply(cx, x)))]
        })?;
        loaded.layers_function = Some(function);
        Ok(function)
    }
}

/// A device with the parameters of model and layers, and what there is to say of tensors that nothing reads.
fn session(
    model: &Model,
    layers: &[Layer],
    pooled_width: usize,
    folder: ModelFolder<'_>,
    precision: Option<Chosen>,
    new_backend: &NewBackend,
) -> Result<(Session, Option<String>)> {
    let of_states = model.parameters_of_states();
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let pooled = cx.input("pooled", DType::F32, &[1, pooled_width]);
    layers.iter().fold(pooled, |x, layer| layer.apply(cx, x));
    let all = [of_states.clone(), cx.params()].concat();
    let precision = precision.unwrap_or(Chosen::Asked(Precision::F32));
    let mut session = precision.session(new_backend.open()?, all, folder)?;
    let rest = first_weights::read(&mut session, &of_states, folder, &|_| false, None)?;
    for layer in layers {
        layer.load(&mut session)?;
    }
    match model.norm() {
        NormKind::Layer => {}
        kind => session.convert_norms(kind, |cx| {
            model
                .states(cx, model.smallest_batch())
                .map(|states| ("states", states))
                .into_iter()
                .collect()
        })?,
    }
    Ok((session, first_weights::remark(folder.path(), &rest)))
}

/// The most tokens of a text: as the options say, or the Transformer's settings, or else tokenizer and model.
fn max_length(
    options: &EmbedOptions,
    reading: &Reading,
    model: &Model,
    folder: ModelFolder<'_>,
    notes: &mut Vec<String>,
) -> Result<usize> {
    if let Some(length) = options.max_length {
        model
            .check_length(length)
            .map_err(|error| error.at(format!("--max-length {length}")))?;
        return Ok(length);
    }
    let positions = model
        .config_json()
        .get("max_position_embeddings")
        .and_then(serde_json::Value::as_u64);
    let of_model = model
        .max_length()
        .or(positions.and_then(|positions| usize::try_from(positions).ok()));
    let said = match reading.max_length {
        Some(length) => Some(length),
        None => tokenizer_length(folder.path())?.map(|length| length.min(of_model.unwrap_or(length))),
    };
    let length = said.or(of_model).unwrap_or(512);
    match model.max_length() {
        Some(most) if length > most => {
            notes.push(format!(
                "the settings of the folder allow texts of {length} tokens, and the model has positions for {most}; texts \
                 are cut there"
            ));
            Ok(most)
        }
        _ => Ok(length),
    }
}

/// Divides a vector by its length, as PyTorch's `normalize` does.
fn divide_by_length(row: &mut [f32]) {
    let squares: f64 = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = squares.sqrt().max(1e-12);
    row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}

//! The benchmark of activations in inference: time per element, and of whole models that differ in the activation alone
//! (figures 3 and 4 of the HeLU paper: BERT on batches of GLUE's lengths, and five architectures of texts; networks on
//! images beside them).

use std::time::Instant;

use lessen_base::{Error, Result};
use lessen_compile::Options;
use lessen_cpu::{Device, Executable, Store};
use lessen_device::Host;
use lessen_graph::{DType, Graph, Trace};
use lessen_jobs::training::median;
use lessen_nn::models::BatchShape;
use lessen_nn::models::bert::{Bert, BertConfig, Head};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network as VisionNetwork};
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily, VitSize};
use lessen_nn::{Activation, Cx, Model, ParamSpec, initialize, numbered_labels};

/// Columns of the elements that are timed: the width inside the feed-forward layers of BERT-base.
const WIDTH: usize = 3072;

/// A model to measure, without its activation.
pub struct Network {
    /// The word for the model on the command line.
    pub name: &'static str,
    /// The model in words, with its sizes.
    pub title: &'static str,
    make: fn(Activation) -> Model,
    /// The activation that the architecture has by default.
    pub original: Activation,
}

/// The models. RoBERTa and XLNet have the layers of BERT-base; their embeddings differ.
pub const NETWORKS: [Network; 5] = [
    Network {
        name: "bert",
        title: "BERT-base: 12 layers x 768",
        make: bert_base,
        original: Activation::Gelu,
    },
    Network {
        name: "electra",
        title: "Electra-small: 12 layers x 256",
        make: electra_small,
        original: Activation::Gelu,
    },
    Network {
        name: "gpt2",
        title: "GPT-2 small: 12 layers x 768",
        make: gpt2_small,
        original: Activation::GeluTanh,
    },
    Network {
        name: "vit",
        title: "ViT-S/16: 12 layers x 384, images of 224 x 224",
        make: vit_small,
        original: Activation::Gelu,
    },
    Network {
        name: "resnet50",
        title: "ResNet-50, images of 224 x 224",
        make: resnet50,
        original: Activation::Relu,
    },
];

impl Network {
    /// The model of this name.
    ///
    /// # Errors
    /// A name that none has.
    pub fn of(name: &str) -> Result<&'static Network> {
        NETWORKS.iter().find(|network| network.name == name).ok_or_else(|| {
            let names = NETWORKS.each_ref().map(|network| network.name).join(", ");
            Error::user(format!("there is no network `{name}`; there are {names}"))
        })
    }

    /// Batch layouts of `size` examples: a layout for each of the lengths, or one of images for a model of images.
    pub fn batches(&self, size: usize, lengths: &[usize]) -> Vec<BatchShape> {
        let image = (self.make)(self.original).image();
        let of_images = image.map(|image| BatchShape::Images {
            size,
            image,
            mixed: false,
        });
        match of_images {
            Some(batch) => vec![batch],
            None => lengths
                .iter()
                .map(|&length| BatchShape::Padded { size, length })
                .collect(),
        }
    }

    /// The program that computes logits of a batch with an activation, and what it reads.
    ///
    /// # Errors
    /// Texts that are longer than the model can read.
    pub fn program(&self, activation: Activation, batch: BatchShape) -> Result<(Graph, Vec<ParamSpec>)> {
        let model = (self.make)(activation);
        if let BatchShape::Padded { length, .. } = batch {
            model.check_length(length)?;
        }
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        let logits = model.logits(cx, batch);
        let rows = logits.ty().numel() / logits.dim(-1);
        trace.output("logits", logits.reshape(&[rows, logits.dim(-1)]).slice(0, 0, 1));
        let params = cx.params();
        Ok((trace.finish(), params))
    }
}

fn bert_base(hidden_act: Activation) -> Model {
    let config = BertConfig {
        hidden_act,
        ..BertConfig::default()
    };
    Bert {
        config,
        head: Head::SequenceClassification,
    }
    .into()
}

fn electra_small(hidden_act: Activation) -> Model {
    let config = BertConfig {
        hidden_size: 256,
        num_attention_heads: 4,
        intermediate_size: 1024,
        hidden_act,
        ..BertConfig::default()
    };
    Bert {
        config,
        head: Head::SequenceClassification,
    }
    .into()
}

fn gpt2_small(activation_function: Activation) -> Model {
    let config = Gpt2Config {
        activation_function,
        ..Gpt2Config::default()
    };
    GPT2LMHeadModel { config }.into()
}

fn vit_small(hidden_act: Activation) -> Model {
    let config = VitConfig {
        hidden_act,
        labels: numbered_labels(1000),
        ..VitConfig::of(VitFamily::Vit, VitSize::Small)
    };
    Vit { config }.into()
}

fn resnet50(activation: Activation) -> Model {
    let network = VisionNetwork::of("resnet50").expect("the network has this name");
    let mut config = ImageClassifierConfig::of(network, [224, 224, 3]);
    config.activation = Some(activation);
    config.labels = numbered_labels(1000);
    ImageClassifier { config }.into()
}

/// Times of one activation in milliseconds, ascending.
pub struct Times(Vec<f64>);

impl Times {
    /// The median.
    pub fn median_ms(&self) -> f64 {
        median(self.0.clone())
    }

    /// The shortest and the longest.
    pub fn range_ms(&self) -> (f64, f64) {
        (self.0[0], self.0[self.0.len() - 1])
    }
}

/// A program that is timed run by run.
struct Timed {
    program: Executable,
    store: Store,
    data: Vec<(String, Data)>,
    ms: Vec<f64>,
}

enum Data {
    F32(Vec<f32>),
    I32(Vec<i32>),
    Bool(Vec<u8>),
}

impl Data {
    fn host(&self) -> Host<'_> {
        match self {
            Data::F32(x) => Host::F32(x),
            Data::I32(x) => Host::I32(x),
            Data::Bool(x) => Host::Bool(x),
        }
    }
}

impl Timed {
    fn new(device: &Device, graph: &Graph, store: Store) -> Result<Timed> {
        let program = Executable::load(device.compile(graph, &Options::default())?);
        let inputs: Vec<_> = program
            .data_inputs()
            .map(|(name, ty)| (name.to_string(), ty.clone()))
            .collect();
        let fill = |dtype: DType, n: usize| match dtype {
            DType::Bool => Data::Bool(vec![1; n]),
            DType::F32 => Data::F32(around_zero(n)),
            _ => Data::I32((0..n).map(|i| (i % 2) as i32).collect()),
        };
        Ok(Timed {
            data: inputs
                .into_iter()
                .map(|(name, ty)| (name, fill(ty.dtype, ty.numel())))
                .collect(),
            program,
            store,
            ms: Vec::new(),
        })
    }

    fn run(&mut self, device: &mut Device, timed: bool) -> Result<()> {
        let data: Vec<(&str, Host<'_>)> = self.data.iter().map(|(name, x)| (name.as_str(), x.host())).collect();
        let start = Instant::now();
        self.program.run(device, &mut self.store, &data)?;
        if timed {
            self.ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    }
}

/// Times programs that take turns on one device, after one round to warm up. Every round begins with another program.
fn in_turns(mut device: Device, mut all: Vec<Timed>, rounds: usize) -> Result<Vec<Times>> {
    let count = all.len();
    for round in 0..=rounds {
        for turn in 0..count {
            all[(round + turn) % count].run(&mut device, round > 0)?;
        }
    }
    Ok(all
        .into_iter()
        .map(|mut timed| {
            timed.ms.sort_by(f64::total_cmp);
            Times(timed.ms)
        })
        .collect())
}

/// Numbers from -3 to 3.
fn around_zero(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 601) as f32 / 100.0 - 3.0).collect()
}

/// Times activations of `rows` rows of 3,072 elements.
///
/// # Errors
/// A device that cannot be opened.
pub fn elements(activations: &[Activation], rows: usize, rounds: usize) -> Result<Vec<Times>> {
    let device = Device::from_env()?;
    let timed = |activation: &Activation| {
        let trace = Trace::new();
        let x = trace.state("x", DType::F32, &[rows, WIDTH]);
        // One element of the result: all of it is computed, and none copied out.
        trace.output("y", activation.apply(x).slice(0, 0, 1).slice(1, 0, 1));
        let mut store = Store::new();
        store.insert_f32("x", &[rows, WIDTH], &around_zero(rows * WIDTH));
        Timed::new(&device, &trace.finish(), store)
    };
    let all = activations.iter().map(timed).collect::<Result<_>>()?;
    in_turns(device, all, rounds)
}

/// Times a network's inference with every activation.
///
/// # Errors
/// Texts that are longer than the model can read, and a batch that the machine's memory cannot hold.
pub fn network(network: &Network, activations: &[Activation], batch: BatchShape, rounds: usize) -> Result<Vec<Times>> {
    let device = Device::from_env()?;
    let timed = |activation: &Activation| {
        let (graph, params) = network.program(*activation, batch)?;
        let mut store = Store::new();
        for (name, weight) in initialize(&params, 1) {
            store.insert_f32(&name, &weight.shape, &weight.data);
        }
        Timed::new(&device, &graph, store)
    };
    let all = activations.iter().map(timed).collect::<Result<_>>()?;
    in_turns(device, all, rounds)
}

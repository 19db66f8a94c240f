//! The training steps that are measured.

use lessen_graph::Tensor;
use lessen_nn::models::BatchShape;
use lessen_nn::models::bert::{Bert, BertConfig, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily, VitSize};
use lessen_nn::{Cx, Model, Patterns, numbered_labels};
use lessen_task::CheckedTask;
use lessen_task::recipe::{self, config::Config};

use super::matching;

/// A training step to measure.
#[derive(Clone, Debug)]
pub struct Case {
    /// The letter of the case on the command line.
    pub letter: &'static str,
    /// The case in words.
    pub title: &'static str,
    pub(super) work: Work,
    /// Limit of the plan's bytes, where it is below the bytes that the plan would take.
    pub(super) budget: Option<usize>,
}

/// The loss that a step computes.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A model and a batch.
    Model(Box<Model>, BatchShape),
    /// Gradient matching, which is a derivative of derivatives; see [`matching`].
    Matching,
}

impl Case {
    /// Adds the loss to the graph.
    pub(super) fn loss(&self, cx: Cx) -> Tensor {
        match &self.work {
            Work::Model(model, batch) => model.forward(cx, *batch).loss,
            Work::Matching => matching::loss(cx),
        }
    }

    /// The same case with `batch` examples in a batch.
    pub(super) fn with_batch(&self, batch: usize) -> Case {
        let mut case = self.clone();
        if let Work::Model(_, shape) = &mut case.work {
            match shape {
                BatchShape::Padded { size, .. }
                | BatchShape::Packed { size, .. }
                | BatchShape::Masked { size, .. }
                | BatchShape::Images { size, .. } => *size = batch,
            }
        }
        case
    }

    /// Parameters that stay as they are.
    pub(super) fn frozen(&self) -> Patterns {
        match &self.work {
            Work::Model(..) => Patterns::default(),
            Work::Matching => matching::network(),
        }
    }

    /// Numbers that tokens and labels are below.
    pub(super) fn sizes(&self) -> (usize, usize) {
        match &self.work {
            Work::Model(model, _) => (model.vocab_size(), model.labels().len()),
            Work::Matching => (0, 0),
        }
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let labels = |n: usize| (0..n).map(|i| format!("LABEL_{i}")).collect::<Vec<_>>();
    let gpt = Gpt2Config {
        vocab_size: 512,
        n_positions: 256,
        n_embd: 384,
        n_layer: 6,
        n_head: 6,
        embd_pdrop: 0.0,
        attn_pdrop: 0.0,
        resid_pdrop: 0.0,
        ..Gpt2Config::default()
    };
    let bert = BertConfig {
        vocab_size: 21_128,
        labels: labels(10),
        ..BertConfig::default()
    };
    let titles = recipe::load("thucnews")
        .and_then(|settings| CheckedTask::assemble(Config::new(settings)?, None))
        .expect("the built-in recipe is sound");
    let mut all = vec![
        Case {
            letter: "a",
            title: "GPT, 6 layers x 384, 6 heads, 256 tokens, batch 16, vocabulary 512",
            work: Work::Model(
                Box::new(GPT2LMHeadModel { config: gpt }.into()),
                BatchShape::Padded { size: 16, length: 256 },
            ),
            budget: None,
        },
        Case {
            letter: "b",
            title: "BERT-base, 32 tokens, batch 32, vocabulary 21,128, 10 classes, dropout 0.1, budget 1400 MiB",
            work: Work::Model(
                Box::new(
                    Bert {
                        config: bert,
                        head: Head::SequenceClassification,
                    }
                    .into(),
                ),
                BatchShape::Padded { size: 32, length: 32 },
            ),
            budget: Some(1400 << 20),
        },
        Case {
            letter: "c",
            title: "thucnews: encoder, 2 layers x 128, 4 heads, 32 characters, batch 128, vocabulary 4,800, dropout 0.2",
            work: Work::Model(
                Box::new(titles.model().clone()),
                BatchShape::Padded { size: 128, length: 32 },
            ),
            budget: None,
        },
    ];
    all.extend([
        of_images("d", "ResNet-18 for CIFAR, batch 128", "resnet18-cifar", 128),
        of_images("e", "ResNet-50, 224 x 224, batch 8", "resnet50", 8),
        of_images("f", "MobileNetV2, 224 x 224, batch 16", "mobilenet-v2", 16),
        of_images("g", "RevNet-38 for CIFAR, batch 128", "revnet-38", 128),
        vit("h", "ViT-S/16, 224 x 224, batch 8", VitSize::Small, 8),
        Case {
            letter: "i",
            title: "ConvNet-3, gradient matching of one class: 256 real images, 10 synthetic ones, 32 x 32",
            work: Work::Matching,
            budget: None,
        },
        Case {
            letter: "j",
            title: "BERT-base, 128 tokens, batch 16, vocabulary 30,522, 2 classes, dropout 0.1",
            work: Work::Model(Box::new(bert_base().into()), BatchShape::Padded { size: 16, length: 128 }),
            budget: None,
        },
        Case {
            letter: "k",
            title: "reversible encoder (Reformer), 12 layers x 256, 4 heads, 256 tokens, batch 16, vocabulary 8,000, dropout 0.1",
            work: Work::Model(Box::new(reformer().into()), BatchShape::Padded { size: 16, length: 256 }),
            budget: None,
        },
        of_images("l", "RevNet-104 for images of CIFAR's size, batch 64", "revnet-104", 64),
        of_images("m", "RevNet-104, 224 x 224, batch 8", "revnet-104", 8),
        of_images("n", "ResNeXt-101 32x8d, 224 x 224, batch 8", "resnext101-32x8d", 8),
        vit("o", "ViT-Ti/16, 224 x 224, batch 8", VitSize::Tiny, 8),
        vit("p", "ViT-B/16, 224 x 224, batch 8", VitSize::Base, 8),
        vit("q", "ViT-L/16, 224 x 224, batch 4", VitSize::Large, 4),
        gpt2("r", "GPT-2 small, 512 tokens, batch 2, no dropout", (768, 12, 12), 2),
        gpt2("s", "GPT-2 medium, 512 tokens, batch 1, no dropout", (1024, 24, 16), 1),
        of_images("t", "VGG-19 with batch norm, 224 x 224, batch 4", "vgg19-bn", 4),
        of_images("u", "DenseNet-121, 224 x 224, batch 8", "densenet-121", 8),
    ]);
    all
}

/// A ViT on images of ImageNet's size and classes.
fn vit(letter: &'static str, title: &'static str, vit: VitSize, size: usize) -> Case {
    let config = VitConfig {
        labels: numbered_labels(1000),
        ..VitConfig::of(VitFamily::Vit, vit)
    };
    let image = config.image();
    Case {
        letter,
        title,
        work: Work::Model(Box::new(Vit { config }.into()), images(size, image)),
        budget: None,
    }
}

/// A GPT-2 of this width and numbers of layers and heads, on texts of 512 tokens.
fn gpt2(
    letter: &'static str,
    title: &'static str,
    (n_embd, n_layer, n_head): (usize, usize, usize),
    size: usize,
) -> Case {
    let config = Gpt2Config {
        n_embd,
        n_layer,
        n_head,
        embd_pdrop: 0.0,
        attn_pdrop: 0.0,
        resid_pdrop: 0.0,
        ..Gpt2Config::default()
    };
    Case {
        letter,
        title,
        work: Work::Model(
            Box::new(GPT2LMHeadModel { config }.into()),
            BatchShape::Padded { size, length: 512 },
        ),
        budget: None,
    }
}

/// BERT-base for single texts of two classes.
fn bert_base() -> Bert {
    Bert {
        config: BertConfig {
            labels: numbered_labels(2),
            ..BertConfig::default()
        },
        head: Head::SequenceClassification,
    }
}

/// An encoder whose layers are reversible.
fn reformer() -> LessenEncoder {
    LessenEncoder {
        config: EncoderConfig {
            vocab_size: 8000,
            width: 256,
            layers: 12,
            heads: 4,
            ffn: 1024,
            max_length: 256,
            reversible: true,
            labels: numbered_labels(2),
            ..EncoderConfig::default()
        },
    }
}

/// A convolutional network: with 10 classes for the images of CIFAR, with 1,000 for the images of ImageNet.
fn of_images(letter: &'static str, title: &'static str, name: &str, size: usize) -> Case {
    let (side, classes) = if title.contains("CIFAR") { (32, 10) } else { (224, 1000) };
    let network = Network::of(name).expect("the network has this name");
    let mut config = ImageClassifierConfig::of(network, [side, side, 3]);
    config.labels = numbered_labels(classes);
    Case {
        letter,
        title,
        work: Work::Model(
            Box::new(ImageClassifier { config: config.clone() }.into()),
            images(size, config.image()),
        ),
        budget: None,
    }
}

fn images(size: usize, image: [usize; 3]) -> BatchShape {
    BatchShape::Images {
        size,
        image,
        mixed: false,
    }
}

//! Networks of MobileNetV2's blocks, each with its own kernel, expansion and bits (Jiang 2023, table 2.10): what a
//! search for architecture and precision derives.
//!
//! Parameters are called `stem.weight`, `stem_norm.weight`, `blocks.0.expand.weight`, `blocks.0.expand_norm.weight`,
//! `blocks.0.depthwise.weight`, `blocks.0.project.weight`, .., `last.weight`, `classifier.weight`. The network
//! computes in floats unless its context quantizes layers: [`MixedArchitecture::quantization`] says how the bits of
//! the description do.

use lessen_base::mobilenet::STAGES;
use lessen_base::{Error, Result};
use lessen_graph::Tensor;
use serde::{Deserialize, Serialize};

use super::parts::{activate, classifier};
use crate::activation::Activation;
use crate::context::Cx;
use crate::layers::{BatchNorm, Convolution, batch_norm, conv2d};
use crate::quantization::{Bits, Quantization, Ranges};

/// The bits of a layer that is not quantized.
const FLOAT: u32 = 32;

/// Most channels of a layer, and the greatest stride, kernel and expansion: beyond these, sizes could not be counted.
const MOST_CHANNELS: usize = 1 << 16;
const MOST: usize = 63;

/// A block: a 1 x 1 convolution to more channels, one of each channel, and a 1 x 1 convolution without activation,
/// added to the input where the sizes are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixedBlock {
    /// Channels of the result.
    pub out: usize,
    /// Stride of the depthwise convolution.
    pub stride: usize,
    /// Factor of the channels between. With 0 there is no expansion layer, and as many channels as the input has.
    pub expansion: usize,
    /// Rows and columns of the depthwise kernel; odd.
    pub kernel: usize,
    /// Bits of weights and inputs of the two 1 x 1 layers, and of the depthwise layer.
    pub bits: [u32; 2],
}

/// A network of such blocks, as a file describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixedArchitecture {
    /// Channels of the first convolution, 3 x 3.
    pub stem: usize,
    /// Its stride.
    pub stem_stride: usize,
    /// The blocks.
    pub blocks: Vec<MixedBlock>,
    /// Channels of the last convolution, 1 x 1.
    pub last: usize,
    /// Bits of weights and inputs of the first and last convolution and of the classifier.
    pub bits: u32,
}

/// A convolution or linear layer as hardware sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuantizedLayer {
    /// The name of its weight without `.weight`.
    pub name: String,
    /// Rows and columns of its input; a linear layer has one of each.
    pub image: [usize; 2],
    /// Channels of its input.
    pub inputs: usize,
    /// Channels of its result.
    pub outputs: usize,
    /// Rows and columns of its kernel.
    pub kernel: usize,
    /// Stride.
    pub stride: usize,
    /// Groups of channels.
    pub groups: usize,
    /// Bits of weights.
    pub weight_bits: u32,
    /// Bits of inputs.
    pub input_bits: u32,
}

impl QuantizedLayer {
    /// Rows and columns of the result.
    pub fn out_image(&self) -> [usize; 2] {
        self.image.map(|size| size.div_ceil(self.stride))
    }
}

impl MixedBlock {
    /// Channels between, for an input of this many.
    pub fn inner(&self, inputs: usize) -> usize {
        inputs * self.expansion.max(1)
    }

    /// Its layers for an input of this size and number of channels.
    pub fn layers(&self, name: &str, image: [usize; 2], inputs: usize) -> Vec<QuantizedLayer> {
        let inner = self.inner(inputs);
        let layer = |own: &str, image, inputs, outputs, bits| QuantizedLayer {
            name: format!("{name}.{own}"),
            image,
            inputs,
            outputs,
            kernel: 1,
            stride: 1,
            groups: 1,
            weight_bits: bits,
            input_bits: bits,
        };
        let depthwise = QuantizedLayer {
            kernel: self.kernel,
            stride: self.stride,
            groups: inner,
            ..layer("depthwise", image, inner, inner, self.bits[1])
        };
        let project = layer("project", depthwise.out_image(), inner, self.out, self.bits[0]);
        let expand = (self.expansion > 0).then(|| layer("expand", image, inputs, inner, self.bits[0]));
        expand.into_iter().chain([depthwise, project]).collect()
    }
}

impl MixedArchitecture {
    /// The blocks of MobileNetV2 with this many bits, and with its channels times `width`, each a multiple of 4. The
    /// first `halvings` convolutions of stride 2 have no stride: 0 of them for images of 224 pixels, 2 for those of
    /// CIFAR.
    pub fn mobilenet_v2(bits: u32, width: f64, halvings: usize) -> MixedArchitecture {
        let channels = |own: usize| (((own as f64 * width) / 4.0).round().max(1.0) * 4.0) as usize;
        let mut left = halvings;
        let mut strided = |stride: usize| {
            if stride == 2 && left > 0 {
                left -= 1;
                return 1;
            }
            stride
        };
        let stem_stride = strided(2);
        let mut blocks = Vec::new();
        for stage in STAGES {
            for block in 0..stage.blocks {
                blocks.push(MixedBlock {
                    out: channels(stage.channels),
                    stride: if block == 0 { strided(stage.stride) } else { 1 },
                    // An expansion by 1 is none.
                    expansion: if stage.expansion > 1 { stage.expansion } else { 0 },
                    kernel: 3,
                    bits: [bits; 2],
                });
            }
        }
        MixedArchitecture {
            stem: channels(32),
            stem_stride,
            blocks,
            last: channels(1280),
            bits: 8,
        }
    }

    /// Its layers for images of this height, width and number of channels.
    pub fn layers(&self, [height, width, channels]: [usize; 3], classes: usize) -> Vec<QuantizedLayer> {
        let layer = |name: &str, image, inputs, outputs| QuantizedLayer {
            name: name.to_string(),
            image,
            inputs,
            outputs,
            kernel: 1,
            stride: 1,
            groups: 1,
            weight_bits: self.bits,
            input_bits: self.bits,
        };
        let stem = QuantizedLayer {
            kernel: 3,
            stride: self.stem_stride,
            ..layer("stem", [height, width], channels, self.stem)
        };
        let (mut image, mut inputs) = (stem.out_image(), self.stem);
        let mut all = vec![stem];
        for (number, block) in self.blocks.iter().enumerate() {
            all.extend(block.layers(&format!("blocks.{number}"), image, inputs));
            image = image.map(|size| size.div_ceil(block.stride));
            inputs = block.out;
        }
        all.push(layer("last", image, inputs, self.last));
        all.push(layer("classifier", [1, 1], self.last, classes));
        all
    }

    /// The bits of all layers, by dynamic ranges: each output channel of a weight and each image has its own.
    pub fn quantization(&self) -> Quantization {
        let of = |bits: u32| (bits != FLOAT).then_some(bits);
        let own = self.layers([1, 1, 1], 1).into_iter().map(|layer| {
            let bits = Bits {
                weights: of(layer.weight_bits),
                inputs: of(layer.input_bits),
            };
            (layer.name, bits)
        });
        let ends = of(self.bits);
        let all = Bits {
            weights: ends,
            inputs: ends,
        };
        Quantization {
            layers: own.filter(|(_, bits)| *bits != all).collect(),
            ..Quantization::new(all, Ranges::Dynamic)
        }
    }

    /// Refuses sizes that no network has.
    ///
    /// # Errors
    /// A size of 0, an even kernel, bits other than 2 to 8 and 32.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::user(format!("the architecture has {what}")));
        let channels = [self.stem, self.last]
            .into_iter()
            .chain(self.blocks.iter().map(|block| block.out));
        if let Some(channels) = channels
            .into_iter()
            .find(|channels| !(1..=MOST_CHANNELS).contains(channels))
        {
            return wrong(format!("a layer of {channels} channels; give 1 to {MOST_CHANNELS}"));
        }
        let strides = self.blocks.iter().map(|block| block.stride);
        if let Some(stride) = strides
            .chain([self.stem_stride])
            .find(|stride| !(1..=MOST).contains(stride))
        {
            return wrong(format!("a layer of stride {stride}; give 1 to {MOST}"));
        }
        for (number, block) in self.blocks.iter().enumerate() {
            if block.kernel % 2 == 0 || block.kernel > MOST || block.expansion > MOST {
                return wrong(format!(
                    "in block {number} the kernel {} and the expansion {}; give an odd kernel, and at most {MOST}",
                    block.kernel, block.expansion
                ));
            }
        }
        let blocks = self.blocks.iter().flat_map(|block| block.bits);
        match blocks
            .chain([self.bits])
            .find(|bits| !(2..=8).contains(bits) && *bits != FLOAT)
        {
            Some(bits) => wrong(format!(
                "a layer of {bits} bits; give 2 to 8, or {FLOAT} for no rounding"
            )),
            None => Ok(()),
        }
    }

    /// Reads a description.
    ///
    /// # Errors
    /// A text that is none, and sizes that no network has.
    pub fn parse(text: &str) -> Result<MixedArchitecture> {
        let read = serde_json::from_str::<MixedArchitecture>(text);
        let read = read.map_err(|error| Error::user(format!("it is no description of an architecture ({error})")))?;
        read.check()?;
        Ok(read)
    }

    /// The description as text, which [`MixedArchitecture::parse`] reads.
    pub fn to_text(&self) -> String {
        let block = |block: &MixedBlock| format!("    {}", serde_json::json!(block));
        let blocks: Vec<String> = self.blocks.iter().map(block).collect();
        format!(
            "{{\n  \"stem\": {},\n  \"stem_stride\": {},\n  \"blocks\": [\n{}\n  ],\n  \"last\": {},\n  \"bits\": {}\n}}\n",
            self.stem,
            self.stem_stride,
            blocks.join(",\n"),
            self.last,
            self.bits
        )
    }
}

/// A network of this architecture.
#[derive(Clone, PartialEq, Debug)]
pub struct MixedMobileNet {
    /// Blocks and channels.
    pub architecture: MixedArchitecture,
    /// Batch normalization.
    pub norm: BatchNorm,
    /// Activation.
    pub activation: Activation,
    /// Dropout probability of the pooled features.
    pub dropout: f64,
    /// Number of classes.
    pub classes: usize,
}

impl MixedMobileNet {
    /// The network with ReLU6 and without dropout.
    pub fn new(architecture: MixedArchitecture, classes: usize) -> MixedMobileNet {
        MixedMobileNet {
            architecture,
            norm: BatchNorm::default(),
            activation: Activation::Relu6,
            dropout: 0.0,
            classes,
        }
    }

    /// The logits, and the features that the last layer reads, `[N, width]`, of images `[N, H, W, C]`.
    #[track_caller]
    pub fn forward_with_features(&self, cx: Cx, images: Tensor) -> (Tensor, Tensor) {
        let own = &self.architecture;
        let mut x = self.activated(cx, "stem", images, Convolution::square(own.stem, 3, own.stem_stride));
        for (number, block) in own.blocks.iter().enumerate() {
            x = cx.scope(&format!("blocks.{number}"), |cx| self.block(cx, x, block));
        }
        let x = self.activated(cx, "last", x, Convolution::square(own.last, 1, 1));
        let pooled = cx.dropout(x.global_avg_pool2d(), self.dropout);
        (classifier(cx, "classifier", pooled, self.classes), pooled)
    }

    #[track_caller]
    fn block(&self, cx: Cx, x: Tensor, block: &MixedBlock) -> Tensor {
        let inner = block.inner(x.dim(-1));
        let mut y = x;
        if block.expansion > 0 {
            y = self.activated(cx, "expand", y, Convolution::square(inner, 1, 1));
        }
        let depthwise = Convolution::square(inner, block.kernel, block.stride).grouped(inner);
        y = self.activated(cx, "depthwise", y, depthwise);
        y = self.normalized(cx, "project", y, Convolution::square(block.out, 1, 1));
        if x.shape() == y.shape() { x + y } else { y }
    }

    /// The convolution `NAME`, the norm `NAME_norm` and the activation.
    #[track_caller]
    fn activated(&self, cx: Cx, name: &str, x: Tensor, how: Convolution) -> Tensor {
        activate(cx, self.activation, self.normalized(cx, name, x, how))
    }

    #[track_caller]
    fn normalized(&self, cx: Cx, name: &str, x: Tensor, how: Convolution) -> Tensor {
        batch_norm(cx, &format!("{name}_norm"), conv2d(cx, name, x, how), self.norm)
    }
}

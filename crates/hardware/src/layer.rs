//! A layer as an accelerator sees it: products of weights and activations, with their extents and bits.

use lessen_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a layer multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A convolution, with one group or several.
    Convolution,
    /// A convolution of which every input channel is a group of its own.
    Depthwise,
    /// Rows times one matrix of weights.
    Linear,
    /// The product of a state with one matrix of weights, step after step.
    Recurrent,
    /// A product of two activations, as in attention: it has no weights. The right factor counts as the weights in
    /// buffers and bits.
    Product,
}

impl LayerKind {
    /// The word of this kind in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Convolution => "convolution",
            LayerKind::Depthwise => "depthwise",
            LayerKind::Linear => "linear",
            LayerKind::Recurrent => "recurrent",
            LayerKind::Product => "product",
        }
    }

    /// Whether it slides a window over an image.
    pub fn slides(self) -> bool {
        matches!(self, LayerKind::Convolution | LayerKind::Depthwise)
    }
}

/// Bits of the two factors of a layer's products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    /// Bits of a weight.
    pub weights: u32,
    /// Bits of an activation.
    pub activations: u32,
}

impl Bits {
    /// The same bits for weights and activations.
    pub fn both(bits: u32) -> Bits {
        Bits {
            weights: bits,
            activations: bits,
        }
    }

    /// Reads `8`, or `w4a8` for 4 bits of weights and 8 of activations.
    ///
    /// # Errors
    /// A sentence that names the text and shows both spellings.
    pub fn parse(text: &str) -> Result<Bits> {
        let both = || text.parse().ok().map(Bits::both);
        let apart = || {
            let (weights, activations) = text.strip_prefix('w')?.split_once('a')?;
            Some(Bits {
                weights: weights.parse().ok()?,
                activations: activations.parse().ok()?,
            })
        };
        both().or_else(apart).ok_or_else(|| {
            Error::user(format!(
                "'{text}' is no number of bits; write one such as 8, or w4a8 for weights of 4 and activations of 8 bits"
            ))
        })
    }
}

impl std::fmt::Display for Bits {
    /// `8`, or `w4a8`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.weights == self.activations {
            true => write!(f, "{}", self.weights),
            false => write!(f, "w{}a{}", self.weights, self.activations),
        }
    }
}

/// The extents of a layer. Pairs are height and width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayerShape {
    /// What it multiplies.
    pub kind: LayerKind,
    /// Images of a convolution; rows of every other layer, of one step where it is recurrent.
    pub batch: u64,
    /// Channels of the input, of all groups.
    pub inputs: u64,
    /// Channels of the output, of all groups.
    pub outputs: u64,
    /// Groups of channels: the outputs of a group read its inputs alone.
    pub groups: u64,
    /// Taps of a window.
    pub kernel: [u64; 2],
    /// Pixels from window to window.
    pub stride: [u64; 2],
    /// Pixels from tap to tap.
    pub dilation: [u64; 2],
    /// Rows of zeros above the image, and columns left of it. Accelerators here fetch whole windows, with their zeros.
    pub padding: [u64; 2],
    /// Pixels of the input.
    pub input_size: [u64; 2],
    /// Pixels of the output.
    pub output_size: [u64; 2],
    /// Times that it is computed one after another: steps of a recurrent layer, matrices of a stack of products.
    pub repeats: u64,
    /// Whether it is the network's first layer, a convolution of the images themselves whose windows are laid out as
    /// rows beforehand (im2col).
    pub is_first: bool,
}

impl LayerShape {
    /// A convolution of square images with square windows: `batch` images of `inputs` channels and `size` pixels a
    /// side. Padding keeps `size / stride` pixels, rounded up, as "same" does. With `groups` equal to both numbers of
    /// channels it is depthwise.
    pub fn convolution(
        batch: u64,
        [inputs, outputs]: [u64; 2],
        groups: u64,
        size: u64,
        [kernel, stride]: [u64; 2],
    ) -> LayerShape {
        let is_depthwise = groups > 1 && groups == inputs && groups == outputs;
        let output = size.div_ceil(stride.max(1));
        let padding = (output.saturating_sub(1) * stride + kernel).saturating_sub(size) / 2;
        LayerShape {
            kind: match is_depthwise {
                true => LayerKind::Depthwise,
                false => LayerKind::Convolution,
            },
            batch,
            inputs,
            outputs,
            groups,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            padding: [padding; 2],
            input_size: [size; 2],
            output_size: [output; 2],
            repeats: 1,
            is_first: false,
        }
    }

    /// The same convolution without padding: only windows inside the image count.
    pub fn unpadded(self) -> LayerShape {
        let output = [0, 1].map(|axis| {
            let reach = self.reach(axis);
            self.input_size[axis].saturating_sub(reach) / self.stride[axis].max(1) + 1
        });
        LayerShape {
            padding: [0; 2],
            output_size: output,
            ..self
        }
    }

    /// The same layer as the first of its network.
    pub fn first(self) -> LayerShape {
        LayerShape { is_first: true, ..self }
    }

    /// `rows` rows of `inputs` numbers times a matrix of weights, to `outputs` numbers each.
    pub fn linear(rows: u64, inputs: u64, outputs: u64) -> LayerShape {
        LayerShape::rows(LayerKind::Linear, rows, [inputs, outputs], 1)
    }

    /// `steps` products of `rows` rows of a state with one matrix of weights.
    pub fn recurrent(rows: u64, inputs: u64, outputs: u64, steps: u64) -> LayerShape {
        LayerShape::rows(LayerKind::Recurrent, rows, [inputs, outputs], steps)
    }

    /// `count` products of activations, `[rows, inner]` times `[inner, columns]` each.
    pub fn product(rows: u64, inner: u64, columns: u64, count: u64) -> LayerShape {
        LayerShape::rows(LayerKind::Product, rows, [inner, columns], count)
    }

    fn rows(kind: LayerKind, rows: u64, [inputs, outputs]: [u64; 2], repeats: u64) -> LayerShape {
        LayerShape {
            kind,
            batch: rows,
            inputs,
            outputs,
            groups: 1,
            kernel: [1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            padding: [0; 2],
            input_size: [1; 2],
            output_size: [1; 2],
            repeats,
            is_first: false,
        }
    }

    /// Pixels from the first to the last tap of a window along an axis, both counted.
    pub fn reach(&self, axis: usize) -> u64 {
        self.kernel[axis].saturating_sub(1) * self.dilation[axis] + 1
    }

    /// Channels of the input that an output channel reads.
    pub fn group_inputs(&self) -> u64 {
        self.inputs / self.groups.max(1)
    }

    /// Checks that extents are positive, groups divide the channels, and no count of the layer exceeds 2^53.
    ///
    /// # Errors
    /// A sentence that names the extent.
    pub fn check(&self) -> Result<()> {
        let pairs = [
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
            ("input size", self.input_size),
            ("output size", self.output_size),
        ];
        let single = [
            ("batch", self.batch),
            ("inputs", self.inputs),
            ("outputs", self.outputs),
            ("groups", self.groups),
            ("repeats", self.repeats),
        ];
        let of_pairs = pairs.iter().flat_map(|&(name, pair)| pair.map(|extent| (name, extent)));
        if let Some((name, _)) = single.into_iter().chain(of_pairs).find(|&(_, extent)| extent == 0) {
            return Err(Error::user(format!("its {name} is 0; give it at least 1")));
        }
        if !self.inputs.is_multiple_of(self.groups) || !self.outputs.is_multiple_of(self.groups) {
            return Err(Error::user(format!(
                "its {} inputs and {} outputs do not divide into {} groups",
                self.inputs, self.outputs, self.groups
            )));
        }
        let [counts, image] = self.largest_counts();
        match counts.max(image) <= MOST {
            true => Ok(()),
            false => Err(Error::user(
                "it is too large: a layer has at most 2^53 products and numbers of input and output",
            )),
        }
    }

    /// Products, and numbers in the input with whole windows, as far as `f64` counts them.
    fn largest_counts(&self) -> [f64; 2] {
        let f = |extent: u64| extent as f64;
        let area = |pair: [u64; 2]| f(pair[0]) * f(pair[1]);
        let windows = f(self.batch) * f(self.repeats) * area(self.output_size);
        let products = windows * area(self.kernel) * f(self.inputs) * f(self.outputs);
        let reached = [0, 1].map(|axis| {
            f(self.output_size[axis]) * f(self.stride[axis]) + f(self.kernel[axis]) * f(self.dilation[axis])
        });
        let image = f(self.batch) * f(self.repeats) * f(self.inputs) * reached[0] * reached[1];
        [
            products,
            image.max(f(self.batch) * f(self.inputs) * area(self.input_size)),
        ]
    }

    /// Multiplications and additions, in all repeats: each tap of each window counts, on zeros of the padding too.
    pub fn macs(&self) -> u64 {
        let windows = self.batch * self.output_size[0] * self.output_size[1] * self.repeats;
        windows * self.kernel[0] * self.kernel[1] * self.group_inputs() * self.outputs
    }

    /// Numbers of the weights, of all matrices of a stack; 0 in a product of activations.
    pub fn weights(&self) -> u64 {
        match self.kind {
            LayerKind::Product => 0,
            LayerKind::Recurrent => self.inputs * self.outputs,
            _ => self.kernel[0] * self.kernel[1] * self.group_inputs() * self.outputs * self.repeats,
        }
    }

    /// Bytes of the weights at these bits, rounded up.
    pub fn weight_bytes(&self, bits: Bits) -> u64 {
        (self.weights() * u64::from(bits.weights)).div_ceil(8)
    }
}

/// The largest count of a layer: 2^53, below which `f64` counts exactly.
const MOST: f64 = (1u64 << 53) as f64;

/// A layer of a network: its name, its extents and the bits that it computes with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Its place in the network.
    pub name: String,
    /// Its extents.
    pub shape: LayerShape,
    /// The bits of its factors.
    pub bits: Bits,
}

impl Layer {
    /// A layer with this name.
    pub fn new(name: impl Into<String>, shape: LayerShape, bits: Bits) -> Layer {
        Layer {
            name: name.into(),
            shape,
            bits,
        }
    }
}

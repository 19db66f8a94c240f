//! A network as a TOML file with a list of layers, and the bits of layers by name.

use lessen_base::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::layer::{Bits, Layer, LayerKind, LayerShape};
use crate::toml_text::read;

/// What a file of a network has.
const FIELDS: &str = "a network has tables [[layer]] with name, kind (convolution, depthwise, linear, recurrent or \
                      product), inputs and outputs, for convolutions size, kernel, stride, padding and groups, and for \
                      other kinds rows, steps or count";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    name: Option<String>,
    #[serde(default)]
    layer: Vec<LayerEntry>,
}

/// One number for height and width, or both.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Pair {
    Both(u64),
    Apart([u64; 2]),
}

impl Pair {
    fn numbers(self) -> [u64; 2] {
        match self {
            Pair::Both(number) => [number; 2],
            Pair::Apart(pair) => pair,
        }
    }
}

/// A number of bits, or a text such as `w4a8`.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum BitsEntry {
    Number(u32),
    Text(String),
}

impl BitsEntry {
    fn bits(&self) -> Result<Bits> {
        match self {
            BitsEntry::Number(bits) => Ok(Bits::both(*bits)),
            BitsEntry::Text(text) => Bits::parse(text),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerEntry {
    name: String,
    kind: LayerKind,
    inputs: u64,
    outputs: Option<u64>,
    size: Option<Pair>,
    kernel: Option<Pair>,
    stride: Option<Pair>,
    padding: Option<Pair>,
    groups: Option<u64>,
    rows: Option<u64>,
    steps: Option<u64>,
    count: Option<u64>,
    first: Option<bool>,
    bits: Option<BitsEntry>,
}

/// A network from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadNetwork {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Its layers for the whole batch.
    pub layers: Vec<Layer>,
    /// Whether the file itself says the bits of a layer.
    pub has_own_bits: Vec<bool>,
}

/// Reads a network from the text of a TOML file, for a batch of `batch` examples; layers that do not say their bits get
/// `bits`. The first layer is the first of the network if it is a convolution, unless it says `first = false`.
///
/// # Errors
/// A missing or unknown field, a field that the kind of a layer does not have, a name twice, and extents that
/// [`LayerShape::check`] refuses; the sentence names layer and field.
pub fn read_network(text: &str, batch: u64, bits: Bits) -> Result<ReadNetwork> {
    let file: NetworkFile = read(text, FIELDS)?;
    let mut layers: Vec<Layer> = Vec::with_capacity(file.layer.len());
    let mut has_own_bits = Vec::with_capacity(file.layer.len());
    for (number, entry) in file.layer.iter().enumerate() {
        let at = |e: Error| e.at(format_args!("layer {}", entry.name));
        if layers.iter().any(|layer| layer.name == entry.name) {
            return Err(at(Error::user("another layer has its name; give each its own")));
        }
        let shape = entry.shape(batch, number == 0).map_err(at)?;
        shape.check().map_err(at)?;
        let own = entry.bits.as_ref().map(BitsEntry::bits).transpose().map_err(at)?;
        has_own_bits.push(own.is_some());
        layers.push(Layer::new(entry.name.clone(), shape, own.unwrap_or(bits)));
    }
    Ok(ReadNetwork {
        name: file.name,
        layers,
        has_own_bits,
    })
}

impl LayerEntry {
    fn shape(&self, batch: u64, is_start: bool) -> Result<LayerShape> {
        self.check_fields()?;
        let slides = self.kind.slides();
        let outputs = match (self.outputs, self.kind) {
            (None, LayerKind::Depthwise) => self.inputs,
            (outputs, _) => needed("outputs", outputs)?,
        };
        let rows = |own: Option<u64>| {
            let too_large = || Error::user("its rows and the batch are too large to be counted");
            own.unwrap_or(1).checked_mul(batch).ok_or_else(too_large)
        };
        if !slides {
            let inputs = self.inputs;
            return Ok(match self.kind {
                LayerKind::Recurrent => LayerShape::recurrent(batch, inputs, outputs, needed("steps", self.steps)?),
                LayerKind::Product => {
                    LayerShape::product(needed("rows", self.rows)?, inputs, outputs, rows(self.count)?)
                }
                _ => LayerShape::linear(rows(self.rows)?, inputs, outputs),
            });
        }
        let size = needed("size", self.size)?.numbers();
        let kernel = needed("kernel", self.kernel)?.numbers();
        let stride = self.stride.map_or([1; 2], Pair::numbers);
        let is_positive = |pair: [u64; 2]| pair.iter().all(|&extent| (1..1 << 31).contains(&extent));
        if !is_positive(size) || !is_positive(kernel) || !is_positive(stride) {
            return Err(Error::user("its size, kernel and stride must be from 1 to below 2^31"));
        }
        let groups = match self.kind {
            LayerKind::Depthwise => self.inputs,
            _ => self.groups.unwrap_or(1),
        };
        let (mut output, mut padding) = ([0; 2], [0; 2]);
        for axis in 0..2 {
            match self.padding.map(Pair::numbers) {
                None => {
                    output[axis] = size[axis].div_ceil(stride[axis]);
                    let reach = (output[axis] - 1) * stride[axis] + kernel[axis];
                    padding[axis] = reach.saturating_sub(size[axis]) / 2;
                }
                Some(own) if own[axis] < 1 << 31 => {
                    padding[axis] = own[axis];
                    let padded = size[axis] + 2 * own[axis];
                    let Some(free) = padded.checked_sub(kernel[axis]) else {
                        return Err(Error::user(format!(
                            "its kernel of {} is larger than its padded size of {padded}",
                            kernel[axis]
                        )));
                    };
                    output[axis] = free / stride[axis] + 1;
                }
                Some(_) => return Err(Error::user("its padding must be below 2^31")),
            }
        }
        Ok(LayerShape {
            kind: self.kind,
            batch,
            inputs: self.inputs,
            outputs,
            groups,
            kernel,
            stride,
            dilation: [1; 2],
            padding,
            input_size: size,
            output_size: output,
            repeats: 1,
            is_first: self.first.unwrap_or(is_start && self.kind == LayerKind::Convolution),
        })
    }

    /// Refuses fields that its kind does not have.
    fn check_fields(&self) -> Result<()> {
        let slides = self.kind.slides();
        let fields = [
            ("size", self.size.is_some(), slides),
            ("kernel", self.kernel.is_some(), slides),
            ("stride", self.stride.is_some(), slides),
            ("padding", self.padding.is_some(), slides),
            ("groups", self.groups.is_some(), self.kind == LayerKind::Convolution),
            ("first", self.first.is_some(), self.kind == LayerKind::Convolution),
            (
                "rows",
                self.rows.is_some(),
                matches!(self.kind, LayerKind::Linear | LayerKind::Product),
            ),
            ("steps", self.steps.is_some(), self.kind == LayerKind::Recurrent),
            ("count", self.count.is_some(), self.kind == LayerKind::Product),
        ];
        match fields.into_iter().find(|&(_, is_given, fits)| is_given && !fits) {
            Some((field, ..)) => Err(Error::user(format!(
                "a {} layer has no {field}; leave it out",
                self.kind.name()
            ))),
            None => Ok(()),
        }
    }
}

/// A field that the kind of a layer needs.
fn needed<T>(field: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::user(format!("it lacks the field {field}; add it")))
}

/// The bits of a network's layers: one for all, and others by name.
#[derive(Clone, PartialEq, Debug)]
pub struct BitsByLayer {
    /// The bits of layers that are not named.
    pub default: Bits,
    /// The bits of layers by name.
    pub layers: BTreeMap<String, Bits>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BitsFile {
    default: BitsEntry,
    #[serde(default)]
    layers: BTreeMap<String, BitsEntry>,
}

impl BitsByLayer {
    /// The same bits for all.
    pub fn all(bits: Bits) -> BitsByLayer {
        BitsByLayer {
            default: bits,
            layers: BTreeMap::new(),
        }
    }

    /// Reads the text of a TOML file with `default` and a table `layers` of bits by name.
    ///
    /// # Errors
    /// A text that is no TOML, a missing or unknown field, and bits that are none.
    pub fn parse(text: &str) -> Result<BitsByLayer> {
        let file: BitsFile = read(text, "a file of bits has default, and a table layers with bits by name")?;
        let named = |(name, entry): (&String, &BitsEntry)| {
            let bits = entry.bits().map_err(|e| e.at(format_args!("layer {name}")))?;
            Ok((name.clone(), bits))
        };
        Ok(BitsByLayer {
            default: file.default.bits().map_err(|e| e.at("default"))?,
            layers: file.layers.iter().map(named).collect::<Result<_>>()?,
        })
    }

    /// Gives layers their bits.
    ///
    /// # Errors
    /// A name that no layer has.
    pub fn apply(&self, layers: &mut [Layer]) -> Result<()> {
        for (name, &bits) in &self.layers {
            let Some(layer) = layers.iter_mut().find(|layer| layer.name == *name) else {
                let some: Vec<&str> = layers.iter().take(5).map(|layer| &layer.name[..]).collect();
                return Err(Error::user(format!(
                    "the network has no layer called {name}; its layers are {}, and so on",
                    some.join(", ")
                )));
            };
            layer.bits = bits;
        }
        Ok(())
    }
}

//! Writing a checkpoint with weights as integers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use lessen_base::{Error, Result, atomic};
use lessen_graph::numel;
use lessen_graph::ops::{DequantizeGroups, QuantizeRows};
use safetensors::Dtype;

use super::found::Found;
use super::names::{beside_packed, packed};
use super::packed::{LEAST, pack, words};
use super::save::{Stored, create, write_json, write_stored};
use super::scales::beside;
use super::shards::Checkpoint;
use crate::config::Fields;
use crate::field_effect::is_empty;
use crate::params::ParamSpec;
use crate::quantization::{INPUT_SCALE, OWN, is_of_training};
use crate::quantization_config::{CONFIG, PackedLayers, config_of, config_of_packed};

/// The integers that weights become.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Integers {
    /// 8 bits, with a scale for each row of a matrix, or each kernel.
    #[default]
    Eight,
    /// 4 bits, with a scale for each group of neighbouring inputs.
    Four {
        /// Inputs of a group, a multiple of 32.
        group: usize,
    },
}

impl Integers {
    /// The elements of a group of rows of this many: the most that divide a row and are a multiple of 32, up to those
    /// of this type, or all of the row where there are none.
    pub fn group_of(self, inputs: usize) -> usize {
        match self {
            Integers::Eight => inputs,
            Integers::Four { group } => {
                let sizes = (1..=group / LEAST).rev().map(|count| count * LEAST);
                let mut dividing = sizes.filter(|size| inputs.is_multiple_of(*size));
                dividing.next().unwrap_or(inputs)
            }
        }
    }
}

/// The fixed scales of layers' inputs.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct InputScales {
    /// A positive scale by the name of its layer.
    pub of: BTreeMap<String, f32>,
    /// The names of all other layers.
    pub without: Vec<String>,
}

/// What a tensor of the new file holds.
enum Content {
    /// A tensor of the source, as it is.
    Copied,
    /// The integers of 8 bits of a tensor.
    Rows(String),
    /// The codes of 4 bits of a tensor, whose transpose they are of or not.
    Groups(String, DequantizeGroups, bool),
    /// The scales of the tensor before.
    Scales,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Writes the `config.json` and the tensors of the folder `source` to the folder `target`, creating it if needed, with
/// the parameters `quantized` as integers and their scales, and the scales of layers' inputs that `scales` has by the
/// layers' names. All else stays as it is, but for the ranges of a training for integers. A row, or a matrix `[in,
/// out]`, is in memory at a time. Returns the bytes of tensors before and after.
///
/// # Errors
/// A missing, truncated or damaged file of `source`, a model that is quantized already, a parameter without rows of
/// floats, or one that is no matrix for integers of 4 bits, and a file that cannot be written.
pub fn quantize(
    source: &Path,
    target: &Path,
    params: &[ParamSpec],
    (quantized, integers): (&BTreeSet<String>, Integers),
    scales: &InputScales,
) -> Result<[usize; 2]> {
    let fields = check_unquantized(source)?;
    let found = Found::of(source, params, &|_| true)?;
    let chosen: BTreeMap<String, bool> = found
        .tensors_of(quantized)
        .map(|(param, tensor)| {
            let own = params.iter().find(|own| own.name == *param);
            (tensor.clone(), own.is_some_and(|own| own.is_turned))
        })
        .collect();
    let mut checkpoint = found.into_checkpoint();
    if let Some(name) = chosen.keys().find(|name| checkpoint.stored(name).is_none()) {
        let name = packed(name);
        return Err(checkpoint.file(&name).wrong(&name, "holds integers already"));
    }
    let mut layers = PackedLayers::default();
    let mut ignored = scales.without.clone();
    let mut targets = BTreeSet::new();
    let mut tensors = Vec::new();
    let mut before = 0;
    for tensor in checkpoint.tensors() {
        before += bytes(&tensor);
        if is_of_training(&tensor.name) {
            continue;
        }
        let layer = tensor.name.trim_end_matches(".weight").to_string();
        let Some(&is_turned) = chosen.get(&tensor.name) else {
            if tensor.shape.len() >= 2 && !ignored.contains(&layer) {
                ignored.push(layer);
            }
            tensors.push((tensor, Content::Copied));
            continue;
        };
        if tensor.shape.len() < 2 || numel(&tensor.shape) == 0 {
            return Err(Error::user(format!(
                "the tensor `{}` of the shape {:?} has no rows that become integers",
                tensor.name, tensor.shape
            )));
        }
        match integers {
            Integers::Eight => {
                targets.insert(if tensor.shape.len() == 2 { "Linear" } else { "Conv2d" });
                tensors.extend(of_rows(tensor));
            }
            Integers::Four { .. } => {
                let group = integers.group_of(tensor.shape[usize::from(!is_turned)]);
                tensors.extend(of_groups(tensor, group, is_turned)?);
                layers.turned.extend(is_turned.then(|| layer.clone()));
                layers.of_groups.entry(group).or_default().push(layer);
            }
        }
    }
    tensors.extend(scales.of.iter().map(|(layer, scale)| {
        let content = Content::Bytes(scale.to_le_bytes().to_vec());
        (stored(format!("{layer}.{INPUT_SCALE}"), Dtype::F32, &[1]), content)
    }));
    create(target)?;
    let path = target.join("model.safetensors");
    let (headers, contents): (Vec<Stored>, Vec<Content>) = tensors.into_iter().unzip();
    let mut contents = contents.into_iter();
    let mut writer = Writer {
        checkpoint,
        path: &path,
        scales: Vec::new(),
    };
    write_stored(&path, &headers, |tensor, out| {
        contents
            .next()
            .map_or(Ok(()), |content| writer.write(&tensor.name, content, out))
            .map_err(io::Error::other)
    })?;
    let mut config = fields.into_map();
    config.remove(OWN);
    layers.ignored.clone_from(&ignored);
    let own = match integers {
        Integers::Eight => config_of(&targets, &ignored, !scales.of.is_empty()),
        Integers::Four { .. } => config_of_packed(&layers),
    };
    config.insert(CONFIG.to_string(), own);
    write_json(&target.join("config.json"), &config)?;
    Ok([before, headers.iter().map(bytes).sum()])
}

/// Checks that the weights of a folder are no integers; the fields of its `config.json`.
///
/// # Errors
/// A model that is quantized already.
pub fn check_unquantized(source: &Path) -> Result<Fields> {
    let fields = Fields::read(&source.join("config.json"))?;
    if fields.get(CONFIG).is_some_and(|value| !is_empty(value)) {
        let what = "is there already: the model is quantized; name the model that it was made from";
        return Err(fields.error(CONFIG, what));
    }
    Ok(fields)
}

fn stored(name: String, dtype: Dtype, shape: &[usize]) -> Stored {
    let shape = shape.to_vec();
    Stored { name, dtype, shape }
}

/// The tensors of a matrix or of kernels in integers of 8 bits: them, and a scale for each row or kernel.
fn of_rows(tensor: Stored) -> [(Stored, Content); 2] {
    let [scale, _] = beside(&tensor.name);
    let mut of_scales = vec![1; tensor.shape.len()];
    of_scales[0] = tensor.shape[0];
    let content = Content::Rows(tensor.name.clone());
    [
        (stored(tensor.name, Dtype::I8, &tensor.shape), content),
        (stored(scale, Dtype::F32, &of_scales), Content::Scales),
    ]
}

/// The tensors of a matrix in codes of 4 bits: codes, scales and extents.
///
/// # Errors
/// A tensor that is no matrix.
fn of_groups(tensor: Stored, group: usize, is_turned: bool) -> Result<[(Stored, Content); 3]> {
    let (rows, columns) = match tensor.shape[..] {
        [rows, columns] if is_turned => (columns, rows),
        [rows, columns] => (rows, columns),
        _ => {
            return Err(Error::user(format!(
                "the tensor `{}` of the shape {:?} is no matrix, and integers of 4 bits are those of matrices",
                tensor.name, tensor.shape
            )));
        }
    };
    let [scale, shape] = beside_packed(&tensor.name);
    let op = DequantizeGroups {
        group: group.next_multiple_of(LEAST),
        columns,
    };
    let codes = stored(packed(&tensor.name), Dtype::I32, &[rows, words(columns)]);
    let extents = [rows, columns].map(|extent| (extent as i64).to_le_bytes()).concat();
    Ok([
        (codes, Content::Groups(tensor.name, op, is_turned)),
        (
            stored(scale, Dtype::F32, &[rows, columns.div_ceil(group)]),
            Content::Scales,
        ),
        (stored(shape, Dtype::I64, &[2]), Content::Bytes(extents)),
    ])
}

/// Writes the contents of tensors.
struct Writer<'a> {
    checkpoint: Checkpoint,
    path: &'a Path,
    /// Scales of the tensor that was written last.
    scales: Vec<f32>,
}

impl Writer<'_> {
    /// Writes the bytes of the tensor `name` of the new file.
    fn write(&mut self, name: &str, content: Content, out: &mut dyn Write) -> Result<()> {
        let path = self.path;
        let fail = |error| atomic::error_of(path, error);
        match content {
            Content::Copied => {
                let file = self.checkpoint.file(name);
                file.visit(name, &mut |bytes| out.write_all(bytes).map_err(fail))
            }
            Content::Bytes(bytes) => out.write_all(&bytes).map_err(fail),
            Content::Scales => {
                let scales = std::mem::take(&mut self.scales);
                let bytes: Vec<u8> = scales.into_iter().flat_map(f32::to_le_bytes).collect();
                out.write_all(&bytes).map_err(fail)
            }
            Content::Rows(tensor) => {
                let mut scales = Vec::new();
                self.visit_rows(&tensor, false, &mut |row| {
                    let (levels, scale) = levels(&tensor, row)?;
                    scales.push(scale);
                    out.write_all(&levels).map_err(fail)
                })?;
                self.scales = scales;
                Ok(())
            }
            Content::Groups(tensor, op, is_turned) => {
                let [of_codes, of_scales] = op.types(1)?.map(|ty| ty.last());
                let (mut codes, mut own, mut scales) = (vec![0; of_codes], vec![0.0; of_scales], Vec::new());
                self.visit_rows(&tensor, is_turned, &mut |row| {
                    op.quantize(row, &mut codes, &mut own);
                    for scale in &own {
                        scales.push(checked(&tensor, *scale)?);
                    }
                    out.write_all(&pack(&codes, op.columns)).map_err(fail)
                })?;
                self.scales = scales;
                Ok(())
            }
        }
    }

    /// Shows the rows of a tensor, or of its transpose, one after another.
    fn visit_rows(&mut self, name: &str, is_turned: bool, visit: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let Some(Stored { shape, .. }) = self.checkpoint.stored(name) else {
            return Err(Error::internal(format!("there is no tensor `{name}`")));
        };
        let file = self.checkpoint.file(name);
        let width = numel(&shape[1..]);
        let mut row = Vec::with_capacity(width);
        if is_turned {
            let mut all = Vec::with_capacity(numel(&shape));
            file.visit_f32(name, &shape, &mut |part| {
                all.extend_from_slice(part);
                Ok(())
            })?;
            return (0..width).try_for_each(|column| {
                row.clear();
                row.extend(all.iter().skip(column).step_by(width));
                visit(&row)
            });
        }
        file.visit_f32(name, &shape, &mut |mut part| {
            while !part.is_empty() {
                let (now, rest) = part.split_at(part.len().min(width - row.len()));
                row.extend_from_slice(now);
                part = rest;
                if row.len() == width {
                    visit(&row)?;
                    row.clear();
                }
            }
            Ok(())
        })
    }
}

/// Bytes of a tensor.
fn bytes(tensor: &Stored) -> usize {
    numel(&tensor.shape).saturating_mul(tensor.dtype.bitsize()) / 8
}

/// The integers of a row as bytes, and their scale.
///
/// # Errors
/// A number that is NaN or infinite.
fn levels(name: &str, row: &[f32]) -> Result<(Vec<u8>, f32)> {
    let mut codes = vec![0; row.len()];
    let scale = checked(name, QuantizeRows::quantize(row, &mut codes))?;
    // A code is an integer and 128.
    codes.iter_mut().for_each(|code| *code ^= 0x80);
    Ok((codes, scale))
}

/// A scale of numbers of the tensor `name`; that of zeros is 1.
///
/// # Errors
/// That of a number that is NaN or infinite.
fn checked(name: &str, scale: f32) -> Result<f32> {
    if !scale.is_finite() {
        return Err(Error::user(format!(
            "the tensor `{name}` has a number that is not finite, which no integer stands for"
        )));
    }
    Ok(if scale > 0.0 { scale } else { 1.0 })
}

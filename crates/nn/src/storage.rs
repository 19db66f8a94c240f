//! How the value of a parameter is stored in states of a device.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lessen_graph::ops::DequantizeGroups;
use lessen_graph::{DType, Tensor, Type};

use crate::params::{ParamSpec, StateSpec};

/// A parameter as its storage sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    /// Full name, such as `transformer.h.0.ln_1.weight`.
    pub name: &'a str,
    /// Extents.
    pub shape: &'a [usize],
    /// Whether it is a matrix `[in, out]`; see [`ParamSpec::is_turned`].
    pub is_turned: bool,
}

impl<'a> From<&'a [usize]> for Stored<'a> {
    /// Of these extents, without a name, and no matrix `[in, out]`.
    fn from(shape: &'a [usize]) -> Stored<'a> {
        Stored {
            name: "",
            shape,
            is_turned: false,
        }
    }
}

impl<'a> From<&'a ParamSpec> for Stored<'a> {
    fn from(param: &'a ParamSpec) -> Stored<'a> {
        Stored {
            name: &param.name,
            shape: &param.shape,
            is_turned: param.is_turned,
        }
    }
}

/// How parameters are stored in states of a device: as one array, or as several, such as codes and their scales.
pub trait ParamStorage: fmt::Debug + Send + Sync {
    /// The states of a parameter. The state with the empty label bears the parameter's own name.
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)>;

    /// The parameter, `f32`, from its states, which come in the order of [`ParamStorage::states`].
    fn value<'g>(&self, param: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g>;
}

impl dyn ParamStorage + '_ {
    /// Names and types of the states of a parameter.
    pub fn specs(&self, param: Stored<'_>) -> Vec<StateSpec> {
        let spec = |(label, ty): (&str, Type)| StateSpec {
            name: state_of(label, param.name),
            dtype: ty.dtype,
            shape: ty.shape.into_vec(),
        };
        self.states(param).into_iter().map(spec).collect()
    }
}

/// The name of the state with this label of a parameter.
fn state_of(label: &str, param: &str) -> String {
    if label.is_empty() {
        param.to_string()
    } else {
        format!("@{label}.{param}")
    }
}

/// Every parameter is an `f32` state, as training needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct F32Storage;

impl ParamStorage for F32Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        vec![("", Type::f32(shape))]
    }

    fn value<'g>(&self, _: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        states[0]
    }
}

/// Matrices, and kernels of convolutions other than depthwise ones, are codes of 8 bits with a scale for each row or
/// kernel, which are the states `codes` and `scale`; the rest is `f32`. The codes of a kernel are in the order of taps
/// first, `[KH, KW, C]`. For inference: products read the codes where the precision says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Int8Storage;

impl Int8Storage {
    /// Codes of a row or a kernel of a parameter of this shape; none where it has no codes.
    pub fn codes_of(shape: &[usize]) -> Option<usize> {
        match *shape {
            [_, inputs] if inputs > 0 => Some(inputs),
            // A kernel of one channel is that of a depthwise convolution, or of a gray image's first one.
            [_, channels, height, width] if channels > 1 => {
                let taps = height.checked_mul(width).filter(|taps| *taps > 0)?;
                taps.checked_mul(channels)
            }
            _ => None,
        }
    }
}

impl ParamStorage for Int8Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        if let Some(codes) = Int8Storage::codes_of(shape) {
            vec![
                ("codes", Type::new(DType::U8, &[shape[0], codes])),
                ("scale", Type::f32(&shape[..1])),
            ]
        } else {
            vec![("", Type::f32(shape))]
        }
    }

    fn value<'g>(&self, Stored { shape, .. }: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        let [codes, scale] = *states else { return states[0] };
        let rows = codes.dequantize_rows(scale);
        match *shape {
            [_, _, 1, 1] => rows.reshape(shape),
            [o, c, height, width] => rows.reshape(&[o, height, width, c]).permute(&[0, 3, 1, 2]),
            _ => rows,
        }
    }
}

/// Matrices are codes of 4 bits with a scale for each group of elements of a row, which are the states `nibbles` and
/// `scale`; the rest is `f32`. Rows are what products add up: a matrix `[in, out]` is stored turned. For inference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Int4Storage {
    /// Elements of a group, a multiple of 32.
    pub group: usize,
}

impl Default for Int4Storage {
    /// Groups of 32 elements.
    fn default() -> Int4Storage {
        Int4Storage { group: 32 }
    }
}

impl Int4Storage {
    /// The number of rows of codes of a parameter, and how they are restored; none where it has no codes.
    pub fn rows(&self, param: Stored<'_>) -> Option<(usize, DequantizeGroups)> {
        let (rows, columns) = match *param.shape {
            [rows, columns] if param.is_turned => (columns, rows),
            [rows, columns] => (rows, columns),
            _ => return None,
        };
        let group = self.group;
        (rows > 0 && columns > 0).then_some((rows, DequantizeGroups { group, columns }))
    }
}

impl ParamStorage for Int4Storage {
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)> {
        let types = self.rows(param).and_then(|(rows, op)| op.types(rows).ok());
        match types {
            Some([codes, scale]) => vec![("nibbles", codes), ("scale", scale)],
            None => vec![("", Type::f32(param.shape))],
        }
    }

    fn value<'g>(&self, param: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        let (&[codes, scale], Some((_, op))) = (states, self.rows(param)) else {
            return states[0];
        };
        let rows = codes.dequantize_groups(scale, op);
        if param.is_turned { rows.permute(&[1, 0]) } else { rows }
    }
}

/// Matrices that a file has in codes of 4 bits are stored as these, with the groups of the file; the rest is stored
/// another way. For inference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackedStorage<R> {
    /// Elements of a group by the names of parameters, multiples of 32.
    pub groups: BTreeMap<String, usize>,
    /// How all other parameters are stored.
    pub rest: R,
}

impl<R> PackedStorage<R> {
    /// How a parameter of the file is stored; none where it is one of the rest.
    pub fn own(&self, param: Stored<'_>) -> Option<Int4Storage> {
        let group = *self.groups.get(param.name)?;
        let own = Int4Storage { group };
        own.rows(param).is_some().then_some(own)
    }
}

impl<R: ParamStorage> ParamStorage for PackedStorage<R> {
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)> {
        match self.own(param) {
            Some(own) => own.states(param),
            None => self.rest.states(param),
        }
    }

    fn value<'g>(&self, param: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        match self.own(param) {
            Some(own) => own.value(param, states),
            None => self.rest.value(param, states),
        }
    }
}

/// Some parameters are `f32`, as a file has them in floats beside integers; the rest is stored another way. For
/// inference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FloatsBeside<R> {
    /// The names of the parameters that are `f32`.
    pub floats: BTreeSet<String>,
    /// How all other parameters are stored.
    pub rest: R,
}

impl<R: ParamStorage> ParamStorage for FloatsBeside<R> {
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)> {
        match self.floats.contains(param.name) {
            true => F32Storage.states(param),
            false => self.rest.states(param),
        }
    }

    fn value<'g>(&self, param: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        match self.floats.contains(param.name) {
            true => F32Storage.value(param, states),
            false => self.rest.value(param, states),
        }
    }
}

/// Matrices and kernels are `bf16` states, the rest, such as biases and statistics, `f32`: for inference, in which each
/// token reads them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bf16Storage;

impl ParamStorage for Bf16Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        let dtype = if shape.len() > 1 { DType::BF16 } else { DType::F32 };
        vec![("", Type::new(dtype, shape))]
    }

    fn value<'g>(&self, _: Stored<'_>, states: &[Tensor<'g>]) -> Tensor<'g> {
        states[0].cast(DType::F32)
    }
}

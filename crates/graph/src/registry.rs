//! Operations by name, for the text form.

use lessen_base::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

use crate::array::Array;
use crate::attrs::Attrs;
use crate::op::Op;
use crate::ops::*;
use crate::types::{Type, numel};

/// Builds an operation from its attributes, or says which one is missing or wrong.
pub type Build = fn(&Attrs) -> Result<Arc<dyn Op>>;

/// The operations that [`parse`](crate::parse) knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    builders: HashMap<String, Build>,
}

impl Registry {
    /// No operations.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// All operations of this crate.
    pub fn standard() -> Registry {
        let mut registry = Registry::new();
        for (name, build) in STANDARD {
            registry.register(name, *build);
        }
        registry
    }

    /// Adds an operation, or replaces the one of this name.
    pub fn register(&mut self, name: &str, build: Build) {
        self.builders.insert(name.to_string(), build);
    }

    /// The names of all operations, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.builders.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The operation of this name with these attributes.
    ///
    /// # Errors
    /// A sentence that names the unknown operation, or the attribute that is missing or wrong.
    pub fn build(&self, name: &str, attrs: &Attrs) -> Result<Arc<dyn Op>> {
        let build = self
            .builders
            .get(name)
            .ok_or_else(|| Error::user(format!("there is no operation `{name}`")))?;
        let op = build(attrs).map_err(|e| Error::user(format!("{name}: {e}")))?;
        match attrs.0.iter().find(|(name, _)| op.attrs().get(name).is_none()) {
            Some((unknown, _)) => Err(Error::user(format!("{name}: there is no attribute `{unknown}`"))),
            None => Ok(op),
        }
    }
}

const STANDARD: &[(&str, Build)] = &[
    ("adamw", |a| {
        let [beta1, beta2, eps, weight_decay] = floats(a, ["beta1", "beta2", "eps", "weight_decay"])?;
        shared(AdamW {
            beta1,
            beta2,
            eps,
            weight_decay,
        })
    }),
    ("attention", |a| shared(Attention::from_attrs(a)?)),
    ("attention_backward", |a| {
        shared(AttentionBackward::of(Attention::from_attrs(a)?))
    }),
    ("binary", |a| {
        shared(Binary {
            kind: kind(a, &BinaryKind::ALL, BinaryKind::name)?,
        })
    }),
    ("broadcast", |a| {
        shared(Broadcast {
            shape: a.sizes("shape")?,
        })
    }),
    ("cast", |a| {
        shared(Cast {
            dtype: a.dtype("dtype")?,
        })
    }),
    ("compare", |a| {
        shared(Compare {
            kind: kind(a, &CompareKind::ALL, CompareKind::name)?,
        })
    }),
    ("concat", |a| {
        shared(Concat {
            axis: a.size("axis")?,
        })
    }),
    ("constant", |a| {
        let (ty, data) = (ty(a)?, a.floats("data")?);
        if data.len() != numel(&ty.shape) {
            return Err(Error::user(format!(
                "{ty} needs {} elements, attribute `data` has {}",
                ty.numel(),
                data.len()
            )));
        }
        shared(Constant {
            array: Arc::new(Array::new(ty, data)),
        })
    }),
    ("cross_entropy", |a| {
        shared(CrossEntropy {
            ignore: a.int("ignore")?,
            smoothing: a.float("smoothing")?,
        })
    }),
    ("cross_entropy_backward", |a| {
        shared(CrossEntropyBackward {
            ignore: a.int("ignore")?,
            smoothing: a.float("smoothing")?,
        })
    }),
    ("dropout", |a| {
        shared(Dropout {
            p: a.float("p")?,
            stream: a.stream()?,
        })
    }),
    ("elu", |a| {
        shared(Elu {
            alpha: a.float("alpha")?,
        })
    }),
    ("full", |a| {
        shared(Full {
            ty: ty(a)?,
            value: a.float("value")?,
        })
    }),
    ("gather", |_| shared(Gather)),
    ("gelu", |a| {
        shared(Gelu {
            tanh: a.bool("tanh")?,
        })
    }),
    ("gelu_backward", |a| {
        shared(GeluBackward {
            tanh: a.bool("tanh")?,
        })
    }),
    ("identity", |_| shared(Identity)),
    ("iota", |a| {
        shared(Iota {
            ty: ty(a)?,
            axis: a.size("axis")?,
        })
    }),
    ("layer_norm", |a| shared(LayerNorm { eps: a.float("eps")? })),
    ("layer_norm_backward", |_| shared(LayerNormBackward)),
    ("log_softmax", |_| shared(LogSoftmax)),
    ("matmul", |a| {
        shared(MatMul {
            transpose_a: a.bool("transpose_a")?,
            transpose_b: a.bool("transpose_b")?,
        })
    }),
    ("pad", |a| {
        let [axis, before, after] = sizes(a, ["axis", "before", "after"])?;
        shared(Pad {
            axis,
            before,
            after,
            value: a.float("value")?,
        })
    }),
    ("permute", |a| {
        shared(Permute {
            axes: a.sizes("axes")?,
        })
    }),
    ("random_bits", |a| {
        shared(RandomBits {
            stream: a.stream()?,
            shape: a.sizes("shape")?,
        })
    }),
    ("reduce", |a| {
        shared(Reduce {
            kind: kind(a, &ReduceKind::ALL, ReduceKind::name)?,
            axes: a.sizes("axes")?,
        })
    }),
    ("relu", |_| shared(Relu)),
    ("reshape", |a| {
        shared(Reshape {
            shape: a.sizes("shape")?,
        })
    }),
    ("rms_norm", |a| shared(RmsNorm { eps: a.float("eps")? })),
    ("rms_norm_backward", |_| shared(RmsNormBackward)),
    ("scatter_add", |a| {
        shared(ScatterAdd {
            rows: a.size("rows")?,
        })
    }),
    ("select", |_| shared(Select)),
    ("sgd", |a| {
        let [momentum, weight_decay] = floats(a, ["momentum", "weight_decay"])?;
        shared(Sgd {
            momentum,
            nesterov: a.bool("nesterov")?,
            weight_decay,
        })
    }),
    ("silu", |_| shared(Silu)),
    ("slice", |a| {
        let [axis, start, len] = sizes(a, ["axis", "start", "len"])?;
        shared(Slice { axis, start, len })
    }),
    ("softmax", |_| shared(Softmax)),
    ("softmax_backward", |_| shared(SoftmaxBackward)),
    ("split", |a| {
        shared(Split {
            axis: a.size("axis")?,
            sizes: a.sizes("sizes")?,
        })
    }),
    ("unary", |a| {
        shared(Unary {
            kind: kind(a, &UnaryKind::ALL, UnaryKind::name)?,
        })
    }),
    ("update_slice", |a| {
        shared(UpdateSlice {
            axis: a.size("axis")?,
        })
    }),
];

fn shared(op: impl Op) -> Result<Arc<dyn Op>> {
    Ok(Arc::new(op))
}

fn ty(attrs: &Attrs) -> Result<Type> {
    Ok(Type::new(attrs.dtype("dtype")?, &attrs.sizes("shape")?))
}

fn floats<const N: usize>(attrs: &Attrs, names: [&str; N]) -> Result<[f64; N]> {
    let mut values = [0.0; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = attrs.float(name)?;
    }
    Ok(values)
}

fn sizes<const N: usize>(attrs: &Attrs, names: [&str; N]) -> Result<[usize; N]> {
    let mut values = [0; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = attrs.size(name)?;
    }
    Ok(values)
}

/// The function whose name the attribute `f` gives.
fn kind<K: Copy>(attrs: &Attrs, all: &[K], name: fn(K) -> &'static str) -> Result<K> {
    let word = attrs.word("f")?;
    all.iter()
        .copied()
        .find(|k| name(*k) == word)
        .ok_or_else(|| Error::user(format!("there is no function `{word}`")))
}

//! The values of a graph as values of a file while its nodes are written.
//!
//! A value is written in the form in which it is read. Images have two forms: channels last, as in the graph, and
//! channels first, as the operators of ONNX take them. A value that only repeats another one, or a number, is written
//! where no reader repeats it by itself.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::ops::Broadcast;
use lessen_graph::{Array, DType, Node, Type, ValueId, evaluate_op, numel};

use super::extent::{Extent, Polynomial};
use super::family::Family;
use super::writer::{Writer, element_of, ints};

/// The most elements of constants that are computed while a file is written.
const MOST_COMPUTED: usize = 1 << 22;

/// Where the size of a dimension is found.
pub(super) struct DimensionSource {
    /// The input.
    pub input: String,
    /// Its axis.
    pub axis: usize,
}

/// The forms of a value.
#[derive(Clone, Default)]
pub(super) struct Forms {
    /// The value as in the graph.
    pub plain: Option<String>,
    /// The images `[N, H, W, C]`, or their pixels in rows, `[N, H·W, C]`, with the channels first: `[N, C, ..]`.
    pub channels_first: Option<String>,
    /// The parameter that it is.
    pub parameter: Option<String>,
    /// The elements, which are the same in every run.
    pub known: Option<Arc<Array>>,
    /// The number that all its elements are.
    pub fill: Option<Polynomial>,
    /// What it repeats along new leading axes and axes of extent 1.
    pub narrow: Option<Narrow>,
}

/// What a value repeats.
#[derive(Clone)]
pub(super) enum Narrow {
    /// A value of the graph.
    Value(ValueId),
    /// A value of the file, with its extents.
    Written(String, Vec<Extent>),
}

/// Writes the nodes of a graph.
pub(super) struct Emitter<'a> {
    pub family: &'a Family,
    pub writer: Writer,
    pub opset: i64,
    pub values: Vec<Forms>,
    /// What several nodes share, by descriptions.
    pub shared: HashMap<String, String>,
    pub(super) dimensions: Vec<DimensionSource>,
    parameter: &'a dyn Fn(&str) -> Result<Vec<f32>>,
    /// The names of sizes that were computed.
    pub(super) computed_sizes: HashMap<Extent, String>,
    /// For each parameter, whether all that read it multiply by it transposed.
    only_transposed: HashMap<ValueId, bool>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        family: &'a Family,
        opset: i64,
        dimensions: Vec<DimensionSource>,
        parameter: &'a dyn Fn(&str) -> Result<Vec<f32>>,
        only_transposed: HashMap<ValueId, bool>,
    ) -> Emitter<'a> {
        let mut values = vec![Forms::default(); family.graph().values.len()];
        for (name, value) in family.parameters() {
            values[value.index()].parameter = Some(name.to_string());
        }
        Emitter {
            family,
            writer: Writer::default(),
            opset,
            values,
            shared: HashMap::new(),
            dimensions,
            parameter,
            computed_sizes: HashMap::new(),
            only_transposed,
        }
    }

    /// The node of the graph.
    pub(super) fn node(&self, node: usize) -> &'a Node {
        &self.family.graph().nodes[node]
    }

    /// The node that computes a value.
    pub(super) fn producer(&self, value: ValueId) -> Option<&'a Node> {
        let node = self.family.graph().producer(value)?;
        Some(self.node(node.index()))
    }

    /// The extents of a value.
    pub(super) fn shape(&self, value: ValueId) -> &'a [Extent] {
        self.family.shape(value)
    }

    /// The dtype of a value.
    pub(super) fn dtype(&self, value: ValueId) -> DType {
        self.family.graph().ty(value).dtype
    }

    /// A size that is always the same.
    pub(super) fn fixed(&self, size: i64) -> Extent {
        Extent::of(size, self.family.dimensions())
    }

    /// The element type of a value in the file.
    ///
    /// # Errors
    /// A dtype that the file cannot hold.
    pub(super) fn element(&self, dtype: DType) -> Result<i32> {
        let found = element_of(dtype).map(|(element, _)| element);
        found.ok_or_else(|| Error::user(format!("values of {} cannot be exported", dtype.name())))
    }

    /// Sets the written form of a value.
    pub(super) fn set(&mut self, value: ValueId, name: String) {
        self.values[value.index()].plain = Some(name);
    }

    /// Sets the written form of images with their channels first.
    pub(super) fn set_channels_first(&mut self, value: ValueId, name: String) {
        self.values[value.index()].channels_first = Some(name);
    }

    /// Makes a value another name of one before.
    pub(super) fn alias(&mut self, value: ValueId, of: ValueId) {
        let mut forms = self.values[of.index()].clone();
        if forms.parameter.is_some() {
            forms.parameter = None;
            forms.narrow = Some(Narrow::Value(of));
        }
        self.values[value.index()] = forms;
    }

    /// Makes a value one that another value repeats.
    pub(super) fn set_narrow(&mut self, value: ValueId, narrow: Narrow) {
        self.values[value.index()].narrow = Some(narrow);
    }

    /// The name of a value as in the graph.
    ///
    /// # Errors
    /// A parameter that cannot be read, a dtype that the file cannot hold.
    pub(super) fn plain(&mut self, value: ValueId) -> Result<String> {
        let forms = self.values[value.index()].clone();
        if let Some(name) = forms.plain {
            return Ok(name);
        }
        let name = if let Some(parameter) = forms.parameter {
            let shape = self.fixed_shape(value)?;
            self.writer.parameter(&parameter, &shape, false)
        } else if let Some(array) = forms.known {
            self.constant(&array)?
        } else if let Some(number) = &forms.fill {
            let shape = self.shape(value);
            let scalar = self.number(self.dtype(value), number)?;
            if shape.is_empty() {
                scalar
            } else {
                let shape = self.sizes(shape);
                self.writer.one("Expand", &[&scalar, &shape], vec![])
            }
        } else if let Some(narrow) = &forms.narrow {
            let (name, own) = self.narrow(narrow)?;
            if own == self.shape(value) {
                name
            } else {
                let shape = self.sizes(self.shape(value));
                self.writer.one("Expand", &[&name, &shape], vec![])
            }
        } else if let Some(images) = forms.channels_first {
            if self.is_one_pixel(value) {
                self.reshaped_from(&images, None, self.shape(value))
            } else {
                let rank = self.shape(value).len() as i64;
                let order: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
                self.writer.one("Transpose", &[&images], vec![ints("perm", &order)])
            }
        } else {
            return Err(Error::internal(format!("the value {value:?} was not written")));
        };
        self.values[value.index()].plain = Some(name.clone());
        Ok(name)
    }

    /// The name of images with their channels first.
    ///
    /// # Errors
    /// As [`Emitter::plain`].
    pub(super) fn channels_first(&mut self, value: ValueId) -> Result<String> {
        if let Some(name) = &self.values[value.index()].channels_first {
            return Ok(name.clone());
        }
        let plain = self.plain(value)?;
        let shape = self.shape(value);
        // The channels, which are last, move after the images.
        let order: Vec<usize> = [0, shape.len() - 1].into_iter().chain(1..shape.len() - 1).collect();
        let name = if self.is_one_pixel(value) {
            let shape: Vec<Extent> = order.iter().map(|axis| shape[*axis].clone()).collect();
            self.reshaped_from(&plain, None, &shape)
        } else {
            let order: Vec<i64> = order.into_iter().map(|axis| axis as i64).collect();
            self.writer.one("Transpose", &[&plain], vec![ints("perm", &order)])
        };
        self.values[value.index()].channels_first = Some(name.clone());
        Ok(name)
    }

    /// Whether a value is images whose channels were written first, and only so.
    pub(super) fn is_channels_first(&self, value: ValueId) -> bool {
        let forms = &self.values[value.index()];
        forms.channels_first.is_some() && forms.plain.is_none()
    }

    /// Whether images have one pixel each, so that the order of axes does not matter.
    pub(super) fn is_one_pixel(&self, value: ValueId) -> bool {
        match self.shape(value) {
            [_, pixels @ .., _] => !pixels.is_empty() && pixels.iter().all(Extent::is_one),
            _ => false,
        }
    }

    /// The name and the extents of what a value repeats.
    ///
    /// # Errors
    /// As [`Emitter::plain`].
    pub(super) fn narrow(&mut self, narrow: &Narrow) -> Result<(String, Vec<Extent>)> {
        match narrow {
            Narrow::Written(name, shape) => Ok((name.clone(), shape.clone())),
            Narrow::Value(value) => match self.values[value.index()].narrow.clone() {
                Some(inner) if self.values[value.index()].plain.is_none() => self.narrow(&inner),
                _ => Ok((self.plain(*value)?, self.shape(*value).to_vec())),
            },
        }
    }

    /// The number that all elements of a value are, where they are all one.
    pub(super) fn fill(&self, value: ValueId) -> Option<Polynomial> {
        let forms = &self.values[value.index()];
        match (&forms.fill, &forms.narrow) {
            (Some(number), _) => Some(number.clone()),
            (None, Some(Narrow::Value(inner))) => self.fill(*inner),
            _ => None,
        }
    }

    /// The number that all elements of a value are at all sizes.
    pub(super) fn constant_fill(&self, value: ValueId) -> Option<f64> {
        self.fill(value)?.constant()
    }

    /// Whether the elements of a value are few and the same in every run.
    pub(super) fn is_known(&self, value: ValueId) -> bool {
        let Some(shape) = self.family.fixed(value) else {
            return false;
        };
        let forms = &self.values[value.index()];
        let has_elements = forms.known.is_some()
            || forms.parameter.is_some()
            || forms.fill.as_ref().is_some_and(|number| number.constant().is_some())
            || matches!(forms.narrow, Some(Narrow::Value(inner)) if self.is_known(inner));
        has_elements && numel(&shape) <= MOST_COMPUTED
    }

    /// The elements of a value that are the same in every run, if they are few.
    ///
    /// # Errors
    /// A parameter that cannot be read.
    pub fn known(&mut self, value: ValueId) -> Result<Option<Arc<Array>>> {
        if !self.is_known(value) {
            return Ok(None);
        }
        let ty = Type::new(self.dtype(value), &self.fixed_shape(value)?);
        let forms = self.values[value.index()].clone();
        if let Some(array) = forms.known {
            return Ok(Some(array));
        }
        if let Some(name) = &forms.parameter {
            let data = (self.parameter)(name)?.into_iter().map(f64::from).collect();
            return Ok(Some(Arc::new(Array::new(ty, data))));
        }
        let array = if let Some(number) = forms.fill.as_ref().and_then(Polynomial::constant) {
            Array::full(ty, number)
        } else if let Some(Narrow::Value(inner)) = forms.narrow
            && let Some(inner) = self.known(inner)?
        {
            let shape = ty.shape.to_vec();
            evaluate_op(&Broadcast { shape }, &[&inner])?.swap_remove(0)
        } else {
            return Ok(None);
        };
        let array = Arc::new(array);
        self.values[value.index()].known = Some(array.clone());
        Ok(Some(array))
    }

    /// The name of an array that is the same in every run.
    ///
    /// # Errors
    /// A dtype that the file cannot hold.
    pub(super) fn constant(&mut self, array: &Array) -> Result<String> {
        let name = self.writer.array(array, "constant");
        name.ok_or_else(|| Error::user(format!("values of {} cannot be exported", array.ty.dtype.name())))
    }

    /// The extents of a value, which are the same at all sizes.
    ///
    /// # Errors
    /// Extents that depend on the dimensions.
    pub(super) fn fixed_shape(&self, value: ValueId) -> Result<Vec<usize>> {
        let found = self.family.fixed(value);
        found.ok_or_else(|| Error::internal("an extent that should not depend on the dimensions"))
    }

    /// The extent of a value's last axis, which is the same at all sizes.
    ///
    /// # Errors
    /// An extent that depends on the dimensions.
    pub(super) fn fixed_shape_of_last(&self, value: ValueId) -> Result<usize> {
        let last = self.shape(value).last().and_then(Extent::constant);
        let last = last.and_then(|last| usize::try_from(last).ok());
        last.ok_or_else(|| Error::internal("an extent that should not depend on the dimensions"))
    }

    /// The name of a parameter's matrix, transposed, and whether it was stored so; only where nothing reads it in its
    /// own order.
    pub(super) fn transposed_parameter(&mut self, value: ValueId) -> Result<Option<String>> {
        let Some(parameter) = self.values[value.index()].parameter.clone() else {
            return Ok(None);
        };
        if !self.only_transposed.get(&value).copied().unwrap_or(false) {
            return Ok(None);
        }
        let key = format!("transposed {parameter}");
        if let Some(name) = self.shared.get(&key) {
            return Ok(Some(name.clone()));
        }
        let shape = self.fixed_shape(value)?;
        let name = self.writer.parameter(&parameter, &shape, true);
        self.shared.insert(key, name.clone());
        Ok(Some(name))
    }

    /// What `make` writes, once for a description.
    ///
    /// # Errors
    /// The error of `make`.
    pub(super) fn once(&mut self, key: String, make: impl FnOnce(&mut Self) -> Result<String>) -> Result<String> {
        if let Some(name) = self.shared.get(&key) {
            return Ok(name.clone());
        }
        let name = make(self)?;
        self.shared.insert(key, name.clone());
        Ok(name)
    }

    /// The place of an axis of images, `[N, .., C]` with `rank` axes, where channels come first, `[N, C, ..]`.
    pub(super) fn axis_of_channels_first(axis: usize, rank: usize) -> i64 {
        let axis = match axis {
            0 => 0,
            _ if axis + 1 == rank => 1,
            _ => axis + 1,
        };
        axis as i64
    }
}

//! A call of an operator: its arguments by the names of its schema.

use lessen_base::{Error, Result};
use lessen_graph::{Array, DType, Tensor, TraceRef};
use lessen_nn::Cx;
use std::sync::Arc;

use crate::known::Known;
use crate::masks::Masks;
use crate::program::ExportedNode;
use crate::value::{Value, promoted, promoted_with};
use crate::window::Window;

/// What an operator makes of its arguments.
pub type Operator = fn(&mut Call<'_, '_>) -> Result<Value>;

/// Operators by their names without namespace and overload.
pub type Operators = &'static [(&'static str, Operator)];

/// A call of an operator.
pub struct Call<'a, 'p> {
    pub(crate) surroundings: &'a mut Surroundings,
    pub(crate) node: &'p ExportedNode,
    pub(crate) arguments: Vec<(&'p str, Value)>,
}

/// What all calls of a trace share.
pub struct Surroundings {
    /// The context.
    pub cx: Cx,
    /// Elements that follow from constants.
    pub known: Known,
    /// Parts of masks.
    pub masks: Masks,
    /// How parts of the program are traced where there are several ways.
    pub notes: Vec<String>,
    /// The window that the last operator took of its tensor.
    pub window: Option<Window>,
}

impl Surroundings {
    /// Nothing is known of the trace of a context.
    pub fn new(cx: Cx) -> Surroundings {
        Surroundings {
            cx,
            known: Known::new(cx.trace()),
            masks: Masks::default(),
            notes: Vec::new(),
            window: None,
        }
    }
}

/// A result of one tensor.
pub fn one(tensor: Tensor) -> Result<Value> {
    Ok(Value::Tensor(tensor))
}

/// A result of several tensors.
pub fn several(tensors: impl IntoIterator<Item = Tensor>) -> Result<Value> {
    Ok(Value::List(tensors.into_iter().map(Value::Tensor).collect()))
}

impl Call<'_, '_> {
    /// The context.
    pub fn cx(&self) -> Cx {
        self.surroundings.cx
    }

    /// The trace.
    pub fn trace(&self) -> TraceRef {
        self.surroundings.cx.trace()
    }

    /// A refusal of what Lessen does not have.
    pub fn lacks<T>(&self, what: &str) -> Result<T> {
        Err(Error::user(format!("Lessen does not have {what}")))
    }

    /// The value of an argument; absent where it is not given.
    pub fn value(&self, name: &str) -> Value {
        let found = self.arguments.iter().find(|(own, _)| *own == name);
        found.map_or(Value::Absent, |(_, value)| value.clone())
    }

    /// Whether an argument is given.
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.value(name), Value::Absent)
    }

    /// An argument that is a tensor; a number becomes one.
    ///
    /// # Errors
    /// Another argument, or none.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let full = |dtype, number| self.trace().full(dtype, &[], number);
        match self.value(name) {
            Value::Tensor(tensor) => Ok(tensor),
            Value::Bool(truth) => Ok(full(DType::Bool, f64::from(u8::from(truth)))),
            Value::Int(number) => Ok(full(DType::I32, number as f64)),
            Value::Float(number) => Ok(full(DType::F32, number)),
            _ => self.lacks(&format!("this operator without the tensor `{name}`")),
        }
    }

    /// The tensor that an operator works on.
    ///
    /// # Errors
    /// As [`Call::tensor`].
    pub fn x(&self) -> Result<Tensor> {
        self.tensor(if self.has("self") { "self" } else { "input" })
    }

    /// The same as floats.
    ///
    /// # Errors
    /// As [`Call::tensor`].
    pub fn float_x(&self) -> Result<Tensor> {
        let x = self.x()?;
        Ok(if x.dtype().is_float() { x } else { x.cast(DType::F32) })
    }

    /// An argument that is a tensor, if it is given.
    ///
    /// # Errors
    /// As [`Call::tensor`].
    pub fn optional(&self, name: &str) -> Result<Option<Tensor>> {
        self.has(name).then(|| self.tensor(name)).transpose()
    }

    /// An argument that is a list of tensors.
    ///
    /// # Errors
    /// Another argument, or none.
    pub fn tensors(&self, name: &str) -> Result<Vec<Tensor>> {
        let Value::List(values) = self.value(name) else {
            return self.lacks(&format!("this operator without the tensors `{name}`"));
        };
        let tensor = |value| match value {
            Value::Tensor(tensor) => Ok(tensor),
            _ => self.lacks(&format!("something else than tensors in `{name}`")),
        };
        values.into_iter().map(tensor).collect()
    }

    /// An argument that is a number; `default` where it is not given.
    ///
    /// # Errors
    /// A number that depends on the batch's values.
    pub fn float(&mut self, name: &str, default: f64) -> Result<f64> {
        match self.value(name) {
            Value::Absent => Ok(default),
            value => match (value.number(), value) {
                (Some(number), _) => Ok(number),
                (None, Value::Tensor(tensor)) if tensor.ty().numel() == 1 => self.item(tensor),
                _ => self.lacks(&format!("this operator with such a `{name}`")),
            },
        }
    }

    /// An argument that is a whole number; `default` where it is not given.
    ///
    /// # Errors
    /// A number that depends on the batch's values, or is no whole one.
    pub fn int(&mut self, name: &str, default: i64) -> Result<i64> {
        let number = self.float(name, default as f64)?;
        if number.fract() == 0.0 {
            Ok(number as i64)
        } else {
            self.lacks(&format!("this operator with the number {number} as `{name}`"))
        }
    }

    /// An argument that is a size.
    ///
    /// # Errors
    /// As [`Call::int`]; a negative number.
    pub fn size(&mut self, name: &str, default: usize) -> Result<usize> {
        let number = self.int(name, default as i64)?;
        usize::try_from(number).or_else(|_| self.lacks(&format!("this operator with the number {number} as `{name}`")))
    }

    /// An argument that is a truth value; false where it is not given.
    pub fn truth(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    /// An argument that is a word.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The dtype that an argument names; of a tensor, its own.
    pub fn dtype(&self, name: &str) -> Option<DType> {
        match self.value(name) {
            Value::DType(dtype) => Some(dtype),
            Value::Tensor(tensor) => Some(tensor.dtype()),
            _ => None,
        }
    }

    /// An argument that is a list of whole numbers, or one.
    ///
    /// # Errors
    /// Numbers that depend on the batch's values.
    pub fn ints(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        let values = match self.value(name) {
            Value::Absent => return Ok(None),
            Value::List(values) => values,
            value => vec![value],
        };
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            numbers.push(match (value.number(), value) {
                (Some(number), _) => number as i64,
                (None, Value::Tensor(tensor)) if tensor.ty().numel() == 1 => self.item(tensor)? as i64,
                _ => return self.lacks(&format!("extents in `{name}` that depend on the batch")),
            });
        }
        Ok(Some(numbers))
    }

    /// An argument that is a list of sizes, or one.
    ///
    /// # Errors
    /// As [`Call::ints`]; negative numbers.
    pub fn sizes(&mut self, name: &str) -> Result<Vec<usize>> {
        let numbers = self.ints(name)?.unwrap_or_default();
        let sizes: Option<Vec<usize>> = numbers.iter().map(|&n| usize::try_from(n).ok()).collect();
        sizes.map_or_else(
            || self.lacks(&format!("this operator with {numbers:?} as `{name}`")),
            Ok,
        )
    }

    /// Two sizes, of which one stands for both; `default` where they are not given.
    ///
    /// # Errors
    /// As [`Call::sizes`]; more than two.
    pub fn pair(&mut self, name: &str, default: [usize; 2]) -> Result<[usize; 2]> {
        match self.sizes(name)?[..] {
            [] => Ok(default),
            [both] => Ok([both; 2]),
            [height, width] => Ok([height, width]),
            _ => self.lacks(&format!("windows of more than two axes in `{name}`")),
        }
    }

    /// An axis that may count from the end.
    ///
    /// # Errors
    /// An axis beyond `rank`.
    pub fn axis_of(&self, axis: i64, rank: usize) -> Result<usize> {
        let rank = rank.max(1) as i64;
        let own = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&own) {
            Ok(own as usize)
        } else {
            self.lacks(&format!("the axis {axis} of a tensor of {rank} axes"))
        }
    }

    /// An argument that is an axis of a tensor with `rank` axes.
    ///
    /// # Errors
    /// As [`Call::axis_of`].
    pub fn axis(&mut self, name: &str, default: i64, rank: usize) -> Result<usize> {
        let axis = self.int(name, default)?;
        self.axis_of(axis, rank)
    }

    /// An argument that is a list of axes in ascending order; all of them where it is absent or empty.
    ///
    /// # Errors
    /// As [`Call::axis_of`].
    pub fn axes(&mut self, name: &str, rank: usize) -> Result<Vec<usize>> {
        let given = self.ints(name)?.filter(|axes| !axes.is_empty());
        let Some(given) = given else {
            return Ok((0..rank).collect());
        };
        if rank == 0 {
            return Ok(Vec::new());
        }
        let mut axes = given
            .iter()
            .map(|axis| self.axis_of(*axis, rank))
            .collect::<Result<Vec<usize>>>()?;
        axes.sort_unstable();
        Ok(axes)
    }

    /// The elements of a tensor, where they follow from constants alone.
    pub fn known(&mut self, tensor: Tensor) -> Option<Arc<Array>> {
        self.surroundings.known.of(tensor)
    }

    /// The number that a tensor of one element is.
    ///
    /// # Errors
    /// A number that depends on parameters or on the batch.
    pub fn item(&mut self, tensor: Tensor) -> Result<f64> {
        match self.known(tensor) {
            Some(array) => Ok(array.item()),
            None => self.lacks("numbers of Python that depend on parameters or on the batch's values"),
        }
    }

    /// Two arguments as tensors of one dtype, by PyTorch's rules.
    ///
    /// # Errors
    /// As [`Call::tensor`].
    pub fn both(&self, a: &str, b: &str) -> Result<(Tensor, Tensor)> {
        let (of_a, of_b) = (self.value(a), self.value(b));
        let as_number = |x: Tensor, number: &Value| {
            let dtype = promoted_with(x.dtype(), number);
            self.trace().full(dtype, &[], number.number().unwrap_or_default())
        };
        let (x, y) = match (&of_a, &of_b) {
            (Value::Tensor(x), Value::Tensor(y)) => (*x, *y),
            (Value::Tensor(x), number) if number.number().is_some() => (*x, as_number(*x, number)),
            (number, Value::Tensor(y)) if number.number().is_some() => (as_number(*y, number), *y),
            _ => (self.tensor(a)?, self.tensor(b)?),
        };
        let dtype = promoted(x, y);
        Ok((x.cast(dtype), y.cast(dtype)))
    }

    /// Says how something is traced, for plans.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = format!("{}{}", note.into(), self.node.place());
        if !self.surroundings.notes.contains(&note) {
            self.surroundings.notes.push(note);
        }
    }
}

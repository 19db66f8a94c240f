//! Operations of several ranks in a compiled program: one that begins the exchange of messages, and one that ends it.

use std::fmt::Debug;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::{Attr, Attrs};
use crate::op::{Cost, OnSlices, Op, OutRole, Role, Row, RowKernel, RowMut, RowWise};
use crate::ranks::Ranks;
use crate::types::{DType, Type};

/// Bytes of the arrays whose exchange a program has begun and not ended, unless it has begun no more than two.
pub const MOST_UNDER_WAY: usize = 16 << 20;

/// Estimated seconds of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Seconds for which its messages keep the network busy.
    pub sending: f64,
    /// Seconds from then until the last one has arrived.
    pub latency: f64,
}

/// What carries the messages of operations of several ranks while a program runs. All ranks begin and end the same
/// operations in one order, with at most [`MOST_UNDER_WAY`] bytes under way.
///
/// A carrier that fails gives arbitrary elements and tells the failure to who runs the program.
pub trait Carrier: Debug + Send + Sync {
    /// Begins operation number `number` of a program on this rank's inputs, of which it may send a part.
    fn begin(&self, number: usize, op: &dyn Op, inputs: &[&[f32]]);

    /// Ends an operation that was begun: the same inputs are there, and the output is written.
    fn end(&self, number: usize, op: &dyn Op, inputs: &[&[f32]], output: &mut [f32]);

    /// Estimated seconds of the exchange of an operation on inputs of these types, by which plans decide what is
    /// computed meanwhile. All ranks estimate the same.
    fn transfer(&self, _op: &dyn Op, _inputs: &[Type], _output: &Type) -> Transfer {
        Transfer::default()
    }
}

/// An operation of several ranks that a program begins. Inputs: those of the operation, which are `f32`, and then
/// tokens of what comes before, `f32[1]`. The output is a token.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The operation.
    pub op: Arc<dyn Op>,
    /// Its number in the program.
    pub number: usize,
    /// The number of its inputs.
    pub inputs: usize,
    /// What carries its messages.
    pub carrier: Arc<dyn Carrier>,
}

/// An operation of several ranks that a program ends. Inputs: those of the operation, and then tokens. Outputs: that of
/// the operation, and a token.
#[derive(Clone, Debug)]
pub struct Ended(pub Begun);

/// The type of a token, which orders operations and says nothing.
fn token() -> Type {
    Type::new(DType::F32, &[1])
}

impl PartialEq for Begun {
    fn eq(&self, other: &Begun) -> bool {
        self.number == other.number
            && self.inputs == other.inputs
            && self.op.same(other.op.as_ref())
            && Arc::ptr_eq(&self.carrier, &other.carrier)
    }
}

impl PartialEq for Ended {
    fn eq(&self, other: &Ended) -> bool {
        self.0 == other.0
    }
}

impl Begun {
    /// The types of the operation's inputs and of its output.
    ///
    /// # Errors
    /// Other inputs; an operation of several outputs, or of others than `f32`.
    fn checked(&self, inputs: &[Type]) -> Result<(Vec<Type>, Type)> {
        let (own, tokens) = inputs.split_at_checked(self.inputs).unwrap_or((inputs, &[]));
        let outputs = self.op.infer(own)?;
        match outputs.as_slice() {
            [output]
                if own.len() == self.inputs
                    && tokens.iter().all(|ty| *ty == token())
                    && own.iter().chain([output]).all(|ty| ty.dtype == DType::F32) =>
            {
                Ok((own.to_vec(), output.clone()))
            }
            _ => Err(Error::user(format!(
                "`{}` is carried between ranks with inputs and one output of f32, not from {inputs:?} to {outputs:?}",
                self.op.name()
            ))),
        }
    }

    /// Estimated seconds of its exchange; none for other inputs than its own.
    pub fn transfer(&self, inputs: &[Type]) -> Option<Transfer> {
        let (inputs, output) = self.checked(inputs).ok()?;
        Some(self.carrier.transfer(self.op.as_ref(), &inputs, &output))
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("of", Attr::Word(self.op.name().to_string()))
            .with("number", Attr::Int(self.number as i64))
            .with("inputs", Attr::Int(self.inputs as i64))
    }

    /// All inputs and outputs as one row, so that a kernel of rows sees the whole of them.
    fn as_one_row(inputs: &[Type], outputs: &[Type]) -> RowWise {
        let (roles, out) = (vec![Role::Whole; inputs.len()], vec![OutRole::Rows; outputs.len()]);
        RowWise::by_rows(1, &roles, &out)
    }

    fn slices<'a>(&self, inputs: &[Row<'a>]) -> Vec<&'a [f32]> {
        inputs.iter().take(self.inputs).map(|row| row.f32()).collect()
    }

    /// The elements of arrays as `f32`, as a device without kernels of rows has them.
    fn elements(&self, inputs: &[&Array]) -> Vec<Vec<f32>> {
        let own = inputs.iter().take(self.inputs);
        own.map(|array| array.data.iter().map(|x| *x as f32).collect())
            .collect()
    }
}

/// Elements as an array.
fn array(ty: &Type, data: &[f32]) -> Array {
    Array::new(ty.clone(), data.iter().map(|x| f64::from(*x)).collect())
}

impl Op for Begun {
    fn name(&self) -> &'static str {
        "begin"
    }

    fn attrs(&self) -> Attrs {
        self.attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        self.checked(inputs)?;
        Ok(vec![token()])
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        let own = self.elements(inputs);
        let own: Vec<&[f32]> = own.iter().map(Vec::as_slice).collect();
        self.carrier.begin(self.number, self.op.as_ref(), &own);
        vec![array(&token(), &[0.0])]
    }

    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        Begun::as_one_row(inputs, outputs)
    }

    fn on_slices(&self, _: (usize, usize), _: &[Type], _: &[Type]) -> OnSlices {
        OnSlices::No
    }

    fn ranks(&self) -> Option<Ranks> {
        self.op.ranks()
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let own = self.clone();
        Some(RowKernel::new(move |inputs, outputs: &mut [RowMut<'_>]| {
            let slices = own.slices(inputs);
            own.carrier.begin(own.number, own.op.as_ref(), &slices);
            outputs[0].f32().fill(0.0);
        }))
    }

    fn cost(&self, _: &[Type], _: &[Type]) -> Cost {
        Cost::default()
    }
}

impl Op for Ended {
    fn name(&self) -> &'static str {
        "end"
    }

    fn attrs(&self) -> Attrs {
        self.0.attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let (_, output) = self.0.checked(inputs)?;
        Ok(vec![output, token()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let own = self.0.elements(inputs);
        let own: Vec<&[f32]> = own.iter().map(Vec::as_slice).collect();
        let mut output = vec![0.0; outputs[0].numel()];
        self.0.carrier.end(self.0.number, self.0.op.as_ref(), &own, &mut output);
        vec![array(&outputs[0], &output), array(&token(), &[0.0])]
    }

    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        Begun::as_one_row(inputs, outputs)
    }

    fn on_slices(&self, _: (usize, usize), _: &[Type], _: &[Type]) -> OnSlices {
        OnSlices::No
    }

    fn ranks(&self) -> Option<Ranks> {
        self.0.op.ranks()
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let own = self.0.clone();
        Some(RowKernel::new(move |inputs, outputs: &mut [RowMut<'_>]| {
            let slices = own.slices(inputs);
            if let [output, token] = outputs {
                own.carrier.end(own.number, own.op.as_ref(), &slices, output.f32());
                token.f32().fill(0.0);
            }
        }))
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        match self.0.checked(inputs) {
            Ok((inputs, output)) => self.0.op.cost(&inputs, &[output]),
            Err(_) => Cost::default(),
        }
    }
}

//! The arrays that functions of single numbers take.

use std::borrow::Cow;

use lessen_base::Result;

use crate::operators::broadcast::Broadcast;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostTensor, Number, Typed};

/// The error of elements that an operator is not for.
pub(super) fn no_type<T>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<T> {
    let name = tensor.data().type_name();
    call.refused(format!("{} takes no elements of the type {name}", call.node.op_type))
}

/// The elements of data, which must have the type of others.
///
/// # Errors
/// Another type.
pub(super) fn same<'d, T: Typed>(call: &HostCall<'_>, _like: &[T], data: &'d Data) -> Result<&'d [T]> {
    match T::of(data) {
        Some(all) => Ok(all),
        None => differing(call),
    }
}

/// Checks that two arrays have one type.
///
/// # Errors
/// Two types.
pub(super) fn alike(call: &HostCall<'_>, a: &HostTensor, b: &HostTensor) -> Result<()> {
    if a.element() == b.element() {
        Ok(())
    } else {
        differing(call)
    }
}

/// The error of inputs of several types.
fn differing<T>(call: &HostCall<'_>) -> Result<T> {
    let inputs = call.inputs.iter().flatten();
    let types: Vec<&str> = inputs
        .filter_map(|value| Some(value.tensor()?.data().type_name()))
        .collect();
    call.refused(format!("its inputs have the types {}", types.join(", ")))
}

/// The two arrays of an operator and how their elements meet. Before version 7 the attributes `broadcast` and `axis`
/// say where the second array's extents are.
pub(super) struct Pair<'c> {
    /// The first array.
    pub a: &'c HostTensor,
    /// The second array.
    pub b: &'c HostTensor,
    /// How they meet.
    pub both: Broadcast<2>,
}

/// The first two inputs.
///
/// # Errors
/// Inputs that are missing or whose extents do not go together.
pub(super) fn pair<'c>(call: &'c HostCall<'_>) -> Result<Pair<'c>> {
    let (a, b) = (&**call.tensor(0)?, &**call.tensor(1)?);
    let mut shape = b.shape().to_vec();
    if call.opset < 7 {
        if call.int("broadcast", 0) == 0 {
            if a.shape() != b.shape() {
                let shapes = [a.shape(), b.shape()];
                return call.refused(format!(
                    "it does not broadcast, but its inputs have the extents {shapes:?}"
                ));
            }
        } else if call.attribute("axis").is_some() {
            let axis = call.axis(call.int("axis", 0), a.rank().max(1))?;
            let missing = a.rank().saturating_sub(axis + shape.len());
            shape.extend(std::iter::repeat_n(1, missing));
        }
    }
    let both = Broadcast::of([a.shape(), &shape])?;
    Ok(Pair { a, b, both })
}

impl Pair<'_> {
    /// The elements of both, which must be numbers of one type; floats of 16 bits as such of 32.
    ///
    /// # Errors
    /// Elements that are no numbers, two types.
    pub(super) fn numbers(&self, call: &HostCall<'_>) -> Result<[Cow<'_, Data>; 2]> {
        match self.a.element() {
            None | Some(Element::Bool | Element::Narrow(_)) => no_type(call, self.a),
            Some(_) => {
                alike(call, self.a, self.b)?;
                Ok([self.a, self.b].map(|tensor| widened(tensor.data())))
            }
        }
    }

    /// The array of results that were computed of [`Pair::numbers`].
    ///
    /// # Errors
    /// Another number of results than the extents have.
    pub(super) fn result(&self, data: Data) -> Result<HostTensor> {
        let data = match self.a.element() {
            Some(element @ (Element::F16 | Element::BF16)) => data.cast(element),
            _ => data,
        };
        HostTensor::new(self.both.shape(), data)
    }
}

/// Floats of 16 bits as such of 32 bits, and other elements as they are.
pub(super) fn widened(data: &Data) -> Cow<'_, Data> {
    match data {
        Data::F16(_) | Data::BF16(_) => Cow::Owned(data.cast(Element::F32)),
        other => Cow::Borrowed(other),
    }
}

/// Computes `f` of each pair of numbers of two arrays of one type: `binary!(call, each_wide, |x, y| expression)`.
macro_rules! binary {
    ($call:expr, $each:ident, $f:expr) => {{
        let call = $call;
        let pair = $crate::operators::elementwise::operands::pair(call)?;
        let [a, b] = pair.numbers(call)?;
        lessen_onnx::host::$each!(&*a, a => {
            let b = $crate::operators::elementwise::operands::same(call, a, &b)?;
            lessen_onnx::host::one(pair.result(pair.both.map(a, b, $f).into())?)
        }, else $crate::operators::elementwise::operands::no_type(call, pair.a))
    }};
}
pub(super) use binary;

/// The same where integers of one width have the same bits in the result, whatever their signs.
macro_rules! wrapping {
    ($call:expr, $f:expr) => {{
        let call = $call;
        let pair = $crate::operators::elementwise::operands::pair(call)?;
        let [a, b] = pair.numbers(call)?;
        fn cells<'d, T: lessen_onnx::host::Cell>(_like: &[T], data: &'d lessen_onnx::host::Data) -> &'d [T] {
            T::of(data).unwrap_or_default()
        }
        let results = match (&*a, &*b) {
            (lessen_onnx::host::Data::F32(a), lessen_onnx::host::Data::F32(b)) => pair.both.map(a, b, $f).into(),
            (lessen_onnx::host::Data::F64(a), lessen_onnx::host::Data::F64(b)) => pair.both.map(a, b, $f).into(),
            (a, b) => match lessen_onnx::host::Cells::of(a) {
                lessen_onnx::host::Cells::One(a, of_cells) => of_cells(pair.both.map(a, cells(a, b), $f)),
                lessen_onnx::host::Cells::Two(a, of_cells) => of_cells(pair.both.map(a, cells(a, b), $f)),
                lessen_onnx::host::Cells::Four(a, of_cells) => of_cells(pair.both.map(a, cells(a, b), $f)),
                lessen_onnx::host::Cells::Eight(a, of_cells) => of_cells(pair.both.map(a, cells(a, b), $f)),
                lessen_onnx::host::Cells::Texts(..) => {
                    return $crate::operators::elementwise::operands::no_type(call, pair.a);
                }
            },
        };
        lessen_onnx::host::one(pair.result(results)?)
    }};
}
pub(super) use wrapping;

/// Computes `f` of each element of an array: `unary!(call, each_number, |x| expression)`.
macro_rules! unary {
    ($call:expr, $each:ident, $f:expr) => {{
        let call = $call;
        let tensor = call.tensor(0)?;
        lessen_onnx::host::$each!(tensor.data(), all => {
            let results = $crate::operators::elementwise::operands::map(all, $f);
            lessen_onnx::host::one(lessen_onnx::host::HostTensor::new(tensor.shape(), results)?)
        }, else $crate::operators::elementwise::operands::no_type(call, tensor))
    }};
}
pub(super) use unary;

/// `f` of each element.
pub(super) fn map<A: Copy, B>(all: &[A], f: impl Fn(A) -> B) -> Vec<B> {
    all.iter().map(|x| f(*x)).collect()
}

/// Whether zero is among the elements.
pub(super) fn has_zero<T: Number>(all: &[T]) -> bool {
    all.contains(&T::ZERO)
}

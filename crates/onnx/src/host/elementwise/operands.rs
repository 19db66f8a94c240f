//! The arrays that functions of single numbers take.

use lessen_base::Result;

use crate::host::{Broadcast, HostCall, HostTensor, Number, Typed};

/// The error of elements that an operator is not for.
pub(super) fn no_type<T>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<T> {
    let name = tensor.data().type_name();
    call.refused(format!("{} takes no elements of the type {name}", call.node.op_type))
}

/// The elements of an array, which must have the type of others.
///
/// # Errors
/// Another type.
pub(super) fn same<'t, T: Typed>(call: &HostCall<'_>, _like: &[T], tensor: &'t HostTensor) -> Result<&'t [T]> {
    match T::of(tensor.data()) {
        Some(all) => Ok(all),
        None => {
            let types: Vec<&str> = call
                .inputs
                .iter()
                .flatten()
                .filter_map(|value| Some(value.tensor()?.data().type_name()))
                .collect();
            call.refused(format!("its inputs have the types {}", types.join(", ")))
        }
    }
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

/// Computes `f` of each pair of elements of two arrays of one type: `binary!(call, each_number, |x, y| expression)`.
macro_rules! binary {
    ($call:expr, $each:ident, $f:expr) => {{
        let call = $call;
        let pair = $crate::host::elementwise::operands::pair(call)?;
        $crate::host::$each!(pair.a.data(), a => {
            let b = $crate::host::elementwise::operands::same(call, a, pair.b)?;
            $crate::host::one($crate::host::HostTensor::new(pair.both.shape(), pair.both.map(a, b, $f))?)
        }, else $crate::host::elementwise::operands::no_type(call, pair.a))
    }};
}
pub(super) use binary;

/// Computes `f` of each element of an array: `unary!(call, each_number, |x| expression)`.
macro_rules! unary {
    ($call:expr, $each:ident, $f:expr) => {{
        let call = $call;
        let tensor = call.tensor(0)?;
        $crate::host::$each!(tensor.data(), all => {
            let results = $crate::host::elementwise::operands::map(all, $f);
            $crate::host::one($crate::host::HostTensor::new(tensor.shape(), results)?)
        }, else $crate::host::elementwise::operands::no_type(call, tensor))
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

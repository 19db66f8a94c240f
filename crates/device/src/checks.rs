//! Checks of arrays that a device is given: of inputs and of states. A device that is given anything else than what its
//! plan or its state declares refuses it with a sentence, before anything has changed.

use lessen_base::{Error, Result};
use lessen_graph::{Array, DType, Type};

use crate::host_array::HostArray;
use lessen_graph::Host;

/// The data for an input of this name and type among the arrays that a run is given.
///
/// # Errors
/// An input that is missing, has another dtype or another number of elements, and a truth value that is neither 0 nor
/// 1.
pub fn given_input<'a>(name: &str, ty: &Type, data: &[(&str, Host<'a>)]) -> Result<Host<'a>> {
    let Some((_, host)) = data.iter().find(|(given, _)| *given == name) else {
        return Err(Error::user(format!("no data is given for the input `{name}`")));
    };
    if host.dtype() != ty.dtype || host.len() != ty.numel() {
        let (has, n) = (host.dtype().name(), host.len());
        return Err(Error::user(format!(
            "the input `{name}` takes {ty}, not {n} elements of {has}"
        )));
    }
    check_truth(&format!("the input `{name}`"), 0, host)?;
    Ok(*host)
}

/// Checks that an array is copied over elements of a state from number `first` on.
///
/// # Errors
/// Another dtype than the state's, a state that ends sooner, and a truth value that is neither 0 nor 1.
pub fn check_upload(state: &str, ty: &Type, first: usize, data: &Host<'_>) -> Result<()> {
    let end = first.checked_add(data.len());
    if data.dtype() != ty.dtype || end.is_none_or(|end| end > ty.numel()) {
        return Err(unfit(state, ty, data));
    }
    check_truth(&format!("the state `{state}`"), first, data)
}

/// Checks that an array has as many elements as a state.
///
/// # Errors
/// Another number of elements.
pub fn check_whole_upload(state: &str, ty: &Type, data: &Host<'_>) -> Result<()> {
    if data.len() == ty.numel() {
        Ok(())
    } else {
        Err(unfit(state, ty, data))
    }
}

/// Checks that a state has the type that a program declares.
///
/// # Errors
/// A state that is not allocated, and one of another type.
pub fn check_state(name: &str, declared: &Type, found: Option<&Type>) -> Result<()> {
    match found {
        Some(found) if found == declared => Ok(()),
        Some(found) => Err(Error::user(format!(
            "the state `{name}` must have type {declared}, not {found}"
        ))),
        None => Err(Error::user(format!(
            "the state `{name}` of type {declared} is not allocated; allocate it before the run"
        ))),
    }
}

/// Bytes of a state or result of this type.
///
/// # Errors
/// A type whose size cannot be counted.
pub fn checked_bytes(what: &str, ty: &Type) -> Result<usize> {
    ty.checked_bytes()
        .ok_or_else(|| Error::user(format!("{what} of type {ty} is too large; choose smaller extents")))
}

/// Checks that the reference evaluation of an operation on these types can have its arrays of `f64`.
///
/// # Errors
/// A value that the memory does not hold in `f64`.
pub fn check_evaluation<'a>(types: impl IntoIterator<Item = &'a Type>) -> Result<()> {
    for ty in types {
        let elements = ty.checked_bytes().map(|_| ty.numel());
        let fits = elements.is_some_and(|n| Vec::<f64>::new().try_reserve_exact(n).is_ok());
        if !fits {
            return Err(Error::user(format!(
                "the memory does not hold a value of type {ty} that is evaluated on the host; choose a smaller one"
            )));
        }
    }
    Ok(())
}

/// An array of a type as the reference evaluator takes it.
pub fn evaluator_array(ty: &Type, host: Host<'_>) -> Array {
    Array::new(ty.clone(), host.elements().collect())
}

/// An array of the reference evaluator in the dtype of its type.
pub fn rounded_array(array: &Array) -> HostArray {
    HostArray::of(array.ty.dtype, &array.data)
}

fn unfit(state: &str, ty: &Type, data: &Host<'_>) -> Error {
    let (has, n) = (data.dtype().name(), data.len());
    Error::user(format!("the state `{state}` takes {ty}, not {n} elements of {has}"))
}

/// Checks that truth values are 0 or 1; `first` is the number of the first one.
fn check_truth(what: &str, first: usize, data: &Host<'_>) -> Result<()> {
    let Host::Bool(values) = data else {
        return Ok(());
    };
    match values.iter().position(|&value| value > 1) {
        Some(i) => Err(Error::user(format!(
            "{what} holds {} as element {} of {}, but a truth value is 0 or 1",
            values[i],
            first + i,
            DType::Bool.name()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_value_that_is_neither_0_nor_1_is_refused_with_its_place() {
        let ty = Type::new(DType::Bool, &[4]);
        let given = |values| given_input("mask", &ty, &[("mask", Host::Bool(values))]).map(|_| ());
        assert_eq!(given(&[0, 1, 1, 0]), Ok(()));
        let error = given(&[0, 1, 2, 0]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("`mask` holds 2 as element 2"), "{error}");
        let error = check_upload("mask", &ty, 1, &Host::Bool(&[1, 255]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("`mask` holds 255 as element 2"), "{error}");
        assert_eq!(check_upload("mask", &ty, 1, &Host::Bool(&[1, 0])), Ok(()));
    }

    #[test]
    fn sizes_that_cannot_be_counted_are_errors() {
        for shape in [&[1usize << 62][..], &[1 << 40, 1 << 40], &[usize::MAX, 2]] {
            let ty = Type::f32(shape);
            assert!(checked_bytes("the state `w`", &ty).is_err(), "{ty}");
            assert!(check_evaluation([&ty]).is_err(), "{ty}");
        }
        assert_eq!(checked_bytes("the state `w`", &Type::f32(&[3, 0])), Ok(0));
        // More than any address space.
        assert!(check_evaluation([&Type::f32(&[1 << 50])]).is_err());
    }

    #[test]
    fn an_array_beyond_a_state_is_refused() {
        let ty = Type::f32(&[3]);
        let data = Host::F32(&[1.0, 2.0]);
        assert_eq!(check_upload("w", &ty, 1, &data), Ok(()));
        for first in [2, usize::MAX] {
            assert!(check_upload("w", &ty, first, &data).is_err());
        }
        assert!(check_whole_upload("w", &ty, &data).is_err());
    }
}

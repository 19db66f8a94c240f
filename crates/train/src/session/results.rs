//! Results of functions.

use lessen_base::{Error, Result};
use lessen_device::{Host, HostArray};
use std::sync::Arc;

/// The results of a run of a function. They stay what they are, whatever runs afterwards.
#[derive(Clone, Debug)]
pub struct Results {
    arrays: Vec<(String, Arc<HostArray>)>,
}

impl Results {
    pub(super) fn new(arrays: Vec<(String, Arc<HostArray>)>) -> Results {
        Results { arrays }
    }

    /// Names of all results, in the order in which the function returned them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|(name, _)| name.as_str())
    }

    /// The results whose names end in `end`, by their names without it.
    pub(crate) fn that_end_in(&self, end: &str) -> Results {
        let own = self.arrays.iter();
        let own = own.filter_map(|(name, array)| Some((name.strip_suffix(end)?.to_string(), array.clone())));
        Results { arrays: own.collect() }
    }

    /// A result by name, in row-major order.
    ///
    /// # Errors
    /// A name that no result has.
    pub fn get(&self, name: &str) -> Result<Host<'_>> {
        match self.arrays.iter().find(|(own, _)| own == name) {
            Some((_, array)) => Ok(array.host()),
            None => {
                let names: Vec<&str> = self.names().collect();
                Err(Error::user(format!(
                    "the function has no result `{name}`; it has {}",
                    names.join(", ")
                )))
            }
        }
    }

    /// A result of dtype `f32` by name, in row-major order.
    ///
    /// # Errors
    /// A name that no result has, and a result of another dtype.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        let host = self.get(name)?;
        host.as_f32().ok_or_else(|| {
            let dtype = host.dtype().name();
            Error::user(format!(
                "the result `{name}` is {dtype}, not f32; read it with `get`, or return it with `.cast(DType::F32)`"
            ))
        })
    }

    /// A result of one element of any float dtype.
    ///
    /// # Errors
    /// A name that no result has, a result of another dtype, and one of no element or several.
    pub fn scalar(&self, name: &str) -> Result<f64> {
        let host = self.get(name)?;
        let mut elements = host.elements();
        match (host.dtype().is_float(), host.len(), elements.next()) {
            (true, 1, Some(value)) => Ok(value),
            (is_float, count, _) => {
                let dtype = host.dtype().name();
                let what = if is_float {
                    format!("has {count} elements")
                } else {
                    format!("is {dtype}, no float")
                };
                Err(Error::user(format!("the result `{name}` {what}; read it with `get`")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let arrays = [
            ("f32", HostArray::F32(vec![0.5])),
            ("f64", HostArray::F64(vec![0.25])),
            ("bf16", HostArray::BF16(vec![0x3FC0])),
            ("i32", HostArray::I32(vec![3])),
            ("two", HostArray::F32(vec![1.0, 2.0])),
            ("none", HostArray::F32(vec![])),
        ];
        Results::new(arrays.map(|(name, array)| (name.to_string(), Arc::new(array))).to_vec())
    }

    #[test]
    fn a_scalar_is_read_from_every_float_dtype() {
        let results = results();
        for (name, expected) in [("f32", 0.5), ("f64", 0.25), ("bf16", 1.5)] {
            assert_eq!(results.scalar(name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_a_result_is_not_is_an_error_with_its_name() {
        let results = results();
        for (sentence, parts) in [
            (results.scalar("i32").unwrap_err(), ["`i32` is i32", "`get`"]),
            (results.scalar("two").unwrap_err(), ["`two` has 2 elements", "`get`"]),
            (results.scalar("none").unwrap_err(), ["`none` has 0 elements", "`get`"]),
            (results.f32("bf16").unwrap_err(), ["`bf16` is bf16", "cast"]),
            (results.f32("x").unwrap_err(), ["no result `x`", "f32, f64, bf16"]),
            (results.get("x").unwrap_err(), ["no result `x`", "it has f32"]),
        ] {
            let sentence = sentence.to_string();
            assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
        }
    }
}

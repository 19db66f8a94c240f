//! Checks a converted model against the original one: both on the same random inputs.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_device::{Backend, random_inputs};
use lessen_graph::{Array, DType, InputKind, ValueId, evaluate_exactly};

use super::Converter;
use super::work::Work;
use crate::session::run_traced;
use lessen_onnx::Model;
use lessen_onnx::{Imported, Sizes};

/// How far the results of two models are apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The output where they differ most.
    pub output: String,
    /// The largest difference of an element, over the largest magnitude of the output.
    pub relative: f64,
}

/// The largest difference of two sets of outputs.
///
/// # Errors
/// An output that the second set lacks, that has other extents there, or that is not finite in one set alone.
pub fn difference(expected: &HashMap<String, Array>, found: &HashMap<String, Array>) -> Result<Difference> {
    let mut largest = Difference {
        output: String::new(),
        relative: 0.0,
    };
    let mut names: Vec<&String> = expected.keys().collect();
    names.sort_unstable();
    for name in names {
        let expected = &expected[name];
        let Some(found) = found.get(name) else {
            return Err(Error::user(format!("the output `{name}` is missing")));
        };
        if found.ty.shape != expected.ty.shape {
            return Err(Error::user(format!(
                "the output `{name}` has the type {}, and had {}",
                found.ty, expected.ty
            )));
        }
        let scale = expected
            .data
            .iter()
            .fold(0f64, |scale, x| scale.max(x.abs()))
            .max(f64::MIN_POSITIVE);
        for (a, b) in expected.data.iter().zip(&found.data) {
            let apart = if a == b || (a.is_nan() && b.is_nan()) {
                0.0
            } else {
                (a - b).abs() / scale
            };
            if apart.is_nan() {
                return Err(Error::user(format!("the output `{name}` has {b} where it had {a}")));
            }
            if apart > largest.relative || largest.output.is_empty() {
                largest.relative = largest.relative.max(apart);
                largest.output.clone_from(name);
            }
        }
    }
    Ok(largest)
}

impl Converter<'_> {
    /// The work of evaluating both graphs.
    pub fn work(&self) -> Work {
        let [a, b] = [Work::of(&self.graph), Work::of(&self.converted)];
        Work {
            operations: a.operations + b.operations,
            elements: a.elements.max(b.elements),
        }
    }

    /// The difference of the converted graph, with parameters that are computed in `f64`, from the original one, both
    /// evaluated in `f64`. Results of nodes that are not known are random, and the same in both.
    ///
    /// # Errors
    /// A file that cannot be read; results that are not comparable.
    pub fn difference_in_f64(&self, seed: u64) -> Result<Difference> {
        let new = &self.converted;
        let mut given: HashMap<String, Array> = random_inputs(&self.graph, seed).into_iter().collect();
        let mut changed = given.clone();
        for input in self.graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            let original = self.parameter(input.value, |x| x)?;
            let ty = self.graph.ty(input.value).clone();
            given.insert(input.name.clone(), Array::new(ty, original.data));
        }
        for input in new.inputs.iter().filter(|input| input.kind == InputKind::State) {
            let state = self.state_of(&input.name);
            let mut parameter = self.parameter(state, |x| x)?;
            parameter.apply(self.conversion.parameters.of(state), &mut |other| {
                self.parameter(other, |x| x)
            })?;
            let ty = new.ty(input.value).clone();
            changed.insert(input.name.clone(), Array::new(ty, parameter.data));
        }
        let expected = evaluate_exactly(&self.graph, &given)?;
        let found = evaluate_exactly(new, &changed)?;
        difference(&expected, &found)
    }

    /// The state of this name.
    fn state_of(&self, name: &str) -> ValueId {
        let input = self.graph.inputs.iter().find(|input| input.name == name);
        input.expect("a converted graph has no states of its own").value
    }
}

/// The difference of the results of two models' graphs, both evaluated in `f64` with the elements in their files.
/// Results of nodes that are not known are random, and the same in both.
///
/// # Errors
/// A file that cannot be read, an input whose sizes are not known, results that are not comparable.
pub fn difference_of_files(a: &Model, b: &Model, sizes: &Sizes, seed: u64) -> Result<Difference> {
    let (first, second) = (Imported::of(a, sizes)?, Imported::of(b, sizes)?);
    let data: HashMap<String, Array> = random_inputs(&first.graph, seed).into_iter().collect();
    let evaluated = |model: &Model, imported: &Imported| {
        let mut given = data.clone();
        for input in imported
            .graph
            .inputs
            .iter()
            .filter(|input| input.kind == InputKind::State)
        {
            let ty = imported.graph.ty(input.value).clone();
            let elements = match model.initializers.get(&input.name) {
                Some(tensor) => tensor.elements(&model.source, |x| x)?,
                None => imported.constants[&input.name].data.clone(),
            };
            given.insert(input.name.clone(), Array::new(ty, elements));
        }
        evaluate_exactly(&imported.graph, &given)
    };
    difference(&evaluated(a, &first)?, &evaluated(b, &second)?)
}

/// The difference of two models' results on a device that `open` gives, one after the other, so that the parameters of
/// one alone are in memory; none where a node is not known.
///
/// # Errors
/// A file that cannot be read, an input whose sizes are not known, memory that the device does not have, results that
/// are not comparable.
pub fn difference_on(
    open: &dyn Fn() -> Result<Box<dyn Backend>>,
    models: [&Model; 2],
    sizes: &Sizes,
    seed: u64,
) -> Result<Option<Difference>> {
    let mut results = Vec::new();
    let mut data = Vec::new();
    for model in models {
        let imported = Imported::of(model, sizes)?;
        if !imported.is_complete() {
            return Ok(None);
        }
        if results.is_empty() {
            data = random_inputs(&imported.graph, seed);
        }
        let mut outputs = run_traced(open()?.as_mut(), model, imported, &data)?;
        outputs.retain(|_, found| found.ty.dtype == DType::F32);
        results.push(outputs);
    }
    difference(&results[0], &results[1]).map(Some)
}

//! A function of a session as an ONNX file.

use super::check::Case;
use super::function::named;
use super::{OPSETS, checked, file_name, placed};
use lessen_base::{Error, Result};
use lessen_device::checks::rounded_array;
use lessen_device::{Host, HostArray, random_inputs};
use lessen_graph::{InputKind, Tensor};
use lessen_nn::Cx;
use lessen_onnx::export::{Export, ExportInput, InputForm, MOST_BYTES, Sample, export, points};
use lessen_onnx::{HostTensor, HostValue, Model};
use lessen_task::device::NewBackend;
use lessen_train::Session;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// A size of a function that its file leaves open, such as the number of rows of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenSize {
    /// Its name in the file.
    pub name: String,
    /// The sizes that the function takes.
    pub range: RangeInclusive<usize>,
}

/// How a function of a session is written to an ONNX file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionFile {
    /// The sizes that the file leaves open, of which there are at most two.
    pub open: Vec<OpenSize>,
    /// The version of ONNX's operators, one of [`OPSETS`].
    pub opset: i64,
    /// The most bytes of a file with its weights; beyond, these go to a file beside it.
    pub most_bytes: u64,
}

impl Default for FunctionFile {
    /// A file for inputs of the sizes that the function declares.
    fn default() -> FunctionFile {
        FunctionFile {
            open: Vec::new(),
            opset: *OPSETS.start(),
            most_bytes: MOST_BYTES,
        }
    }
}

/// Writes a function over the parameters of a session as the ONNX file `out`, with inputs and results under the names
/// that it gives them: `i32` as `int64`, all others as they are. `function` gets the open sizes in their order. The
/// file is read again, runs on random inputs on a device of its own, and is left only if its results are those of the
/// session. Returns the greatest difference, divided by the result's largest element where that is above 1.
///
/// # Errors
/// A mistake in the function, with its line; an operation that has no form in ONNX, by its name; parameters that are
/// not stored in `f32`; a result of another dtype than `f32`; results that differ; an open size that no input has; a
/// file that cannot be written. The file that was there before, if any, stays then.
pub fn export_function<N: Into<String>>(
    session: &mut Session,
    out: &Path,
    how: &FunctionFile,
    new_backend: &NewBackend,
    function: impl Fn(Cx, &[usize]) -> Vec<(N, Tensor)>,
) -> Result<f64> {
    check_open(&how.open)?;
    let name = file_name(out)?;
    let sample = |sizes: Vec<usize>| {
        let graph = session.graph(|cx| function(cx, &sizes))?;
        Ok(Sample { sizes, graph })
    };
    let bounds: Vec<(usize, usize)> = how.open.iter().map(|size| size.range.clone().into_inner()).collect();
    let samples: Vec<Sample> = points(&bounds).into_iter().map(sample).collect::<Result<_>>()?;
    let inputs = samples.iter().take(1).flat_map(|sample| &sample.graph.inputs);
    let inputs: Vec<ExportInput> = inputs
        .filter(|input| input.kind == InputKind::Data)
        .map(|input| ExportInput {
            name: input.name.clone(),
            shown: input.name.clone(),
            form: InputForm::Same,
        })
        .collect();
    let dimensions: Vec<&str> = how.open.iter().map(|size| size.name.as_str()).collect();
    placed(out, name, |path| {
        export(
            &Export {
                samples: &samples,
                dimensions: &dimensions,
                inputs: &inputs,
                name: "lessen",
                opset: how.opset,
                metadata: &[("lessen_version".to_string(), env!("CARGO_PKG_VERSION").to_string())],
                parameter: &|name| parameter(session, name),
                most_bytes: how.most_bytes,
            },
            path,
        )?;
        let cases = cases(session, &bounds, &function)?;
        checked("function", &Arc::new(Model::open(path)?), cases, new_backend)
    })
}

/// Refuses open sizes that nothing can be found out about.
fn check_open(open: &[OpenSize]) -> Result<()> {
    if open.len() > 2 {
        return Err(Error::user(format!(
            "a file with {} open sizes cannot be written; leave at most two open",
            open.len()
        )));
    }
    match open.iter().find(|size| size.range.start() >= size.range.end()) {
        Some(OpenSize { name, range }) => Err(Error::user(format!(
            "the open size `{name}` from {} to {} is one number at most; give it a range of several, or no name",
            range.start(),
            range.end()
        ))),
        None => Ok(()),
    }
}

/// The values of a parameter as the graph has it.
fn parameter(session: &Session, name: &str) -> Result<Vec<f32>> {
    match session.state(name)? {
        HostArray::F32(values) => Ok(values),
        other => Err(Error::user(format!(
            "the session stores `{name}` in {}; export the function of one that stores f32",
            other.dtype().name()
        ))),
    }
}

/// Random inputs of the least sizes and of sizes that the function was not traced at, with the results of the session.
fn cases<N: Into<String>>(
    session: &mut Session,
    bounds: &[(usize, usize)],
    function: &impl Fn(Cx, &[usize]) -> Vec<(N, Tensor)>,
) -> Result<Vec<Case>> {
    let least: Vec<usize> = bounds.iter().map(|(least, _)| *least).collect();
    let others = bounds.iter().zip([4_usize, 9]);
    let others: Vec<usize> = others
        .map(|((least, most), other)| other.clamp(*least, *most))
        .collect();
    let mut all = vec![least, others];
    all.dedup();
    let mut case = |sizes: Vec<usize>| {
        let graph = session.graph(|cx| function(cx, &sizes))?;
        let given: Vec<(String, HostArray, Vec<usize>)> = random_inputs(&graph, 11)
            .into_iter()
            .map(|(name, array)| (name, rounded_array(&array), array.ty.shape.to_vec()))
            .collect();
        let program = session.function(|cx| function(cx, &sizes))?;
        let inputs: Vec<(&str, Host<'_>)> = given
            .iter()
            .map(|(name, array, _)| (name.as_str(), array.host()))
            .collect();
        let results = session.run(program, &inputs);
        session.unload(program)?;
        let of_file = |(name, array, shape)| Ok((name, of_file(array, shape)?));
        Ok(Case {
            expected: named(&results?)?,
            inputs: given.into_iter().map(of_file).collect::<Result<_>>()?,
            sizes,
        })
    };
    all.into_iter().map(&mut case).collect()
}

/// An array as the file takes it.
fn of_file(array: HostArray, shape: Vec<usize>) -> Result<HostValue> {
    let tensor = match array {
        HostArray::F32(x) => HostTensor::new(&shape, x),
        HostArray::F64(x) => HostTensor::new(&shape, x),
        HostArray::I32(x) => HostTensor::new(&shape, x.into_iter().map(i64::from).collect::<Vec<i64>>()),
        HostArray::Bool(x) => HostTensor::new(&shape, x.into_iter().map(|x| x != 0).collect::<Vec<bool>>()),
        other => Err(Error::internal(format!(
            "a file with an input of {}",
            other.dtype().name()
        ))),
    };
    Ok(tensor?.into())
}

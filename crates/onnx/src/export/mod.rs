//! Writes an inference function as an ONNX file.
//!
//! A function is traced at a few sizes of its dimensions ([`points`]), such as the batch and the length of texts. From
//! these traces follows how every extent and number depends on the dimensions, which the file has by name. Each
//! operation is written by a function of `operators`, or as its decomposition.

mod emitter;
mod extent;
mod family;
mod file;
mod operators;
mod sizes;
mod writer;

use std::path::Path;

use lessen_base::{Error, Result};
use lessen_graph::ops::{Broadcast, Constant, Full, Reshape};
use lessen_graph::{Array, DType, InputKind, ValueId, evaluate_op};

use self::emitter::{DimensionSource, Emitter};
use self::family::Family;
use self::file::Contents;
use self::operators::{only_transposed, operation};
use self::writer::{element, int};

pub use self::extent::points;
pub use self::family::Sample;

/// The versions of ONNX's operators that files are written for.
pub const OPSETS: std::ops::RangeInclusive<i64> = 17..=23;

/// How an input of a function is an input of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputForm {
    /// The same array; whole numbers as `int64`.
    Same,
    /// A mask as whole numbers, `int64`: 1 for true.
    Mask,
    /// Images `[N, H, W, C]` as `[N, C, H, W]`.
    ChannelsFirst,
}

/// An input of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInput {
    /// Its name in the graph.
    pub name: String,
    /// Its name in the file.
    pub shown: String,
    /// How it is given.
    pub form: InputForm,
}

/// A function to write.
pub struct Export<'a> {
    /// The function at the sizes of [`points`].
    pub samples: &'a [Sample],
    /// Names of the dimensions.
    pub dimensions: &'a [&'a str],
    /// The inputs, in the order of the file; one that the graph does not read is left out.
    pub inputs: &'a [ExportInput],
    /// The name of the file's graph.
    pub name: &'a str,
    /// The version of ONNX's operators.
    pub opset: i64,
    /// Entries of the file's metadata.
    pub metadata: &'a [(String, String)],
    /// The values of a parameter.
    pub parameter: &'a dyn Fn(&str) -> Result<Vec<f32>>,
    /// The most bytes of a file with its elements; beyond, these go to a file beside it.
    pub most_bytes: u64,
}

/// The most bytes of a file that all readers take.
pub const MOST_BYTES: u64 = 2_000_000_000;

/// Writes a function to the file `path`, whose elements may be in another file, `path` with `.data` at its end.
///
/// # Errors
/// An operation that cannot be exported, by its name; a version that is not in [`OPSETS`]; a parameter that cannot be
/// read; a file that cannot be written.
pub fn export(what: &Export<'_>, path: &Path) -> Result<()> {
    if !OPSETS.contains(&what.opset) {
        return Err(Error::user(format!(
            "there is no export for version {} of ONNX's operators; choose one from {} to {}",
            what.opset,
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let family = Family::new(what.samples, &|op| operation(op).is_some())?;
    let graph = family.graph();
    let mut inputs = Vec::new();
    for input in what.inputs {
        let found = graph
            .inputs
            .iter()
            .find(|own| own.kind == InputKind::Data && own.name == input.name);
        inputs.extend(found.map(|own| (input, own.value)));
    }
    let unnamed = graph
        .inputs
        .iter()
        .find(|own| own.kind == InputKind::Data && !what.inputs.iter().any(|input| input.name == own.name));
    if let Some(unnamed) = unnamed {
        return Err(Error::internal(format!(
            "the input `{}` has no name in the file",
            unnamed.name
        )));
    }
    let source = |dimension: usize| {
        let found = inputs.iter().find_map(|(input, value)| {
            let shape = shown_shape(input.form, family.shape(*value));
            let axis = shape.iter().position(|extent| extent.dimension() == Some(dimension))?;
            Some(DimensionSource {
                input: input.shown.clone(),
                axis,
            })
        });
        found.ok_or_else(|| {
            Error::user(format!(
                "no input has the size `{}` as one of its extents; give it to one, or write the file for one size",
                what.dimensions[dimension]
            ))
        })
    };
    let dimensions = (0..what.dimensions.len()).map(source).collect::<Result<_>>()?;
    let mut emitter = Emitter::new(&family, what.opset, dimensions, what.parameter, only_transposed(graph));
    let mut shown_inputs = Vec::new();
    for (input, value) in &inputs {
        emitter.writer.reserve(&input.shown);
        shown_inputs.push((
            input.shown.clone(),
            given(&mut emitter, input, *value)?,
            shown_shape(input.form, family.shape(*value)),
        ));
    }
    graph
        .outputs
        .iter()
        .for_each(|output| emitter.writer.reserve(&output.name));
    for (index, node) in graph
        .nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| family.is_live(*index))
    {
        emitter.writer.enter(&node.scope);
        write(&mut emitter, index)?;
    }
    emitter.writer.enter("");
    let (mut outputs, mut shown_outputs) = (Vec::new(), Vec::new());
    for output in &graph.outputs {
        outputs.push((emitter.plain(output.value)?, output.name.clone()));
        let element = emitter.element(graph.ty(output.value).dtype)?;
        shown_outputs.push((output.name.clone(), element, family.shape(output.value).to_vec()));
    }
    emitter.writer.finish(&outputs);
    let contents = Contents {
        name: what.name,
        opset: what.opset,
        dimensions: what.dimensions,
        metadata: what.metadata,
        nodes: &emitter.writer.nodes,
        initializers: &emitter.writer.initializers,
        inputs: &shown_inputs,
        outputs: &shown_outputs,
    };
    file::write(&contents, path, what.most_bytes, what.parameter)
}

/// The extents of an input of the file.
fn shown_shape(form: InputForm, shape: &[extent::Extent]) -> Vec<extent::Extent> {
    match (form, shape) {
        (InputForm::ChannelsFirst, [n, h, w, c]) => vec![n.clone(), c.clone(), h.clone(), w.clone()],
        _ => shape.to_vec(),
    }
}

/// Makes an input of the file the value of the graph; its element type in the file.
fn given(e: &mut Emitter<'_>, input: &ExportInput, value: ValueId) -> Result<i32> {
    match input.form {
        InputForm::Same => {
            e.set(value, input.shown.clone());
            e.element(e.dtype(value))
        }
        InputForm::Mask => {
            let mask = e
                .writer
                .one("Cast", &[&input.shown], vec![int("to", element::BOOL.into())]);
            e.set(value, mask);
            Ok(element::INT64)
        }
        InputForm::ChannelsFirst => {
            e.set_channels_first(value, input.shown.clone());
            e.element(DType::F32)
        }
    }
}

/// Writes a node: computed, if its result is the same in every run, else by its operators.
fn write(e: &mut Emitter<'_>, index: usize) -> Result<()> {
    let node = e.node(index);
    if computed(e, index)? {
        return Ok(());
    }
    let place = |error: Error| {
        let of = if node.scope.is_empty() {
            String::new()
        } else {
            format!(" of {}", node.scope)
        };
        match error {
            Error::User(sentence) => Error::user(format!(
                "the operation `{}`{of} cannot be exported: {sentence}",
                node.op.name()
            )),
            other => other,
        }
    };
    let Some(emit) = operation(node.op.as_ref()) else {
        let sentence = format!("it has no form in version {} of ONNX's operators", e.opset);
        return Err(place(Error::user(sentence)));
    };
    emit(e, index).map_err(place)
}

/// Computes a node whose inputs are the same in every run; whether it is one. Numbers that fill a shape, and what only
/// repeats another value, keep their short forms.
fn computed(e: &mut Emitter<'_>, index: usize) -> Result<bool> {
    let node = e.node(index);
    let op = node.op.as_ref();
    let is_short = op.is::<Broadcast>() || op.is::<Full>() || op.is::<Constant>();
    let is_filled = op.is::<Reshape>() && node.inputs.iter().all(|value| e.fill(*value).is_some());
    let is_known = e.family.is_fixed(index) && node.inputs.iter().all(|value| e.is_known(*value));
    if is_short || is_filled || !is_known {
        return Ok(false);
    }
    let mut arrays = Vec::new();
    for value in &node.inputs {
        arrays.extend(e.known(*value)?);
    }
    let arrays: Vec<&Array> = arrays.iter().map(AsRef::as_ref).collect();
    let results = evaluate_op(op, &arrays)?;
    for (value, Array { ty, data }) in node.outputs.iter().zip(results) {
        let data = data.iter().map(|number| ty.dtype.round(*number)).collect();
        e.values[value.index()].known = Some(Array::new(ty, data).into());
    }
    Ok(true)
}

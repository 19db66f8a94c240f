//! A Hugging Face folder whose layer norms need no mean: the parameters of the residual streams are recentred, which
//! changes no result, and `config.json` says how the norms are computed from now on.

mod check;
mod llama;
mod source;
mod tensors;

use std::path::Path;
use std::{fs, io};

use lessen_base::atomic::{unwritable, write_folder};
use lessen_base::{Error, Result};
use lessen_graph::{DType, Graph, NodeId, ValueId};
use lessen_nn::checkpoint;
use lessen_nn::{Model, NormKind, Weights};
use lessen_rewrite::{Conversion, Means, NormOptions, NormTarget, Obstacle, Parameter, convert_norms_in_place};

use crate::export::must_be_empty;
use crate::logits_graph::logits_graph;
pub use check::Check;
pub use llama::convert_folder_to_llama;

/// The report of a conversion: norms that were found, converted and left.
#[derive(Clone, PartialEq, Debug)]
pub struct ConvertedFolder {
    /// Places of the norms that are converted.
    pub converted: Vec<String>,
    /// Places of the norms that are not converted, each with the reason.
    pub left: Vec<(String, String)>,
    /// Names of the parameters that are recentred.
    pub recentred: Vec<String>,
    /// Values from which a mean is subtracted elsewhere.
    pub means: usize,
    /// The largest difference of a logit, over the largest one, and the dtype in which both models were computed; none
    /// where nothing was written or checked.
    pub difference: Option<(f64, DType)>,
}

/// Converts the model in `source`, a Hugging Face folder, and writes it to `out` if one is given, which must not exist
/// or be empty. The written model computes the same results with the parameters of an ordinary model with LayerNorm.
/// Small models are checked in `f64`, large ones on a device in `f32`.
///
/// # Errors
/// A folder without a model, a damaged one, a model without LayerNorm, an `out` that holds something or cannot be
/// written to. Nothing is written then.
pub fn convert_folder(
    source: &Path,
    out: Option<&Path>,
    norm: NormKind,
    check: Option<Check<'_>>,
) -> Result<ConvertedFolder> {
    out.map_or(Ok(()), must_be_empty)?;
    let mut model = Model::from_dir(source)?;
    let (graph, new, conversion) = analysed(&model, norm, source)?;
    let mut found = report(&graph, &conversion);
    let Some(out) = out else { return Ok(found) };
    let before = checkpoint::load(source, &model.parameters(), &|_| false)?.weights;
    let after = recentred(&graph, &conversion, before.clone())?;
    if let Some(check) = check {
        let comparison = check.comparison(&graph, &before);
        let logits = comparison.logits(&graph, &before)?;
        found.difference = Some(comparison.difference(&logits, &comparison.logits(&new, &after)?));
    }
    model.set_norm(norm);
    write(source, out, |aside| {
        checkpoint::save(aside, &model.config_json(), &after)
    })?;
    Ok(found)
}

/// The graph of a model's logits, that with its norms converted, and what the conversion changes.
///
/// # Errors
/// A model without LayerNorm.
fn analysed(model: &Model, norm: NormKind, source: &Path) -> Result<(Graph, Graph, Conversion)> {
    let params = model.parameters();
    let graph = logits_graph(model);
    let target = match norm {
        NormKind::Crms => NormTarget::Crms,
        _ => NormTarget::Rms,
    };
    let is_parameter = |value: ValueId| {
        let name = graph.input(value).map(|input| input.name.as_str());
        params
            .iter()
            .any(|param| Some(param.name.as_str()) == name && !param.is_buffer)
    };
    let options = NormOptions {
        is_parameter: &is_parameter,
        ..NormOptions::of(target)
    };
    let (new, conversion) = convert_norms_in_place(&graph, &options, Means::Fewer);
    if conversion.converted.is_empty() && conversion.unconverted.is_empty() {
        return Err(Error::user(format!(
            "the model in {} has no LayerNorm; there is nothing to convert",
            source.display()
        )));
    }
    Ok((graph, new, conversion))
}

fn report(graph: &Graph, conversion: &Conversion) -> ConvertedFolder {
    let place = |node: NodeId| graph.nodes[node.index()].scope.to_string();
    let name = |value: ValueId| match (graph.input(value), graph.producer(value)) {
        (Some(input), _) => input.name.clone(),
        (None, Some(node)) => format!("{} of {}", graph.nodes[node.index()].op.name(), place(node)),
        (None, None) => "a value".to_string(),
    };
    let why = |&(value, stop): &(ValueId, Obstacle)| match stop {
        Obstacle::Node(reader) => format!(
            "the {} also leads to the {}",
            name(value),
            name(graph.nodes[reader.index()].outputs[0])
        ),
        Obstacle::Result(_) => format!("the {} is a result", name(value)),
        Obstacle::Producer => format!("the {} may have any mean", name(value)),
        Obstacle::Statistic => format!("a statistic of the {} is read", name(value)),
    };
    let left = conversion.unconverted.iter().map(|left| {
        let reasons: Vec<String> = left.obstacles.iter().map(why).collect();
        (place(left.node), reasons.join(", "))
    });
    ConvertedFolder {
        converted: conversion.converted.iter().map(|norm| place(norm.node)).collect(),
        left: left.collect(),
        recentred: conversion.parameters.iter().map(|(value, _)| name(value)).collect(),
        means: conversion.recentred.len(),
        difference: None,
    }
}

/// The weights with the means of the conversion subtracted.
fn recentred(graph: &Graph, conversion: &Conversion, mut weights: Weights) -> Result<Weights> {
    for (value, steps) in conversion.parameters.iter() {
        let name = graph.input(value).map(|input| input.name.as_str()).unwrap_or_default();
        let Some(weight) = weights.get_mut(name) else { continue };
        let mut parameter = Parameter {
            shape: weight.shape.clone(),
            data: std::mem::take(&mut weight.data),
        };
        let none = |_| Err(Error::internal("a mean depends on no other parameter"));
        parameter.apply(steps, &mut { none })?;
        weight.data = parameter.data;
    }
    Ok(weights)
}

/// Writes a folder: what `save` writes of the model, and all other files of its folder, such as its tokenizer.
fn write(source: &Path, out: &Path, save: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(|error| unwritable(out, &error))?;
    }
    let unreadable = |error: io::Error| Error::user(format!("{} cannot be read: {error}", source.display()));
    write_folder(out, |aside| {
        for entry in fs::read_dir(source).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file() && !holds_model(&path)) {
                fs::copy(&path, aside.join(name)).map_err(|error| unwritable(out, &error))?;
            }
        }
        save(aside)
    })
}

/// Whether a file is the configuration, or holds weights.
fn holds_model(path: &Path) -> bool {
    const WEIGHTS: [&str; 7] = ["safetensors", "bin", "pt", "pth", "h5", "msgpack", "onnx"];
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_weights = extension.is_some_and(|extension| WEIGHTS.contains(&extension));
    name == "config.json" || name.ends_with(".index.json") || is_weights
}

//! A model with LayerNorm as a Llama of transformers, where a Llama computes the same: the stream is recentred, norms
//! become RMSNorms of the same scale, the shifts of norms become part of the biases after them, and plain feed-forward
//! layers become gated ones whose second factor is 1.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use lessen_base::{Error, Result};
use lessen_graph::{Graph, Type, ValueId};
use lessen_nn::checkpoint::{self, Entry, Reader};
use lessen_nn::models::llama::LlamaForCausalLM;
use lessen_nn::{Model, NormKind, ParamSpec, Weights};
use lessen_rewrite::{Conversion, Parameter, ParameterStep};

use super::check::Check;
use super::source::{Source, refused};
use super::tensors::Made;
use super::{ConvertedFolder, analysed, report, write};
use crate::export::must_be_empty;
use crate::logits_graph::logits_graph;

/// Converts the model in `source`, a Hugging Face folder, to a Llama with RMSNorm and the same results, and writes that
/// to `out` if one is given, which must not exist or be empty. Weights keep their dtype and are read and written one
/// after another. The written folder is loaded and compared with the model.
///
/// # Errors
/// A model that no Llama is, a folder without a model, a damaged one, an `out` that holds something or cannot be
/// written to. Nothing is written then.
pub fn convert_folder_to_llama(source: &Path, out: Option<&Path>, check: Option<Check<'_>>) -> Result<ConvertedFolder> {
    out.map_or(Ok(()), must_be_empty)?;
    let model = Model::from_dir(source)?;
    let from = Source::of(&model, source)?;
    let parameters = Parameters::of(&model, &from, source)?;
    if let Some(name) = from.last_shift()
        && parameters.read(name)?.data.iter().any(|shift| *shift != 0.0)
    {
        let why = format!("`{name}` is not zero, and the head of a Llama has no bias that could hold it");
        return Err(refused(source, &why));
    }
    let mut found = report(&parameters.graph, &parameters.conversion);
    let Some(out) = out else { return Ok(found) };

    let config = from.llama();
    let llama = Model::from(LlamaForCausalLM { config });
    let entries = llama.parameters().into_iter().map(|param| Entry {
        name: param.name,
        ty: Type::f32(&param.shape),
    });
    let entries: Vec<Entry> = entries.collect();
    let dtype = parameters.reader.borrow().dtype();
    write(source, out, |aside| {
        checkpoint::save_with(aside, &llama.config_json(), dtype, &entries, |entry, sink| {
            let made = from.made(&entry.name);
            let elements = parameters.made(&made, &entry.ty.shape).map_err(io::Error::other)?;
            sink(&elements)
        })
    })?;
    if let Some(check) = check {
        let (old, before) = loaded(source)?;
        let comparison = check.comparison(&old, &before);
        let expected = comparison.logits(&old, &before)?;
        drop(before);
        let (new, after) = loaded(out)?;
        found.difference = Some(comparison.difference(&expected, &comparison.logits(&new, &after)?));
    }
    Ok(found)
}

/// The graph of the logits of the model in a folder, and its weights.
fn loaded(folder: &Path) -> Result<(Graph, Weights)> {
    let model = Model::from_dir(folder)?;
    let weights = checkpoint::load(folder, &model.parameters(), &|_| false)?.weights;
    Ok((logits_graph(&model), weights))
}

/// The parameters of a model, recentred.
struct Parameters {
    reader: RefCell<Reader>,
    /// The parameters of the model in the folder.
    params: Vec<ParamSpec>,
    /// The names of a head that is not tied any more, and of the table that it was tied to.
    head: [&'static str; 2],
    graph: Graph,
    conversion: Conversion,
    heads: usize,
}

impl Parameters {
    /// Finds out which parameters are recentred. The head gets a matrix of its own, since it reads the table of tokens
    /// as it was.
    ///
    /// # Errors
    /// A model whose means are not all redundant, and a checkpoint that is damaged or lacks parameters.
    fn of(model: &Model, from: &Source<'_>, folder: &Path) -> Result<Parameters> {
        let (graph, _, conversion) = analysed(&from.untied(), NormKind::Rms, folder)?;
        if !conversion.unconverted.is_empty() || !conversion.recentred.is_empty() {
            return Err(refused(folder, "not every mean that its norms subtract is redundant"));
        }
        let params = model.parameters();
        Ok(Parameters {
            reader: RefCell::new(Reader::open(folder, &params)?),
            params,
            head: from.head(),
            graph,
            conversion,
            heads: from.heads(),
        })
    }

    /// The parameter of this name in the folder, if it has one.
    fn spec(&self, name: &str) -> Option<&ParamSpec> {
        let find = |name: &str| self.params.iter().find(|param| param.name == name);
        find(name).or_else(|| find(self.head[1]).filter(|_| name == self.head[0]))
    }

    /// The elements of a parameter as they are in the folder.
    fn read(&self, name: &str) -> Result<Parameter<f32>> {
        let lost = || Error::internal(format!("the model has no parameter {name}"));
        let weight = self.reader.borrow_mut().read(self.spec(name).ok_or_else(lost)?)?;
        Ok(Parameter {
            shape: weight.shape,
            data: weight.data,
        })
    }

    /// The state of a parameter in the graph.
    fn state(&self, name: &str) -> Result<ValueId> {
        let mut inputs = self.graph.inputs.iter();
        let found = inputs.find(|input| input.name == name).map(|input| input.value);
        found.ok_or_else(|| Error::internal(format!("the graph has no parameter {name}")))
    }

    /// The elements of a parameter less the means that nothing reads.
    fn recentred(&self, name: &str) -> Result<Parameter<f32>> {
        let mut found = self.read(name)?;
        let none = |_| Err(Error::internal("a mean depends on no other parameter"));
        found.apply(self.conversion.parameters.of(self.state(name)?), &mut { none })?;
        Ok(found)
    }

    /// The elements of a tensor of the Llama.
    fn made(&self, made: &Made, shape: &[usize]) -> Result<Vec<f32>> {
        let (parameter, shift, part) = match made {
            Made::Full(number) => return Ok(vec![*number; shape.iter().product()]),
            Made::Of { parameter, shift, part } => (parameter, shift, part),
        };
        let mut found = match self.spec(parameter) {
            Some(_) => self.recentred(parameter)?,
            None => zeros(shape, part.is_some()),
        };
        if let Some([matrix, vector]) = shift {
            let (weight, other) = (self.state(matrix)?, self.state(vector)?);
            let step = ParameterStep::AddProduct {
                weight,
                inner: 1,
                vector: other,
            };
            let read = |state| self.read(if state == weight { matrix } else { vector });
            found.apply(&[step], &mut { read })?;
        }
        Ok(match part {
            Some(part) => self.part(&found.data, *part),
            None => found.data,
        })
    }

    /// The queries, keys or values of `[heads, 3, ..]`.
    fn part(&self, joined: &[f32], part: usize) -> Vec<f32> {
        let run = joined.len() / (3 * self.heads);
        let heads = joined.chunks(3 * run);
        heads.flat_map(|head| &head[part * run..][..run]).copied().collect()
    }
}

/// A bias that the model lacks, of one product or of three that are joined.
fn zeros(shape: &[usize], is_part: bool) -> Parameter<f32> {
    let count = shape.iter().product::<usize>() * if is_part { 3 } else { 1 };
    Parameter {
        shape: vec![count],
        data: vec![0.0; count],
    }
}

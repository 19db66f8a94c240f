//! The first weights of a session: drawn, or read from a checkpoint in blocks, so that they are never in memory twice.

use crate::wording::{counted, some_of};
use lessen_base::Result;
use lessen_graph::ops::DequantizeGroups;
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Model, NormKind, ParamSpec, Weight, Weights, checkpoint, is_by_class, reorder_classes, same_classes};
use lessen_train::Session;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Where first weights come from.
#[derive(Clone, Copy, Debug)]
pub enum WeightSource<'a> {
    /// Drawn from the seed.
    Seed,
    /// The checkpoint that a run starts from. It may lack a head, or have another attention. A class with another
    /// number keeps its row of the classifier.
    Init(ModelFolder<'a>),
    /// A model that the run has saved.
    Saved(&'a Path),
    /// A model of the training phase before, which may lack any parameter.
    Before(&'a Path),
}

/// Differences between the first weights of a run and the checkpoint to start from.
#[derive(Default)]
pub struct FirstWeights {
    /// Parameters that the checkpoint lacks, which were drawn.
    pub drawn: Vec<ParamSpec>,
    /// Names of parameters for which the checkpoint has the rows of fewer tokens.
    pub grown: Vec<String>,
    /// Tensors of the checkpoint that the model does not have.
    pub unused: Vec<String>,
}

/// Gives the parameters of a model in a session their first values. Parameters that the source lacks are drawn from the
/// seed.
///
/// # Errors
/// A checkpoint with a damaged tensor, or with a missing or ill-shaped one that the source may not lack.
pub fn fill(session: &mut Session, model: &Model, source: WeightSource<'_>, seed: u64) -> Result<FirstWeights> {
    let mut parameters = model.parameters();
    let mut grown = Vec::new();
    let rest = match source {
        WeightSource::Seed => {
            session.draw(|_| true, seed)?;
            return Ok(FirstWeights::default());
        }
        WeightSource::Saved(dir) => read(session, &parameters, dir.into(), &|_| false, None)?,
        WeightSource::Before(dir) => read(session, &parameters, dir.into(), &|_| true, None)?,
        WeightSource::Init(folder) => {
            let known = Model::from_dir_as(folder, model.architecture())?;
            let before = known.parameters();
            let before: HashMap<&str, &[usize]> = before.iter().map(|p| (&*p.name, &*p.shape)).collect();
            // The whole parameter is drawn, then the rows of the checkpoint's tokens are read over it.
            let vocab = [known.vocab_size(), model.vocab_size()];
            for param in parameters.iter_mut().filter(|_| vocab[0] != vocab[1]) {
                let Some(&shape) = before.get(&*param.name) else {
                    continue;
                };
                let sizes = [shape.first(), param.shape.first()];
                if sizes == [Some(&vocab[0]), Some(&vocab[1])] && shape[1..] == param.shape[1..] {
                    param.shape = shape.to_vec();
                    grown.push(param.name.clone());
                }
            }
            session.draw(|name| grown.iter().any(|own| own == name), seed)?;
            // Parameters that other settings of the attention add to the checkpoint's model are new, too.
            let added = parameters.iter().filter(|p| before.get(&*p.name) != Some(&&*p.shape));
            let added: HashSet<&str> = added.map(|p| &*p.name).collect();
            let may_lack = |name: &str| model.is_head(name) || added.contains(name);
            let places = same_classes(model.labels(), known.labels());
            read(session, &parameters, folder, &may_lack, places.as_deref())?
        }
    };
    session.draw(|name| rest.missing.iter().any(|own| own == name), seed)?;
    let drawn = parameters
        .into_iter()
        .filter(|param| rest.missing.contains(&param.name));
    Ok(FirstWeights {
        drawn: drawn.collect(),
        grown,
        unused: rest.extra,
    })
}

/// Converts the layer norms of a model in a session to the model's own `norm`.
///
/// # Errors
/// A device that fails.
pub fn convert_norms(session: &mut Session, model: &Model) -> Result<()> {
    match model.norm() {
        NormKind::Layer => Ok(()),
        kind => session.convert_norms(kind, |cx| vec![("logits", model.logits(cx, model.smallest_batch()))]),
    }
}

/// A parameter in words.
pub fn show(param: &ParamSpec) -> String {
    format!("{} of shape {:?}", param.name, param.shape)
}

/// Reads parameters from a checkpoint into a session. `places` are the rows of the classifier to take for each class.
pub fn read(
    session: &mut Session,
    parameters: &[ParamSpec],
    folder: ModelFolder<'_>,
    may_lack: &dyn Fn(&str) -> bool,
    places: Option<&[usize]>,
) -> Result<checkpoint::Rest> {
    let mut filling = Filling {
        session,
        places,
        heads: Weights::new(),
    };
    let rest = checkpoint::load_into(folder, parameters, may_lack, &mut filling)?;
    let Filling { session, mut heads, .. } = filling;
    if let Some(places) = places {
        reorder_classes(&mut heads, places);
    }
    for (name, head) in &heads {
        session.set_part(name, 0, &head.data)?;
    }
    Ok(rest)
}

/// What there is to say of the tensors of a checkpoint that nothing reads; nothing where there are none.
pub fn remark(folder: &Path, rest: &checkpoint::Rest) -> Option<String> {
    let count = rest.unread.len() as u64;
    (count > 0).then(|| {
        format!(
            "{} has {} of another task's head, which nothing reads: {}",
            folder.display(),
            counted(count, "tensor"),
            some_of(&rest.unread)
        )
    })
}

/// A session that gets its parameters from a checkpoint.
struct Filling<'a> {
    session: &'a mut Session,
    /// Rows and columns of the classifier to take for each class.
    places: Option<&'a [usize]>,
    /// Parameters whose rows or columns are to be put in that order.
    heads: Weights,
}

impl Filling<'_> {
    fn is_ordered(&self, name: &str) -> bool {
        self.places.is_some() && is_by_class(name)
    }
}

impl checkpoint::Receive for Filling<'_> {
    fn numbers(&mut self, param: &ParamSpec, first: usize, part: &[f32]) -> Result<()> {
        if !self.is_ordered(&param.name) {
            return self.session.set_part(&param.name, first, part);
        }
        let head = self.heads.entry(param.name.clone()).or_insert_with(|| Weight {
            shape: param.shape.clone(),
            data: Vec::new(),
        });
        head.data.extend_from_slice(part);
        Ok(())
    }

    fn groups(&self, param: &ParamSpec) -> Option<DequantizeGroups> {
        let is_ordered = self.is_ordered(&param.name);
        (!is_ordered).then(|| self.session.groups(&param.name))?
    }

    fn codes(&mut self, param: &ParamSpec, row: usize, codes: &[u8], scales: &[f32]) -> Result<()> {
        self.session.set_groups(&param.name, row, codes, scales)
    }
}

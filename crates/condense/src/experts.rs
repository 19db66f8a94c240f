//! Parameters of experts after each of their epochs, in files or in memory.

use lessen_base::{Error, Result, atomic};
use lessen_graph::Type;
use lessen_nn::checkpoint::{Entry, TensorFile, write_tensors};
use lessen_nn::{ParamSpec, Weight, Weights};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the experts in the folder of a condensation.
const FOLDER: &str = "experts";

/// File that says how the experts were trained.
const SETTINGS: &str = "settings.txt";

/// Parameters and buffers of experts.
pub(crate) struct Experts {
    params: Vec<ParamSpec>,
    /// Epochs of an expert.
    epochs: usize,
    store: Store,
}

/// Where they are kept.
enum Store {
    /// A folder with a file for each expert and epoch.
    Folder(PathBuf),
    /// For each expert those of its epochs.
    Memory(Vec<Vec<Weights>>),
}

impl Experts {
    /// The experts of a folder, or new ones in memory; `settings` says in lines how they are trained.
    pub fn open(work: Option<&Path>, settings: &str, params: &[ParamSpec], epochs: usize) -> Result<Experts> {
        let store = match work {
            None => Store::Memory(Vec::new()),
            Some(work) => {
                let folder = work.join(FOLDER);
                check_settings(&folder, settings)?;
                Store::Folder(folder)
            }
        };
        Ok(Experts {
            params: params.to_vec(),
            epochs,
            store,
        })
    }

    /// Whether all epochs of an expert are there.
    pub fn has(&self, expert: usize) -> bool {
        match &self.store {
            Store::Folder(folder) => file(folder, expert, self.epochs).exists(),
            Store::Memory(experts) => experts.get(expert).is_some_and(|epochs| epochs.len() > self.epochs),
        }
    }

    /// Keeps the parameters and buffers of an expert after an epoch; experts and epochs come in order.
    pub fn keep(&mut self, expert: usize, epoch: usize, weights: Weights) -> Result<()> {
        match &mut self.store {
            Store::Folder(folder) => {
                let names = weights.iter().map(|(name, weight)| Entry {
                    name: name.clone(),
                    ty: Type::f32(&weight.shape),
                });
                write_tensors(
                    &file(folder, expert, epoch),
                    &names.collect::<Vec<_>>(),
                    |entry, out| {
                        let elements = weights[&entry.name].data.iter();
                        elements
                            .map(|x| x.to_le_bytes())
                            .try_for_each(|bytes| out.write_all(&bytes))
                    },
                )
            }
            Store::Memory(experts) => {
                experts.resize(experts.len().max(expert + 1), Vec::new());
                experts[expert].truncate(epoch);
                experts[expert].push(weights);
                Ok(())
            }
        }
    }

    /// The parameters and buffers of an expert after an epoch.
    pub fn after(&self, expert: usize, epoch: usize) -> Result<Weights> {
        match &self.store {
            Store::Folder(folder) => self.read(&file(folder, expert, epoch)),
            Store::Memory(experts) => {
                let found = experts.get(expert).and_then(|epochs| epochs.get(epoch));
                found
                    .cloned()
                    .ok_or_else(|| Error::internal(format!("there is no epoch {epoch} of expert {expert}")))
            }
        }
    }

    fn read(&self, path: &Path) -> Result<Weights> {
        let mut file = TensorFile::open(path)?;
        let mut weights = Weights::new();
        for ParamSpec { name, shape, .. } in &self.params {
            if file.shape(name) != Some(shape) {
                return Err(Error::user(format!(
                    "{} is no expert of this network: it has no `{name}` of shape {shape:?}; remove its folder, and the \
                     experts are trained anew",
                    path.display()
                )));
            }
            let mut data = Vec::new();
            file.visit(name, &mut |bytes| {
                let words = bytes.as_chunks::<4>().0;
                data.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
                Ok(())
            })?;
            weights.insert(
                name.clone(),
                Weight {
                    shape: shape.clone(),
                    data,
                },
            );
        }
        Ok(weights)
    }
}

fn file(folder: &Path, expert: usize, epoch: usize) -> PathBuf {
    folder.join(format!("expert-{expert}-epoch-{epoch}.safetensors"))
}

/// Makes the folder, or refuses one whose experts were trained in another way.
fn check_settings(folder: &Path, settings: &str) -> Result<()> {
    let path = folder.join(SETTINGS);
    if !path.exists() {
        fs::create_dir_all(folder).map_err(|error| atomic::error_of(folder, error))?;
        return atomic::write_file(&path, settings.as_bytes());
    }
    let found = fs::read_to_string(&path).map_err(|error| atomic::error_of(&path, error))?;
    let differing = found.lines().zip(settings.lines()).find(|(found, own)| found != own);
    match differing {
        None if found == settings => Ok(()),
        None => Err(other_experts(folder, "its settings.txt has other lines")),
        Some((found, own)) => Err(other_experts(folder, &format!("`{found}`, not `{own}`"))),
    }
}

fn other_experts(folder: &Path, how: &str) -> Error {
    Error::user(format!(
        "{} has experts that were trained in another way: {how}; remove it, and they are trained anew",
        folder.display()
    ))
}

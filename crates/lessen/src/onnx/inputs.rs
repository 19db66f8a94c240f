//! The inputs of a model from files, as `--input` names them.

use std::collections::BTreeMap;
use std::path::Path;

use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, Dtype, npy, npz};
use lessen_device::HostArray;
use lessen_onnx::proto::{Dimension, DimensionProto, ValueInfoProto};
use lessen_onnx::{Element, Model, Sizes};

use super::elements::{dtype, taken};

/// An array for an input.
#[derive(Clone, Debug)]
pub struct Given {
    /// The array.
    pub array: Array,
    /// The file, and the member where it is an archive.
    pub place: String,
}

/// Arrays for the inputs of a model, by name.
#[derive(Debug, Default)]
pub struct Inputs {
    arrays: BTreeMap<String, Given>,
}

impl Inputs {
    /// Reads `X.npy` for a model with one input, `NAME=X.npy`, and `ALL.npz` with a member for each name.
    ///
    /// # Errors
    /// A file that cannot be read, a name that is no input's, an input that has no array or two.
    pub fn read(model: &Model, words: &[String]) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for word in words {
            inputs.add_word(model, word)?;
        }
        match model
            .inputs
            .iter()
            .find(|input| !inputs.arrays.contains_key(&input.name))
        {
            Some(missing) => Err(Error::user(format!(
                "--input: there is no array for the input `{name}`; give it as {name}=FILE.npy",
                name = missing.name
            ))),
            None => Ok(inputs),
        }
    }

    fn add_word(&mut self, model: &Model, word: &str) -> Result<()> {
        let is_input = |name: &str| model.inputs.iter().any(|input| input.name == name);
        let named = word
            .split_once('=')
            .filter(|(name, _)| is_input(name) || !Path::new(word).exists());
        let (name, file) = named.map_or((None, word), |(name, file)| (Some(name), file));
        let path = Path::new(file);
        let is = |extension: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(extension));
        match (name, &model.inputs[..]) {
            (None, _) if is("npz") => {
                let all = npz::read(path)?;
                all.into_iter().try_for_each(|(name, array)| {
                    let place = path.join(&name).display().to_string();
                    self.add(model, &name, Given { array, place })
                })
            }
            _ if !is("npy") => Err(Error::user(format!(
                "--input {word}: {file} is no array; give X.npy, NAME=X.npy, or ALL.npz with a member for each input"
            ))),
            (Some(name), _) => self.add(model, name, Given::read(path)?),
            (None, [only]) => self.add(model, &only.name, Given::read(path)?),
            (None, _) => Err(Error::user(format!(
                "--input {word}: the model has the inputs {}; say which one it is with NAME={word}",
                names(model)
            ))),
        }
    }

    fn add(&mut self, model: &Model, name: &str, given: Given) -> Result<()> {
        if !model.inputs.iter().any(|input| input.name == name) {
            return Err(Error::user(format!(
                "--input: {} is for `{name}`, which is no input of the model; its inputs are {}",
                given.place,
                names(model)
            )));
        }
        match self.arrays.insert(name.to_string(), given) {
            None => Ok(()),
            Some(first) => Err(Error::user(format!(
                "--input: the input `{name}` has two arrays, {} and {}; give one of them",
                first.place, self.arrays[name].place
            ))),
        }
    }

    /// The sizes of named extents, from the arrays. They must agree with each other, with the model's fixed extents,
    /// and with `given` sizes.
    ///
    /// # Errors
    /// Extents that do not agree; the sentence names both.
    pub fn sizes(&self, model: &Model, given: &Sizes) -> Result<Sizes> {
        let mut sizes: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for (name, size) in given {
            sizes.insert(name.clone(), (*size, "by --size".to_string()));
        }
        for input in &model.inputs {
            let Given { array, place } = &self.arrays[&input.name];
            let Some(dims) = extents(input) else { continue };
            self.check_shape(input, dims)?;
            for (axis, (dim, &extent)) in dims.iter().zip(array.shape()).enumerate() {
                let Some(Dimension::Param(name)) = &dim.value else {
                    continue;
                };
                let here = format!("in axis {axis} of the input `{}` ({place})", input.name);
                let (size, there) = sizes.entry(name.clone()).or_insert((extent, here.clone()));
                if *size != extent {
                    return Err(Error::user(format!(
                        "the extent `{name}` is {size} {there}, but {extent} {here}; give inputs and sizes that agree"
                    )));
                }
            }
        }
        Ok(sizes.into_iter().map(|(name, (size, _))| (name, size)).collect())
    }

    /// Checks an array's number of axes, and the extents whose sizes the file says.
    fn check_shape(&self, input: &ValueInfoProto, dims: &[DimensionProto]) -> Result<()> {
        let Given { array, place } = &self.arrays[&input.name];
        let fits = |(dim, &extent): (&DimensionProto, &usize)| match &dim.value {
            Some(Dimension::Value(size)) => usize::try_from(*size) == Ok(extent),
            _ => extent > 0,
        };
        let shape = array.shape();
        if dims.len() == shape.len() && dims.iter().zip(shape).all(fits) {
            Ok(())
        } else {
            Err(Error::user(format!(
                "{place} has the shape {shape:?}, but the input `{}` takes {}; give an array of that shape",
                input.name,
                shown(dims)
            )))
        }
    }

    /// The arrays as the model's graph takes them, in the order of its inputs.
    ///
    /// # Errors
    /// Elements of another dtype, integers that do not fit.
    pub fn arrays(&self, model: &Model) -> Result<Vec<(String, HostArray)>> {
        let arrays = model.inputs.iter().map(|input| {
            let Given { array, place } = &self.arrays[&input.name];
            let element = element(input).ok_or_else(|| {
                model.error(&format!(
                    "the input `{}` has elements that are no numbers, which cannot be run",
                    input.name
                ))
            })?;
            let taken = taken(array, element);
            let taken = taken.map_err(|fault| Error::user(format!("--input {}={place}: it {fault}", input.name)))?;
            Ok((input.name.clone(), taken))
        });
        arrays.collect()
    }
}

impl Given {
    fn read(path: &Path) -> Result<Given> {
        Ok(Given {
            array: npy::read(path)?,
            place: path.display().to_string(),
        })
    }
}

/// The dtype that an array for an input of this name has; none for no input of numbers.
pub fn dtype_of_input(model: &Model, name: &str) -> Option<Dtype> {
    let input = model.inputs.iter().find(|input| input.name == name)?;
    element(input).map(dtype)
}

fn element(input: &ValueInfoProto) -> Option<Element> {
    Element::of(input.r#type.as_ref()?.tensor_type.as_ref()?.elem_type)
}

/// The names of a model's inputs.
fn names(model: &Model) -> String {
    let names: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
    names.join(", ")
}

/// The extents that the file says of an input.
fn extents(input: &ValueInfoProto) -> Option<&[DimensionProto]> {
    let shape = input.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
    Some(&shape.dim)
}

/// Extents as `[batch, 8]`.
fn shown(dims: &[DimensionProto]) -> String {
    let extent = |dim: &DimensionProto| match &dim.value {
        Some(Dimension::Value(size)) => size.to_string(),
        Some(Dimension::Param(name)) => name.clone(),
        None => "?".to_string(),
    };
    let extents: Vec<String> = dims.iter().map(extent).collect();
    format!("[{}]", extents.join(", "))
}

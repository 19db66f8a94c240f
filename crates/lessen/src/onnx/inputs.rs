//! The inputs of a model from files, as `--input` names them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, Dtype, npy, npz};
use lessen_onnx::proto::{Dimension, DimensionProto, ValueInfoProto};
use lessen_onnx::{HostValue, Model, Sizes, element_of, extents_of, is_unnamed};

use super::elements::{dtype, taken};

/// What is given for an input.
#[derive(Clone, Debug)]
struct Given {
    content: Content,
    /// The file, and the member where it is an archive.
    place: String,
}

/// The place of an array that is in no file.
const MEMORY: &str = "an array in memory";

/// A file's content.
#[derive(Clone, Debug)]
enum Content {
    /// An array of NumPy.
    Array(Array),
    /// A value of ONNX in a file of its own.
    Value(HostValue),
}

/// Arrays for the inputs of a model, by name.
#[derive(Debug, Default)]
pub struct Inputs {
    arrays: BTreeMap<String, Given>,
}

impl Inputs {
    /// Reads `X.npy` for a model with one input, `NAME=X.npy`, and `ALL.npz` with a member for each name. A file `X.pb`
    /// is a tensor, a sequence or an optional value as ONNX writes the data of its tests.
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

    /// Takes arrays that a program has in memory, one for each input.
    ///
    /// # Errors
    /// A name that is no input's, an input that has no array.
    pub fn of_arrays(model: &Model, arrays: impl IntoIterator<Item = (String, Array)>) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for (name, array) in arrays {
            if !model.inputs.iter().any(|input| input.name == name) {
                return Err(Error::user(format!(
                    "`{name}` is no input of the model; its inputs are {}",
                    names(model)
                )));
            }
            let (content, place) = (Content::Array(array), MEMORY.to_string());
            inputs.arrays.insert(name, Given { content, place });
        }
        match model
            .inputs
            .iter()
            .find(|input| !inputs.arrays.contains_key(&input.name))
        {
            Some(missing) => Err(Error::user(format!(
                "there is no array for the input `{}`; give one",
                missing.name
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
                    let content = Content::Array(array);
                    self.add(model, &name, Given { content, place })
                })
            }
            _ if !is("npy") && !is("pb") => Err(Error::user(format!(
                "--input {word}: {file} is no array; give X.npy, NAME=X.npy, or ALL.npz with a member for each input"
            ))),
            (Some(name), all) => {
                let input = all.iter().find(|input| input.name == name);
                self.add(model, name, Given::read(path, input)?)
            }
            (None, [only]) => self.add(model, &only.name, Given::read(path, Some(only))?),
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
            let given = &self.arrays[&input.name];
            let (Some(dims), Some(shape)) = (extents_of(input), given.shape()) else {
                continue;
            };
            given.check_shape(input, dims)?;
            for (axis, (dim, &extent)) in dims.iter().zip(shape).enumerate() {
                let Some(Dimension::Param(name)) = &dim.value else {
                    continue;
                };
                if is_unnamed(name) {
                    continue;
                }
                let here = format!("in axis {axis} of the input `{}` ({})", input.name, given.place);
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

    /// The values as the model takes them, in the order of its inputs.
    ///
    /// # Errors
    /// Elements of another dtype, integers that do not fit.
    pub fn values(self, model: &Model) -> Result<Vec<(String, HostValue)>> {
        let values = model.inputs.iter().map(|input| {
            let Given { content, place } = &self.arrays[&input.name];
            let at = match place.as_str() {
                MEMORY => format!("the array for the input `{}`", input.name),
                _ => format!("--input {}={place}", input.name),
            };
            let value = match content {
                Content::Value(value) => {
                    let element = value.tensor().and_then(|tensor| tensor.element());
                    if let (Some(own), Some(takes)) = (element, element_of(input))
                        && own != takes
                    {
                        return Err(Error::user(format!(
                            "{at}: it holds {}, but the input takes {}; write it with the declared type",
                            dtype(own),
                            dtype(takes)
                        )));
                    }
                    value.clone()
                }
                Content::Array(array) => {
                    let element = element_of(input).ok_or_else(|| {
                        model.error(&format!(
                            "the input `{}` takes no array of numbers; give it as a .pb file of ONNX",
                            input.name
                        ))
                    })?;
                    let taken = taken(array, element);
                    taken.map_err(|fault| Error::user(format!("{at}: it {fault}")))?.into()
                }
            };
            Ok((input.name.clone(), value))
        });
        values.collect()
    }
}

impl Given {
    fn read(path: &Path, input: Option<&ValueInfoProto>) -> Result<Given> {
        let place = path.display().to_string();
        let is_array = path.extension().is_some_and(|own| own.eq_ignore_ascii_case("npy"));
        let content = if is_array {
            Content::Array(npy::read(path)?)
        } else {
            let bytes = fs::read(path)
                .map_err(|error| Error::user(format!("{place} cannot be read ({error}); check the path")))?;
            let ty = input.and_then(|input| input.r#type.clone()).unwrap_or_default();
            Content::Value(HostValue::of_file(&bytes, &ty).map_err(|error| error.at(place.clone()))?)
        };
        Ok(Given { content, place })
    }

    /// The extents; none of a list and an absent value.
    fn shape(&self) -> Option<&[usize]> {
        match &self.content {
            Content::Array(array) => Some(array.shape()),
            Content::Value(value) => value.tensor().map(|tensor| tensor.shape()),
        }
    }

    /// Checks the number of axes, and the extents whose sizes the file says.
    fn check_shape(&self, input: &ValueInfoProto, dims: &[DimensionProto]) -> Result<()> {
        let Some(shape) = self.shape() else { return Ok(()) };
        let fits = |(dim, &extent): (&DimensionProto, &usize)| match &dim.value {
            Some(Dimension::Value(size)) => *size < 0 || usize::try_from(*size) == Ok(extent),
            _ => true,
        };
        if dims.len() == shape.len() && dims.iter().zip(shape).all(fits) {
            Ok(())
        } else {
            Err(Error::user(format!(
                "{} has the shape {shape:?}, but the input `{}` takes {}; give an array of that shape",
                self.place,
                input.name,
                shown(dims)
            )))
        }
    }
}

/// The dtype that an array for an input of this name has; none for no input of numbers.
pub fn dtype_of_input(model: &Model, name: &str) -> Option<Dtype> {
    let input = model.inputs.iter().find(|input| input.name == name)?;
    element_of(input).map(dtype)
}

/// The names of a model's inputs.
fn names(model: &Model) -> String {
    let names: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
    names.join(", ")
}

/// Extents as `[batch, 8]`.
fn shown(dims: &[DimensionProto]) -> String {
    let extent = |dim: &DimensionProto| match &dim.value {
        Some(Dimension::Value(size)) if *size >= 0 => size.to_string(),
        Some(Dimension::Param(name)) => name.clone(),
        _ => "?".to_string(),
    };
    let extents: Vec<String> = dims.iter().map(extent).collect();
    format!("[{}]", extents.join(", "))
}

//! An exported program as Python hands it over: inputs, nodes in order, outputs.

use lessen_base::{Error, Result};
use lessen_graph::DType;
use serde::Deserialize;

/// A program that `torch.export` made of a module.
#[derive(Clone, Debug, Deserialize)]
pub struct ExportedProgram {
    /// Parameters, buffers, constants and data, in order.
    pub inputs: Vec<ExportedInput>,
    /// Operators in the order in which they run.
    pub nodes: Vec<ExportedNode>,
    /// The results, flat.
    pub outputs: Vec<Argument>,
}

/// What an input of a program stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputRole {
    /// A parameter of the module.
    Parameter,
    /// A buffer of the module.
    Buffer,
    /// A tensor that the module's code holds.
    Constant,
    /// A part of the batch.
    Data,
}

/// An input of a program.
#[derive(Clone, Debug, Deserialize)]
pub struct ExportedInput {
    /// The name by which nodes read it.
    pub name: String,
    /// What it stands for.
    pub role: InputRole,
    /// The name in the module of a parameter, buffer or constant. Tied parameters have one name. Of data it is the name
    /// in the program.
    pub target: String,
    /// Shape; of data the one of the batch that was exported.
    pub shape: Vec<usize>,
    /// The dtype in the graph.
    #[serde(deserialize_with = "dtype")]
    pub dtype: DType,
}

/// An operator with its arguments.
#[derive(Clone, Debug, Deserialize)]
pub struct ExportedNode {
    /// The name of its result.
    pub name: String,
    /// The operator, such as `aten.add.Tensor`.
    pub operator: String,
    /// All arguments of its schema by name, in order.
    pub arguments: Vec<(String, Argument)>,
    /// The user's line, as `FILE:LINE`.
    #[serde(default)]
    pub line: String,
    /// Whether the result may share memory with its first argument.
    #[serde(default)]
    pub is_view: bool,
    /// The argument that it changes in place, if any.
    #[serde(default)]
    pub writes: Option<String>,
}

/// An argument of an operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// No argument.
    Absent,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Text(String),
    /// Several arguments.
    List(Vec<Argument>),
    /// The result of a node.
    Node {
        /// Its name.
        node: String,
    },
    /// A number that JSON does not have: `inf`, `-inf` or `nan`.
    Special {
        /// Its name.
        float: String,
    },
    /// A dtype.
    DType {
        /// Its name in the graph.
        dtype: String,
    },
}

fn dtype<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<DType, D::Error> {
    let name = String::deserialize(from)?;
    DType::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("no dtype `{name}`")))
}

impl ExportedProgram {
    /// Reads a program from JSON.
    ///
    /// # Errors
    /// Text that is no such program.
    pub fn from_json(text: &str) -> Result<ExportedProgram> {
        serde_json::from_str(text)
            .map_err(|error| Error::internal(format!("an exported program cannot be read: {error}")))
    }

    /// The inputs of a role, in order.
    pub fn inputs_of(&self, role: InputRole) -> impl Iterator<Item = &ExportedInput> {
        self.inputs.iter().filter(move |input| input.role == role)
    }

    /// The names in the module of `f32` buffers that the program changes: the statistics of batch normalization in
    /// training, and buffers that operators write.
    pub fn changed_buffers(&self) -> Vec<&str> {
        let written = self.nodes.iter().flat_map(|node| {
            let is_batch_norm = node.operator.starts_with("aten.batch_norm") && node.is_true("training");
            let written = move |name: &str| match name {
                "running_mean" | "running_var" => is_batch_norm,
                name => node.writes.as_deref() == Some(name),
            };
            let names = node.arguments.iter().filter(move |(name, _)| written(name));
            names.filter_map(|(_, argument)| match argument {
                Argument::Node { node } => Some(node.as_str()),
                _ => None,
            })
        });
        let buffer = |name: &str| {
            let mut buffers = self.inputs_of(InputRole::Buffer);
            let found = buffers.find(|input| input.name == name && input.dtype == DType::F32);
            found.map(|input| input.target.as_str())
        };
        written.filter_map(buffer).collect()
    }
}

impl ExportedNode {
    /// The user's line as the end of a sentence.
    pub fn place(&self) -> String {
        if self.line.is_empty() {
            String::new()
        } else {
            format!(" at {}", self.line)
        }
    }

    fn is_true(&self, name: &str) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|(own, argument)| own == name && matches!(argument, Argument::Bool(true)))
    }
}

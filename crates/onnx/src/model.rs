//! An ONNX model in its file: nodes and types are read, elements of tensors stay where they are, and what is
//! not understood is kept as bytes.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use prost::Message;

use crate::names::is_own;
use crate::order;
use crate::proto::{AttributeProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use crate::tensor::Tensor;
use crate::wire::{Field, Payload, Source, Span};

/// Numbers of fields in the schema.
pub(crate) mod number {
    pub const MODEL_VERSION: u32 = 1;
    pub const MODEL_GRAPH: u32 = 7;
    pub const MODEL_OPSETS: u32 = 8;
    pub const MODEL_METADATA: u32 = 14;
    pub const MODEL_FUNCTIONS: u32 = 25;
    pub const GRAPH_NODES: u32 = 1;
    pub const GRAPH_NAME: u32 = 2;
    pub const GRAPH_INITIALIZERS: u32 = 5;
    pub const GRAPH_INPUTS: u32 = 11;
    pub const GRAPH_OUTPUTS: u32 = 12;
    pub const GRAPH_VALUES: u32 = 13;
    pub const GRAPH_SPARSE: u32 = 15;
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// The content of the file.
    pub proto: NodeProto,
    /// Names that its branches and bodies read from around it.
    pub captured: Vec<String>,
    /// Its place in the file; of a node of a function the place of the call.
    pub span: Span,
    /// The sets of operators of the function that it comes from; none where they are the model's.
    pub opsets: Option<Arc<[OperatorSetIdProto]>>,
}

impl Node {
    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.proto.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// The name of an input; none where it is absent.
    pub fn input(&self, position: usize) -> Option<&str> {
        self.proto
            .input
            .get(position)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// All names that it reads.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        let own = self.proto.input.iter().filter(|name| !name.is_empty());
        own.chain(&self.captured).map(String::as_str)
    }

    /// The node's name for people: its operator and its name, or the name of its first output.
    pub fn shown(&self) -> String {
        let NodeProto {
            op_type, name, output, ..
        } = &self.proto;
        let name = if name.is_empty() { output.first() } else { Some(name) };
        format!("{op_type} `{}`", name.map_or("", String::as_str))
    }
}

/// An ONNX model.
#[derive(Debug)]
pub struct Model {
    /// The file.
    pub source: Source,
    /// The fields of the model.
    pub(crate) fields: Vec<Field>,
    /// The fields of its graph.
    pub(crate) graph_fields: Vec<Field>,
    /// The sets of operators and their versions.
    pub opsets: Vec<OperatorSetIdProto>,
    /// Nodes, each after the nodes that it reads, whatever their order in the file.
    pub nodes: Vec<Node>,
    /// Initializers by name.
    pub initializers: HashMap<String, Tensor>,
    /// Initializers that are no tensors of numbers, such as sparse ones and texts: their fields' numbers and contents.
    pub(crate) opaque: HashMap<String, (u32, Span)>,
    /// Inputs that the caller gives, in order.
    pub inputs: Vec<ValueInfoProto>,
    /// Inputs with initializers of their names; see [`Model::may_be_given`].
    pub overridable: Vec<ValueInfoProto>,
    /// Outputs, in order.
    pub outputs: Vec<ValueInfoProto>,
    /// Types of other values, as far as the file says them.
    pub values: HashMap<String, ValueInfoProto>,
    /// Whether nodes call functions of the file.
    pub has_functions: bool,
}

impl Model {
    /// Opens a model.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it: no file, fields that are cut off or contradict each
    /// other, values that are defined twice or read before they are defined, circles.
    pub fn open(path: &Path) -> Result<Model> {
        Model::of(Source::open(path)?)
    }

    /// Reads the model in a source.
    ///
    /// # Errors
    /// As for [`Model::open`].
    pub(crate) fn of(source: Source) -> Result<Model> {
        let fields = source.fields(source.all())?;
        let mut graphs = fields.iter().filter(|field| field.number == number::MODEL_GRAPH);
        let graph = graphs.next_back().and_then(Field::bytes);
        let Some(graph) = graph.filter(|_| graphs.next().is_none()) else {
            return Err(source.damaged(0, "it holds no graph"));
        };
        let opsets = decoded(&source, &fields, number::MODEL_OPSETS)?;
        let graph_fields = source.fields(graph)?;
        let mut model = Model {
            opsets,
            nodes: Vec::new(),
            initializers: HashMap::new(),
            opaque: HashMap::new(),
            inputs: decoded(&source, &graph_fields, number::GRAPH_INPUTS)?,
            overridable: Vec::new(),
            outputs: decoded(&source, &graph_fields, number::GRAPH_OUTPUTS)?,
            values: HashMap::new(),
            has_functions: fields.iter().any(|field| field.number == number::MODEL_FUNCTIONS),
            source,
            fields,
            graph_fields,
        };
        model.read_values()?;
        model.read_initializers()?;
        model.read_nodes()?;
        let (overridable, inputs): (Vec<_>, Vec<_>) = std::mem::take(&mut model.inputs)
            .into_iter()
            .filter(|input| !model.opaque.contains_key(&input.name))
            .partition(|input| model.initializers.contains_key(&input.name));
        (model.overridable, model.inputs) = (overridable, inputs);
        model.order()?;
        model.check()?;
        model.check_names()?;
        Ok(model)
    }

    /// The version of the operators of a domain; none where the model has none of it.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        find_version(&self.opsets, domain)
    }

    /// The version of the operators of a node.
    pub fn version(&self, node: &Node) -> i64 {
        version(node.opsets.as_deref().unwrap_or(&self.opsets), &node.proto.domain)
    }

    /// The version of the format; 0 where the file says none.
    pub(crate) fn format_version(&self) -> u64 {
        let version = self.fields.iter().find(|field| field.number == number::MODEL_VERSION);
        match version.map(|field| field.payload) {
            Some(Payload::Number(version)) => version,
            _ => 0,
        }
    }

    /// Whether a run may give another value in place of an initializer. Before version 4 of the format, every
    /// initializer is among the inputs, and none may be given.
    pub fn may_be_given(&self, initializer: &str) -> bool {
        self.format_version() >= 4 && self.overridable.iter().any(|input| input.name == initializer)
    }

    /// The error of a model that cannot be used.
    pub fn error(&self, sentence: &str) -> Error {
        Error::user(format!("{}: {sentence}", self.source.path().display()))
    }

    fn read_values(&mut self) -> Result<()> {
        let values: Vec<ValueInfoProto> = decoded(&self.source, &self.graph_fields, number::GRAPH_VALUES)?;
        self.values = values.into_iter().map(|value| (value.name.clone(), value)).collect();
        Ok(())
    }

    fn read_initializers(&mut self) -> Result<()> {
        for field in &self.graph_fields {
            let Some(span) = field.bytes() else { continue };
            match field.number {
                number::GRAPH_INITIALIZERS => match Tensor::read(&self.source, span)? {
                    Some(tensor) if self.initializers.contains_key(&tensor.name) => {
                        return Err(self.error(&format!(
                            "two initializers are called `{}`; export it again",
                            tensor.name
                        )));
                    }
                    Some(tensor) => {
                        self.initializers.insert(tensor.name.clone(), tensor);
                    }
                    None => {
                        let name = name_of(&self.source, span, 8)?;
                        self.opaque.extend(name.map(|name| (name, (field.number, span))));
                    }
                },
                number::GRAPH_SPARSE => {
                    let fields = self.source.fields(span)?;
                    let values = fields.iter().find(|field| field.number == 1).and_then(Field::bytes);
                    if let Some(values) = values {
                        let name = name_of(&self.source, values, 8)?;
                        self.opaque.extend(name.map(|name| (name, (field.number, span))));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_nodes(&mut self) -> Result<()> {
        for field in self
            .graph_fields
            .iter()
            .filter(|field| field.number == number::GRAPH_NODES)
        {
            let Some(span) = field.bytes() else { continue };
            let proto = NodeProto::decode(&self.source.read(span)?[..]);
            let proto = proto.map_err(|_| self.source.damaged(span.start, "a node is not one of the schema"))?;
            self.nodes.push(self.node(proto, span, None)?);
        }
        Ok(())
    }

    /// A node, with the nodes of its graphs in order.
    ///
    /// # Errors
    /// Graphs whose nodes form a circle or that are too deep within each other.
    pub(crate) fn node(
        &self,
        mut proto: NodeProto,
        span: Span,
        opsets: Option<Arc<[OperatorSetIdProto]>>,
    ) -> Result<Node> {
        let ordered = order::order_graphs(&mut proto);
        let captured = order::captured(&proto);
        let node = Node {
            proto,
            captured,
            span,
            opsets,
        };
        ordered.map_err(|why| {
            self.error(&format!(
                "the node {} is not valid, since {}",
                node.shown(),
                why.message()
            ))
        })?;
        Ok(node)
    }

    /// Puts each node after those that it reads.
    pub(crate) fn order(&mut self) -> Result<()> {
        let nodes: Vec<(&NodeProto, &[String])> = self
            .nodes
            .iter()
            .map(|node| (&node.proto, &node.captured[..]))
            .collect();
        let sorted = order::order(&nodes).map_err(|position| {
            let node = self.nodes[position].shown();
            self.error(&format!(
                "the node {node} reads what follows from it: its nodes form a circle"
            ))
        })?;
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = sorted
            .into_iter()
            .filter_map(|position| nodes[position].take())
            .collect();
        Ok(())
    }

    /// The names of all values, in the graphs inside of nodes as well.
    pub(crate) fn names(&self) -> HashSet<String> {
        let inputs = self.inputs.iter().chain(&self.overridable);
        let values = inputs.chain(&self.outputs).map(|value| &value.name);
        let mut names: HashSet<String> = values.cloned().collect();
        names.extend(self.initializers.keys().chain(self.opaque.keys()).cloned());
        for node in &self.nodes {
            names.extend(node.reads().map(str::to_string));
            names.extend(node.proto.output.iter().cloned());
            order::each_graph(&node.proto, &mut |graph| {
                names.extend(graph.input.iter().chain(&graph.output).map(|value| value.name.clone()));
                names.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
                let inner = graph.node.iter().flat_map(|node| node.input.iter().chain(&node.output));
                names.extend(inner.cloned());
            });
        }
        names
    }

    /// Checks that no value has a name that Lessen makes.
    pub(crate) fn check_names(&self) -> Result<()> {
        match self.names().iter().filter(|name| is_own(name)).min() {
            Some(name) => Err(self.error(&format!(
                "the name of the value `{}` begins with a control character that Lessen keeps for names of its own; rename \
                 it",
                name.escape_debug()
            ))),
            None => Ok(()),
        }
    }

    /// Checks that each value is defined once, before it is read.
    pub(crate) fn check(&self) -> Result<()> {
        let mut defined: HashSet<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        defined.extend(self.initializers.keys().map(String::as_str));
        defined.extend(self.opaque.keys().map(String::as_str));
        for node in &self.nodes {
            if let Some(name) = node.reads().find(|name| !defined.contains(name)) {
                let node = node.shown();
                let sentence = format!("the node {node} reads `{name}`, which nothing defines; export it again");
                return Err(self.error(&sentence));
            }
            for output in node.proto.output.iter().filter(|name| !name.is_empty()) {
                if !defined.insert(output) {
                    return Err(self.error(&format!("the value `{output}` is defined twice; export it again")));
                }
            }
        }
        match self
            .outputs
            .iter()
            .find(|output| !defined.contains(output.name.as_str()))
        {
            Some(output) => Err(self.error(&format!(
                "nothing defines the output `{}`; export it again",
                output.name
            ))),
            None => Ok(()),
        }
    }
}

/// The version of the operators of a domain among sets; none where it is not there.
fn find_version(opsets: &[OperatorSetIdProto], domain: &str) -> Option<i64> {
    let mut found = opsets.iter().filter(|opset| same_domain(&opset.domain, domain));
    found.next().map(|opset| opset.version)
}

/// The version of the operators of a domain among sets; 1 where it is not there.
pub fn version(opsets: &[OperatorSetIdProto], domain: &str) -> i64 {
    find_version(opsets, domain).unwrap_or(1)
}

/// Whether two names of domains are the same: ONNX itself has two.
pub(crate) fn same_domain(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.is_empty() || name == "ai.onnx";
    a == b || (plain(a) && plain(b))
}

/// The messages in the fields of this number.
pub(crate) fn decoded<M: Message + Default>(source: &Source, fields: &[Field], number: u32) -> Result<Vec<M>> {
    let spans = fields
        .iter()
        .filter(|field| field.number == number)
        .filter_map(Field::bytes);
    spans
        .map(|span| {
            let message = M::decode(&source.read(span)?[..]);
            message.map_err(|_| source.damaged(span.start, "a message is not one of the schema"))
        })
        .collect()
}

/// The text in the field of this number of a message.
pub(crate) fn name_of(source: &Source, message: Span, number: u32) -> Result<Option<String>> {
    let fields = source.fields(message)?;
    let Some(span) = fields
        .iter()
        .find(|field| field.number == number)
        .and_then(Field::bytes)
    else {
        return Ok(None);
    };
    Ok(String::from_utf8(source.read(span)?).ok())
}

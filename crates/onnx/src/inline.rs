//! Calls of a file's own functions, replaced by the functions' nodes.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use prost::Message;

use crate::model::{Model, Node, decoded, number, same_domain, version};
use crate::order::{constant, defined, graphs_mut, sparse_constant};
use crate::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, SparseTensorProto,
    TensorProto,
};

/// The most functions that call each other.
const MOST_NESTED: usize = 32;

/// Bytes of all nodes of functions, beside a multiple of the file's own.
const MOST_BYTES: u64 = 1 << 26;

/// The sets of operators that a node is of.
type Opsets = Arc<[OperatorSetIdProto]>;

/// What a function is called by: domain, name and overload.
type Key = (String, String, String);

impl Model {
    /// Opens a model to run it: in place of calls of the file's own functions stand the nodes of these, and in place
    /// of initializers that are no tensors of numbers nodes that give them.
    ///
    /// # Errors
    /// As for [`Model::open`]; functions that call themselves or do not fit their calls; scales of integers that are no
    /// positive numbers.
    pub fn open_to_run(path: &Path) -> Result<Model> {
        let mut model = Model::open(path)?;
        if model.opaque.is_empty() && !model.has_functions {
            model.check_scales()?;
            return Ok(model);
        }
        let constants = model.constants()?;
        model.opaque.clear();
        if model.has_functions {
            model.inline()?;
        }
        model.nodes.splice(0..0, constants);
        model.order()?;
        model.check()?;
        model.check_names()?;
        model.check_scales()?;
        Ok(model)
    }

    /// Nodes that give the initializers that are no tensors of numbers.
    fn constants(&self) -> Result<Vec<Node>> {
        let mut all: Vec<_> = self.opaque.iter().collect();
        all.sort_by_key(|(name, _)| *name);
        let nodes = all.into_iter().map(|(name, &(number, span))| {
            let bytes = self.source.read(span)?;
            let damaged = |_| {
                self.source
                    .damaged(span.start, "an initializer is not one of the schema")
            };
            let node = if number == number::GRAPH_SPARSE {
                sparse_constant(name, SparseTensorProto::decode(&bytes[..]).map_err(damaged)?)
            } else {
                let tensor = TensorProto::decode(&bytes[..]).map_err(damaged)?;
                constant(
                    name,
                    AttributeProto {
                        name: "value".to_string(),
                        r#type: AttributeType::Tensor.into(),
                        t: Some(tensor),
                        ..AttributeProto::default()
                    },
                )
            };
            self.node(node, span, None)
        });
        nodes.collect()
    }

    /// Replaces calls of functions.
    fn inline(&mut self) -> Result<()> {
        let functions: Vec<FunctionProto> = decoded(&self.source, &self.fields, number::MODEL_FUNCTIONS)?;
        let mut inliner = Inliner {
            functions: HashMap::new(),
            calls: 0,
            taken: self.names(),
            bytes: MOST_BYTES.saturating_add(self.source.all().len.saturating_mul(4)),
            open: Vec::new(),
        };
        for function in functions {
            let key = key(&function.domain, &function.name, &function.overload);
            let bytes = function.encoded_len() as u64;
            if inliner.functions.insert(key, Arc::new((function, bytes))).is_some() {
                return Err(self.error("two of its functions have one name; export it again"));
            }
        }
        let own: Opsets = self.opsets.clone().into();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for node in std::mem::take(&mut self.nodes) {
            let (shown, span) = (node.shown(), node.span);
            let mut written_out = Vec::new();
            inliner
                .expand(node.proto, &own, &mut written_out)
                .map_err(|why| self.error(&format!("the node {shown} cannot be run, since {}", why.message())))?;
            for (proto, opsets) in written_out {
                let opsets = (!Arc::ptr_eq(&opsets, &own)).then_some(opsets);
                nodes.push(self.node(proto, span, opsets)?);
            }
        }
        self.nodes = nodes;
        self.has_functions = false;
        Ok(())
    }
}

fn key(domain: &str, name: &str, overload: &str) -> Key {
    let domain = if same_domain(domain, "") { "" } else { domain };
    (domain.to_string(), name.to_string(), overload.to_string())
}

/// Replaces calls.
struct Inliner {
    /// Functions and their bytes.
    functions: HashMap<Key, Arc<(FunctionProto, u64)>>,
    /// Calls so far, which tell names of one from names of another.
    calls: usize,
    /// The names of the file's values.
    taken: HashSet<String>,
    /// Bytes that functions may still take.
    bytes: u64,
    /// The functions that are being replaced.
    open: Vec<Key>,
}

impl Inliner {
    /// Appends the nodes that a node stands for.
    fn expand(&mut self, mut node: NodeProto, opsets: &Opsets, out: &mut Vec<(NodeProto, Opsets)>) -> Result<()> {
        for graph in node.attribute.iter_mut().flat_map(graphs_mut) {
            self.expand_graph(graph, opsets)?;
        }
        let key = key(&node.domain, &node.op_type, &node.overload);
        let Some(function) = self.functions.get(&key).cloned() else {
            out.push((node, opsets.clone()));
            return Ok(());
        };
        let (function, bytes) = &*function;
        if self.open.contains(&key) || self.open.len() == MOST_NESTED {
            return Err(Error::user(format!(
                "the function {} calls itself, or more than {MOST_NESTED} functions call each other",
                function.name
            )));
        }
        let own = match &function.opset_import[..] {
            [] => opsets.clone(),
            all => all.to_vec().into(),
        };
        let prefix = self.prefix(&function.name);
        let Some(left) = self.bytes.checked_sub(bytes + 64) else {
            return Err(Error::user("its functions are too large where they are written out"));
        };
        self.bytes = left;
        let nodes = written_out(function, &node, prefix)?;
        self.open.push(key);
        for node in nodes {
            self.expand(node, &own, out)?;
        }
        self.open.pop();
        Ok(())
    }

    /// What the names of a call begin with, and no name of the file or of another call.
    fn prefix(&mut self, function: &str) -> String {
        loop {
            self.calls += 1;
            let prefix = format!("{function}#{}/", self.calls);
            if !self.taken.iter().any(|name| name.starts_with(&prefix)) {
                return prefix;
            }
        }
    }

    /// Replaces the calls in a graph inside of a node, whose nodes all are of one version.
    fn expand_graph(&mut self, graph: &mut GraphProto, opsets: &Opsets) -> Result<()> {
        let mut nodes = Vec::with_capacity(graph.node.len());
        for node in std::mem::take(&mut graph.node) {
            let mut all = Vec::new();
            self.expand(node, opsets, &mut all)?;
            for (node, own) in all {
                let (theirs, ours) = (version(&own, &node.domain), version(opsets, &node.domain));
                if theirs != ours {
                    return Err(Error::user(format!(
                        "a function has {} of version {theirs} within a graph of version {ours}",
                        node.op_type
                    )));
                }
                nodes.push(node);
            }
        }
        graph.node = nodes;
        Ok(())
    }
}

/// The nodes of a function for a call, with names that no other call has.
fn written_out(function: &FunctionProto, call: &NodeProto, prefix: String) -> Result<Vec<NodeProto>> {
    for (what, given, has) in [
        ("inputs", call.input.len(), function.input.len()),
        ("outputs", call.output.len(), function.output.len()),
    ] {
        if given > has {
            return Err(Error::user(format!(
                "the function {} has {has} {what}, not {given}",
                function.name
            )));
        }
    }
    let mut names = Names {
        known: HashMap::new(),
        prefix,
    };
    for (i, name) in function.input.iter().enumerate() {
        names.known.insert(name, call.input.get(i).map_or("", String::as_str));
    }
    let mut copies = Vec::new();
    for (name, output) in function
        .output
        .iter()
        .zip(&call.output)
        .filter(|(_, output)| !output.is_empty())
    {
        if names.known.contains_key(name.as_str()) {
            copies.push(NodeProto {
                op_type: "Identity".to_string(),
                input: vec![names.of(name)],
                output: vec![output.clone()],
                ..NodeProto::default()
            });
        } else {
            names.known.insert(name, output);
        }
    }
    let mut attributes: HashMap<&str, &AttributeProto> = HashMap::new();
    for attribute in function.attribute_proto.iter().chain(&call.attribute) {
        attributes.insert(&attribute.name, attribute);
    }
    let nodes = function.node.iter().cloned().map(|mut node| {
        names.rename(&mut node, &attributes);
        node
    });
    Ok(nodes.chain(copies).collect())
}

/// What the names in a function stand for where it is called.
#[derive(Clone)]
struct Names<'a> {
    /// Inputs and outputs.
    known: HashMap<&'a str, &'a str>,
    /// What all other names begin with.
    prefix: String,
}

impl Names<'_> {
    fn of(&self, name: &str) -> String {
        match self.known.get(name) {
            Some(known) => (*known).to_string(),
            None if name.is_empty() => String::new(),
            None => format!("{}{name}", self.prefix),
        }
    }

    /// Gives a node of the function the names and attributes of the call.
    fn rename(&self, node: &mut NodeProto, attributes: &HashMap<&str, &AttributeProto>) {
        node.name = format!("{}{}", self.prefix, node.name);
        for name in node.input.iter_mut().chain(&mut node.output) {
            *name = self.of(name);
        }
        node.attribute.retain_mut(|attribute| {
            if attribute.ref_attr_name.is_empty() {
                graphs_mut(attribute).for_each(|graph| self.rename_graph(graph, attributes));
                return true;
            }
            let Some(given) = attributes.get(attribute.ref_attr_name.as_str()) else {
                return false;
            };
            let name = std::mem::take(&mut attribute.name);
            *attribute = AttributeProto {
                name,
                ..(*given).clone()
            };
            true
        });
    }

    /// Gives the values of a graph the names of the call; what the graph defines hides what is around it.
    fn rename_graph(&self, graph: &mut GraphProto, attributes: &HashMap<&str, &AttributeProto>) {
        let own: HashSet<String> = defined(graph).map(String::from).collect();
        let mut names = self.clone();
        names.known.retain(|name, _| !own.contains(*name));
        for value in graph.input.iter_mut().chain(&mut graph.output) {
            value.name = names.of(&value.name);
        }
        let sparse = graph
            .sparse_initializer
            .iter_mut()
            .filter_map(|tensor| tensor.values.as_mut());
        for tensor in graph.initializer.iter_mut().chain(sparse) {
            tensor.name = names.of(&tensor.name);
        }
        for node in &mut graph.node {
            names.rename(node, attributes);
        }
    }
}

//! The files that a model reads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lessen_base::Result;
use prost::Message;

use crate::model::{Model, decoded, number};
use crate::order::each_graph;
use crate::proto::{FunctionProto, NodeProto, TensorProto};
use crate::tensor::Elements;

impl Model {
    /// The file of the model and all files that it names: those of elements of initializers and of tensors in nodes, in
    /// graphs inside of nodes and in functions.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut locations = BTreeSet::new();
        for tensor in self.initializers.values() {
            if let Elements::There(external) = &tensor.elements {
                locations.insert(external.file.clone());
            }
        }
        let opaque = self.opaque.values();
        for (_, span) in opaque.filter(|(field, _)| *field == number::GRAPH_INITIALIZERS) {
            let tensor = TensorProto::decode(&self.source.read(*span)?[..]);
            tensor.iter().for_each(|tensor| add(tensor, &mut locations));
        }
        let functions: Vec<FunctionProto> = decoded(&self.source, &self.fields, number::MODEL_FUNCTIONS)?;
        let own = self.nodes.iter().map(|node| &node.proto);
        for node in own.chain(functions.iter().flat_map(|function| &function.node)) {
            add_of_node(node, &mut locations);
            each_graph(node, &mut |graph| {
                graph.initializer.iter().for_each(|tensor| add(tensor, &mut locations));
                graph.node.iter().for_each(|node| add_of_node(node, &mut locations));
            });
        }
        let path = self.source.path();
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = locations.into_iter().map(|location| folder.join(location));
        Ok([path.to_path_buf()].into_iter().chain(beside).collect())
    }
}

fn add_of_node(node: &NodeProto, locations: &mut BTreeSet<PathBuf>) {
    let tensors = node.attribute.iter().filter_map(|attribute| attribute.t.as_ref());
    tensors.for_each(|tensor| add(tensor, locations));
}

/// Adds the file of a tensor's elements, if that is another one.
fn add(tensor: &TensorProto, locations: &mut BTreeSet<PathBuf>) {
    let is_elsewhere = tensor.data_location == 1;
    let entries = tensor.external_data.iter();
    let mut named = entries.filter(|entry| is_elsewhere && entry.key == "location");
    locations.extend(named.next().map(|entry| PathBuf::from(&entry.value)));
}

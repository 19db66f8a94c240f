//! The layers of a traced model: the products of its operations, which each describes itself.

use lessen_base::Result;
use lessen_graph::ops::Slide;
use lessen_graph::{Cost, Graph, InputKind, Node, Op, Phase, Products, ValueId, lower};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::layer::{Bits, Layer, LayerKind, LayerShape};

/// The layers of a graph, and what is none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphLayers {
    /// Its layers in the order of their nodes, with unique names.
    pub layers: Vec<Layer>,
    /// Operations that multiply, but do not say how and have no decomposition: they are missing among the layers.
    pub without_model: Vec<Uncounted>,
    /// Operations without products, such as norms and activations, which no model here counts.
    pub without_products: Vec<Uncounted>,
}

/// Operations of one name that are not among the layers.
#[derive(Clone, PartialEq, Debug)]
pub struct Uncounted {
    /// Name of the operation.
    pub operation: String,
    /// The place of the first one in the model; empty at the top.
    pub place: String,
    /// How many there are.
    pub count: usize,
    /// Multiplications and additions of their products.
    pub macs: f64,
    /// Their other floating-point operations.
    pub vector_flops: f64,
}

impl Uncounted {
    /// What it would be counted as, in a sentence without a full stop.
    pub fn sentence(&self) -> String {
        let place = match self.place.is_empty() {
            true => String::new(),
            false => format!(" at {}", self.place),
        };
        format!(
            "the operation {}{place} has no cost model: it would be counted as a linear layer of {:.0} multiplications, \
             which are missing here",
            self.operation, self.macs
        )
    }
}

/// The layers of a graph's forward phase, all at these bits. Operations that do not describe their products are
/// replaced by their decompositions. Products of parameters alone, which are computed once, are left out.
///
/// # Errors
/// A layer that [`LayerShape::check`] refuses, with its name in front.
pub fn layers_of_graph(graph: &Graph, bits: Bits) -> Result<GraphLayers> {
    layers_of_graphs(std::slice::from_ref(graph), bits)
}

/// The layers of graphs that are computed one after another, as [`layers_of_graph`] finds them.
///
/// # Errors
/// As for [`layers_of_graph`].
pub fn layers_of_graphs(graphs: &[Graph], bits: Bits) -> Result<GraphLayers> {
    let mut all = Found::default();
    for graph in graphs {
        all.add(&described(graph), bits)?;
    }
    Ok(GraphLayers {
        layers: all.layers,
        without_model: all.without_model.into_values().collect(),
        without_products: all.without_products.into_values().collect(),
    })
}

/// The layers of the graphs so far, how often each name was taken, and the other operations by name.
#[derive(Default)]
struct Found {
    layers: Vec<Layer>,
    names: HashMap<String, usize>,
    without_model: BTreeMap<&'static str, Uncounted>,
    without_products: BTreeMap<&'static str, Uncounted>,
}

impl Found {
    /// Adds the layers of a graph whose operations describe their products.
    fn add(&mut self, graph: &Graph, bits: Bits) -> Result<()> {
        let mut walk = Walk::new(graph);
        if !self.layers.is_empty() {
            walk.follows_layers(graph);
        }
        for node in &graph.nodes {
            let products = products_of(graph, node);
            let is_counted = node.phase == Phase::Forward && !walk.is_constant(node);
            if is_counted {
                for products in &products {
                    let name = unique(&mut self.names, walk.name(node, products));
                    let shape = walk.shape(node, products);
                    shape.check().map_err(|e| e.at(format_args!("layer {name}")))?;
                    self.layers.push(Layer { name, shape, bits });
                }
                if products.is_empty() {
                    let cost = cost_of(graph, node);
                    let list = if cost.product_flops > 0.0 {
                        &mut self.without_model
                    } else {
                        &mut self.without_products
                    };
                    add(list, node, cost);
                }
            }
            walk.pass(node, !products.is_empty());
        }
        Ok(())
    }
}

fn cost_of(graph: &Graph, node: &Node) -> Cost {
    graph
        .ask(node, &graph.input_types(node), &graph.output_types(node))
        .cost()
}

fn products_of(graph: &Graph, node: &Node) -> Vec<Products> {
    node.op.products(&graph.input_types(node), &graph.output_types(node))
}

/// The graph with decompositions in place of operations that multiply and do not say how.
fn described(graph: &Graph) -> Cow<'_, Graph> {
    let mut graph = Cow::Borrowed(graph);
    loop {
        let is_silent = |node: &&Node| {
            let multiplies = cost_of(&graph, node).product_flops > 0.0;
            node.phase == Phase::Forward && multiplies && products_of(&graph, node).is_empty()
        };
        let silent: Vec<Arc<dyn Op>> = graph
            .nodes
            .iter()
            .filter(is_silent)
            .map(|node| node.op.clone())
            .collect();
        if silent.is_empty() {
            return graph;
        }
        let nodes = graph.nodes.len();
        let next = lower(&graph, &|op| !silent.iter().any(|other| op.same(other.as_ref()))).into_owned();
        // Where nothing has a decomposition, the graph stays as it is.
        if next.nodes.len() == nodes {
            return Cow::Owned(next);
        }
        graph = Cow::Owned(next);
    }
}

/// Adds a node to the operations of its name.
fn add(list: &mut BTreeMap<&'static str, Uncounted>, node: &Node, cost: Cost) {
    let own = list.entry(node.op.name()).or_insert_with(|| Uncounted {
        operation: node.op.name().to_string(),
        place: node.scope.to_string(),
        count: 0,
        macs: 0.0,
        vector_flops: 0.0,
    });
    own.count += 1;
    own.macs += cost.product_flops / 2.0;
    own.vector_flops += cost.vector_flops;
}

/// A name that no other layer has: the second one gets `#2`.
fn unique(names: &mut HashMap<String, usize>, name: String) -> String {
    let count = names.entry(name.clone()).or_insert(0);
    *count += 1;
    match *count {
        1 => name,
        count => format!("{name}#{count}"),
    }
}

/// What is known of the values so far.
struct Walk<'a> {
    /// Whether a value follows from parameters and constants alone.
    constant: Vec<bool>,
    /// The only parameter that a value follows from.
    parameter: Vec<Option<&'a str>>,
    /// Whether a value depends on the result of a layer.
    layered: Vec<bool>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph) -> Walk<'a> {
        let values = graph.values.len();
        let mut walk = Walk {
            constant: vec![false; values],
            parameter: vec![None; values],
            layered: vec![false; values],
        };
        for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            walk.constant[input.value.index()] = true;
            walk.parameter[input.value.index()] = Some(&input.name);
        }
        walk
    }

    /// Marks the data inputs of the graph as results of earlier layers.
    fn follows_layers(&mut self, graph: &Graph) {
        for input in graph.inputs.iter().filter(|input| input.kind == InputKind::Data) {
            self.layered[input.value.index()] = true;
        }
    }

    fn is_constant(&self, node: &Node) -> bool {
        node.inputs.iter().all(|value| self.constant[value.index()])
    }

    /// Notes the outputs of a node.
    fn pass(&mut self, node: &Node, is_layer: bool) {
        let is_constant = self.is_constant(node);
        let mut origins = node.inputs.iter().filter_map(|value| self.parameter[value.index()]);
        let first = origins.next().filter(|_| is_constant);
        let parameter = first.filter(|first| origins.all(|other| other == *first));
        let is_layered = is_layer || node.inputs.iter().any(|value| self.layered[value.index()]);
        for output in &node.outputs {
            self.constant[output.index()] = is_constant;
            self.parameter[output.index()] = parameter;
            self.layered[output.index()] = is_layered && !is_constant;
        }
    }

    /// The value of a factor, where it is an input of the node.
    fn factor(&self, node: &Node, products: &Products, at: usize) -> Option<ValueId> {
        products.factors[at].and_then(|input| node.inputs.get(input).copied())
    }

    fn has_constant(&self, node: &Node, products: &Products, at: usize) -> bool {
        self.factor(node, products, at)
            .is_some_and(|value| self.constant[value.index()])
    }

    /// The parameter's name without `weight`, or the place in the model with the operation's name.
    fn name(&self, node: &Node, products: &Products) -> String {
        let parameter = [1, 0]
            .into_iter()
            .find_map(|at| self.parameter[self.factor(node, products, at)?.index()]);
        if let Some(name) = parameter {
            let cut = name.strip_suffix(".weight").or(name.strip_suffix("_weight"));
            return cut.unwrap_or(name).to_string();
        }
        let own = if products.part.is_empty() {
            node.op.name()
        } else {
            products.part
        };
        match node.scope.is_empty() {
            true => own.to_string(),
            false => format!("{}.{own}", node.scope),
        }
    }

    fn shape(&self, node: &Node, products: &Products) -> LayerShape {
        let extent = |extent: usize| extent as u64;
        let Products {
            batch,
            inputs,
            outputs,
            repeats,
            ..
        } = *products;
        let [left, right] = [0, 1].map(|at| self.has_constant(node, products, at));
        if let Some(windows) = products.windows {
            let is_image = self
                .factor(node, products, 0)
                .is_some_and(|value| !self.layered[value.index()]);
            return convolution(products, windows, is_image);
        }
        let [batch, inputs, outputs, repeats] = [batch, inputs, outputs, repeats].map(extent);
        match (left, right) {
            _ if products.recurrent => LayerShape::recurrent(batch, inputs, outputs, repeats),
            (_, true) => LayerShape {
                repeats,
                ..LayerShape::linear(batch, inputs, outputs)
            },
            // The weights stand on the left: rows and columns change places.
            (true, false) => LayerShape {
                repeats,
                ..LayerShape::linear(outputs, inputs, batch)
            },
            (false, false) => LayerShape::product(batch, inputs, outputs, repeats),
        }
    }
}

fn convolution(products: &Products, windows: [Slide; 2], is_first: bool) -> LayerShape {
    let of = |extent: fn(&Slide) -> usize| [0, 1].map(|axis| extent(&windows[axis]) as u64);
    let groups = products.groups;
    let is_depthwise = groups > 1 && groups == products.inputs && groups == products.outputs;
    LayerShape {
        kind: match is_depthwise {
            true => LayerKind::Depthwise,
            false => LayerKind::Convolution,
        },
        batch: products.batch as u64,
        inputs: products.inputs as u64,
        outputs: products.outputs as u64,
        groups: groups as u64,
        kernel: of(|slide| slide.taps),
        stride: of(|slide| slide.stride),
        dilation: of(|slide| slide.dilation),
        padding: of(|slide| slide.before),
        input_size: of(|slide| slide.input),
        output_size: of(|slide| slide.windows),
        repeats: products.repeats as u64,
        is_first,
    }
}

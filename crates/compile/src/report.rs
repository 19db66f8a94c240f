//! Reports: the largest values of a plan and its cost.

use lessen_graph::{Phase, Type, ValueId};

use crate::plan::Plan;
use crate::value_name::describe;

/// A value in the arena.
#[derive(Clone, Debug)]
pub struct ValueReport {
    /// The value.
    pub value: ValueId,
    /// Scope in the model and operation that define the value: `h.0.mlp gelu`; for an input its name.
    pub name: String,
    /// Dtype and shape.
    pub ty: Type,
    /// Bytes.
    pub bytes: usize,
    /// First plan step in which it is alive.
    pub first_step: usize,
    /// Last plan step in which it is alive; the number of steps if it is a result.
    pub last_step: usize,
    /// The phase that defines it.
    pub phase: Phase,
}

impl Plan {
    /// The `n` largest values of the arena with their lifetimes, largest first.
    pub fn largest(&self, n: usize) -> Vec<ValueReport> {
        let mut values: Vec<ValueReport> = (0..self.graph.values.len())
            .filter_map(|i| {
                let (first_step, last_step) = self.lifetimes[i]?;
                let value = ValueId(i as u32);
                let ty = self.graph.ty(value).clone();
                let (name, phase) = describe(&self.graph, value);
                Some(ValueReport {
                    value,
                    name,
                    bytes: ty.bytes(),
                    ty,
                    first_step,
                    last_step,
                    phase,
                })
            })
            .collect();
        values.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.first_step.cmp(&b.first_step)));
        values.truncate(n);
        values
    }

    /// The names of [`Plan::reference_nodes`]: scope and operation, such as `h.0.mlp swish`.
    pub fn reference_names(&self) -> Vec<String> {
        let name = |id: &lessen_graph::NodeId| describe(&self.graph, self.graph.nodes[id.index()].outputs[0]).0;
        self.reference_nodes.iter().map(name).collect()
    }

    /// Floating-point operations of matrix products (attention's included) in one run, and of everything else.
    pub fn flops(&self) -> (f64, f64) {
        let (mut products, mut others) = (0.0, 0.0);
        for step in &self.steps {
            for id in &step.nodes {
                let node = &self.graph.nodes[id.index()];
                let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
                let cost = self.graph.ask(node, &inputs, &outputs).cost();
                products += cost.product_flops;
                others += cost.vector_flops;
            }
        }
        (products, others)
    }
}

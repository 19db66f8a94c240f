//! Elements of tensors that follow from constants alone: positions, masks, tables of angles.

use lessen_graph::{Array, Node, Tensor, TraceRef, ValueId, evaluate_op};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most elements of a tensor that are computed while tracing.
const MOST_KNOWN: usize = 1 << 24;

/// Elements that are known, by value; none for values that depend on inputs.
pub struct Known {
    trace: TraceRef,
    arrays: HashMap<ValueId, Option<Arc<Array>>>,
}

impl Known {
    /// Nothing of a trace is known.
    pub fn new(trace: TraceRef) -> Known {
        let arrays = HashMap::new();
        Known { trace, arrays }
    }

    /// The elements of a tensor, where they follow from constants alone.
    pub fn of(&mut self, tensor: Tensor) -> Option<Arc<Array>> {
        for node in self.missing(tensor.id()) {
            let inputs: Option<Vec<&Array>> = node.inputs.iter().map(|id| self.arrays.get(id)?.as_deref()).collect();
            let arrays = inputs.and_then(|inputs| evaluate_op(node.op.as_ref(), &inputs).ok());
            let mut arrays = arrays.unwrap_or_default().into_iter();
            for id in &node.outputs {
                let array = arrays.next().map(|mut array| {
                    let dtype = array.ty.dtype;
                    array.data.iter_mut().for_each(|x| *x = dtype.round(*x));
                    Arc::new(array)
                });
                self.arrays.insert(*id, array);
            }
        }
        self.arrays.get(&tensor.id()).cloned().flatten()
    }

    /// The nodes to be evaluated for a value, in order. Inputs, random numbers and large values are noted as unknown.
    fn missing(&mut self, value: ValueId) -> Vec<Node> {
        let (mut open, mut found) = (vec![value], HashSet::new());
        let arrays = &mut self.arrays;
        self.trace.with_graph(|graph| {
            while let Some(value) = open.pop() {
                if arrays.contains_key(&value) {
                    continue;
                }
                match graph.producer(value) {
                    Some(producer) if graph.ty(value).numel() <= MOST_KNOWN => {
                        if found.insert(producer.index()) {
                            open.extend(&graph.nodes[producer.index()].inputs);
                        }
                    }
                    _ => {
                        arrays.insert(value, None);
                    }
                }
            }
            let mut found: Vec<usize> = found.into_iter().collect();
            found.sort_unstable();
            found.into_iter().map(|index| graph.nodes[index].clone()).collect()
        })
    }
}

//! Constants that were computed: exporters repeat what follows from sizes, such as a mask, in every layer.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::{Array, DType};

use super::Value;
use super::call::{Operator, evaluated};
use crate::model::Node;
use crate::wire::Source;

/// Limit of elements of a small constant. Equal small constants share one array.
const SMALL: usize = 64;

/// Type and bits of a small constant.
type Bits = (DType, Vec<usize>, Vec<u64>);

/// The operator, its version and the addresses of inputs.
type Call<'m> = (&'m str, i64, Vec<usize>);

/// Nodes with the outputs that they gave.
type Given<'m> = Vec<(&'m Node, Vec<Arc<Array>>)>;

/// The outputs that nodes gave for known inputs.
#[derive(Default)]
pub(crate) struct Memo<'m> {
    small: HashMap<Bits, Arc<Array>>,
    /// By call; the inputs stay alive in `kept`.
    results: HashMap<Call<'m>, Given<'m>>,
    kept: Vec<Arc<Array>>,
}

impl<'m> Memo<'m> {
    /// A constant, or an equal one that was there before.
    pub fn shared(&mut self, array: Arc<Array>) -> Arc<Array> {
        if array.data.len() > SMALL {
            return array;
        }
        let bits = array.data.iter().map(|x| x.to_bits()).collect();
        let key = (array.ty.dtype, array.ty.shape.to_vec(), bits);
        self.small.entry(key).or_insert(array).clone()
    }

    /// The outputs of a node whose inputs are all known, and whether they were computed now; none where an input is not
    /// known.
    ///
    /// # Errors
    /// What the operator does not do, and too large a constant.
    pub fn computed(
        &mut self,
        node: &'m Node,
        (opset, operator): (i64, Operator),
        inputs: &[Option<Value>],
        source: &Source,
    ) -> Result<Option<(Vec<Arc<Array>>, bool)>> {
        let known = inputs.iter().map(|input| match input {
            None => Some(None),
            Some(Value::Known(array)) => Some(Some(array.clone())),
            Some(_) => None,
        });
        let Some(known) = known.collect::<Option<Vec<Option<Arc<Array>>>>>() else {
            return Ok(None);
        };
        if let Some(outputs) = self.get((node, opset), &known) {
            return Ok(Some((outputs, false)));
        }
        let outputs = evaluated(node, opset, operator, &known, source)?;
        let outputs: Vec<Arc<Array>> = outputs.into_iter().map(|array| self.shared(array)).collect();
        self.insert((node, opset), &known, &outputs);
        Ok(Some((outputs, true)))
    }

    /// The outputs that an equal node gave for the same inputs.
    fn get(&self, (node, opset): (&Node, i64), inputs: &[Option<Arc<Array>>]) -> Option<Vec<Arc<Array>>> {
        let found = self
            .results
            .get(&(node.proto.op_type.as_str(), opset, addresses(inputs)))?;
        let (_, outputs) = found.iter().find(|(other, _)| is_same(node, other))?;
        Some(outputs.clone())
    }

    /// Remembers the outputs of a node.
    fn insert(&mut self, (node, opset): (&'m Node, i64), inputs: &[Option<Arc<Array>>], outputs: &[Arc<Array>]) {
        self.kept.extend(inputs.iter().flatten().cloned());
        let key = (node.proto.op_type.as_str(), opset, addresses(inputs));
        self.results.entry(key).or_default().push((node, outputs.to_vec()));
    }
}

fn addresses(inputs: &[Option<Arc<Array>>]) -> Vec<usize> {
    let address = |input: &Option<Arc<Array>>| input.as_ref().map_or(0, |array| Arc::as_ptr(array) as usize);
    inputs.iter().map(address).collect()
}

/// Whether two nodes of an operator compute the same.
fn is_same(a: &Node, b: &Node) -> bool {
    let (a, b) = (&a.proto, &b.proto);
    a.domain == b.domain && a.output.len() == b.output.len() && a.attribute == b.attribute
}

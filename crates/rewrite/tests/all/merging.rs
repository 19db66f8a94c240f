//! Common subexpressions among operations from outside.

use lessen_base::Result;
use lessen_graph::{DType, Op, Tensor, Trace, Type};
use lessen_rewrite::eliminate_common_subexpressions;

/// An operation from outside that does not tell its field as an attribute.
#[derive(PartialEq, Debug)]
struct Shift {
    by: f64,
}

impl Op for Shift {
    fn name(&self) -> &'static str {
        "shift"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0] + self.by])
    }
}

#[test]
fn operations_with_other_fields_stay_apart_without_attributes() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2]);
    for (name, by) in [("a", 1.0), ("b", 2.0), ("c", 1.0)] {
        trace.output(name, trace.apply1(Shift { by }, &[x]));
    }
    let merged = eliminate_common_subexpressions(&trace.finish());
    assert_eq!(merged.nodes.len(), 2);
    let value = |i: usize| merged.outputs[i].value;
    assert_ne!(value(0), value(1));
    assert_eq!(value(0), value(2));
}

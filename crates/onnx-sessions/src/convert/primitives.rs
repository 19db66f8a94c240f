//! Nodes of primitive operators that a converted model has.

use lessen_rewrite::Lines;

use super::Converter;
use super::attributes::{float_tensor, int, ints};
use lessen_onnx::Element;
use lessen_onnx::Tensor;
use lessen_onnx::edit::{Edits, node};
use lessen_onnx::proto::NodeProto;

impl Converter<'_> {
    /// A slice that leaves out the last element of runs.
    pub(super) fn without_last(&self, x: &str, short: &str, runs: Lines, edits: &mut Edits<'_>) -> NodeProto {
        if self.model.opset("").is_some_and(|version| version < 10) {
            let mut slice = node("Slice", short, &[x], short);
            let bounds = [("starts", 0), ("ends", -1), ("axes", runs.axis as i64)];
            slice
                .attribute
                .extend(bounds.map(|(name, number)| ints(name, vec![number])));
            return slice;
        }
        let mut constant = |part: &str, number: f64| {
            let name = format!("{short}/{part}");
            edits.add(Tensor::held(&name, &[1], Element::Int(8), &[number]))
        };
        let (from, to, axis) = (
            constant("from", 0.0),
            constant("to", -1.0),
            constant("axis", runs.axis as f64),
        );
        node("Slice", short, &[x, &from, &to, &axis], short)
    }

    /// Nodes that add the last element along an axis, which makes the sum zero.
    pub(super) fn completed(&self, x: &str, whole: &str, axis: usize, edits: &mut Edits<'_>) -> Vec<NodeProto> {
        let [sum, last] = ["sum", "last"].map(|part| edits.name(&format!("{whole}/{part}")));
        let reduce = self.reduced("ReduceSum", 13, x, &sum, axis as i64, edits);
        let mut join = node("Concat", &format!("{whole}/whole"), &[x, &last], whole);
        join.attribute.push(int("axis", axis as i64));
        vec![reduce, node("Neg", &last, &[&sum], &last), join]
    }

    /// A reduction over an axis, which is an input of the operator from a version on, and an attribute before.
    pub(super) fn reduced(
        &self,
        op_type: &str,
        from_version: i64,
        x: &str,
        output: &str,
        axis: i64,
        edits: &mut Edits<'_>,
    ) -> NodeProto {
        let mut reduce = node(op_type, output, &[x], output);
        reduce.attribute.push(int("keepdims", 1));
        if self.model.opset("").is_some_and(|version| version >= from_version) {
            let axes = Tensor::held(&format!("{output}/axes"), &[1], Element::Int(8), &[axis as f64]);
            reduce.input.push(edits.add(axes));
        } else {
            reduce.attribute.push(ints("axes", vec![axis]));
        }
        reduce
    }

    /// The nodes of a norm of runs without their last element (equation 3.5), whose result is as long.
    pub(super) fn compressed_norm(
        &self,
        (x, y): (&str, &str),
        width: usize,
        eps: f64,
        element: Element,
        edits: &mut Edits<'_>,
    ) -> Vec<NodeProto> {
        let [sum, squared, squares, all, mean, safe, deviation] =
            ["sum", "squared", "squares", "all", "mean", "safe", "deviation"]
                .map(|part| edits.name(&format!("{y}/{part}")));
        let share = edits.add(float_tensor(&format!("{y}/share"), 1.0 / width as f64, element));
        let least = edits.add(float_tensor(&format!("{y}/eps"), eps, element));
        vec![
            self.reduced("ReduceSum", 13, x, &sum, -1, edits),
            node("Mul", &squared, &[&sum, &sum], &squared),
            self.reduced("ReduceSumSquare", 18, x, &squares, -1, edits),
            node("Add", &all, &[&squares, &squared], &all),
            node("Mul", &mean, &[&all, &share], &mean),
            node("Add", &safe, &[&mean, &least], &safe),
            node("Sqrt", &deviation, &[&safe], &deviation),
            node("Div", &format!("{y}/divided"), &[x, &deviation], y),
        ]
    }
}

//! Scales of integers that a file has as initializers.

use lessen_base::Result;

use crate::model::{Model, same_domain};

/// Domain of the operators that ONNX Runtime adds.
const CONTRIBUTED: &str = "com.microsoft";

/// The inputs of operators on integers that are scales.
const SCALES: [(&str, &[usize]); 12] = [
    ("DequantizeLinear", &[1]),
    ("DynamicQuantizeMatMul", &[2]),
    ("MatMulIntegerToFloat", &[2, 3]),
    ("QGemm", &[1, 4, 7]),
    ("QLinearAdd", &[1, 4, 6]),
    ("QLinearConv", &[1, 4, 6]),
    ("QLinearLeakyRelu", &[1, 3]),
    ("QLinearMatMul", &[1, 4, 6]),
    ("QLinearMul", &[1, 4, 6]),
    ("QLinearSigmoid", &[1, 3]),
    ("QLinearSoftmax", &[1, 3]),
    ("QuantizeLinear", &[1]),
];

impl Model {
    /// Checks that scales of integers that do not depend on inputs are positive numbers.
    ///
    /// # Errors
    /// A scale that is 0, negative, NaN or infinite; the sentence names its initializer. A file that cannot be read.
    pub(crate) fn check_scales(&self) -> Result<()> {
        for node in &self.nodes {
            let domain = &node.proto.domain;
            let is_known = same_domain(domain, "") || domain == CONTRIBUTED;
            let inputs = SCALES.iter().find(|(name, _)| is_known && *name == node.proto.op_type);
            let names = inputs.map_or(&[][..], |(_, inputs)| inputs);
            for name in names.iter().filter_map(|input| node.input(*input)) {
                let tensor = self.initializers.get(name);
                let Some(tensor) = tensor.filter(|tensor| tensor.element.is_float()) else {
                    continue;
                };
                let scales: Vec<f64> = tensor.elements(&self.source, |scale| scale)?;
                let is_scale = |scale: &f64| *scale > 0.0 && scale.is_finite();
                if let Some(at) = scales.iter().position(|scale| !is_scale(scale)) {
                    return Err(self.error(&format!(
                        "the initializer `{name}` has the scale {} at number {at}, and the scales of {} are positive numbers; \
                         quantize the model again",
                        scales[at] as f32,
                        node.shown()
                    )));
                }
            }
        }
        Ok(())
    }
}

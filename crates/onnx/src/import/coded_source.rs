//! Products and convolutions of numbers that a file restores from integers, by the integers themselves.

use lessen_base::Result;
use lessen_graph::ops::{DequantizeLinear, QuantizedConv2d, QuantizedMatMul};
use lessen_graph::{Array, Conv2dOptions, DType, Tensor, Type};

use super::call::Call;
use super::coded_inputs::Weight;
use super::quantized::{Zero, factors, integer_product, kernels as coded_kernels};

/// Codes of the program that numbers are restored from.
#[derive(Clone, Copy)]
pub(super) struct Source {
    codes: Tensor,
    scale: f32,
    zero: u8,
}

impl Source {
    /// What numbers are restored from, if they are.
    pub fn of(x: Tensor) -> Option<Source> {
        let trace = x.trace();
        let (codes, op) = trace.with_graph(|graph| {
            let node = &graph.nodes[graph.producer(x.id())?.index()];
            Some((node.inputs[0], *node.op.downcast_ref::<DequantizeLinear>()?))
        })?;
        Some(Source {
            codes: trace.tensor(codes),
            scale: op.scale as f32,
            zero: op.zero,
        })
    }

    /// The same with the codes that a function makes of these.
    pub fn map(self, f: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Source> {
        Ok(Source {
            codes: f(self.codes)?,
            ..self
        })
    }

    /// The product of rows with a weight, plus a bias that is an input of the node.
    pub fn product(self, call: &mut Call<'_>, weight: &Weight, bias: Option<usize>) -> Result<Tensor> {
        let (sums, numbers) = self.bias(call, weight, bias)?;
        let shape = self.codes.shape();
        let scale = call
            .trace
            .full(DType::F32, &shape[..shape.len() - 1], self.scale.into());
        let of_weight = factors(call, weight, |scale| scale);
        if weight.shift.is_some() {
            let all = integer_product(call, self.codes, weight, Zero::Fixed(self.zero));
            let all = sums.map_or(all, |bias| all + bias).cast(DType::F32);
            let y = all * factors(call, weight, |scale| self.scale * scale);
            return Ok(numbers.map_or(y, |bias| y + bias));
        }
        let op = QuantizedMatMul::new(self.zero);
        let y = self
            .codes
            .quantized_matmul_t(scale, (weight.codes, of_weight), sums, op);
        Ok(numbers.map_or(y, |bias| y + bias))
    }

    /// The convolution of images with kernels `[O, C, ...]` of these taps, plus a bias that is an input of the node.
    pub fn convolution(
        self,
        call: &mut Call<'_>,
        weight: &Weight,
        (taps, options): (&[usize], Conv2dOptions),
        bias: Option<usize>,
    ) -> Result<Tensor> {
        let (sums, numbers) = self.bias(call, weight, bias)?;
        let of_weight = factors(call, weight, |scale| scale);
        let kernels = coded_kernels(call, weight, taps)?;
        let scale = call.trace.full(DType::F32, &self.codes.shape()[..1], self.scale.into());
        let op = QuantizedConv2d::new(options, self.zero);
        let mut y = self.codes.quantized_conv2d(scale, (kernels, of_weight), sums, op);
        if let Some(shift) = &weight.shift {
            let ones = call.ones(taps[0], weight.codes.shape()[1]);
            let ones = coded_kernels(call, &ones, taps)?;
            let shift = call.shift(shift, DType::F32);
            y = y + self.codes.quantized_conv2d(scale, (ones, of_weight * shift), None, op);
        }
        Ok(numbers.map_or(y, |bias| y + bias))
    }

    /// A bias as integers that are added to sums, where its scales are those of sums, or as numbers that are added to
    /// the result.
    fn bias(
        &self,
        call: &mut Call<'_>,
        weight: &Weight,
        input: Option<usize>,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let Some(input) = input.filter(|input| call.has(*input)) else {
            return Ok((None, None));
        };
        let integers = call.restored_bias((input, weight.scale.len()), |column| self.scale * weight.scale[column]);
        match integers {
            Some(bias) => {
                let data = bias.into_iter().map(f64::from).collect();
                let bias = Array::new(Type::new(DType::I32, &[weight.scale.len()]), data);
                Ok((Some(call.constant(bias)), None))
            }
            None => Ok((None, Some(call.tensor(input)?))),
        }
    }
}

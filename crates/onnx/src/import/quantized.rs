//! Operators on integers of 8 bits with scales and zero points, as products of codes.

use lessen_base::Result;
use lessen_graph::ops::{DequantizeLinear, IntegerMatMul, QuantizedConv2d, QuantizedMatMul};
use lessen_graph::{Array, Conv2dOptions, DType, Tensor, Type};

use super::Value;
use super::call::{Call, Operators, one};
use super::coded_inputs::{Order, Weight};
use super::codes::Codes;
use super::layout::{channels_first, channels_last, through, through_both};
use super::windows::{Windows, options};
use crate::element::Element;
use crate::host::Data;

pub(crate) const OPERATORS: Operators = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", quantize_by_range),
    ("MatMulInteger", matmul_integer),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("QGemm", q_gemm),
    ("QLinearAdd", |call| binary(call, |a, b| a + b)),
    ("QLinearConv", q_linear_conv),
    ("QLinearLeakyRelu", |call| {
        let slope = call.float("alpha", 0.01);
        unary(call, move |x| x.leaky_relu(slope))
    }),
    ("QLinearMatMul", q_linear_matmul),
    ("QLinearMul", |call| binary(call, |a, b| a * b)),
    ("QLinearSigmoid", |call| unary(call, Tensor::sigmoid)),
    ("QuantizeLinear", quantize),
];

/// One output of codes.
fn coded<'g>(tensor: Tensor<'g>, is_signed: bool) -> Result<Vec<Value<'g>>> {
    Ok(vec![Value::Codes(Codes { tensor, is_signed })])
}

/// Refuses attributes that change what an operator does.
fn plain(call: &Call<'_, '_>) -> Result<()> {
    if call.int("block_size", 0) != 0 || call.int("precision", 0) != 0 {
        return call.unknown("numbers in blocks, or in another precision");
    }
    Ok(())
}

fn quantize<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    plain(call)?;
    let scale = call.one_scale(1)?;
    let (zero, is_signed) = match (call.has(2), call.int("output_dtype", 0) as i32) {
        (true, _) | (false, 0) => call.zero_code(2)?,
        (false, to) if Element::of(to) == Some(Element::Unsigned(1)) => (0, false),
        (false, to) if Element::of(to) == Some(Element::Int(1)) => (128, true),
        _ => return call.unknown("integers of other than 8 bits"),
    };
    let x = call.tensor(0)?;
    if x.dtype() != DType::F32 || call.has_narrow_floats() {
        return call.unknown("integers of other than single precision");
    }
    coded(through(x, |x| x.quantize_linear(scale, zero)), is_signed)
}

fn dequantize<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    plain(call)?;
    if call.int("output_dtype", 0) != 0 && call.int("output_dtype", 0) != i64::from(Element::F32.data_type()) {
        return call.unknown("floats of other than 32 bits");
    }
    let codes = call.codes(0)?;
    let (scale, zero) = (call.one_scale(1)?, zero_of(call, 2, codes)?);
    one(through(codes.tensor, |codes| codes.dequantize_linear(scale, zero)))
}

/// The code of the zero point of codes.
pub(super) fn zero_of(call: &Call<'_, '_>, input: usize, codes: Codes<'_>) -> Result<u8> {
    if !call.has(input) {
        return Ok(if codes.is_signed { 128 } else { 0 });
    }
    match call.zero_code(input)? {
        (zero, is_signed) if is_signed == codes.is_signed => Ok(zero),
        _ => call.unknown("a zero point of another type"),
    }
}

/// Bytes by the range of the elements and zero, with that scale and zero point.
fn quantize_by_range<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let x = call.tensor(0)?;
    if x.dtype() != DType::F32 || x.ty().numel() == 0 {
        return call.unknown("bytes of other than single precision");
    }
    let all = x.reshape(&[x.ty().numel()]);
    let [least, most] = [-((-all).max_axes(&[0])), all.max_axes(&[0])];
    let [least, most] = [
        least.minimum(least.scalar_like(0.0)),
        most.maximum(most.scalar_like(0.0)),
    ];
    let is_flat = least.eq(most);
    let scale = is_flat.select(least.scalar_like(1.0), (most - least) / 255.0);
    let zero = ((-least) / scale).clamp(0.0, 255.0).round();
    let code = through(x, |x| {
        let levels = (x / scale).round() + zero;
        levels.clamp(0.0, 255.0).cast(DType::U8)
    });
    let codes = |tensor| {
        Value::Codes(Codes {
            tensor,
            is_signed: false,
        })
    };
    Ok(vec![codes(code), Value::Traced(scale), codes(zero.cast(DType::U8))])
}

/// The exact product of rows of the first input's codes with a weight, less the zero point of an input, which may be
/// computed.
pub(super) fn integer_product<'g>(
    call: &mut Call<'_, 'g>,
    rows: Tensor<'g>,
    weight: &Weight<'g>,
    zero: usize,
) -> Result<Tensor<'g>> {
    let a = call.codes(0)?;
    let Some(computed) = computed_zero(call, zero, a)? else {
        let op = IntegerMatMul {
            zero: zero_of(call, zero, a)?,
        };
        return Ok(rows.integer_matmul_t(weight.codes, None, op));
    };
    let levels: Vec<f64> = weight.levels.iter().map(|sum| f64::from(*sum)).collect();
    let levels = call.constant(Array::new(Type::new(DType::I32, &[levels.len()]), levels));
    let zero = computed.reshape(&[1]).cast(DType::I32);
    let lacking = (zero.scalar_like(0.0) - zero) * levels;
    let op = IntegerMatMul { zero: 0 };
    Ok(rows.integer_matmul_t(weight.codes, Some(lacking), op))
}

/// The code of the zero point of codes, where the program computes it.
pub(super) fn computed_zero<'g>(call: &Call<'_, 'g>, zero: usize, of: Codes<'g>) -> Result<Option<Tensor<'g>>> {
    let Some(Some(Value::Codes(computed))) = call.inputs.get(zero) else {
        return Ok(None);
    };
    if computed.is_signed != of.is_signed || computed.tensor.ty().numel() != 1 {
        return call.unknown("a zero point of another type, or several");
    }
    Ok(Some(computed.tensor))
}

/// The exact product of two inputs.
fn integers<'g>(call: &mut Call<'_, 'g>, [zero, weight_zero]: [usize; 2]) -> Result<Tensor<'g>> {
    let rows = call.codes(0)?.tensor;
    let weight = call.weight(1, [None, Some(weight_zero)], Order::Rows)?;
    integer_product(call, rows, &weight, zero)
}

fn matmul_integer<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    Ok(vec![Value::Integers(integers(call, [2, 3])?)])
}

fn matmul_integer_to_float<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let sums = integers(call, [4, 5])?.cast(DType::F32);
    let (a_scale, b_scale) = (call.tensor(2)?, call.tensor(3)?);
    if a_scale.ty().numel() != 1 || a_scale.dtype() != DType::F32 || b_scale.rank() > 1 || call.has_narrow_floats() {
        return call.unknown("scales of other than columns");
    }
    let y = sums * (a_scale * b_scale);
    one(if call.has(6) { y + call.tensor(6)? } else { y })
}

/// The scales of a weight's columns, times a factor, as a value of the program.
fn factors<'g>(call: &mut Call<'_, 'g>, weight: &Weight<'g>, of: impl Fn(f32) -> f32) -> Tensor<'g> {
    let all = weight.scale.iter().map(|scale| f64::from(of(*scale)));
    call.constant(Array::f32(&[weight.scale.len()], all.collect()))
}

/// The bias of 32 bits of an input.
fn bias<'g>(call: &mut Call<'_, 'g>, input: usize, columns: usize) -> Result<Option<Tensor<'g>>> {
    if !call.has(input) {
        return Ok(None);
    }
    match call.unchanging(input)?.data() {
        Data::I32(v) if v.len() == columns => {
            let bias: Vec<f64> = v.iter().map(|x| f64::from(*x)).collect();
            let ty = Type::new(DType::I32, &[columns]);
            Ok(Some(call.constant(Array::new(ty, bias))))
        }
        _ => call.unknown("a bias that is not one integer of 32 bits for each column"),
    }
}

/// `QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)`.
fn q_linear_matmul<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let a = call.codes(0)?;
    let (a_scale, y_scale) = (call.one_scale(1)?, call.one_scale(6)?);
    let (zero, (y_zero, is_signed)) = (zero_of(call, 2, a)?, call.zero_code(7)?);
    let weight = call.weight(3, [Some(4), Some(5)], Order::Rows)?;
    let scale = factors(call, &weight, |scale| a_scale * scale / y_scale);
    let y = multiplied(a.tensor, (weight.codes, scale), None, zero);
    coded(y.quantize_linear(1.0, y_zero), is_signed)
}

/// Rows of codes times a weight, whose scales hold that of the rows.
fn multiplied<'g>(
    rows: Tensor<'g>,
    weight: (Tensor<'g>, Tensor<'g>),
    bias: Option<Tensor<'g>>,
    zero: u8,
) -> Tensor<'g> {
    let shape = rows.shape();
    let ones = rows.trace().full(DType::F32, &shape[..shape.len() - 1], 1.0);
    rows.quantized_matmul_t(ones, weight, bias, QuantizedMatMul { zero })
}

/// `QGemm(A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point)`; floats without a scale of the
/// result.
fn q_gemm<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    if call.int("transA", 0) != 0 || call.float("alpha", 1.0) != 1.0 {
        return call.unknown("a left factor that is turned or scaled");
    }
    let a = call.codes(0)?;
    let (a_scale, zero) = (call.one_scale(1)?, zero_of(call, 2, a)?);
    let order = if call.int("transB", 0) == 0 {
        Order::Rows
    } else {
        Order::Columns
    };
    let weight = call.weight(3, [Some(4), Some(5)], order)?;
    let bias = bias(call, 6, weight.scale.len())?;
    if !call.has(7) {
        let scale = factors(call, &weight, |scale| a_scale * scale);
        return one(multiplied(a.tensor, (weight.codes, scale), bias, zero));
    }
    let (y_scale, (y_zero, is_signed)) = (call.one_scale(7)?, call.zero_code(8)?);
    let scale = factors(call, &weight, |scale| a_scale * scale / y_scale);
    let y = multiplied(a.tensor, (weight.codes, scale), bias, zero);
    coded(y.quantize_linear(1.0, y_zero), is_signed)
}

/// `QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B)`.
fn q_linear_conv<'g>(call: &mut Call<'_, 'g>) -> Result<Vec<Value<'g>>> {
    let x = call.codes(0)?;
    let (x_scale, y_scale) = (call.one_scale(1)?, call.one_scale(6)?);
    let (zero, (y_zero, is_signed)) = (zero_of(call, 2, x)?, call.zero_code(7)?);
    let weight = call.weight(3, [Some(4), Some(5)], Order::Kernels)?;
    let taps = call.unchanging(3)?.shape().to_vec();
    let size = x.tensor.shape();
    if size.len() < 3 || taps.len() != size.len() {
        return call.unknown("a convolution of other than one or two axes");
    }
    let windows = Windows::of(call, &size[2..], Some(&taps[2..]))?.of_two_axes();
    let options = options(call, &windows)?;
    let image = channels_last(call, x.tensor)?;
    let kernels = kernels(call, &weight, &taps)?;
    let bias = bias(call, 8, taps[0])?;
    let scale = factors(call, &weight, |scale| x_scale * scale / y_scale);
    let y = convolved(image, (kernels, scale), bias, (options, zero));
    coded(
        channels_first(y.quantize_linear(1.0, y_zero), size.len() - 2),
        is_signed,
    )
}

fn convolved<'g>(
    image: Tensor<'g>,
    kernels: (Tensor<'g>, Tensor<'g>),
    bias: Option<Tensor<'g>>,
    (options, zero): (Conv2dOptions, u8),
) -> Tensor<'g> {
    let ones = image.trace().full(DType::F32, &image.shape()[..1], 1.0);
    image.quantized_conv2d(ones, kernels, bias, QuantizedConv2d::new(options, zero))
}

/// The numbers of codes whose scale and zero point are two inputs.
fn numbers<'g>(call: &Call<'_, 'g>, [codes, scale, zero]: [usize; 3]) -> Result<Tensor<'g>> {
    let codes = call.codes(codes)?;
    let (scale, zero) = (call.one_scale(scale)?, zero_of(call, zero, codes)?);
    Ok(through(codes.tensor, |codes| codes.dequantize_linear(scale, zero)))
}

/// The codes of a result whose scale and zero point are two inputs; its integers are like those of the first input.
fn result<'g>(call: &Call<'_, 'g>, y: Tensor<'g>, [scale, zero]: [usize; 2]) -> Result<Vec<Value<'g>>> {
    let like = call.codes(0)?;
    let (scale, zero) = (call.one_scale(scale)?, zero_of(call, zero, like)?);
    coded(through(y, |y| y.quantize_linear(scale, zero)), like.is_signed)
}

fn unary<'g>(call: &mut Call<'_, 'g>, f: impl Fn(Tensor<'g>) -> Tensor<'g>) -> Result<Vec<Value<'g>>> {
    let y = through(numbers(call, [0, 1, 2])?, f);
    result(call, y, [3, 4])
}

fn binary<'g>(call: &mut Call<'_, 'g>, f: fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>) -> Result<Vec<Value<'g>>> {
    let (a, b) = (numbers(call, [0, 1, 2])?, numbers(call, [3, 4, 5])?);
    result(call, through_both(a, b, f), [6, 7])
}

/// Codes of the program that numbers are restored from.
#[derive(Clone, Copy)]
pub(super) struct Source<'g> {
    codes: Tensor<'g>,
    scale: f32,
    zero: u8,
}

impl<'g> Source<'g> {
    /// What numbers are restored from, if they are.
    pub fn of(x: Tensor<'g>) -> Option<Source<'g>> {
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
    pub fn map(self, f: impl FnOnce(Tensor<'g>) -> Result<Tensor<'g>>) -> Result<Source<'g>> {
        Ok(Source {
            codes: f(self.codes)?,
            ..self
        })
    }

    /// The product of rows with a weight, plus a bias that is an input of the node.
    pub fn product(self, call: &mut Call<'_, 'g>, weight: &Weight<'g>, bias: Option<usize>) -> Result<Tensor<'g>> {
        let (sums, numbers) = self.bias(call, weight, bias)?;
        let shape = self.codes.shape();
        let scale = call
            .trace
            .full(DType::F32, &shape[..shape.len() - 1], self.scale.into());
        let of_weight = factors(call, weight, |scale| scale);
        let op = QuantizedMatMul { zero: self.zero };
        let y = self
            .codes
            .quantized_matmul_t(scale, (weight.codes, of_weight), sums, op);
        Ok(numbers.map_or(y, |bias| y + bias))
    }

    /// The convolution of images with kernels `[O, C, ...]` of these taps, plus a bias that is an input of the node.
    pub fn convolution(
        self,
        call: &mut Call<'_, 'g>,
        weight: &Weight<'g>,
        (taps, options): (&[usize], Conv2dOptions),
        bias: Option<usize>,
    ) -> Result<Tensor<'g>> {
        let (sums, numbers) = self.bias(call, weight, bias)?;
        let of_weight = factors(call, weight, |scale| scale);
        let kernels = kernels(call, weight, taps)?;
        let scale = call.trace.full(DType::F32, &self.codes.shape()[..1], self.scale.into());
        let op = QuantizedConv2d::new(options, self.zero);
        let y = self.codes.quantized_conv2d(scale, (kernels, of_weight), sums, op);
        Ok(numbers.map_or(y, |bias| y + bias))
    }

    /// A bias as integers that are added to sums, where its scales are those of sums, or as numbers that are added to
    /// the result.
    fn bias(
        &self,
        call: &mut Call<'_, 'g>,
        weight: &Weight<'g>,
        input: Option<usize>,
    ) -> Result<(Option<Tensor<'g>>, Option<Tensor<'g>>)> {
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

/// The codes of kernels `[O, C, ...]` of these taps as `[O, KH, KW, C]`.
fn kernels<'g>(call: &Call<'_, 'g>, weight: &Weight<'g>, taps: &[usize]) -> Result<Tensor<'g>> {
    match *taps {
        [o, c, width] => Ok(weight.codes.reshape(&[o, 1, width, c])),
        [o, c, height, width] => Ok(weight.codes.reshape(&[o, height, width, c])),
        _ => call.unknown("a weight of other than one or two axes"),
    }
}

//! Operators on integers of 8 bits with scales and zero points, as products of codes.

use lessen_base::Result;
use lessen_graph::ops::{IntegerMatMul, QuantizedConv2d, QuantizedMatMul};
use lessen_graph::{Array, Conv2dOptions, DType, Tensor, Type};

use super::Value;
use super::call::{Call, Operators, one};
use super::coded_inputs::Weight;
use super::codes::{Codes, Order};
use super::layout::{channels_first, channels_last, image_of, of_channels, through, through_both};
use super::windows::{Windows, options};
use crate::element::Element;
use crate::host::Data;

pub(crate) const OPERATORS: Operators = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("MatMulInteger", matmul_integer),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("QGemm", q_gemm),
    ("QLinearAdd", |call| binary(call, |a, b| a + b)),
    ("QLinearConv", q_linear_conv),
    ("QLinearGlobalAveragePool", q_linear_global_average_pool),
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
fn coded(tensor: Tensor, is_signed: bool) -> Result<Vec<Value>> {
    Ok(vec![Value::Codes(Codes { tensor, is_signed })])
}

/// Refuses attributes that change what an operator does.
fn plain(call: &Call<'_>) -> Result<()> {
    if call.int("block_size", 0) != 0 || call.int("precision", 0) != 0 {
        return call.unknown("numbers in blocks, or in another precision");
    }
    Ok(())
}

fn quantize(call: &mut Call<'_>) -> Result<Vec<Value>> {
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

fn dequantize(call: &mut Call<'_>) -> Result<Vec<Value>> {
    plain(call)?;
    if call.int("output_dtype", 0) != 0 && call.int("output_dtype", 0) != i64::from(Element::F32.data_type()) {
        return call.unknown("floats of other than 32 bits");
    }
    let codes = call.codes(0)?;
    let (scale, zero) = (call.one_scale(1)?, zero_of(call, 2, codes)?);
    one(through(codes.tensor, |codes| codes.dequantize_linear(scale, zero)))
}

/// The code of the zero point of codes.
pub(super) fn zero_of(call: &Call<'_>, input: usize, codes: Codes) -> Result<u8> {
    if !call.has(input) {
        return Ok(if codes.is_signed { 128 } else { 0 });
    }
    match call.zero_code(input)? {
        (zero, is_signed) if is_signed == codes.is_signed => Ok(zero),
        _ => call.unknown("a zero point of another type"),
    }
}

/// The codes of the first input by the range of its elements and zero, with that scale and code of zero.
pub(super) fn by_range(call: &mut Call<'_>) -> Result<[Tensor; 3]> {
    let x = call.tensor(0)?;
    if x.dtype() != DType::F32 || x.ty().numel() == 0 {
        return call.unknown("bytes of other than single precision");
    }
    Ok(match image_of(x) {
        Some(image) => {
            let [codes, scale, zero] = image.tensor.quantize_by_range();
            [image.map(|_| codes), scale, zero]
        }
        None => x.quantize_by_range(),
    })
}

/// `DynamicQuantizeLinear(x)`: bytes, their scale and their zero point.
fn dynamic_quantize(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let [codes, scale, zero] = by_range(call)?;
    let [codes, zero] = [codes, zero].map(|tensor| {
        Value::Codes(Codes {
            tensor,
            is_signed: false,
        })
    });
    Ok(vec![codes, Value::Traced(scale), zero])
}

/// The code of the zero point of rows of codes.
#[derive(Clone, Copy)]
pub(super) enum Zero {
    /// It never changes.
    Fixed(u8),
    /// The program computes it: one `u8`.
    Computed(Tensor),
}

impl Call<'_> {
    /// The code of the zero point of codes that an input is.
    pub(super) fn zero(&self, input: usize, of: Codes) -> Result<Zero> {
        let Some(Some(Value::Codes(computed))) = self.inputs.get(input) else {
            return Ok(Zero::Fixed(zero_of(self, input, of)?));
        };
        if computed.is_signed != of.is_signed || computed.tensor.ty().numel() != 1 {
            return self.unknown("a zero point of another type, or several");
        }
        Ok(Zero::Computed(computed.tensor))
    }
}

/// The exact product of rows of codes with a weight, less their zero point.
pub(super) fn integer_product(call: &mut Call<'_>, rows: Tensor, weight: &Weight, zero: Zero) -> Tensor {
    let sums = product_of_levels(call, rows, weight, zero);
    let Some(shift) = &weight.shift else {
        return sums;
    };
    let ones = call.ones(1, weight.codes.shape()[1]);
    let of_rows = product_of_levels(call, rows, &ones, zero);
    sums + of_rows * call.shift(shift, DType::I32)
}

/// The exact product of rows of codes, less their zero point, with the levels of a weight.
fn product_of_levels(call: &mut Call<'_>, rows: Tensor, weight: &Weight, zero: Zero) -> Tensor {
    match zero {
        Zero::Fixed(zero) => rows.integer_matmul_t(weight.codes, None, IntegerMatMul { zero }),
        Zero::Computed(zero) => {
            let lacking = lacking(call, weight, zero);
            rows.integer_matmul_t(weight.codes, Some(lacking), IntegerMatMul { zero: 0 })
        }
    }
}

/// What sums of products with the codes of rows lack for each column of a weight, where the code of zero is computed.
pub(super) fn lacking(call: &mut Call<'_>, weight: &Weight, zero: Tensor) -> Tensor {
    let levels: Vec<f64> = weight.levels.iter().map(|sum| f64::from(*sum)).collect();
    let levels = call.constant(Array::new(Type::new(DType::I32, &[levels.len()]), levels));
    let zero = zero.reshape(&[1]).cast(DType::I32);
    (zero.scalar_like(0.0) - zero) * levels
}

fn matmul_integer(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let a = call.codes(0)?;
    let zero = call.zero(2, a)?;
    let weight = call.shifted_weight(1, [None, Some(3)], Order::Rows)?;
    Ok(vec![Value::Integers(integer_product(call, a.tensor, &weight, zero))])
}

/// The numbers of the inputs that belong to a weight of integers `[K, N]`.
pub(super) struct Scaled {
    pub weight: usize,
    /// Its scales, and its zero points.
    pub scale: usize,
    pub zero: usize,
    /// A bias of floats.
    pub bias: usize,
}

/// The product of rows of codes, with one scale and their zero point, and a weight, as floats.
pub(super) fn scaled_product(
    call: &mut Call<'_>,
    (rows, scale, zero): (Tensor, Tensor, Zero),
    of: &Scaled,
) -> Result<Tensor> {
    let b_scale = call.tensor(of.scale)?;
    if scale.ty().numel() != 1 || scale.dtype() != DType::F32 || b_scale.rank() > 1 || call.has_narrow_floats() {
        return call.unknown("scales of other than columns");
    }
    let weight = call.shifted_weight(of.weight, [None, Some(of.zero)], Order::Rows)?;
    let sums = integer_product(call, rows, &weight, zero).cast(DType::F32);
    let y = sums * (scale * b_scale);
    Ok(if call.has(of.bias) {
        y + call.tensor(of.bias)?
    } else {
        y
    })
}

/// `MatMulIntegerToFloat(A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias)`.
fn matmul_integer_to_float(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let a = call.codes(0)?;
    let (scale, zero) = (call.tensor(2)?, call.zero(4, a)?);
    let of = Scaled {
        weight: 1,
        scale: 3,
        zero: 5,
        bias: 6,
    };
    one(scaled_product(call, (a.tensor, scale, zero), &of)?)
}

/// `DynamicQuantizeMatMul(A, B, b_scale, b_zero_point, bias)`.
fn dynamic_quantize_matmul(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let [codes, scale, zero] = by_range(call)?;
    let of = Scaled {
        weight: 1,
        scale: 2,
        zero: 3,
        bias: 4,
    };
    one(scaled_product(call, (codes, scale, Zero::Computed(zero)), &of)?)
}

/// The scales of a weight's columns, times a factor, as a value of the program.
pub(super) fn factors(call: &mut Call<'_>, weight: &Weight, of: impl Fn(f32) -> f32) -> Tensor {
    let all = weight.scale.iter().map(|scale| f64::from(of(*scale)));
    call.constant(Array::f32(&[weight.scale.len()], all.collect()))
}

/// The bias of 32 bits of an input.
fn bias(call: &mut Call<'_>, input: usize, columns: usize) -> Result<Option<Tensor>> {
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
fn q_linear_matmul(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let a = call.codes(0)?;
    let (a_scale, y_scale) = (call.one_scale(1)?, call.one_scale(6)?);
    let (zero, (y_zero, is_signed)) = (zero_of(call, 2, a)?, call.zero_code(7)?);
    let weight = call.weight(3, [Some(4), Some(5)], Order::Rows)?;
    let scale = factors(call, &weight, |scale| a_scale * scale / y_scale);
    let y = multiplied(a.tensor, (weight.codes, scale), None, zero);
    coded(y.quantize_linear(1.0, y_zero), is_signed)
}

/// Rows of codes times a weight, whose scales hold that of the rows.
fn multiplied(rows: Tensor, weight: (Tensor, Tensor), bias: Option<Tensor>, zero: u8) -> Tensor {
    let shape = rows.shape();
    let ones = rows.trace().full(DType::F32, &shape[..shape.len() - 1], 1.0);
    rows.quantized_matmul_t(ones, weight, bias, QuantizedMatMul::new(zero))
}

/// `QGemm(A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point)`; floats without a scale of the
/// result.
fn q_gemm(call: &mut Call<'_>) -> Result<Vec<Value>> {
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
fn q_linear_conv(call: &mut Call<'_>) -> Result<Vec<Value>> {
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

fn convolved(
    image: Tensor,
    kernels: (Tensor, Tensor),
    bias: Option<Tensor>,
    (options, zero): (Conv2dOptions, u8),
) -> Tensor {
    let ones = image.trace().full(DType::F32, &image.shape()[..1], 1.0);
    image.quantized_conv2d(ones, kernels, bias, QuantizedConv2d::new(options, zero))
}

/// The numbers of codes whose scale and zero point are two inputs.
fn numbers(call: &Call<'_>, [codes, scale, zero]: [usize; 3]) -> Result<Tensor> {
    let codes = call.codes(codes)?;
    let (scale, zero) = (call.one_scale(scale)?, zero_of(call, zero, codes)?);
    Ok(through(codes.tensor, |codes| codes.dequantize_linear(scale, zero)))
}

/// The codes of a result whose scale and zero point are two inputs; its integers are like those of the first input.
fn result(call: &Call<'_>, y: Tensor, [scale, zero]: [usize; 2]) -> Result<Vec<Value>> {
    let like = call.codes(0)?;
    let (scale, zero) = (call.one_scale(scale)?, zero_of(call, zero, like)?);
    coded(through(y, |y| y.quantize_linear(scale, zero)), like.is_signed)
}

fn unary(call: &mut Call<'_>, f: impl Fn(Tensor) -> Tensor) -> Result<Vec<Value>> {
    let y = through(numbers(call, [0, 1, 2])?, f);
    result(call, y, [3, 4])
}

fn binary(call: &mut Call<'_>, f: fn(Tensor, Tensor) -> Tensor) -> Result<Vec<Value>> {
    let (a, b) = (numbers(call, [0, 1, 2])?, numbers(call, [3, 4, 5])?);
    result(call, through_both(a, b, f), [6, 7])
}

/// The most pixels of which differences from a zero point have a sum that is exact in `f32`.
const MOST_PIXELS: usize = (1 << 24) / 255;

/// `QLinearGlobalAveragePool(X, x_scale, x_zero_point, y_scale, y_zero_point)`.
fn q_linear_global_average_pool(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.codes(0)?;
    let shape = x.tensor.shape();
    if call.int("channels_last", 0) != 0 || shape.len() < 3 {
        return call.unknown("averages over other axes");
    }
    let pixels = shape[2..]
        .iter()
        .try_fold(1usize, |all, extent| all.checked_mul(*extent));
    if pixels.is_none_or(|pixels| !(1..=MOST_PIXELS).contains(&pixels)) {
        return call.unknown("averages of this many pixels");
    }
    let factor = call.one_scale(1)? / call.one_scale(3)?;
    let (x_zero, y_zero) = (zero_of(call, 2, x)?, zero_of(call, 4, x)?);
    let differences = through(x.tensor, |codes| codes.dequantize_linear(1.0, x_zero));
    let y = of_channels(differences, Tensor::mean_axes) * f64::from(factor);
    coded(y.quantize_linear(1.0, y_zero), x.is_signed)
}

/// The codes of kernels `[O, C, ...]` of these taps as `[O, KH, KW, C]`.
pub(super) fn kernels(call: &Call<'_>, weight: &Weight, taps: &[usize]) -> Result<Tensor> {
    match *taps {
        [o, c, width] => Ok(weight.codes.reshape(&[o, 1, width, c])),
        [o, c, height, width] => Ok(weight.codes.reshape(&[o, height, width, c])),
        _ => call.unknown("a weight of other than one or two axes"),
    }
}

//! Convolution of images with weights, both in 8 bits for each element with scales.

use lessen_base::{Error, Result};

use super::sizes::{Conv2dOptions, Conv2dSizes};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Filling, Op};
use crate::ops::bits::QuantizeLinear;
use crate::ops::contraction::QuantizedMatMul;
use crate::ops::element_function::Elementwise;
use crate::ops::rules::arity;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The code of zero of a weight.
const ZERO: f64 = 128.0;

/// Inputs `codes[N, H, W, C]` of `u8` with a `scale[N]` of `f32` for each image, `weight[O, KH, KW, C / G]` of `u8`
/// with `weight_scale[O]` of `f32`, and optionally `bias[O]` of `i32`; the result `[N, OH, OW, O]` of `f32` is `y[n, i,
/// j, o] = scale[n] weight_scale[o] (sum (codes - zero) (weight - 128) + bias[o])`, over the pixels and channels of
/// [`Conv2d`](super::Conv2d)'s sum. With [`QuantizedConv2d::result`] the result is the codes of these numbers.
///
/// The sum is an exact integer on every device, which wraps to 32 bits with its bias, is rounded to `f32`, and
/// multiplied by the product of the scales. It has at most [`QuantizedMatMul::MOST`] terms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizedConv2d {
    /// How it slides; it does not widen.
    pub options: Conv2dOptions,
    /// The code of zero of the images.
    pub zero: u8,
    /// The codes that the result's numbers become; `None` where the result is the numbers.
    pub result: Option<QuantizeLinear>,
}

impl Named for QuantizedConv2d {
    const NAME: &'static str = "quantized_conv2d";

    fn to_attrs(&self) -> Attrs {
        let attrs = self.options.to_attrs().with("zero", self.zero.to_attr());
        QuantizeLinear::with_result(self.result, attrs)
    }

    fn from_attrs(attrs: &Attrs) -> Result<QuantizedConv2d> {
        Ok(QuantizedConv2d {
            options: Conv2dOptions::from_attrs(attrs)?,
            zero: AttrValue::read(attrs, "zero")?,
            result: QuantizeLinear::read_result(attrs)?,
        })
    }
}

impl QuantizedConv2d {
    /// A convolution whose result is numbers.
    pub fn new(options: Conv2dOptions, zero: u8) -> QuantizedConv2d {
        QuantizedConv2d {
            options,
            zero,
            result: None,
        }
    }

    /// The extents for inputs of the types `inputs`.
    ///
    /// # Errors
    /// A sentence that names the extents or dtypes that do not fit.
    pub fn sizes(&self, inputs: &[Type]) -> Result<Conv2dSizes> {
        arity(inputs, if inputs.len() == 5 { 5 } else { 4 })?;
        let (codes, weight) = (&inputs[0], &inputs[2]);
        let [n, ..] = codes.shape[..] else {
            return Err(Error::user(format!("the image {codes} is not [N,H,W,C]")));
        };
        let [o, kh, kw, c] = weight.shape[..] else {
            return Err(Error::user(format!("the weight {weight} is not [O,KH,KW,C/G]")));
        };
        let are_codes = [codes, weight].iter().all(|ty| ty.dtype == DType::U8);
        if !are_codes || inputs[1] != Type::f32(&[n]) || inputs[3] != Type::f32(&[o]) {
            return Err(Error::user(format!(
                "needs codes u8[N,H,W,C], a scale f32[N], a weight u8[O,KH,KW,C/G] and its scale f32[O], not {codes}, \
                 {}, {weight} and {}",
                inputs[1], inputs[3]
            )));
        }
        if let Some(bias) = inputs.get(4).filter(|bias| **bias != Type::new(DType::I32, &[o])) {
            return Err(Error::user(format!("the bias {bias} is not i32[{o}]")));
        }
        if self.options.widens {
            return Err(Error::user("products of codes do not widen"));
        }
        let floats = [Type::f32(&codes.shape), Type::f32(&[o, c, kh, kw])];
        let sizes = self.options.sizes(&floats[0], &floats[1])?;
        if !adds_up_exactly(c, [kh, kw]) {
            return Err(Error::user(format!(
                "the weight {weight} has sums of more than {} terms, which do not fit 32 bits",
                QuantizedMatMul::MOST
            )));
        }
        Ok(sizes)
    }
}

/// Whether a sum over the channels and taps has at most [`QuantizedMatMul::MOST`] terms, which fit 32 bits.
fn adds_up_exactly(channels: usize, taps: [usize; 2]) -> bool {
    let terms = taps.into_iter().try_fold(channels, usize::checked_mul);
    terms.is_some_and(|terms| terms <= QuantizedMatMul::MOST)
}

impl Op for QuantizedConv2d {
    named!();

    facts! {
        never_in_place;
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let numbers = self.sizes(inputs)?.output(&Type::f32(&[]));
        Ok(vec![QuantizeLinear::of_result(self.result, numbers)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (codes, weight) = (inputs[0], inputs[2]);
        let types: Vec<Type> = inputs.iter().map(|input| input.ty.clone()).collect();
        let sizes = self.sizes(&types).expect("checked by the type rule");
        let (rows, columns, c) = (sizes.rows, sizes.columns, sizes.group_inputs());
        let zero = f64::from(self.zero);
        let mut y = Vec::with_capacity(outputs[0].numel());
        for pixel in 0..sizes.images * rows.windows * columns.windows {
            let (line, j) = (pixel / columns.windows, pixel % columns.windows);
            let (n, i) = (line / rows.windows, line % rows.windows);
            for o in 0..sizes.outputs {
                let first = o / sizes.group_outputs() * c;
                let mut sum = inputs.get(4).map_or(0.0, |bias| bias.data[o]);
                for tap in 0..rows.taps * columns.taps {
                    let (a, b) = (tap / columns.taps, tap % columns.taps);
                    let Some((row, column)) = rows.position(i, a).zip(columns.position(j, b)) else {
                        continue;
                    };
                    let pixel = (n * rows.input + row) * columns.input + column;
                    for channel in 0..c {
                        let code = codes.data[pixel * sizes.inputs + first + channel];
                        let of = weight.data[(o * rows.taps * columns.taps + tap) * c + channel];
                        sum += (code - zero) * (of - ZERO);
                    }
                }
                let sum = f64::from(sum as i64 as i32);
                let number = sum * (inputs[1].data[n] * inputs[3].data[o]);
                y.push(self.result.map_or(number, |codes| codes.element(&[number])));
            }
        }
        vec![Array::new(outputs[0].clone(), y)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (codes, scale, weight, weight_scale) = (inputs[0], inputs[1], inputs[2], inputs[3]);
        let [n, o] = [scale, weight_scale].map(|scale| scale.shape()[0]);
        let x = (codes.cast(DType::F32) - f64::from(self.zero)) * scale.reshape(&[n, 1, 1, 1]);
        let weight = (weight.cast(DType::F32) - ZERO) * weight_scale.reshape(&[o, 1, 1, 1]);
        let y = x.conv2d(weight.permute(&[0, 3, 1, 2]), self.options);
        let bias = |bias: &Tensor| scale.reshape(&[n, 1, 1, 1]) * (weight_scale * bias.cast(DType::F32));
        let y = inputs.get(4).map_or(y, |of| y + bias(of));
        match self.result {
            None => Some(vec![y]),
            Some(codes) => Some(vec![y.trace().apply1(codes, &[y])]),
        }
    }

    fn fillings(&self, inputs: &[Type], word: usize) -> Vec<Filling> {
        let Ok(sizes) = self.sizes(inputs) else {
            return Vec::new();
        };
        let taps = [sizes.rows.taps, sizes.columns.taps];
        let filled = sizes.inputs.checked_next_multiple_of(word);
        let filled = filled.filter(|&filled| adds_up_exactly(filled, taps));
        let count = filled.map_or(0, |filled| filled - sizes.inputs);
        if sizes.groups != 1 || count == 0 {
            return Vec::new();
        }
        let of = |input, value| Filling {
            input,
            axis: 3,
            count,
            value,
        };
        vec![of(0, self.zero.into()), of(2, ZERO)]
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let of = |sizes: &Conv2dSizes| Products {
            groups: sizes.groups,
            windows: Some([sizes.rows, sizes.columns]),
            ..Products::matrix([Some(0), Some(2)], sizes.images, sizes.inputs, sizes.outputs)
        };
        self.sizes(inputs).iter().map(of).collect()
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Conv2dSizes::cost_of(self.sizes(inputs), inputs, outputs)
    }
}

impl Tensor {
    /// The convolution `[N, OH, OW, O]` of images of codes `u8[N, H, W, C]` with a scale for each image and a weight
    /// `u8[O, KH, KW, C / G]`. See [`QuantizedConv2d`]. A convolution of single pixels is traced as a product with
    /// a matrix.
    ///
    /// # Panics
    /// If the extents do not fit.
    #[track_caller]
    pub fn quantized_conv2d(
        self,
        scale: Tensor,
        (weight, weight_scale): (Tensor, Tensor),
        bias: Option<Tensor>,
        op: QuantizedConv2d,
    ) -> Tensor {
        let inputs: Vec<Tensor> = [self, scale, weight, weight_scale].into_iter().chain(bias).collect();
        self.trace()
            .check_related(format_args!("quantized_conv2d:"), &inputs[1..]);
        let types: Vec<Type> = inputs.iter().map(|input| input.ty()).collect();
        let Ok(sizes) = op.sizes(&types) else {
            return self.trace().apply1(op, &inputs);
        };
        if sizes.is_pixelwise() && sizes.inputs > 0 && sizes.images > 0 {
            let matrix = weight.reshape(&[sizes.outputs, sizes.inputs]);
            let [n, h, w, _] = self.shape()[..] else {
                unreachable!("an image has four axes")
            };
            let scale = scale.reshape(&[n, 1, 1]).broadcast_to(&[n, h, w]);
            let product = QuantizedMatMul {
                result: op.result,
                ..QuantizedMatMul::new(op.zero)
            };
            return self.quantized_matmul_t(scale, (matrix, weight_scale), bias, product);
        }
        self.trace().apply1(op, &inputs)
    }
}

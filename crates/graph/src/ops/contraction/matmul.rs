//! Matrix product, batched over leading axes: `y[.., m, n] = sum_k a[.., m, k] b[.., k, n]`, with either
//! factor transposed by a flag.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery, Contraction};
use crate::array::{Array, for_each_index};
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::rules::{arity, float, rows};
use crate::ops::shape::broadcast::common_shape;
use crate::products::Products;
use crate::slide::Slide;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `a · b`. The leading axes of `a` and `b` are equal, or `b` is a matrix that all of `a`'s leading axes
/// share. The methods of [`Tensor`] broadcast the leading axes first. A shared matrix may be `bf16` where `a` is `f32`;
/// its elements are then widened.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MatMul {
    /// `a` is stored as `[.., k, m]`; only where `b` has the same leading axes.
    pub transpose_a: bool,
    /// `b` is stored as `[.., n, k]`.
    pub transpose_b: bool,
    /// Factors are `bf16` and the product `f32`: it is added up in `f32` and not rounded.
    pub widens: bool,
}

impl MatMul {
    /// Rows, inner extent and columns of one product.
    pub fn sizes(&self, a: &Type, b: &Type) -> (usize, usize, usize) {
        let (ra, rb) = (a.rank(), b.rank());
        let (m, k) = if self.transpose_a {
            (a.shape[ra - 1], a.shape[ra - 2])
        } else {
            (a.shape[ra - 2], a.shape[ra - 1])
        };
        let n = if self.transpose_b {
            b.shape[rb - 2]
        } else {
            b.shape[rb - 1]
        };
        (m, k, n)
    }

    /// The axis of `b` that becomes the last axis of the product.
    fn results(&self, b: &Type) -> usize {
        b.rank() - if self.transpose_b { 2 } else { 1 }
    }

    /// Whether the elements of a shared matrix are widened from `bf16` to the `f32` of the rows.
    pub fn widens_shared(&self, a: &Type, b: &Type) -> bool {
        self.is_linear(a, b) && (a.dtype, b.dtype) == (DType::F32, DType::BF16)
    }

    /// Whether this is rows times one shared matrix, as in a linear layer.
    pub fn is_linear(&self, a: &Type, b: &Type) -> bool {
        !self.transpose_a && b.rank() == 2 && a.rank() >= 2
    }
}

impl Named for MatMul {
    const NAME: &'static str = "matmul";

    /// Whether it widens is only written where it does.
    fn to_attrs(&self) -> Attrs {
        let attrs = Attrs::new()
            .with("transpose_a", self.transpose_a.to_attr())
            .with("transpose_b", self.transpose_b.to_attr());
        if self.widens {
            return attrs.with("widens", true.to_attr());
        }
        attrs
    }

    fn from_attrs(attrs: &Attrs) -> Result<MatMul> {
        Ok(MatMul {
            transpose_a: AttrValue::read(attrs, "transpose_a")?,
            transpose_b: AttrValue::read(attrs, "transpose_b")?,
            widens: attrs.get("widens").is_some() && AttrValue::read(attrs, "widens")?,
        })
    }
}

impl Op for MatMul {
    named!();

    facts! {
        never_in_place;
        contraction;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (a, b) = (&inputs[0], &inputs[1]);
        float(a)?;
        let are_matrices = a.rank() >= 2 && b.rank() >= 2;
        if !are_matrices || (a.dtype != b.dtype && !self.widens_shared(a, b)) {
            return Err(Error::user(format!(
                "{a} and {b} are not two matrices, or stacks of them, of one dtype"
            )));
        }
        if self.widens && a.dtype != DType::BF16 {
            return Err(Error::user(format!(
                "{a} and {b} are not bf16, as factors of a product that widens"
            )));
        }
        let shared = b.rank() == 2 && !self.transpose_a;
        let (lead_a, lead_b) = (&a.shape[..a.rank() - 2], &b.shape[..b.rank() - 2]);
        if lead_a != lead_b && !shared {
            return Err(Error::user(format!("the leading axes of {a} and {b} differ")));
        }
        let (m, k, n) = self.sizes(a, b);
        let k_of_b = b.shape[b.rank() - if self.transpose_b { 1 } else { 2 }];
        if k != k_of_b {
            return Err(Error::user(format!(
                "the inner extents of {a} and {b} differ: {k} and {k_of_b}"
            )));
        }
        let mut shape = lead_a.to_vec();
        shape.extend([m, n]);
        let dtype = if self.widens { DType::F32 } else { a.dtype };
        Ok(vec![Type::sized(dtype, &shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (a, b) = (inputs[0], inputs[1]);
        let (m, k, n) = self.sizes(&a.ty, &b.ty);
        let shared = b.ty.rank() == 2;
        let mut data = Vec::with_capacity(outputs[0].numel());
        let lead = &a.ty.shape[..a.ty.rank() - 2];
        let mut batch = 0;
        for_each_index(lead, |_| {
            let a = &a.data[batch * m * k..][..m * k];
            let b = &b.data[if shared { 0 } else { batch * k * n }..][..k * n];
            for i in 0..m {
                for j in 0..n {
                    let mut sum = 0.0;
                    for l in 0..k {
                        let x = if self.transpose_a { a[l * m + i] } else { a[i * k + l] };
                        let y = if self.transpose_b { b[j * k + l] } else { b[l * n + j] };
                        sum += x * y;
                    }
                    data.push(sum);
                }
            }
            batch += 1;
        });
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (a, b) = (cx.inputs[0], cx.inputs[1]);
        // The cotangent of a widened product becomes as narrow as the factors.
        let Some(dy) = cx.cotangents[0].map(|dy| dy.cast(a.dtype())) else {
            return vec![None, None];
        };
        let product = |x: Tensor, tx, y: Tensor, ty, dtype| {
            let op = MatMul {
                transpose_a: tx,
                transpose_b: ty,
                widens: self.widens,
            };
            x.trace().apply1(op, &[x, y]).cast(dtype)
        };
        let da = || {
            if self.transpose_a {
                product(b, self.transpose_b, dy, true, a.dtype())
            } else {
                product(dy, false, b, !self.transpose_b, a.dtype())
            }
        };
        let db = || {
            let shared = b.rank() == 2 && a.rank() > 2;
            let (a, dy) = if shared {
                (a.flatten_rows(), dy.flatten_rows())
            } else {
                (a, dy)
            };
            if self.transpose_b {
                product(dy, true, a, self.transpose_a, b.dtype())
            } else {
                product(a, !self.transpose_a, dy, false, b.dtype())
            }
        };
        vec![cx.wanted[0].then(da), cx.wanted[1].then(db)]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        let (a, b) = (&query.inputs[0], &query.inputs[1]);
        let rank = a.rank();
        match rank - query.axis {
            1 => Along::Linear(vec![(1, self.results(b))]),
            2 => query.of_first(rank - 2 + usize::from(self.transpose_a)),
            _ if self.is_linear(a, b) => query.of_first(query.axis),
            _ => Along::Unknown,
        }
    }

    fn contraction(&self, input: usize, inputs: &[Type]) -> Option<Contraction> {
        let (a, b) = (&inputs[0], &inputs[1]);
        let inner = b.rank() - if self.transpose_b { 1 } else { 2 };
        (input == 0 && self.is_linear(a, b)).then(|| Contraction {
            axis: a.rank() - 1,
            other: (1, inner),
            results: self.results(b),
        })
    }

    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        if !self.is_linear(&inputs[0], &inputs[1]) {
            return RowWise::No;
        }
        let rows = outputs[0].shape[..outputs[0].rank() - 1].iter().product();
        RowWise::by_rows(rows, &[Role::Rows, Role::Whole], &[OutRole::Rows])
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let (_, k, _) = self.sizes(&inputs[0], &inputs[1]);
        Cost {
            product_flops: 2.0 * k as f64 * outputs[0].numel() as f64,
            ..Cost::vector(0.0, inputs, outputs)
        }
    }

    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let (a, b) = (&inputs[0], &inputs[1]);
        let (m, k, n) = self.sizes(a, b);
        let lead: usize = a.shape[..a.rank() - 2].iter().product();
        let factors = [Some(0), Some(1)];
        let found = match (self.is_linear(a, b), &a.shape[..]) {
            // Pixels times one matrix are a convolution with one tap.
            (true, &[images, height, width, _]) => Products {
                windows: Some([Slide::pixels(height), Slide::pixels(width)]),
                ..Products::matrix(factors, images, k, n)
            },
            (true, _) => Products::matrix(factors, lead * m, k, n),
            (false, _) => Products::matrix(factors, m, k, n).times(lead),
        };
        vec![found]
    }

    fn accumulating(&self, inputs: &[Type]) -> Option<Arc<dyn Op>> {
        Some(Arc::new(self.adding(inputs)?))
    }

    fn of_bf16(&self, inputs: &[Type], is_narrow: &[bool]) -> Option<Arc<dyn Op>> {
        /// With fewer rows, rounding the matrix that they share takes longer than the product.
        const FEWEST: usize = 32;
        /// With fewer rows, reading a shared matrix takes longer than widening its elements.
        const FEWEST_OF_NARROW: usize = 9;
        let (a, b) = (&inputs[0], &inputs[1]);
        let is_f32 = inputs.iter().all(|ty| ty.dtype == DType::F32);
        let fewest = if is_narrow[1] { FEWEST_OF_NARROW } else { FEWEST };
        let has_few_rows = self.is_linear(a, b) && rows(a) < fewest;
        (is_f32 && !has_few_rows).then(|| Arc::new(MatMul { widens: true, ..*self }) as Arc<dyn Op>)
    }
}

/// Two stacks of matrices with the leading axes of both, as far as these broadcast to common ones.
#[track_caller]
fn stacks(a: Tensor, b: Tensor) -> (Tensor, Tensor) {
    let (sa, sb) = (a.shape(), b.shape());
    if sa.len() < 2 || sb.len() <= 2 {
        return (a, b);
    }
    let ((lead_a, matrix_a), (lead_b, matrix_b)) = (sa.split_at(sa.len() - 2), sb.split_at(sb.len() - 2));
    if lead_a == lead_b {
        (a, b)
    } else if lead_b.len() <= lead_a.len() && lead_b.iter().all(|&n| n == 1) {
        // All of `a` shares one matrix: rows times a matrix are faster than a stack of products.
        (a, b.reshape(matrix_b))
    } else if let Some(lead) = common_shape(lead_a, lead_b) {
        let wide = [matrix_a, matrix_b].map(|matrix| [&lead, matrix].concat());
        (a.broadcast_to(&wide[0]), b.broadcast_to(&wide[1]))
    } else {
        (a, b)
    }
}

impl Tensor {
    #[track_caller]
    fn product(self, other: Tensor, transpose_b: bool) -> Tensor {
        self.trace().check_related(format_args!("matmul:"), &[other]);
        let (a, b) = stacks(self, other);
        let op = MatMul {
            transpose_b,
            ..MatMul::default()
        };
        self.trace().apply1(op, &[a, b])
    }

    /// Matrix product `[.., m, k] · [.., k, n]`; the leading axes broadcast to their common shape.
    ///
    /// # Panics
    /// If these are not two float matrices, or stacks of them, of one dtype; if the leading axes do not
    /// broadcast, or the inner extents differ.
    #[track_caller]
    pub fn matmul(self, other: Tensor) -> Tensor {
        self.product(other, false)
    }

    /// Matrix product with the transpose of the other: `[.., m, k] · [.., n, k]ᵀ`; otherwise as
    /// [`Tensor::matmul`].
    #[track_caller]
    pub fn matmul_t(self, other: Tensor) -> Tensor {
        self.product(other, true)
    }

    /// All axes but the last merged into one: `[rows, last]`.
    #[track_caller]
    pub fn flatten_rows(self) -> Tensor {
        let ty = self.ty();
        self.reshape(&[rows(&ty), ty.last()])
    }
}

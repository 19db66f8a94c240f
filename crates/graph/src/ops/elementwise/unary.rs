//! Elementwise functions of one tensor: `y[i] = f(x[i])`.

use crate::along::{Along, AlongQuery};
use crate::inverse::Inverse;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;
use crate::types::Type;

/// The function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryKind {
    /// `-x`
    Neg,
    /// `e^x`
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `1 / x`
    Recip,
    /// Hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// Absolute value.
    Abs,
    /// -1, 0 or 1.
    Sign,
    /// Sine, of radians.
    Sin,
    /// Cosine, of radians.
    Cos,
    /// The next integer that is not larger.
    Floor,
    /// The next integer that is not smaller.
    Ceil,
    /// The nearest integer; of two, the even one.
    Round,
    /// The nearest number of 16 bits (IEEE 754 binary16); infinite from 65520 on. Its derivative is that of `x`.
    Half,
}

impl UnaryKind {
    /// All of them.
    pub const ALL: [UnaryKind; 17] = [
        UnaryKind::Neg,
        UnaryKind::Exp,
        UnaryKind::Log,
        UnaryKind::Sqrt,
        UnaryKind::Rsqrt,
        UnaryKind::Recip,
        UnaryKind::Tanh,
        UnaryKind::Erf,
        UnaryKind::Sigmoid,
        UnaryKind::Abs,
        UnaryKind::Sign,
        UnaryKind::Sin,
        UnaryKind::Cos,
        UnaryKind::Floor,
        UnaryKind::Ceil,
        UnaryKind::Round,
        UnaryKind::Half,
    ];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            UnaryKind::Neg => "neg",
            UnaryKind::Exp => "exp",
            UnaryKind::Log => "log",
            UnaryKind::Sqrt => "sqrt",
            UnaryKind::Rsqrt => "rsqrt",
            UnaryKind::Recip => "recip",
            UnaryKind::Tanh => "tanh",
            UnaryKind::Erf => "erf",
            UnaryKind::Sigmoid => "sigmoid",
            UnaryKind::Abs => "abs",
            UnaryKind::Sign => "sign",
            UnaryKind::Sin => "sin",
            UnaryKind::Cos => "cos",
            UnaryKind::Floor => "floor",
            UnaryKind::Ceil => "ceil",
            UnaryKind::Round => "round",
            UnaryKind::Half => "half",
        }
    }

    /// Whether devices compute it exactly or correctly rounded.
    pub fn is_exact(self) -> bool {
        use UnaryKind::{Abs, Ceil, Floor, Half, Neg, Recip, Round, Sign, Sqrt};
        matches!(self, Abs | Ceil | Floor | Half | Neg | Recip | Round | Sign | Sqrt)
    }

    /// The function in `f64`.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            UnaryKind::Neg => -x,
            UnaryKind::Exp => x.exp(),
            UnaryKind::Log => x.ln(),
            UnaryKind::Sqrt => x.sqrt(),
            UnaryKind::Rsqrt => 1.0 / x.sqrt(),
            UnaryKind::Recip => 1.0 / x,
            UnaryKind::Tanh => x.tanh(),
            UnaryKind::Erf => erf(x),
            UnaryKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            UnaryKind::Abs => x.abs(),
            UnaryKind::Sign if x == 0.0 || x.is_nan() => x,
            UnaryKind::Sign => x.signum(),
            UnaryKind::Sin => x.sin(),
            UnaryKind::Cos => x.cos(),
            UnaryKind::Floor => x.floor(),
            UnaryKind::Ceil => x.ceil(),
            UnaryKind::Round => x.round_ties_even(),
            UnaryKind::Half => half(x),
        }
    }
}

/// The nearest number of IEEE 754 binary16; of two, the one whose last bit is 0.
fn half(x: f64) -> f64 {
    /// The least number that is rounded to infinity.
    const BEYOND: f64 = 65520.0;
    if x.abs() >= BEYOND {
        return f64::INFINITY.copysign(x);
    }
    // Numbers from 2^e on are 2^(e - 10) apart, and those below 2^-14 as far as those from there on.
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let apart = 2f64.powi(exponent.max(-14) - 10);
    (x / apart).round_ties_even() * apart
}

function_names!(UnaryKind);

/// The error function in `f64`, to a few units of its last place: its Maclaurin series below 3, the continued
/// fraction of `erfc` above.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    let value = if a < 3.0 {
        // erf(x) = 2/sqrt(pi) e^{-x^2} sum_n 2^n x^{2n+1} / (2n+1)!!, whose terms are all positive.
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    } else if a < 6.5 {
        let mut fraction = 0.0;
        for k in (1..=120).rev() {
            fraction = 0.5 * k as f64 / (a + fraction);
        }
        1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt())
    } else {
        1.0
    };
    value.copysign(x)
}

/// `y[i] = f(x[i])`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unary {
    /// The function.
    pub kind: UnaryKind,
}

named!("unary": Unary { kind as "f" });

impl Elementwise for Unary {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        self.kind.eval(x[0])
    }

    fn flops(&self) -> f64 {
        match self.kind {
            UnaryKind::Neg | UnaryKind::Abs | UnaryKind::Sign => 1.0,
            UnaryKind::Floor | UnaryKind::Ceil | UnaryKind::Round => 1.0,
            UnaryKind::Sqrt | UnaryKind::Rsqrt | UnaryKind::Recip => 4.0,
            _ => 16.0,
        }
    }

    fn is_exact(&self) -> bool {
        self.kind.is_exact()
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let (x, y) = (cx.inputs[0], cx.outputs[0]);
        let dx = match self.kind {
            UnaryKind::Neg => -dy,
            UnaryKind::Exp => dy * y,
            UnaryKind::Log => dy / x,
            UnaryKind::Sqrt => dy * 0.5 / y,
            UnaryKind::Rsqrt => dy * -0.5 * y * y * y,
            UnaryKind::Recip => -(dy * y * y),
            UnaryKind::Tanh => dy * (1.0 - y * y),
            UnaryKind::Erf => dy * (-(x * x)).exp() * std::f64::consts::FRAC_2_SQRT_PI,
            UnaryKind::Sigmoid => dy * y * (1.0 - y),
            UnaryKind::Abs => dy * x.sign(),
            UnaryKind::Sign => dy.full_like(0.0),
            UnaryKind::Sin => dy * x.cos(),
            UnaryKind::Cos => -(dy * x.sin()),
            UnaryKind::Floor | UnaryKind::Ceil | UnaryKind::Round => dy.full_like(0.0),
            UnaryKind::Half => dy,
        };
        vec![Some(dx)]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        match self.kind {
            UnaryKind::Neg => query.same_axis(),
            _ => Along::Unknown,
        }
    }

    fn inverse(&self, _: usize, _: &[Type]) -> Option<Inverse> {
        (self.kind == UnaryKind::Neg).then(|| Inverse::exact(*self))
    }
}

impl Tensor {
    #[track_caller]
    fn unary(self, kind: UnaryKind) -> Tensor {
        self.trace().apply1(Unary { kind }, &[self])
    }

    /// The next integer that is not larger.
    #[track_caller]
    pub fn floor(self) -> Tensor {
        self.unary(UnaryKind::Floor)
    }

    /// The next integer that is not smaller.
    #[track_caller]
    pub fn ceil(self) -> Tensor {
        self.unary(UnaryKind::Ceil)
    }

    /// The nearest integer; of two, the even one.
    #[track_caller]
    pub fn round(self) -> Tensor {
        self.unary(UnaryKind::Round)
    }

    /// The nearest number of 16 bits (IEEE 754 binary16), with the derivative of `x`.
    #[track_caller]
    pub fn rounded_to_half(self) -> Tensor {
        self.unary(UnaryKind::Half)
    }

    /// `e^x`
    #[track_caller]
    pub fn exp(self) -> Tensor {
        self.unary(UnaryKind::Exp)
    }

    /// Natural logarithm.
    #[track_caller]
    pub fn log(self) -> Tensor {
        self.unary(UnaryKind::Log)
    }

    /// Square root.
    #[track_caller]
    pub fn sqrt(self) -> Tensor {
        self.unary(UnaryKind::Sqrt)
    }

    /// `1 / sqrt(x)`
    #[track_caller]
    pub fn rsqrt(self) -> Tensor {
        self.unary(UnaryKind::Rsqrt)
    }

    /// `1 / x`
    #[track_caller]
    pub fn recip(self) -> Tensor {
        self.unary(UnaryKind::Recip)
    }

    /// Hyperbolic tangent.
    #[track_caller]
    pub fn tanh(self) -> Tensor {
        self.unary(UnaryKind::Tanh)
    }

    /// The error function.
    #[track_caller]
    pub fn erf(self) -> Tensor {
        self.unary(UnaryKind::Erf)
    }

    /// `1 / (1 + e^-x)`
    #[track_caller]
    pub fn sigmoid(self) -> Tensor {
        self.unary(UnaryKind::Sigmoid)
    }

    /// Absolute value.
    #[track_caller]
    pub fn abs(self) -> Tensor {
        self.unary(UnaryKind::Abs)
    }

    /// -1, 0 or 1; its derivative is zero.
    #[track_caller]
    pub fn sign(self) -> Tensor {
        self.unary(UnaryKind::Sign)
    }

    /// Sine, of radians.
    #[track_caller]
    pub fn sin(self) -> Tensor {
        self.unary(UnaryKind::Sin)
    }

    /// Cosine, of radians.
    #[track_caller]
    pub fn cos(self) -> Tensor {
        self.unary(UnaryKind::Cos)
    }
}

impl std::ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(UnaryKind::Neg)
    }
}

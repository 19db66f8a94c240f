//! Types of values: a dtype and a static shape.

use lessen_base::{Error, Result};
use std::fmt;

/// The element type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// The upper half of an `F32`: 8 bits of exponent, 7 of mantissa.
    BF16,
    /// Signed integers: indices, class labels.
    I32,
    /// Unsigned integers: random bits and keys.
    U32,
    /// Unsigned integers of one byte: codes of quantized numbers.
    U8,
    /// Booleans, one byte each.
    Bool,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 7] = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::I32,
        DType::U32,
        DType::U8,
        DType::Bool,
    ];

    /// Bytes that one element takes in memory.
    pub fn bytes(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::BF16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// Whether the dtype is a float, so that derivatives flow through it.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::BF16)
    }

    /// Whether the dtype represents a number; floats represent every number, by rounding.
    pub fn holds(self, value: f64) -> bool {
        let whole = value.fract() == 0.0;
        match self {
            DType::F32 | DType::F64 | DType::BF16 => true,
            DType::I32 => whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
            DType::U32 => whole && (0.0..=f64::from(u32::MAX)).contains(&value),
            DType::U8 => whole && (0.0..=f64::from(u8::MAX)).contains(&value),
            DType::Bool => value == 0.0 || value == 1.0,
        }
    }

    /// The nearest number that the dtype represents: floats round to nearest, ties to even; integers truncate towards
    /// zero and saturate, NaN becoming 0; every number but 0 is true.
    pub fn round(self, value: f64) -> f64 {
        match self {
            DType::F64 => value,
            DType::F32 => f64::from(value as f32),
            DType::BF16 => f64::from(f32::from_bits(u32::from(bf16_bits(value as f32)) << 16)),
            DType::I32 => f64::from(value as i32),
            DType::U32 => f64::from(value as u32),
            DType::U8 => f64::from(value as u8),
            DType::Bool => f64::from(u8::from(value != 0.0)),
        }
    }

    /// The distance of 1 from the next larger number that the dtype represents; 0 for integers, whose sums are exact.
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F32 => f64::from(f32::EPSILON),
            DType::F64 => f64::EPSILON,
            DType::BF16 => 1.0 / 128.0,
            DType::I32 | DType::U32 | DType::U8 | DType::Bool => 0.0,
        }
    }

    /// Whether the dtype represents every number of another one.
    pub fn holds_all_of(self, other: DType) -> bool {
        match (other, self) {
            (DType::Bool, _) | (_, DType::F64) | (DType::BF16, DType::F32) => true,
            _ => self == other,
        }
    }

    /// The dtype in which sums over elements of this one are kept: `f32` for `bf16`, for all others itself.
    pub fn accumulator(self) -> DType {
        if self == DType::BF16 { DType::F32 } else { self }
    }

    /// The name in the text form, such as `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// The dtype of a [`DType::name`].
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// The bits of the nearest `bf16`, ties to even; NaN stays NaN.
pub fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The number of elements of a shape (1 for a scalar, whose shape is empty). Products saturate instead of wrapping; the
/// product of a type that passes [`Type::check_size`] is exact.
pub fn numel(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product: usize, &n| product.saturating_mul(n))
}

/// Extents of a value, outermost first. Up to four are stored inline.
pub type Shape = smallvec::SmallVec<[usize; 4]>;

/// The static type of a value: dtype and shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first; empty for a scalar.
    pub shape: Shape,
}

impl Type {
    /// A type of this dtype and shape.
    pub fn new(dtype: DType, shape: &[usize]) -> Type {
        Type {
            dtype,
            shape: Shape::from_slice(shape),
        }
    }

    /// An `f32` type.
    pub fn f32(shape: &[usize]) -> Type {
        Type::new(DType::F32, shape)
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        numel(&self.shape)
    }

    /// Checks that the dtype represents these numbers.
    pub(crate) fn check_holds(&self, values: &[f64]) -> Result<()> {
        match values.iter().find(|&&v| !self.dtype.holds(v)) {
            Some(value) => Err(Error::user(format!("{self} cannot hold {value}"))),
            None => Ok(()),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Bytes in memory when stored densely; saturates as [`numel`].
    pub fn bytes(&self) -> usize {
        self.numel().saturating_mul(self.dtype.bytes())
    }

    /// The extent of the last axis; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(|n| n.to_string()).collect();
        write!(f, "{}[{}]", self.dtype.name(), shape.join(","))
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

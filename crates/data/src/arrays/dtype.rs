//! Element types of arrays.

use std::fmt;

use half::f16;

/// The type of an array's elements, whose bytes are in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Truth values, 0 or 1, one byte each.
    Bool,
    /// Signed integers of 1, 2, 4 or 8 bytes.
    Signed(u8),
    /// Unsigned integers of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// IEEE 754 floats of 2, 4 or 8 bytes.
    Float(u8),
}

impl Dtype {
    /// The dtype that a header describes, such as `<f4`; none for texts, records, complex numbers, and elements in
    /// big-endian order.
    pub fn of(descr: &str) -> Option<Dtype> {
        Some(match descr {
            "|b1" => Dtype::Bool,
            "|i1" => Dtype::Signed(1),
            "<i2" => Dtype::Signed(2),
            "<i4" => Dtype::Signed(4),
            "<i8" => Dtype::Signed(8),
            "|u1" => Dtype::Unsigned(1),
            "<u2" => Dtype::Unsigned(2),
            "<u4" => Dtype::Unsigned(4),
            "<u8" => Dtype::Unsigned(8),
            "<f2" => Dtype::Float(2),
            "<f4" => Dtype::Float(4),
            "<f8" => Dtype::Float(8),
            _ => return None,
        })
    }

    /// What a header calls it.
    pub fn descr(self) -> String {
        let order = if self.bytes() == 1 { '|' } else { '<' };
        let kind = match self {
            Dtype::Bool => 'b',
            Dtype::Signed(_) => 'i',
            Dtype::Unsigned(_) => 'u',
            Dtype::Float(_) => 'f',
        };
        format!("{order}{kind}{}", self.bytes())
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bool => 1,
            Dtype::Signed(bytes) | Dtype::Unsigned(bytes) | Dtype::Float(bytes) => bytes.into(),
        }
    }
}

/// NumPy's name, such as `float32`.
impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = 8 * self.bytes();
        match self {
            Dtype::Bool => write!(f, "bool"),
            Dtype::Signed(_) => write!(f, "int{bits}"),
            Dtype::Unsigned(_) => write!(f, "uint{bits}"),
            Dtype::Float(_) => write!(f, "float{bits}"),
        }
    }
}

/// A number that arrays have as elements.
pub trait Scalar: Copy {
    /// Its dtype.
    const DTYPE: Dtype;

    /// Appends its bytes.
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! scalars {
    ($($scalar:ty: $dtype:expr),*) => {$(
        impl Scalar for $scalar {
            const DTYPE: Dtype = $dtype;

            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

scalars! {
    i8: Dtype::Signed(1),
    i16: Dtype::Signed(2),
    u8: Dtype::Unsigned(1),
    u16: Dtype::Unsigned(2),
    u64: Dtype::Unsigned(8),
    i32: Dtype::Signed(4),
    u32: Dtype::Unsigned(4),
    i64: Dtype::Signed(8),
    f16: Dtype::Float(2),
    f32: Dtype::Float(4),
    f64: Dtype::Float(8)
}

impl Scalar for bool {
    const DTYPE: Dtype = Dtype::Bool;

    fn write(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }
}

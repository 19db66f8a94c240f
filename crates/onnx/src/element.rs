//! Element types of ONNX.

use half::{bf16, f16};
use lessen_graph::DType;

use crate::narrow::{Narrow, Narrowing};

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    /// Signed integers of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// Unsigned integers of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// Truth values, one byte each.
    Bool,
    /// Numbers of at most eight bits that programs do not compute with.
    Narrow(Narrow),
}

/// NumPy's name, such as `float32`.
impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Element::BF16 => write!(f, "bfloat16"),
            Element::F16 | Element::F32 | Element::F64 => write!(f, "float{}", 8 * self.bytes()),
            Element::Int(bytes) => write!(f, "int{}", 8 * bytes),
            Element::Unsigned(bytes) => write!(f, "uint{}", 8 * bytes),
            Element::Bool => write!(f, "bool"),
            Element::Narrow(narrow) => write!(f, "{}", narrow.name()),
        }
    }
}

impl Element {
    /// The type of a number of the schema; none for texts and complex numbers.
    pub fn of(data_type: i32) -> Option<Element> {
        Some(match data_type {
            1 => Element::F32,
            2 => Element::Unsigned(1),
            3 => Element::Int(1),
            4 => Element::Unsigned(2),
            5 => Element::Int(2),
            6 => Element::Int(4),
            7 => Element::Int(8),
            9 => Element::Bool,
            10 => Element::F16,
            11 => Element::F64,
            12 => Element::Unsigned(4),
            13 => Element::Unsigned(8),
            16 => Element::BF16,
            other => return Narrow::of(other).map(Element::Narrow),
        })
    }

    /// The element type's number in the schema.
    pub fn data_type(self) -> i32 {
        match self {
            Element::F32 => 1,
            Element::Unsigned(1) => 2,
            Element::Int(1) => 3,
            Element::Unsigned(2) => 4,
            Element::Int(2) => 5,
            Element::Int(4) => 6,
            Element::Int(_) => 7,
            Element::Bool => 9,
            Element::F16 => 10,
            Element::F64 => 11,
            Element::Unsigned(4) => 12,
            Element::Unsigned(_) => 13,
            Element::BF16 => 16,
            Element::Narrow(narrow) => narrow.data_type(),
        }
    }

    /// Bytes of one element in memory.
    pub fn bytes(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
            Element::Int(bytes) | Element::Unsigned(bytes) => bytes.into(),
            Element::Bool | Element::Narrow(_) => 1,
        }
    }

    /// Bytes that a number of elements takes in a file; narrow elements share bytes. None beyond the largest number.
    pub fn bytes_of(self, count: u64) -> Option<u64> {
        match self {
            Element::Narrow(narrow) => Some(narrow.bytes(count)),
            _ => count.checked_mul(self.bytes() as u64),
        }
    }

    /// Whether programs compute with it, with integers by their values.
    pub fn is_traced(self) -> bool {
        !matches!(self, Element::Narrow(_))
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64 | Element::F16 | Element::BF16)
    }

    /// The dtype that stands for it in a graph: floats of 16 bits are computed in `f32`, integers are `i32`.
    pub fn dtype(self) -> DType {
        match self {
            Element::F64 => DType::F64,
            Element::F32 | Element::F16 | Element::BF16 => DType::F32,
            Element::Int(_) | Element::Unsigned(_) | Element::Narrow(_) => DType::I32,
            Element::Bool => DType::Bool,
        }
    }

    /// The number that the bytes of one element, in little-endian order, stand for; integers beyond 2^53 are rounded.
    pub fn read(self, bytes: &[u8]) -> f64 {
        let unsigned = || {
            bytes
                .iter()
                .rev()
                .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        match self {
            Element::F64 => f64::from_bits(unsigned()),
            Element::F32 => f32::from_bits(unsigned() as u32).into(),
            Element::F16 => f16::from_bits(unsigned() as u16).into(),
            Element::BF16 => bf16::from_bits(unsigned() as u16).into(),
            Element::Bool => f64::from(u8::from(unsigned() != 0)),
            Element::Unsigned(_) => unsigned() as f64,
            Element::Narrow(narrow) => narrow.read(unsigned() as u8),
            Element::Int(width) => self.read_integer(bytes, width) as f64,
        }
    }

    /// The integer that the bytes of one element stand for.
    pub fn read_i64(self, bytes: &[u8]) -> i64 {
        match self {
            Element::Int(width) => self.read_integer(bytes, width),
            Element::Unsigned(_) => bytes
                .iter()
                .rev()
                .fold(0u64, |number, byte| number << 8 | u64::from(*byte)) as i64,
            _ => self.read(bytes) as i64,
        }
    }

    fn read_integer(self, bytes: &[u8], width: u8) -> i64 {
        let number = bytes
            .iter()
            .rev()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let unused = 64 - 8 * u32::from(width);
        (number << unused) as i64 >> unused
    }

    /// Appends the bytes of the nearest element to a number.
    pub fn write(self, number: f64, out: &mut Vec<u8>) {
        match self {
            Element::F64 => out.extend(number.to_le_bytes()),
            Element::F32 => out.extend((number as f32).to_le_bytes()),
            Element::F16 => out.extend(f16::from_f64(number).to_le_bytes()),
            Element::BF16 => out.extend(bf16::from_f64(number).to_le_bytes()),
            Element::Bool => out.push(u8::from(number != 0.0)),
            Element::Narrow(narrow) => out.push(narrow.write(number, Narrowing::default())),
            Element::Int(width) => out.extend(&(number as i64).to_le_bytes()[..width.into()]),
            Element::Unsigned(width) => out.extend(&(number as u64).to_le_bytes()[..width.into()]),
        }
    }
}

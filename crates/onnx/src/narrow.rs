//! Numbers of at most eight bits beside the ordinary ones: floats of 8 and 4 bits, integers of 4 and 2.

/// A type of numbers of at most eight bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Narrow {
    /// A float of 4 exponent bits and 3 mantissa bits, with NaN and without infinity.
    E4M3,
    /// The same with another bias and without a negative zero, whose bits are NaN.
    E4M3Uz,
    /// A float of 5 exponent bits and 2 mantissa bits, with NaN and infinity.
    E5M2,
    /// The same with another bias, without infinity and without a negative zero, whose bits are NaN.
    E5M2Uz,
    /// An unsigned integer of 4 bits.
    U4,
    /// A signed integer of 4 bits.
    I4,
    /// A float of 2 exponent bits and 1 mantissa bit, without NaN and infinity.
    E2M1,
    /// A power of two by its 8 exponent bits, or NaN.
    E8M0,
    /// An unsigned integer of 2 bits.
    U2,
    /// A signed integer of 2 bits.
    I2,
}

/// How a number becomes a narrow float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Narrowing {
    /// Whether numbers that are too large become the largest one, instead of infinity or NaN.
    pub saturates: bool,
    /// How numbers become powers of two.
    pub powers: Powers,
}

/// The power of two that a number becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Powers {
    /// The next larger one.
    Up,
    /// The next smaller one.
    Down,
    /// The nearest one, the larger of two.
    Nearest,
}

impl Default for Narrowing {
    /// What happens where a file does not say it.
    fn default() -> Narrowing {
        Narrowing {
            saturates: true,
            powers: Powers::Up,
        }
    }
}

/// What makes up a float with a sign bit.
struct Layout {
    /// Bits of the mantissa.
    mantissa: i32,
    /// What is added to the exponent.
    bias: i32,
    /// The bits of the largest number.
    most: u8,
    /// The bits of infinity, or of what stands for it.
    infinity: u8,
    /// The bits of NaN; zero where there is none.
    nan: u8,
    /// The bit of the sign.
    sign: u8,
    /// Whether the negative zero is NaN.
    has_one_zero: bool,
}

impl Narrow {
    /// The type of a number of the schema.
    pub const fn of(data_type: i32) -> Option<Narrow> {
        Some(match data_type {
            17 => Narrow::E4M3,
            18 => Narrow::E4M3Uz,
            19 => Narrow::E5M2,
            20 => Narrow::E5M2Uz,
            21 => Narrow::U4,
            22 => Narrow::I4,
            23 => Narrow::E2M1,
            24 => Narrow::E8M0,
            25 => Narrow::U2,
            26 => Narrow::I2,
            _ => return None,
        })
    }

    /// The type's number in the schema.
    pub fn data_type(self) -> i32 {
        match self {
            Narrow::E4M3 => 17,
            Narrow::E4M3Uz => 18,
            Narrow::E5M2 => 19,
            Narrow::E5M2Uz => 20,
            Narrow::U4 => 21,
            Narrow::I4 => 22,
            Narrow::E2M1 => 23,
            Narrow::E8M0 => 24,
            Narrow::U2 => 25,
            Narrow::I2 => 26,
        }
    }

    /// Bits of a number in a file, where numbers of less than eight share bytes, the first in the lowest bits.
    pub fn bits(self) -> u32 {
        match self {
            Narrow::U2 | Narrow::I2 => 2,
            Narrow::U4 | Narrow::I4 | Narrow::E2M1 => 4,
            _ => 8,
        }
    }

    /// The name of the type in ONNX.
    pub fn name(self) -> &'static str {
        match self {
            Narrow::E4M3 => "float8e4m3fn",
            Narrow::E4M3Uz => "float8e4m3fnuz",
            Narrow::E5M2 => "float8e5m2",
            Narrow::E5M2Uz => "float8e5m2fnuz",
            Narrow::U4 => "uint4",
            Narrow::I4 => "int4",
            Narrow::E2M1 => "float4e2m1",
            Narrow::E8M0 => "float8e8m0",
            Narrow::U2 => "uint2",
            Narrow::I2 => "int2",
        }
    }

    /// The least and the greatest integer; none of a float.
    pub fn range(self) -> Option<(i8, i8)> {
        Some(match self {
            Narrow::U4 => (0, 15),
            Narrow::I4 => (-8, 7),
            Narrow::U2 => (0, 3),
            Narrow::I2 => (-2, 1),
            _ => return None,
        })
    }

    /// The number that low bits stand for.
    pub fn read(self, bits: u8) -> f64 {
        match self {
            Narrow::U4 => (bits & 15).into(),
            Narrow::U2 => (bits & 3).into(),
            Narrow::I4 => f64::from((bits << 4) as i8 >> 4),
            Narrow::I2 => f64::from((bits << 6) as i8 >> 6),
            Narrow::E8M0 if bits == u8::MAX => f64::NAN,
            Narrow::E8M0 => 2f64.powi(i32::from(bits) - 127),
            Narrow::E4M3 => layout::E4M3.read(bits),
            Narrow::E4M3Uz => layout::E4M3_UZ.read(bits),
            Narrow::E5M2 => layout::E5M2.read(bits),
            Narrow::E5M2Uz => layout::E5M2_UZ.read(bits),
            Narrow::E2M1 => layout::E2M1.read(bits & 15),
        }
    }

    /// The low bits of a number: floats round to even, integers cut fractions off and wrap.
    pub fn write(self, x: f64, how: Narrowing) -> u8 {
        match self {
            Narrow::U4 | Narrow::I4 => (x as i64 & 15) as u8,
            Narrow::U2 | Narrow::I2 => (x as i64 & 3) as u8,
            Narrow::E8M0 => power(x.abs(), how),
            Narrow::E4M3 => layout::E4M3.write(x, how),
            Narrow::E4M3Uz => layout::E4M3_UZ.write(x, how),
            Narrow::E5M2 => layout::E5M2.write(x, how),
            Narrow::E5M2Uz => layout::E5M2_UZ.write(x, how),
            Narrow::E2M1 => layout::E2M1.write(x, how),
        }
    }

    /// Bytes that a count of numbers takes in a file.
    pub fn bytes(self, count: u64) -> u64 {
        count.div_ceil(u64::from(8 / self.bits()))
    }

    /// The bits of each number in the bytes of a file, those that pad the last byte too.
    pub fn unpacked(self, bytes: &[u8]) -> Vec<u8> {
        let (bits, mask) = (self.bits(), (u8::MAX >> (8 - self.bits())));
        let shifts = (0..8).step_by(bits as usize);
        bytes
            .iter()
            .flat_map(|byte| shifts.clone().map(move |shift| byte >> shift & mask))
            .collect()
    }

    /// The bytes of a file with the bits of each number.
    pub fn packed(self, all: impl Iterator<Item = u8>) -> Vec<u8> {
        let (bits, mask) = (self.bits(), (u8::MAX >> (8 - self.bits())));
        let mut bytes = Vec::new();
        for (i, own) in all.enumerate() {
            let shift = i as u32 * bits % 8;
            match bytes.last_mut() {
                Some(last) if shift > 0 => *last |= (own & mask) << shift,
                _ => bytes.push(own & mask),
            }
        }
        bytes
    }
}

/// The floats with a sign bit.
mod layout {
    use super::Layout;

    pub const E4M3: Layout = Layout {
        mantissa: 3,
        bias: 7,
        most: 0x7E,
        infinity: 0x7F,
        nan: 0x7F,
        sign: 0x80,
        has_one_zero: false,
    };
    pub const E4M3_UZ: Layout = Layout {
        mantissa: 3,
        bias: 8,
        most: 0x7F,
        infinity: 0x80,
        nan: 0x80,
        sign: 0x80,
        has_one_zero: true,
    };
    pub const E5M2: Layout = Layout {
        mantissa: 2,
        bias: 15,
        most: 0x7B,
        infinity: 0x7C,
        nan: 0x7E,
        sign: 0x80,
        has_one_zero: false,
    };
    pub const E5M2_UZ: Layout = Layout {
        mantissa: 2,
        bias: 16,
        most: 0x7F,
        infinity: 0x80,
        nan: 0x80,
        sign: 0x80,
        has_one_zero: true,
    };
    pub const E2M1: Layout = Layout {
        mantissa: 1,
        bias: 1,
        most: 0x7,
        infinity: 0x7,
        nan: 0x8,
        sign: 0x8,
        has_one_zero: false,
    };
}

impl Layout {
    fn read(&self, bits: u8) -> f64 {
        let code = bits & (self.sign - 1);
        let sign = if bits & self.sign == 0 { 1.0 } else { -1.0 };
        if self.has_one_zero && bits == self.sign {
            return f64::NAN;
        }
        if code > self.most {
            return if code == self.infinity && self.infinity != self.nan {
                sign * f64::INFINITY
            } else {
                f64::NAN
            };
        }
        let (exponent, mantissa) = (i32::from(code) >> self.mantissa, i32::from(code) % (1 << self.mantissa));
        let quantum = 2f64.powi(exponent.max(1) - self.bias - self.mantissa);
        let lead = if exponent > 0 { 1 << self.mantissa } else { 0 };
        sign * f64::from(lead + mantissa) * quantum
    }

    fn write(&self, x: f64, how: Narrowing) -> u8 {
        let sign = if x.is_sign_negative() { self.sign } else { 0 };
        if x.is_nan() {
            return self.nan | sign;
        }
        let code = self.code(x.abs());
        match (code > u32::from(self.most), how.saturates) {
            (true, true) => self.most | sign,
            (true, false) => self.infinity | sign,
            (false, _) if code == 0 && self.has_one_zero => 0,
            (false, _) => code as u8 | sign,
        }
    }

    /// The bits of a magnitude, as if exponents had no end.
    fn code(&self, x: f64) -> u32 {
        // The largest exponent of any layout is far below.
        if x > 1e9 {
            return u32::MAX;
        }
        let least = 1 - self.bias;
        let exponent = (exponent(x)).max(least);
        let steps = (x / 2f64.powi(exponent - self.mantissa)).round_ties_even() as u32;
        (((exponent - least) as u32) << self.mantissa) + steps
    }
}

/// The exponent of a magnitude that is normal in double precision, and one that is lower than that for others.
fn exponent(x: f64) -> i32 {
    (x.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - 1023
}

/// The bits of a power of two.
fn power(x: f64, how: Narrowing) -> u8 {
    const NAN: u8 = u8::MAX;
    if x.is_nan() {
        return NAN;
    }
    let low = exponent(x);
    let fraction = x / 2f64.powi(low.clamp(-1000, 1000));
    let is_up = match how.powers {
        Powers::Up => fraction > 1.0,
        Powers::Down => false,
        Powers::Nearest => fraction >= 1.5,
    };
    let code = low + i32::from(is_up) + 127;
    match u8::try_from(code) {
        Ok(code) if code < NAN => code,
        _ if !how.saturates => NAN,
        _ if code < 0 => 0,
        _ => NAN - 1,
    }
}

//! The exponential `exp(-d)` of a distance to the maximum: a table of 512 entries, or a shift and a polynomial.

use std::fmt::Write as _;

/// How the exponential is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exponent {
    /// 512 entries for `0 <= d < 16` in steps of 1/32, the nearest one without interpolation.
    Table,
    /// `exp(-d) = 2^-i 2^-f` with a polynomial of degree 2 in `f` that is exact at both ends.
    Polynomial,
}

/// Bits after the point of an exponential, which has one bit before it.
pub const FRACTION: u32 = 15;

/// One in this format.
const ONE: u64 = 1 << FRACTION;

/// Entries of the table.
const ENTRIES: u64 = 512;

/// Bits after the point of the table's argument.
const STEP: u32 = 5;

/// `log2 e` with 14 bits after the point.
const LOG2_E: u64 = 23637;

/// The polynomial `1 - (1/2 + c) f + c f^2` with `c = 0.1716`, 15 bits after the point.
const QUADRATIC: u64 = 5623;
const LINEAR: u64 = ONE / 2 + QUADRATIC;

impl Exponent {
    /// The word of this method in a module's name.
    pub fn name(self) -> &'static str {
        match self {
            Exponent::Table => "table",
            Exponent::Polynomial => "polynomial",
        }
    }

    /// The exponential of `-d / 2^fraction`, with 15 bits after the point.
    pub fn compute(self, d: u64, fraction: u32) -> u64 {
        match self {
            Exponent::Table => {
                let index = if fraction > STEP {
                    (d + (1 << (fraction - STEP - 1))) >> (fraction - STEP)
                } else {
                    d << (STEP - fraction)
                };
                if index < ENTRIES { entry(index) } else { 0 }
            }
            Exponent::Polynomial => {
                let power = d * LOG2_E;
                let whole = power >> (fraction + 14);
                let f = (power >> (fraction + 2)) & 0xfff;
                let slope = LINEAR - ((QUADRATIC * f) >> 12);
                let value = ONE - ((slope * f) >> 12);
                if whole > 31 {
                    0
                } else {
                    (((2 * value) >> whole) + 1) >> 1
                }
            }
        }
    }

    /// The greatest relative error, beside half a unit in the last place of the result, where the argument has
    /// `fraction` bits after the point.
    pub fn relative_error(self, fraction: u32) -> f64 {
        match self {
            // The argument is rounded by half a step at most.
            Exponent::Table if fraction > STEP => 1.0 / 63.0,
            Exponent::Table => 0.0,
            // 0.0032 of the polynomial, the rest of log2 e, of 12 bits of `f` and of the truncated products.
            Exponent::Polynomial => 0.004,
        }
    }

    /// Cycles from `d` to `e` of the module.
    pub fn latency(self) -> usize {
        match self {
            Exponent::Table => 2,
            Exponent::Polynomial => 4,
        }
    }

    /// The module `NAME` with an input `d` of `bits` bits and the output `e` of 16.
    pub fn verilog(self, name: &str, bits: u32, fraction: u32) -> String {
        match self {
            Exponent::Table => table(name, bits, fraction),
            Exponent::Polynomial => polynomial(name, bits, fraction),
        }
    }
}

/// An entry of the table.
fn entry(index: u64) -> u64 {
    ((-(index as f64) / f64::from(1 << STEP)).exp() * ONE as f64 + 0.5).floor() as u64
}

fn table(name: &str, bits: u32, fraction: u32) -> String {
    // One bit more than the argument takes the carry of rounding.
    let wide = bits + STEP + 1;
    let index = if fraction > STEP {
        let cut = fraction - STEP;
        format!(
            "({{{pad}'b0, d}} + {wide}'d{half}) >> {cut}",
            pad = wide - bits,
            half = 1u64 << (cut - 1)
        )
    } else {
        format!("{{{pad}'b0, d}} << {}", STEP - fraction, pad = wide - bits)
    };
    let mut text = format!(
        "\
// exp(-d), d with {fraction} bits after the point, from a table of {ENTRIES} entries.
module {name} (input clk, input [{top}:0] d, output reg [15:0] e);
  wire [{wide_top}:0] index = {index};
  reg [8:0] at;
  reg beyond;
  reg [15:0] entry;
  always @(posedge clk) begin
    at <= index[8:0];
    beyond <= |index[{wide_top}:9];
    e <= beyond ? 16'd0 : entry;
  end
  always @* case (at)
",
        top = bits - 1,
        wide_top = wide - 1,
    );
    for index in 0..ENTRIES {
        let _ = writeln!(text, "    9'd{index}: entry = 16'd{};", entry(index));
    }
    text += "    default: entry = 16'd0;\n  endcase\nendmodule\n\n";
    text
}

fn polynomial(name: &str, bits: u32, fraction: u32) -> String {
    let power = bits + 15;
    let low = fraction + 14;
    // Zeros above the product keep the whole part at 6 bits at least.
    let wide = power.max(low + 6);
    format!(
        "\
// exp(-d), d with {fraction} bits after the point, as a power of two: a shift by its whole part, and
// 1 - (1/2 + c) f + c f^2 with c = 0.1716 of the rest f.
module {name} (input clk, input [{top}:0] d, output reg [15:0] e);
  wire [{wide_top}:0] power = d * 15'd{LOG2_E};
  reg [{whole_top}:0] whole_0;
  reg [{whole_top}:0] whole_1;
  reg [{whole_top}:0] whole_2;
  reg [11:0] f_0;
  reg [11:0] f_1;
  reg [14:0] slope;
  wire [24:0] square = f_0 * 13'd{QUADRATIC};
  wire [26:0] fall = slope * f_1;
  reg [15:0] value;
  wire [16:0] moved = {{value, 1'b0}} >> whole_2[4:0];
  wire [16:0] rounded = moved + 17'd1;
  always @(posedge clk) begin
    whole_0 <= power[{wide_top}:{low}];
    f_0 <= power[{}:{}];
    whole_1 <= whole_0;
    f_1 <= f_0;
    slope <= 15'd{LINEAR} - {{2'b0, square[24:12]}};
    whole_2 <= whole_1;
    value <= 16'd{ONE} - {{1'b0, fall[26:12]}};
    e <= (|whole_2[{whole_top}:5]) ? 16'd0 : rounded[16:1];
  end
endmodule

",
        low - 1,
        low - 12,
        top = bits - 1,
        wide_top = wide - 1,
        whole_top = wide - low - 1,
    )
}

//! GELU as ReLU less a small even function, which is piecewise linear: `gelu(x) = max(x, 0) - h(|x|)` with
//! `h(u) = u Phi(-u)`, in 32 pieces for `u < 4`; beyond, `h` is zero.

use std::fmt::Write as _;

use lessen_base::{Error, Result};

use super::definition::{Definition, rounded};
use super::number::{Number, round_bf16};
use super::unit::{Exact, Row, Unit, check_lanes};
use super::verilog::{bf16_to_fixed, fixed_of_bf16, to_bf16};

/// Pieces of `h`, which end at [`END`].
const PIECES: u64 = 32;

/// Where `h` ends.
const END: u64 = 4;

/// The logarithm of the pieces in a unit of `u`.
const STEPS: u32 = 3;

/// Bits after the point of the values of `h`.
const FRACTION: u32 = 15;

/// Bits of `u` for bf16: 2 before the point and 12 after it, and one that says that it is beyond the end.
const OF_BF16: (u32, u32) = (15, 12);

/// The greatest difference of `h` and its chords: an eighth of the greatest second derivative, `2 phi(0)`, over the
/// square of the pieces in a unit.
const CHORD: f64 = 0.798 / 8.0 / 64.0;

/// A GELU unit of `lanes` elements in a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gelu {
    number: Number,
    lanes: usize,
    /// `h` where each piece begins, and zero.
    knots: Vec<u64>,
}

impl Gelu {
    /// A unit for a format.
    ///
    /// # Errors
    /// If there are no lanes, or too many, or the format has fewer than 3 bits after the point, more than 12, or more
    /// than 16 in all.
    pub fn new(number: Number, lanes: usize) -> Result<Gelu> {
        check_lanes(lanes)?;
        match number {
            Number::Fixed { fraction, .. } if !(STEPS..=12).contains(&fraction) || number.bits() > 16 => {
                Err(Error::user(format!(
                    "GELU units take up to 16 bits with {STEPS} to 12 after the point, or bf16, not {number}"
                )))
            }
            _ => Ok(Gelu {
                number,
                lanes,
                knots: knots()?,
            }),
        }
    }

    /// `h` at the beginning of a piece, and how much it grows in it.
    fn piece(&self, piece: u64) -> (i64, i64) {
        let (begin, end) = (self.knots[piece as usize], self.knots[piece as usize + 1]);
        (begin as i64, end as i64 - begin as i64)
    }

    /// Width of `u`, and its bits after the point.
    fn argument(&self) -> (u32, u32) {
        match self.number {
            Number::Fixed { fraction, .. } => (self.number.bits(), fraction),
            Number::Bf16 => OF_BF16,
        }
    }

    /// `h` in units of `2^-15`.
    fn tail(&self, u: u64) -> u64 {
        let (_, fraction) = self.argument();
        let piece = u >> (fraction - STEPS);
        if piece >= PIECES {
            return 0;
        }
        let rest = u & ((1 << (fraction - STEPS)) - 1);
        let (begin, slope) = self.piece(piece);
        (begin + ((slope * rest as i64) >> (fraction - STEPS))) as u64
    }
}

/// `h` at the beginnings of the pieces in units of `2^-15`, by the graph's own GELU; zero at the end of the last.
fn knots() -> Result<Vec<u64>> {
    let at: Vec<f64> = (0..PIECES)
        .map(|piece| -(piece as f64) / f64::from(1 << STEPS))
        .collect();
    let values = Definition::Gelu.evaluate(&[&at])?;
    let knot = |y: &f64| (-y * f64::from(1 << FRACTION)).round() as u64;
    Ok(values.iter().map(knot).chain([0]).collect())
}

impl Unit for Gelu {
    fn name(&self) -> String {
        format!("gelu_{}_x{}", self.number, self.lanes)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn result(&self) -> Number {
        self.number
    }

    fn verilog(&self) -> String {
        let (name, width, lanes) = (self.name(), self.number.bits(), self.lanes);
        let (bits, fraction) = self.argument();
        let cut = fraction - STEPS;
        let mut text = match self.number {
            Number::Bf16 => {
                bf16_to_fixed(&format!("{name}_fixed"), bits, fraction) + &to_bf16(&format!("{name}_float"), 18)
            }
            Number::Fixed { .. } => String::new(),
        };
        let magnitude = match self.number {
            Number::Bf16 => format!("  {name}_fixed magnitude (.a(x_0[14:0]), .d(u));\n"),
            Number::Fixed { .. } => format!("  assign u = x_0[{0}] ? -x_0 : x_0;\n", width - 1),
        };
        let piece_bits = bits - cut;
        let beyond = if piece_bits > 5 {
            format!("|u[{}:{}]", bits - 1, cut + 5)
        } else {
            "1'b0".to_string()
        };
        let piece = if piece_bits >= 5 {
            format!("u[{}:{cut}]", cut + 4)
        } else {
            format!("{{{}'b0, u[{}:{cut}]}}", 5 - piece_bits, bits - 1)
        };
        let rest = match cut {
            0 => "1'b0".to_string(),
            _ => format!("u[{}:0]", cut - 1),
        };
        let rest_bits = cut.max(1);
        let _ = write!(
            text,
            "\
// GELU of one element: ReLU less a piecewise linear function of the magnitude.
module {name}_lane (input clk, input [{top}:0] x, output reg [{top}:0] y);
  reg [{top}:0] x_0;
  reg [{top}:0] x_1;
  reg [{top}:0] x_2;
  wire [{u_top}:0] u;
{magnitude}  reg [{u_top}:0] u_1;
  reg [{u_top}:0] u_2;
  reg [4:0] piece;
  reg [{rest_top}:0] rest;
  reg beyond;
  reg beyond_2;
  reg [13:0] begin_2;
  reg signed [12:0] slope_2;
  reg [{rest_top}:0] rest_2;
  reg [13:0] knot;
  reg signed [12:0] slope;
  wire signed [{product_top}:0] product = slope_2 * $signed({{1'b0, rest_2}});
  wire signed [{product_top}:0] moved = product >>> {cut};
  wire [15:0] line = {{2'b0, begin_2}} + moved[15:0];
  reg [15:0] h;
  reg beyond_3;
  reg [{top}:0] x_3;
  reg [{u_top}:0] u_3;
  wire [{top}:0] result;
  always @* case (piece)
",
            top = width - 1,
            u_top = bits - 1,
            rest_top = rest_bits - 1,
            product_top = (rest_bits + 13).max(15),
        );
        for at in 0..PIECES {
            let (begin, slope) = self.piece(at);
            let sign = if slope < 0 { "-" } else { "" };
            let slope = slope.abs();
            let _ = writeln!(
                text,
                "    5'd{at}: begin knot = 14'd{begin}; slope = {sign}13'sd{slope}; end"
            );
        }
        let result = match self.number {
            // Beyond the end a number above zero is its own result.
            Number::Bf16 => format!(
                "  wire [17:0] whole = x_3[15] ? {{2'b0, h}} : {{u_3, 3'b0}} - {{2'b0, h}};
  wire [15:0] rounded;
  {name}_float round (.q(whole), .scale(8'd112), .y(rounded));
  assign result = (beyond_3 & ~x_3[15]) ? x_3 : {{x_3[15] & (|rounded), rounded[14:0]}};
"
            ),
            Number::Fixed { .. } => {
                let shift = FRACTION - fraction;
                let wide = width + shift + 1;
                format!(
                    "  wire signed [{wide_top}:0] plain = x_3[{top}] ? {wide}'sd0 : $signed({{1'b0, x_3, {shift}'b0}});
  wire signed [{wide_top}:0] less = plain - $signed({{{h_pad}'b0, h}}) + {wide}'sd{half};
  assign result = less[{high}:{shift}];
",
                    wide_top = wide - 1,
                    top = width - 1,
                    h_pad = wide - 16,
                    half = 1u64 << (shift - 1),
                    high = shift + width - 1,
                )
            }
        };
        let _ = write!(
            text,
            "    default: begin knot = 14'd0; slope = 13'sd0; end
  endcase
{result}  always @(posedge clk) begin
    x_0 <= x;
    x_1 <= x_0;
    u_1 <= u;
    piece <= {piece};
    rest <= {rest};
    beyond <= {beyond};
    x_2 <= x_1;
    u_2 <= u_1;
    rest_2 <= rest;
    beyond_2 <= beyond;
    begin_2 <= knot;
    slope_2 <= slope;
    h <= beyond_2 ? 16'd0 : line;
    beyond_3 <= beyond_2;
    x_3 <= x_2;
    u_3 <= u_2;
    y <= result;
  end
endmodule

// GELU of {lanes} elements of {width} bits in a cycle.
module {name} (
  input clk, input rst, input valid,
  input [{wide}:0] x,
  output out_valid,
  output [{wide}:0] y
);
  reg [4:0] valids;
  assign out_valid = valids[4];
  always @(posedge clk) valids <= rst ? 5'd0 : {{valids[3:0], valid}};
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : lanes
    {name}_lane unit (.clk(clk), .x(x[lane*{width} +: {width}]), .y(y[lane*{width} +: {width}]));
  end endgenerate
endmodule
",
            wide = lanes * width as usize - 1,
        );
        text
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        let number = self.number;
        let element = |&code: &u64| match number {
            Number::Fixed { fraction, .. } => {
                let x = number.signed(code);
                let shift = FRACTION - fraction;
                let less = (x.max(0) << shift) - self.tail(x.unsigned_abs()) as i64;
                number.saturated((less + (1 << (shift - 1))) >> shift)
            }
            Number::Bf16 => {
                let x = number.decode(code);
                let u = fixed_of_bf16(x.abs(), OF_BF16.0, OF_BF16.1);
                let h = self.tail(u);
                let negative = x.is_sign_negative();
                if !negative && u >> 12 >= END {
                    return code;
                }
                let whole = if negative { h } else { (u << 3) - h };
                let magnitude = round_bf16(whole as f64 / f64::from(1 << FRACTION));
                if magnitude == 0 {
                    0
                } else {
                    magnitude | u64::from(negative) << 15
                }
            }
        };
        row[0].iter().map(element).collect()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let values = Definition::Gelu.evaluate(&[&self.numbers(row, 0)])?;
        let (_, fraction) = self.argument();
        // The chord, what the end of the last piece leaves out, two truncations, and the argument of a bf16.
        let argument = match self.number {
            Number::Bf16 => 1.0 / f64::from(1 << fraction),
            Number::Fixed { .. } => 0.0,
        };
        let error = CHORD + 2e-4 + 2.0 / f64::from(1 << FRACTION) + argument;
        Ok(rounded(self.number, values, error))
    }
}

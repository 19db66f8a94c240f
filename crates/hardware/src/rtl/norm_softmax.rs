//! The temperature of NormSoftmax (equation 2.27 of the dissertation): scores are divided by `min(sigma, gamma)`.
//!
//! For a row of `n` codes with sum `A` and sum of squares `B`, `n^2 sigma^2 = n B - A^2` in units of the last place: an
//! integer, of which one serial square root and one serial division make `1 / sigma`, once for a row.

use std::fmt;

use lessen_base::{Error, Result};
use lessen_graph::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature as Definition};

use super::number::Number;
use super::verilog::{extended, tree};

/// Bits after the point of `1 / sigma`.
const FRACTION: u32 = 12;

/// Bits after the point of the square root.
const ROOT_FRACTION: u32 = 8;

/// The bounds of `1 / sigma` of a unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Temperature {
    gamma: f64,
    fraction: u32,
}

impl Temperature {
    /// The temperature `min(sigma, gamma)` of rows of a format.
    pub(super) fn new(number: Number, gamma: f64) -> Result<Temperature> {
        let Number::Fixed { fraction, .. } = number else {
            return Err(Error::user(
                "NormSoftmax has no unit for bf16: its sums of squares need another format; take fixed point",
            ));
        };
        if !(LEAST_TEMPERATURE..=1000.0).contains(&gamma) {
            return Err(Error::user(format!(
                "gamma is {LEAST_TEMPERATURE} to 1000, not {gamma}"
            )));
        }
        Ok(Temperature { gamma, fraction })
    }

    /// `1 / gamma`.
    fn least(&self) -> u64 {
        (f64::from(1 << FRACTION) / self.gamma).round() as u64
    }

    /// The reciprocal of the least temperature.
    fn most(&self) -> u64 {
        (f64::from(1 << FRACTION) / LEAST_TEMPERATURE).round() as u64
    }

    /// Width of the factor.
    pub(super) fn bits(&self) -> u32 {
        self.most().ilog2() + 1
    }

    /// By how much a number of units in the last place is shifted to become `1 / sigma` over the root.
    fn shift(&self) -> u32 {
        self.fraction + FRACTION + ROOT_FRACTION
    }

    /// `1 / min(sigma, gamma)` with [`FRACTION`] bits after the point.
    pub(super) fn factor(&self, codes: &[i64]) -> u64 {
        let n = codes.len() as u128;
        let total: i64 = codes.iter().sum();
        let squares: u128 = codes.iter().map(|&x| u128::from((x * x) as u64)).sum();
        let variance = n * squares - u128::from(total.unsigned_abs()).pow(2);
        let root = (variance << (2 * ROOT_FRACTION)).isqrt();
        let most = u128::from(self.most());
        let quotient = (n << self.shift()).checked_div(root).unwrap_or(most);
        quotient.clamp(u128::from(self.least()), most) as u64
    }

    /// The greatest relative error of the factor: of its own last place, and of that of the root.
    pub(super) fn relative_error(&self) -> f64 {
        1.0 / self.least() as f64 + 1.0 / 256.0
    }

    /// The scores that the definition gives to softmax.
    pub(super) fn normalized(&self, scores: &[f64]) -> Vec<f64> {
        let definition = Definition {
            clip: Clip::AtMost(self.gamma),
            ..Definition::default()
        };
        definition.normalized(scores)
    }
}

impl fmt::Display for Temperature {
    /// `g1`, or `g0p5`: a part of a module's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.gamma.to_string().replace('.', "p"))
    }
}

/// The hardware that finds the factor of a row.
pub(super) struct Statistics {
    width: u32,
    lanes: usize,
    length_bits: u32,
    least: u64,
    most: u64,
    factor_bits: u32,
    shift: u32,
}

impl Statistics {
    pub(super) fn new(temperature: &Temperature, number: Number, lanes: usize, length: usize) -> Statistics {
        Statistics {
            width: number.bits(),
            lanes,
            length_bits: length.next_power_of_two().ilog2(),
            least: temperature.least(),
            most: temperature.most(),
            factor_bits: temperature.bits(),
            shift: temperature.shift(),
        }
    }

    /// Bits of the square root, one for each of its cycles.
    fn root_bits(&self) -> u32 {
        (2 * self.width + 2 * self.length_bits + 1 + 2 * ROOT_FRACTION).div_ceil(2)
    }

    /// Bits of the quotient, one for each of its cycles.
    fn quotient_bits(&self) -> u32 {
        self.length_bits + 1 + self.shift
    }

    /// Cycles from the last scores of a row to the first of the next pass.
    pub(super) fn gap(&self) -> usize {
        (self.root_bits() + self.quotient_bits()) as usize + 5
    }

    /// The module `NAME`, whose `x` has zeros for lanes that are not kept.
    pub(super) fn verilog(&self, name: &str) -> String {
        let (width, lanes, length_bits) = (self.width, self.lanes, self.length_bits);
        let lane_bits = (lanes as u32).next_power_of_two().ilog2();
        let mut sums = String::new();
        let (beat, squares, counts) = (width + lane_bits, 2 * width + lane_bits, 1 + lane_bits);
        let add = |a: &str, b: &str| format!("{a} + {b}");
        let cut = |lane: usize, bits: u32| format!("{} +: {bits}", lane * bits as usize);
        let terms = (0..lanes).map(|lane| match lane_bits {
            0 => format!("x[{}]", cut(lane, width)),
            _ => format!(
                "{{{{{lane_bits}{{x[{}]}}}}, x[{}]}}",
                (lane + 1) * width as usize - 1,
                cut(lane, width)
            ),
        });
        let total = tree(&mut sums, "total", beat, terms.collect(), add);
        let padded = |vector: &str, bits: u32| {
            let vector = vector.to_string();
            move |lane: usize| match lane_bits {
                0 => format!("{vector}[{}]", cut(lane, bits)),
                _ => format!("{{{lane_bits}'b0, {vector}[{}]}}", cut(lane, bits)),
            }
        };
        let terms = (0..lanes).map(padded("squared", 2 * width)).collect();
        let square = tree(&mut sums, "square", squares, terms, add);
        let count = tree(
            &mut sums,
            "count",
            counts,
            (0..lanes).map(padded("keep", 1)).collect(),
            add,
        );
        // Each accumulator holds what a whole row adds up to.
        let (sum_bits, square_bits, count_bits) = (
            (width + length_bits).max(beat),
            (2 * width + length_bits).max(squares),
            (length_bits + 1).max(counts),
        );
        let (root, quotient) = (self.root_bits(), self.quotient_bits());
        let radicand = 2 * root;
        // The root takes an even number of bits.
        let kept = radicand - 2 * ROOT_FRACTION;
        let variance = (count_bits + square_bits).max(2 * sum_bits).max(kept);
        format!(
            "\
// 1 / min(sigma, gamma) of a row: sums, then a square root and a division, a bit in a cycle each.
module {name} (
  input clk, input rst, input valid, input first, input last,
  input [{lane_top}:0] keep, input [{wide}:0] x,
  output reg [{factor_top}:0] factor
);
  reg [{squared_top}:0] squared;
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : squares
    wire signed [{top}:0] own = x[lane*{width} +: {width}];
    always @(posedge clk) squared[lane*{double} +: {double}] <= own * own;
  end endgenerate
{sums}  // Valid, first and last; sums of a beat; sums of a row.
  reg [2:0] c1;
  reg [2:0] c2;
  reg signed [{beat_top}:0] total_1;
  reg signed [{beat_top}:0] total_2;
  reg [{squares_top}:0] square_2;
  reg [{counts_top}:0] count_1;
  reg [{counts_top}:0] count_2;
  reg signed [{sum_top}:0] sum;
  reg [{square_top}:0] square_sum;
  reg [{count_top}:0] count_sum;
  // What is under way: products, their difference, the root, the quotient, its bounds.
  reg products, difference, rooting, dividing, bounding;
  reg [{variance_top}:0] scaled;
  reg [{variance_top}:0] centre;
  wire [{variance_top}:0] variance = scaled - centre;
  reg [6:0] left;
  reg [{radicand_top}:0] radicand;
  reg [{root_top}:0] root;
  reg [{rest_top}:0] rest;
  wire [{rest_top}:0] rest_next = {{rest[{rest_low}:0], radicand[{radicand_top}:{radicand_next}]}};
  wire [{rest_top}:0] trial = {{1'b0, root, 2'b01}};
  wire fits = rest_next >= trial;
  reg [{quotient_top}:0] dividend;
  reg [{quotient_top}:0] result;
  reg [{root}:0] over;
  wire [{root}:0] over_next = {{over[{root_top}:0], dividend[{quotient_top}]}};
  wire takes = over_next >= {{1'b0, root}};
  always @(posedge clk) begin
    c1 <= {{last, first, valid & ~rst}};
    c2 <= c1 & {{2'b11, ~rst}};
    total_1 <= {total};
    total_2 <= total_1;
    square_2 <= {square};
    count_1 <= {count};
    count_2 <= count_1;
    if (rst) begin
      sum <= 0;
      square_sum <= 0;
      count_sum <= 0;
    end else if (c2[0]) begin
      sum <= (c2[1] ? {sum_bits}'sd0 : sum) + $signed({total_wide});
      square_sum <= (c2[1] ? {square_bits}'d0 : square_sum) + {square_wide};
      count_sum <= (c2[1] ? {count_bits}'d0 : count_sum) + {count_wide};
    end
    products <= c2[0] & c2[2] & ~rst;
    difference <= products & ~rst;
    if (products) begin
      scaled <= count_sum * square_sum;
      centre <= sum * sum;
    end
    if (rst) begin
      rooting <= 1'b0;
      dividing <= 1'b0;
    end else if (difference) begin
      rooting <= 1'b1;
      left <= 7'd{root_last};
      radicand <= {{variance[{kept_top}:0], {root_shift}'b0}};
      root <= 0;
      rest <= 0;
    end else if (rooting) begin
      radicand <= radicand << 2;
      root <= {{root[{root_low}:0], fits}};
      rest <= fits ? rest_next - trial : rest_next;
      left <= left - 7'd1;
      if (left == 7'd0) begin
        rooting <= 1'b0;
        dividing <= 1'b1;
        left <= 7'd{quotient_last};
        dividend <= {{count_sum[{length_bits}:0], {shift}'b0}};
        over <= 0;
      end
    end else if (dividing) begin
      dividend <= dividend << 1;
      over <= takes ? over_next - {{1'b0, root}} : over_next;
      result <= {{result[{quotient_low}:0], takes}};
      left <= left - 7'd1;
      if (left == 7'd0) dividing <= 1'b0;
    end
    bounding <= dividing & (left == 7'd0) & ~rst;
    if (bounding)
      factor <= (result > {quotient}'d{most}) ? {factor_bits}'d{most}
        : (result < {quotient}'d{least}) ? {factor_bits}'d{least} : result[{factor_top}:0];
  end
endmodule

",
            total_wide = extended("total_2", beat, sum_bits, true),
            square_wide = extended("square_2", squares, square_bits, false),
            count_wide = extended("count_2", counts, count_bits, false),
            lane_top = lanes - 1,
            wide = lanes * width as usize - 1,
            factor_top = self.factor_bits - 1,
            factor_bits = self.factor_bits,
            squared_top = 2 * lanes * width as usize - 1,
            top = width - 1,
            double = 2 * width,
            beat_top = beat - 1,
            squares_top = squares - 1,
            counts_top = counts - 1,
            sum_top = sum_bits - 1,
            square_top = square_bits - 1,
            count_top = count_bits - 1,
            variance_top = variance - 1,
            radicand_top = radicand - 1,
            radicand_next = radicand - 2,
            root_top = root - 1,
            root_low = root - 2,
            rest_top = root + 2,
            rest_low = root,
            quotient_top = quotient - 1,
            quotient_low = quotient - 2,
            root_last = root - 1,
            quotient_last = quotient - 1,
            kept_top = kept - 1,
            root_shift = 2 * ROOT_FRACTION,
            shift = self.shift,
            most = self.most,
            least = self.least,
        )
    }
}

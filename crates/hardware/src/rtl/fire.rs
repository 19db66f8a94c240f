//! FIRE by table: the bias of a score is a piecewise linear function of a ratio of logarithms of positions, in 33
//! pieces at most for a hidden layer of 32.
//!
//! The logarithms `psi(i - j)` come from a table of positions outside of the unit, `1 / psi(max(L, i))` once for a row.
//! The pieces are those of one head and fixed in the module.

use lessen_base::{Error, Result};

use super::definition::{Definition, FireHead, rounded};
use super::number::Number;
use super::unit::{Cycle, Exact, Port, Row, Unit, Word, check_lanes, push_lanes};

/// Most hidden units; there is a piece more.
pub const HIDDEN: usize = 32;

/// The format of `psi`, which is not negative.
const LOGARITHM: Number = Number::Fixed {
    integer: 3,
    fraction: 12,
};

/// The format of `1 / psi`, which is not negative.
const RECIPROCAL: Number = Number::Fixed {
    integer: 0,
    fraction: 15,
};

/// One, as a ratio: it has 15 bits after the point.
const ONE: u64 = 1 << 15;

/// A line from a ratio on: `value = slope u + intercept`, both in units of the table's last place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    begin: u64,
    slope: i64,
    intercept: i64,
}

/// A unit for the biases of one head, `lanes` in a cycle.
#[derive(Clone, PartialEq, Debug)]
pub struct Fire {
    number: Number,
    lanes: usize,
    head: FireHead,
    pieces: Vec<Piece>,
    /// Bits after the point of slopes and intercepts.
    fraction: u32,
    /// The greatest slope.
    steepest: f64,
}

impl Fire {
    /// A unit whose biases have a fixed-point format.
    ///
    /// # Errors
    /// If there are no lanes, or too many; more than 32 hidden units; a format other than fixed point with at
    /// most 15 bits after the point; a slope or an intercept of 16384 or more, or none that is a number.
    pub fn new(number: Number, lanes: usize, head: FireHead) -> Result<Fire> {
        check_lanes(lanes)?;
        if head.hidden.len() > HIDDEN {
            return Err(Error::user(format!(
                "a FIRE unit has at most {HIDDEN} hidden units, not {}",
                head.hidden.len()
            )));
        }
        if !matches!(number, Number::Fixed { fraction: ..=15, .. }) {
            return Err(Error::user(format!(
                "a FIRE unit's biases are fixed point with at most 15 bits after the point, not {number}"
            )));
        }
        let finite = head.hidden.iter().flatten().all(|parameter| parameter.is_finite());
        let mut knots: Vec<f64> = head.hidden.iter().map(|[w1, b1, _]| -b1 / w1).collect();
        knots.retain(|knot| (0.0..1.0).contains(knot));
        knots.push(0.0);
        knots.sort_by(f64::total_cmp);
        knots.dedup();
        let ends = knots.iter().copied().skip(1).chain([1.0]);
        let lines: Vec<(f64, f64)> = knots
            .iter()
            .zip(ends)
            .map(|(begin, end)| head.line(0.5 * (begin + end)))
            .collect();
        let largest = lines.iter().fold(0f64, |most, (a, b)| most.max(a.abs()).max(b.abs()));
        // A largest constant that is not a number is not below the limit.
        if !(finite && head.offset.is_finite() && largest < 16384.0) {
            return Err(Error::user(
                "a FIRE unit's slopes and intercepts are below 16384; scale the head's parameters",
            ));
        }
        // The largest constant has 16 bits with its sign.
        let fraction = (0..=14)
            .rev()
            .find(|&bits| largest * f64::from(1u32 << bits) < 32767.0)
            .unwrap_or(0);
        let scale = f64::from(1u32 << fraction);
        let pieces = knots.iter().zip(&lines).map(|(&begin, &(slope, intercept))| Piece {
            begin: (begin * ONE as f64).round() as u64,
            slope: (slope * scale).round() as i64,
            intercept: (intercept * scale).round() as i64,
        });
        Ok(Fire {
            number,
            lanes,
            pieces: pieces.collect(),
            fraction,
            steepest: lines.iter().fold(0.0, |most: f64, (slope, _)| most.max(slope.abs())),
            head,
        })
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bits by which the value of a line is longer than a bias.
    fn cut(&self) -> u32 {
        let after = match self.number {
            Number::Fixed { fraction, .. } => fraction,
            Number::Bf16 => 0,
        };
        15 + self.fraction - after
    }

    /// An expression that finds the constants of the piece around `u` by halving the pieces.
    fn search(pieces: &[Piece]) -> String {
        let half = pieces.len() / 2;
        match pieces {
            [piece] => {
                let (slope, intercept) = (piece.slope as u64 & 0xffff, piece.intercept as u64 & 0xffff);
                format!("32'h{slope:04x}{intercept:04x}")
            }
            _ => format!(
                "((u >= 16'd{}) ? {} : {})",
                pieces[half].begin,
                Fire::search(&pieces[half..]),
                Fire::search(&pieces[..half])
            ),
        }
    }
}

impl Unit for Fire {
    fn name(&self) -> String {
        format!("fire_p{}_{}_x{}", self.pieces.len(), self.number, self.lanes)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn operands(&self) -> Vec<Number> {
        vec![LOGARITHM, RECIPROCAL]
    }

    fn result(&self) -> Number {
        self.number
    }

    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("psi", self.lanes * 16), Port::new("scale", 16)]
    }

    /// Logarithms and their reciprocals are not negative.
    fn admissible(&self, _operand: usize, code: u64) -> u64 {
        code & 0x7fff
    }

    fn of_row(&self, operand: usize) -> bool {
        operand == 1
    }

    fn verilog(&self) -> String {
        let (name, width, lanes) = (self.name(), self.number.bits(), self.lanes);
        let cut = self.cut();
        let half = match cut {
            0 => 0,
            _ => 1u64 << (cut - 1),
        };
        let kept = 35 - cut;
        // Values beyond the format are the nearest end of it.
        let saturated = if kept >= width {
            format!(
                "(&line[34:{at}] | ~|line[34:{at}]) ? line[{at}:{cut}] : {{line[34], {{{low}{{~line[34]}}}}}}",
                at = cut + width - 1,
                low = width - 1
            )
        } else {
            format!("{{{{{}{{line[34]}}}}, line[34:{cut}]}}", width - kept)
        };
        format!(
            "\
// FIRE's bias of one score: a line for each of {pieces} pieces.
module {name}_lane (input clk, input [15:0] psi, input [15:0] scale, output reg [{top}:0] y);
  reg [15:0] psi_0;
  reg [15:0] scale_0;
  wire [31:0] ratio = psi_0 * scale_0;
  reg [15:0] u;
  reg [15:0] u_2;
  reg [31:0] piece;
  reg signed [34:0] line;
  wire signed [34:0] line_next = $signed(piece[31:16]) * $signed({{1'b0, u_2}}) + $signed({{{{4{{piece[15]}}}}, piece[15:0], 15'b0}}) + 35'sd{half};
  always @(posedge clk) begin
    psi_0 <= psi;
    scale_0 <= scale;
    u <= (|ratio[31:27]) ? 16'd{ONE} : ratio[27:12];
    u_2 <= u;
    piece <= {search};
    line <= line_next;
    y <= {saturated};
  end
endmodule

// FIRE's biases of {lanes} scores in a cycle; the scale is that of the row.
module {name} (
  input clk, input rst, input valid,
  input [{psi_top}:0] psi, input [15:0] scale,
  output out_valid,
  output [{wide}:0] y
);
  reg [4:0] valids;
  assign out_valid = valids[4];
  always @(posedge clk) valids <= rst ? 5'd0 : {{valids[3:0], valid}};
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : lanes
    {name}_lane unit (
      .clk(clk), .psi(psi[lane*16 +: 16]), .scale(scale), .y(y[lane*{width} +: {width}])
    );
  end endgenerate
endmodule
",
            pieces = self.pieces.len(),
            top = width - 1,
            psi_top = lanes * 16 - 1,
            wide = lanes * width as usize - 1,
            search = Fire::search(&self.pieces),
        )
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        let scale = row[1][0];
        let bias = |&psi: &u64| {
            let u = ((psi * scale) >> 12).min(ONE);
            let piece = self.pieces.partition_point(|piece| piece.begin <= u) - 1;
            let Piece { slope, intercept, .. } = self.pieces[piece];
            let cut = self.cut();
            let half = if cut == 0 { 0 } else { 1 << (cut - 1) };
            self.number
                .saturated((slope * u as i64 + (intercept << 15) + half) >> cut)
        };
        row[0].iter().map(bias).collect()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let scale = self.numbers(row, 1)[0];
        let ratios: Vec<f64> = self.numbers(row, 0).iter().map(|psi| (psi * scale).min(1.0)).collect();
        let values = Definition::Fire(self.head.clone()).evaluate(&[&ratios])?;
        // The constants' last places, the truncated ratio, and a knot that is half a place beside its own.
        let error = 1.0 / f64::from(1u32 << self.fraction) + 2.0 * self.steepest / ONE as f64;
        Ok(rounded(self.number, values, error))
    }

    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let results = self.compute(row);
        let beats = results.len().div_ceil(self.lanes);
        let cycle = |beat: usize| {
            let mut input = Word::default();
            push_lanes(&mut input, &row[0], beat, self.lanes, LOGARITHM);
            input.push(row[1][0], 16);
            let mut output = Word::default();
            // A lane beyond the row has the bias of the distance zero.
            let zero = self.compute(&vec![vec![0], row[1].clone()])[0];
            for lane in 0..self.lanes {
                let code = results.get(beat * self.lanes + lane).copied().unwrap_or(zero);
                output.push(code, self.number.bits());
            }
            Cycle {
                input: Some(input),
                output: Some(output),
            }
        };
        (0..beats).map(cycle).collect()
    }
}

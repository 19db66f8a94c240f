//! Products of queries and keys, or of weights and values: the multipliers beside which attention functions stand.

use lessen_base::{Error, Result};

use super::number::Number;
use super::unit::{Cycle, Exact, Port, Row, Unit, Word, check_lanes, push_lanes};
use super::verilog::{extended, tree};

/// Longest row of a unit.
pub const LONGEST: usize = 1 << 16;

/// The sum of products of two rows, `lanes` products in a cycle; exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dot {
    number: Number,
    lanes: usize,
    length: usize,
}

impl Dot {
    /// A unit for rows of up to `length` elements.
    ///
    /// # Errors
    /// If the numbers of lanes or elements are out of range, or the format is not fixed point of at most 16 bits.
    pub fn new(number: Number, lanes: usize, length: usize) -> Result<Dot> {
        check_lanes(lanes)?;
        if !(1..=LONGEST).contains(&length) {
            return Err(Error::user(format!(
                "a sum of products takes rows of 1 to {LONGEST} elements, not {length}"
            )));
        }
        if !matches!(number, Number::Fixed { .. }) || number.bits() > 16 {
            return Err(Error::user(format!(
                "a sum of products takes fixed point of at most 16 bits, not {number}"
            )));
        }
        Ok(Dot { number, lanes, length })
    }

    fn bits(&self) -> u32 {
        2 * self.number.bits() + self.length.max(self.lanes).next_power_of_two().ilog2()
    }
}

impl Unit for Dot {
    fn name(&self) -> String {
        format!("dot_{}_x{}_l{}", self.number, self.lanes, self.length)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn operands(&self) -> Vec<Number> {
        vec![self.number; 2]
    }

    fn result(&self) -> Number {
        let fraction = match self.number {
            Number::Fixed { fraction, .. } => 2 * fraction,
            Number::Bf16 => 0,
        };
        Number::Fixed {
            integer: self.bits() - 1 - fraction,
            fraction,
        }
    }

    fn longest(&self) -> Option<usize> {
        Some(self.length)
    }

    fn inputs(&self) -> Vec<Port> {
        let bits = self.lanes * self.number.bits() as usize;
        vec![
            Port::new("a", bits),
            Port::new("b", bits),
            Port::new("first", 1),
            Port::new("last", 1),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("y", self.bits() as usize)]
    }

    fn verilog(&self) -> String {
        let (width, lanes, bits) = (self.number.bits(), self.lanes, self.bits());
        let beat = 2 * width + (lanes as u32).next_power_of_two().ilog2();
        let mut sums = String::new();
        let terms = (0..lanes).map(|lane| {
            let product = format!("products[{} +: {}]", lane * 2 * width as usize, 2 * width);
            let top = format!("products[{}]", (lane + 1) * 2 * width as usize - 1);
            match beat - 2 * width {
                0 => product,
                pad => format!("{{{{{pad}{{{top}}}}}, {product}}}"),
            }
        });
        let total = tree(&mut sums, "total", beat, terms.collect(), |a, b| format!("{a} + {b}"));
        format!(
            "\
// One product.
module {name}_product (
  input clk, input signed [{lane_top}:0] left, input signed [{lane_top}:0] right, output reg [{double_top}:0] y
);
  always @(posedge clk) y <= left * right;
endmodule

// The sum of {lanes} products of {width} bits in a cycle, added up to rows of {length}.
module {name} (
  input clk, input rst, input valid,
  input [{wide}:0] a, input [{wide}:0] b, input first, input last,
  output reg out_valid,
  output reg [{top}:0] y
);
  reg [{wide}:0] a_0;
  reg [{wide}:0] b_0;
  // Last, first and valid.
  reg [2:0] c0;
  reg [2:0] c1;
  reg [2:0] c2;
  wire [{products_top}:0] products;
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : lanes
    {name}_product product (
      .clk(clk), .left(a_0[lane*{width} +: {width}]), .right(b_0[lane*{width} +: {width}]),
      .y(products[lane*{double} +: {double}])
    );
  end endgenerate
{sums}  reg [{beat_top}:0] part;
  always @(posedge clk) begin
    a_0 <= a;
    b_0 <= b;
    c0 <= {{last, first, valid & ~rst}};
    c1 <= c0 & {{2'b11, ~rst}};
    c2 <= c1 & {{2'b11, ~rst}};
    part <= {total};
    if (rst) y <= {bits}'d0;
    else if (c2[0]) y <= (c2[1] ? {bits}'d0 : y) + {part};
    out_valid <= c2[0] & c2[2] & ~rst;
  end
endmodule
",
            length = self.length,
            name = self.name(),
            wide = lanes * width as usize - 1,
            top = bits - 1,
            products_top = 2 * lanes * width as usize - 1,
            lane_top = width - 1,
            double = 2 * width,
            double_top = 2 * width - 1,
            beat_top = beat - 1,
            part = extended("part", beat, bits, true),
        )
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        let products = row[0].iter().zip(&row[1]);
        let sum: i64 = products
            .map(|(&a, &b)| self.number.signed(a) * self.number.signed(b))
            .sum();
        vec![sum as u64 & self.result().mask()]
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let (a, b) = (self.numbers(row, 0), self.numbers(row, 1));
        Ok(Exact {
            values: vec![a.iter().zip(&b).map(|(a, b)| a * b).sum()],
            bounds: vec![0.0],
        })
    }

    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let beats = row[0].len().div_ceil(self.lanes);
        let cycle = |beat: usize| {
            let mut input = Word::default();
            for operand in row {
                push_lanes(&mut input, operand, beat, self.lanes, self.number);
            }
            let last = beat + 1 == beats;
            input.push(u64::from(beat == 0), 1);
            input.push(u64::from(last), 1);
            let mut output = Word::default();
            output.push(self.compute(row)[0], self.bits());
            Cycle {
                input: Some(input),
                output: last.then_some(output),
            }
        };
        (0..beats).map(cycle).collect()
    }
}

//! ReLU: the sign of each lane forces its bits to zero.

use lessen_base::Result;

use super::definition::{Definition, rounded};
use super::number::Number;
use super::unit::{Exact, Row, Unit, check_lanes};

/// `max(x, 0)` of `lanes` elements in a cycle. A bf16 that is not a number passes if its sign is plus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relu {
    number: Number,
    lanes: usize,
}

impl Relu {
    /// A unit for a format.
    ///
    /// # Errors
    /// If there are no lanes, or too many.
    pub fn new(number: Number, lanes: usize) -> Result<Relu> {
        check_lanes(lanes)?;
        Ok(Relu { number, lanes })
    }
}

impl Unit for Relu {
    fn name(&self) -> String {
        format!("relu_{}_x{}", self.number, self.lanes)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn result(&self) -> Number {
        self.number
    }

    fn verilog(&self) -> String {
        format!(
            "\
// ReLU of {lanes} elements of {width} bits in a cycle.
module {name} (
  input clk, input rst, input valid,
  input [{wide}:0] x,
  output reg out_valid,
  output reg [{wide}:0] y
);
  reg valid_0;
  reg [{wide}:0] x_0;
  wire [{wide}:0] kept;
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : lanes
    assign kept[lane*{width} +: {width}] = x_0[lane*{width} +: {width}] & {{{width}{{~x_0[lane*{width} + {top}]}}}};
  end endgenerate
  always @(posedge clk) begin
    valid_0 <= valid & ~rst;
    out_valid <= valid_0 & ~rst;
    x_0 <= x;
    y <= kept;
  end
endmodule
",
            name = self.name(),
            lanes = self.lanes,
            width = self.number.bits(),
            wide = self.lanes * self.number.bits() as usize - 1,
            top = self.number.bits() - 1,
        )
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        let sign = 1 << (self.number.bits() - 1);
        row[0].iter().map(|&x| if x & sign == 0 { x } else { 0 }).collect()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let values = Definition::Relu.evaluate(&[&self.numbers(row, 0)])?;
        Ok(rounded(self.number, values, 0.0))
    }
}

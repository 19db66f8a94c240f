//! The memory of one row in flip-flops: what a softmax unit needs beside it where the scores come only once.

use lessen_base::{Error, Result};

use super::number::Number;
use super::unit::{Cycle, Exact, Port, Row, Unit, Word, check_lanes, push_lanes};

/// Longest row that is kept in flip-flops.
pub const LONGEST: usize = 4096;

/// A buffer for rows of up to `length` elements, `lanes` written or read in a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowBuffer {
    number: Number,
    lanes: usize,
    length: usize,
}

impl RowBuffer {
    /// A buffer.
    ///
    /// # Errors
    /// If the numbers of lanes or elements are out of range, or the elements do not fill at least two words.
    pub fn new(number: Number, lanes: usize, length: usize) -> Result<RowBuffer> {
        check_lanes(lanes)?;
        if length > LONGEST || length.div_ceil(lanes) < 2 {
            return Err(Error::user(format!(
                "a row buffer holds two words of {lanes} elements to {LONGEST} elements, not {length}"
            )));
        }
        Ok(RowBuffer { number, lanes, length })
    }

    fn words(&self) -> usize {
        self.length.div_ceil(self.lanes)
    }

    fn address_bits(&self) -> u32 {
        self.words().next_power_of_two().ilog2()
    }
}

impl Unit for RowBuffer {
    fn name(&self) -> String {
        format!("row_buffer_{}_x{}_l{}", self.number, self.lanes, self.length)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn result(&self) -> Number {
        self.number
    }

    fn longest(&self) -> Option<usize> {
        Some(self.length)
    }

    fn inputs(&self) -> Vec<Port> {
        vec![
            Port::new("x", self.lanes * self.number.bits() as usize),
            Port::new("write", 1),
            Port::new("address", self.address_bits() as usize),
        ]
    }

    fn verilog(&self) -> String {
        format!(
            "\
// A row of {length} elements in flip-flops, {lanes} written or read in a cycle.
module {name} (
  input clk, input rst, input valid,
  input [{top}:0] x, input write, input [{address_top}:0] address,
  output reg out_valid,
  output reg [{top}:0] y
);
  reg [{top}:0] words [0:{last}];
  reg [{top}:0] x_0;
  reg [{address_top}:0] address_0;
  reg write_0, read_0;
  always @(posedge clk) begin
    x_0 <= x;
    address_0 <= address;
    write_0 <= valid & write & ~rst;
    read_0 <= valid & ~write & ~rst;
    if (write_0) words[address_0] <= x_0;
    y <= words[address_0];
    out_valid <= read_0 & ~rst;
  end
endmodule
",
            name = self.name(),
            length = self.length,
            lanes = self.lanes,
            top = self.lanes * self.number.bits() as usize - 1,
            address_top = self.address_bits() - 1,
            last = self.words() - 1,
        )
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        row[0].clone()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let values = self.numbers(row, 0);
        let bounds = vec![0.0; values.len()];
        Ok(Exact { values, bounds })
    }

    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let beats = row[0].len().div_ceil(self.lanes);
        let mut cycles = Vec::new();
        for write in [1, 0] {
            for beat in 0..beats {
                let mut word = Word::default();
                push_lanes(&mut word, &row[0], beat, self.lanes, self.number);
                let output = (write == 0).then(|| word.clone());
                word.push(write, 1);
                word.push(beat as u64, self.address_bits());
                cycles.push(Cycle {
                    input: Some(word),
                    output,
                });
            }
        }
        cycles
    }
}

//! The reciprocal of a sum of exponentials, by serial division of the normalized sum: once for a row.

use super::exponent::FRACTION;
use super::verilog::normalize;

/// A normalized reciprocal: `1 / sum = factor / 2^(31 + extra)`, up to the bits of the sum beyond 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reciprocal {
    /// `2^31` over the sum's 16 highest bits; 17 bits.
    pub factor: u64,
    /// How much longer than 16 bits the sum is.
    pub extra: u32,
}

/// Cycles from `start` to the last bit of the factor.
pub const LATENCY: usize = 18;

/// The reciprocal of a sum of at least one, which has [`FRACTION`] bits after the point.
pub fn compute(sum: u64) -> Reciprocal {
    let extra = sum.ilog2() - FRACTION;
    Reciprocal {
        factor: (1 << 31) / (sum >> extra),
        extra,
    }
}

/// The module `NAME`: `start` begins with the sum of `bits` bits.
pub fn verilog(name: &str, bits: u32) -> String {
    let mut text = format!(
        "\
// 2^31 over the 16 highest bits of a sum, one bit of the factor in a cycle.
module {name} (
  input clk, input rst, input start, input [{top}:0] sum,
  output reg [16:0] factor, output reg [5:0] extra
);
  reg [4:0] left;
  reg [15:0] divisor;
  reg [16:0] rest;
  wire take = rest >= {{1'b0, divisor}};
  wire [16:0] less = take ? rest - {{1'b0, divisor}} : rest;
",
        top = bits - 1,
    );
    let steps = normalize(&mut text, "n", "sum", bits);
    text += &format!(
        "  always @(posedge clk) begin
    if (rst) left <= 5'd0;
    else if (start) left <= 5'd17;
    else if (left != 5'd0) left <= left - 5'd1;
    if (start) begin
      divisor <= n_value[{top}:{low}];
      extra <= 6'd{most} - {{{pad}'b0, n_shift}};
      rest <= 17'd32768;
    end else if (left != 5'd0) begin
      rest <= {{less[15:0], 1'b0}};
      factor <= {{factor[15:0], take}};
    end
  end
endmodule

",
        top = bits - 1,
        low = bits - 16,
        most = bits - 16,
        pad = 6 - steps,
    );
    text
}

//! FLARE's compare-and-skip unit (equation 4 of the paper), and the sum followed by ReLU that it replaces.

use lessen_base::Result;

use super::definition::{Definition, rounded};
use super::number::{Number, round_bf16};
use super::unit::{Cycle, Exact, Port, Row, Unit, Word, check_lanes, push_lanes};
use super::verilog::{bf16_add, key};

/// How a score gets its bias and its ReLU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// FLARE: a comparison decides whether an adder after it gets new operands.
    Compare,
    /// One adder, whose sign is the comparison.
    Add,
}

/// `s = where(f <= -a, 0, a + f)` of `lanes` scores `a` and biases `f` in a cycle.
///
/// `skip` says that all scores of a cycle are zero; `tile_skip`, with `tile_done`, that all are from the cycle with
/// `first` to the one with `last`: the product with the values of such a tile can be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flare {
    number: Number,
    lanes: usize,
    skip: Skip,
}

impl Flare {
    /// A unit for a format.
    ///
    /// # Errors
    /// If there are no lanes, or too many.
    pub fn new(number: Number, lanes: usize, skip: Skip) -> Result<Flare> {
        check_lanes(lanes)?;
        Ok(Flare { number, lanes, skip })
    }

    /// The codes of a row's scores, and whether the unit says of each that it is nothing.
    fn scores(&self, row: &Row) -> Vec<(u64, bool)> {
        let number = self.number;
        let score = |(&a, &f): (&u64, &u64)| {
            let (x, y) = (number.decode(a), number.decode(f));
            let sum = match number {
                Number::Bf16 => round_bf16(x + y),
                Number::Fixed { .. } => number.saturated(number.signed(a) + number.signed(f)),
            };
            let negative = sum >> (number.bits() - 1) == 1;
            match self.skip {
                Skip::Compare if y <= -x => (0, true),
                Skip::Add if negative || sum == 0 => (0, true),
                _ => (sum, false),
            }
        };
        row[0].iter().zip(&row[1]).map(score).collect()
    }

    /// Wires of one lane: `name` is the sum of `a` and `f`, saturated.
    fn sum(&self, name: &str, a: &str, f: &str) -> String {
        let width = self.number.bits();
        match self.number {
            Number::Bf16 => format!(
                "    wire [15:0] {name};\n    {}_add add (.a({a}), .b({f}), .s({name}));\n",
                self.name()
            ),
            // Only sums above zero are read, so only they are saturated.
            Number::Fixed { .. } => format!(
                "    wire [{width}:0] {name}_wide = {{{a}[{top}], {a}}} + {{{f}[{top}], {f}}};
    wire [{top}:0] {name} = {{{name}_wide[{width}], {name}_wide[{low}:0] | {{{top}{{~{name}_wide[{width}] & {name}_wide[{top}]}}}}}};
",
                top = width - 1,
                low = width - 2,
            ),
        }
    }

    /// The wire `drop` of one lane: whether `f <= -a`.
    fn comparison(&self) -> String {
        let top = self.number.bits() - 1;
        match self.number {
            Number::Fixed { .. } => format!(
                "    wire signed [{width}:0] against = -{{score[{top}], score}};
    wire signed [{width}:0] added = {{bias[{top}], bias}};
    wire drop = added <= against;
",
                width = top + 1,
            ),
            // Zeros of both signs are one number here, and a number below the normal ones is zero. What is not a number
            // is less than nothing.
            Number::Bf16 => format!(
                "    wire [15:0] score_flat = (|score[14:7]) ? {{~score[15], score[14:0]}} : 16'b0;
    wire [15:0] bias_flat = (|bias[14:7]) ? bias : 16'b0;
    wire nan = ((&score[14:7]) & (|score[6:0])) | ((&bias[14:7]) & (|bias[6:0]));
    wire [15:0] score_key = {};
    wire [15:0] bias_key = {};
    wire drop = ~nan & (bias_key <= score_key);
",
                key(self.number, "score_flat"),
                key(self.number, "bias_flat"),
            ),
        }
    }

    fn lane(&self) -> String {
        let top = self.number.bits() - 1;
        let cut = |vector: &str| format!("{vector}[lane*{} +: {}]", top + 1, top + 1);
        let mut text = format!(
            "    wire [{top}:0] score = {};\n    wire [{top}:0] bias = {};\n",
            cut("a_0"),
            cut("f_0")
        );
        match self.skip {
            Skip::Compare => {
                text += &self.comparison();
                text += &format!(
                    "    // The adder keeps its operands where the comparison is enough.
    reg [{top}:0] score_1;
    reg [{top}:0] bias_1;
    always @(posedge clk) if (~drop) begin
      score_1 <= score;
      bias_1 <= bias;
    end
"
                );
                text += &self.sum("sum", "score_1", "bias_1");
                text += &format!(
                    "    reg drop_1;
    always @(posedge clk) drop_1 <= drop;
    assign zero[lane] = drop_1;
    assign {} = drop_1 ? {w}'b0 : sum;
",
                    cut("kept"),
                    w = top + 1
                );
            }
            Skip::Add => {
                text += &self.sum("sum", "score", "bias");
                text += &format!(
                    "    assign zero[lane] = sum[{top}] | ~|sum;\n    assign {} = sum & {{{w}{{~sum[{top}]}}}};\n",
                    cut("kept"),
                    w = top + 1
                );
            }
        }
        text
    }
}

impl Unit for Flare {
    fn name(&self) -> String {
        let name = match self.skip {
            Skip::Compare => "flare",
            Skip::Add => "add_relu",
        };
        format!("{name}_{}_x{}", self.number, self.lanes)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn operands(&self) -> Vec<Number> {
        vec![self.number; 2]
    }

    fn result(&self) -> Number {
        self.number
    }

    fn inputs(&self) -> Vec<Port> {
        let bits = self.lanes * self.number.bits() as usize;
        vec![
            Port::new("a", bits),
            Port::new("f", bits),
            Port::new("first", 1),
            Port::new("last", 1),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![
            Port::new("y", self.lanes * self.number.bits() as usize),
            Port::new("skip", 1),
            Port::new("tile_skip", 1),
            Port::new("tile_done", 1),
        ]
    }

    fn verilog(&self) -> String {
        let wide = self.lanes * self.number.bits() as usize - 1;
        let (stages, control) = match self.skip {
            Skip::Compare => (
                "  reg [2:0] control_1;\n",
                "    control_1 <= control_0 & {2'b11, ~rst};\n",
            ),
            Skip::Add => ("  wire [2:0] control_1 = control_0;\n", ""),
        };
        let mut text = match self.number {
            Number::Bf16 => bf16_add(&format!("{}_add", self.name())),
            Number::Fixed { .. } => String::new(),
        };
        text += &format!(
            "\
// {what}: {lanes} scores and biases of {width} bits in a cycle.
module {name} (
  input clk, input rst, input valid,
  input [{wide}:0] a, input [{wide}:0] f, input first, input last,
  output reg out_valid,
  output reg [{wide}:0] y,
  output reg skip, output reg tile_skip, output reg tile_done
);
  reg [{wide}:0] a_0;
  reg [{wide}:0] f_0;
  // Last, first and valid.
  reg [2:0] control_0;
{stages}  wire [{wide}:0] kept;
  wire [{lane_top}:0] zero;
  wire all = &zero;
  genvar lane;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : lanes
{lane}  end endgenerate
  always @(posedge clk) begin
    a_0 <= a;
    f_0 <= f;
    control_0 <= {{last, first, valid & ~rst}};
{control}    out_valid <= control_1[0] & ~rst;
    y <= kept;
    skip <= all;
    if (rst) tile_skip <= 1'b0;
    else if (control_1[0]) tile_skip <= (control_1[1] | tile_skip) & all;
    tile_done <= control_1[2] & control_1[0];
  end
endmodule
",
            what = match self.skip {
                Skip::Compare => "FLARE, a comparison and an adder after it",
                Skip::Add => "A sum and its ReLU",
            },
            name = self.name(),
            lanes = self.lanes,
            width = self.number.bits(),
            lane_top = self.lanes - 1,
            lane = self.lane(),
        );
        text
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        self.scores(row).into_iter().map(|(code, _)| code).collect()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let definition = match self.skip {
            Skip::Compare => Definition::Flare,
            Skip::Add => Definition::AddRelu,
        };
        let values = definition.evaluate(&[&self.numbers(row, 0), &self.numbers(row, 1)])?;
        Ok(rounded(self.number, values, 0.0))
    }

    /// A row is a tile.
    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let (results, nothing): (Vec<u64>, Vec<bool>) = self.scores(row).into_iter().unzip();
        let beats = results.len().div_ceil(self.lanes);
        // Lanes beyond the row hold zeros.
        let mut all = true;
        let cycle = |beat: usize| {
            let mut input = Word::default();
            for operand in row {
                push_lanes(&mut input, operand, beat, self.lanes, self.number);
            }
            let last = beat + 1 == beats;
            input.push(u64::from(beat == 0), 1);
            input.push(u64::from(last), 1);
            let skip = nothing
                .iter()
                .skip(beat * self.lanes)
                .take(self.lanes)
                .all(|&nothing| nothing);
            all &= skip;
            let mut output = Word::default();
            push_lanes(&mut output, &results, beat, self.lanes, self.number);
            output.push(u64::from(skip), 1);
            output.push(u64::from(all), 1);
            output.push(u64::from(last), 1);
            Cycle {
                input: Some(input),
                output: Some(output),
            }
        };
        (0..beats).map(cycle).collect()
    }
}

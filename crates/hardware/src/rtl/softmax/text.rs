//! The Verilog of softmax units.

use std::fmt::Write as _;

use super::{Order, Pass, SCALED, Softmax};
use crate::rtl::number::Number;
use crate::rtl::reciprocal;
use crate::rtl::unit::Unit;
use crate::rtl::verilog::{bf16_add, bf16_to_fixed, key, of_key, to_bf16, tree};

/// The module and those that it uses.
pub(super) fn verilog(unit: &Softmax) -> String {
    let name = unit.name();
    let (argument_bits, fraction) = unit.argument();
    let mut text = unit.exponent.verilog(&format!("{name}_exp"), argument_bits, fraction);
    text += &reciprocal::verilog(&format!("{name}_reciprocal"), unit.sum_bits());
    if unit.number == Number::Bf16 {
        text += &bf16_add(&format!("{name}_add"));
        text += &bf16_to_fixed(&format!("{name}_fixed"), SCALED.0, SCALED.1);
        text += &to_bf16(&format!("{name}_result"), 33);
    }
    if let Some(statistics) = unit.statistics() {
        text += &statistics.verilog(&format!("{name}_statistics"));
    }
    text += &distance(unit);
    text += &quotient(unit);
    text += &head(unit);
    text += &maximum(unit);
    text += &distances(unit);
    text += &sum(unit);
    text += &results(unit);
    text + "endmodule\n"
}

/// The stage after which distances are known, scaled ones a stage later.
fn distance_stage(unit: &Softmax) -> usize {
    3 + usize::from(unit.temperature.is_some())
}

/// The stage in which exponentials are known.
fn exponential_stage(unit: &Softmax) -> usize {
    distance_stage(unit) + unit.exponent.latency()
}

/// Ports, input registers and the control words of all stages: lanes kept, last, first, pass, valid.
fn head(unit: &Softmax) -> String {
    let (width, lanes) = (unit.number.bits(), unit.lanes);
    let wide = lanes * width as usize - 1;
    let mut text = format!(
        "\
// Softmax of rows of up to {length} elements, {lanes} in a cycle.
module {name} (
  input clk, input rst, input valid,
  input [{wide}:0] x, input [{lane_top}:0] keep, input [1:0] pass, input first, input last,
  output reg out_valid,
  output [{wide}:0] y
);
  genvar lane;
",
        name = unit.name(),
        length = unit.length,
        lane_top = lanes - 1,
    );
    let control = lanes + 5;
    let last_stage = exponential_stage(unit) + 1;
    for stage in 0..=last_stage {
        let _ = writeln!(text, "  reg [{}:0] c{stage};", control - 1);
    }
    text += "  always @(posedge clk) begin\n    c0 <= {keep, last, first, pass, valid & ~rst};\n";
    for stage in 1..=last_stage {
        let _ = writeln!(
            text,
            "    c{stage} <= c{} & {{{{{}{{1'b1}}}}, ~rst}};",
            stage - 1,
            control - 1
        );
    }
    let _ = write!(
        text,
        "  end
  // Keys, which are in the order of the numbers; a lane that is not kept has the least one.
  reg [{wide}:0] x_0;
  reg [{wide}:0] x_1;
  reg [{wide}:0] x_2;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : keys
    wire [{top}:0] code = x[lane*{width} +: {width}];
    always @(posedge clk) x_0[lane*{width} +: {width}] <= keep[lane] ? {key} : {width}'b0;
  end endgenerate
  always @(posedge clk) begin
    x_1 <= x_0;
    x_2 <= x_1;
  end
",
        top = width - 1,
        key = key(unit.number, "code"),
    );
    text
}

/// Bits of a control word in Verilog.
const VALID: usize = 0;
const PASS: &str = "[2:1]";
const FIRST: usize = 3;
const LAST: usize = 4;
const KEEP: usize = 5;

/// The maximum of a beat, then of the row.
fn maximum(unit: &Softmax) -> String {
    let width = unit.number.bits();
    let mut text = String::new();
    let keys = (0..unit.lanes).map(|lane| format!("x_0[{} +: {width}]", lane * width as usize));
    let highest = tree(&mut text, "highest", width, keys.collect(), |a, b| {
        format!("({a} > {b}) ? {a} : {b}")
    });
    let _ = write!(
        text,
        "  reg [{top}:0] beat;
  reg [{top}:0] most;
  reg [{top}:0] former;
  always @(posedge clk) begin
    beat <= {highest};
    former <= most;
    if (rst) most <= {width}'b0;
    else if (c1[{VALID}] & (c1{PASS} == 2'd{pass})) most <= (c1[{FIRST}] | (beat > most)) ? beat : most;
  end
",
        top = width - 1,
        pass = Pass::Maximum as u8,
    );
    text
}

/// The module of a lane that makes an exponential of the distance from the maximum to a key.
fn distance(unit: &Softmax) -> String {
    let (name, width) = (unit.name(), unit.number.bits());
    let (bits, _) = unit.argument();
    let (top, argument_top) = (width - 1, bits - 1);
    let argument = match (unit.number, &unit.temperature) {
        (Number::Bf16, _) => format!(
            "  wire [15:0] most_code = {};
  wire [15:0] own_code = {};
  wire [15:0] sum;
  {name}_add add (.a(most_code), .b({{~own_code[15], own_code[14:0]}}), .s(sum));
  reg [15:0] rounded;
  always @(posedge clk) rounded <= sum;
  wire [{argument_top}:0] d;
  {name}_fixed fixed (.a(rounded[14:0]), .d(d));
",
            of_key(unit.number, "most"),
            of_key(unit.number, "own"),
        ),
        (Number::Fixed { .. }, None) => {
            format!("  reg [{top}:0] d;\n  always @(posedge clk) d <= most - own;\n")
        }
        (Number::Fixed { fraction, .. }, Some(temperature)) => {
            let product = width + temperature.bits();
            format!(
                "  reg [{top}:0] plain;
  always @(posedge clk) plain <= most - own;
  wire [{product_top}:0] product = plain * factor;
  reg [{argument_top}:0] d;
  always @(posedge clk) d <= (|product[{product_top}:{over}]) ? {{{bits}{{1'b1}}}} : product[{high}:{fraction}];
",
                product_top = product - 1,
                over = fraction + bits,
                high = fraction + bits - 1,
            )
        }
    };
    let factor = match &unit.temperature {
        Some(temperature) => format!("input [{}:0] factor, ", temperature.bits() - 1),
        None => String::new(),
    };
    format!(
        "\
// The exponential of the distance of one key from the maximum.
module {name}_distance (
  input clk, input [{top}:0] most, input [{top}:0] own, {factor}output [15:0] e
);
{argument}  {name}_exp exponential (.clk(clk), .d(d), .e(e));
endmodule

"
    )
}

/// The module of a lane that divides an exponential by the sum.
fn quotient(unit: &Softmax) -> String {
    let (name, width) = (unit.name(), unit.number.bits());
    let rounded = match unit.number {
        Number::Bf16 => {
            format!("  {name}_result round (.q(product), .scale(8'd96 - {{2'b0, extra}}), .y(rounded));\n")
        }
        Number::Fixed { .. } => format!(
            "  wire [32:0] moved = product >> ({{1'b0, extra}} + 7'd{});
  wire [{width}:0] half = moved[{width}:0] + {}'d1;
  assign rounded = half[{width}:1];
",
            31 - width,
            width + 1
        ),
    };
    format!(
        "\
// The product of one exponential and the reciprocal of the sum, rounded.
module {name}_quotient (
  input clk, input [15:0] e, input [16:0] reciprocal, input [5:0] extra, output reg [{top}:0] y
);
  reg [32:0] product;
  wire [{top}:0] rounded;
{rounded}  always @(posedge clk) begin
    product <= e * reciprocal;
    y <= rounded;
  end
endmodule

",
        top = width - 1,
    )
}

/// The exponentials of all lanes, and in online order of the maximum's growth.
fn distances(unit: &Softmax) -> String {
    let (width, lanes) = (unit.number.bits(), unit.lanes);
    let mut text = String::new();
    if let Some(temperature) = &unit.temperature {
        text += &format!(
            "  wire [{top}:0] factor;
  wire [{wide}:0] kept_codes;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : codes
    assign kept_codes[lane*{width} +: {width}] =
      {{~x_0[lane*{width} + {code_top}], x_0[lane*{width} +: {code_top}]}} & {{{width}{{c0[{KEEP} + lane]}}}};
  end endgenerate
  {name}_statistics statistics (
    .clk(clk), .rst(rst), .valid(c0[{VALID}] & (c0{PASS} == 2'd0)), .first(c0[{FIRST}]), .last(c0[{LAST}]),
    .keep(c0[{keep_top}:{KEEP}]), .x(kept_codes), .factor(factor)
  );
",
            name = unit.name(),
            top = temperature.bits() - 1,
            wide = lanes * width as usize - 1,
            code_top = width - 1,
            keep_top = lanes + KEEP - 1,
        );
    }
    let name = unit.name();
    let factor = match &unit.temperature {
        Some(_) => ".factor(factor), ",
        None => "",
    };
    let _ = write!(
        text,
        "  wire [{}:0] exps;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : exponentials
    wire [15:0] e;
    {name}_distance distance (.clk(clk), .most(most), .own(x_2[lane*{width} +: {width}]), {factor}.e(e));
    assign exps[lane*16 +: 16] = e & {{16{{c{}[{KEEP} + lane]}}}};
  end endgenerate
",
        lanes * 16 - 1,
        exponential_stage(unit),
    );
    if unit.order == Order::Online {
        let _ = writeln!(
            text,
            "  wire [15:0] grown;\n  {name}_distance growth (.clk(clk), .most(most), .own(former), .e(grown));"
        );
    }
    text
}

/// The sum of exponentials and its reciprocal.
fn sum(unit: &Softmax) -> String {
    let bits = unit.sum_bits();
    let mut text = String::new();
    let beat_bits = 16 + unit.lanes.next_power_of_two().ilog2();
    let pad = beat_bits - 16;
    let terms = (0..unit.lanes).map(|lane| match pad {
        0 => "exps[0 +: 16]".to_string(),
        _ => format!("{{{pad}'b0, exps[{} +: 16]}}", lane * 16),
    });
    let total = tree(&mut text, "total", beat_bits, terms.collect(), |a, b| {
        format!("{a} + {b}")
    });
    // A row may be shorter than a beat has lanes.
    let part = if beat_bits < bits {
        format!("{{{}'b0, part}}", bits - beat_bits)
    } else {
        format!("part[{}:0]", bits - 1)
    };
    let (pass, before) = match unit.order {
        Order::TwoPass => (Pass::Sum, "sum".to_string()),
        Order::Online => {
            let wide = bits + 16;
            let _ = write!(
                text,
                "  reg [15:0] shrink;
  always @(posedge clk) shrink <= grown;
  wire [{}:0] rescaled = sum * shrink + {wide}'d16384;
",
                wide - 1
            );
            (Pass::Maximum, format!("rescaled[{}:15]", bits + 14))
        }
    };
    let c = format!("c{}", exponential_stage(unit) + 1);
    let _ = write!(
        text,
        "  reg [{beat_top}:0] part;
  reg [{top}:0] sum;
  reg summed;
  wire [16:0] reciprocal;
  wire [5:0] extra;
  wire adds = {c}[{VALID}] & ({c}{PASS} == 2'd{pass});
  always @(posedge clk) begin
    part <= {total};
    if (rst) sum <= {bits}'b0;
    else if (adds) sum <= {c}[{FIRST}] ? {part} : {before} + {part};
    summed <= adds & {c}[{LAST}] & ~rst;
  end
  {name}_reciprocal divider (
    .clk(clk), .rst(rst), .start(summed), .sum(sum), .factor(reciprocal), .extra(extra)
  );
",
        beat_top = beat_bits - 1,
        top = bits - 1,
        pass = pass as u8,
        name = unit.name(),
    );
    text
}

/// The quotients of all lanes.
fn results(unit: &Softmax) -> String {
    let (width, lanes, stage) = (unit.number.bits(), unit.lanes, exponential_stage(unit) + 1);
    format!(
        "  wire out = c{stage}[{VALID}] & (c{stage}{PASS} == 2'd{pass});
  always @(posedge clk) out_valid <= out & ~rst;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : results
    {name}_quotient quotient (
      .clk(clk), .e(exps[lane*16 +: 16]), .reciprocal(reciprocal), .extra(extra), .y(y[lane*{width} +: {width}])
    );
  end endgenerate
",
        pass = Pass::Results as u8,
        name = unit.name(),
    )
}

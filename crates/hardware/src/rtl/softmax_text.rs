//! The Verilog of softmax units.

use std::fmt::Write as _;

use super::number::Number;
use super::reciprocal;
use super::softmax::{Order, Pass, SCALED, Softmax};
use super::unit::Unit;
use super::verilog::{bf16_add, bf16_to_fixed, key, of_key, to_bf16, tree};

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
  output reg [{wide}:0] y
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

/// An instance that makes an exponential of the distance from the maximum to a key: `PREFIX_d` to `PREFIX_e`.
fn distance(unit: &Softmax, indent: &str, prefix: &str, of: &str) -> String {
    let (name, width) = (unit.name(), unit.number.bits());
    let (bits, _) = unit.argument();
    let (top, argument_top) = (width - 1, bits - 1);
    let argument = match (unit.number, &unit.temperature) {
        (Number::Bf16, _) => format!(
            "wire [15:0] {prefix}_most = {};
wire [15:0] {prefix}_code = {};
wire [15:0] {prefix}_sum;
{name}_add {prefix}_add (.a({prefix}_most), .b({{~{prefix}_code[15], {prefix}_code[14:0]}}), .s({prefix}_sum));
reg [15:0] {prefix}_rounded;
always @(posedge clk) {prefix}_rounded <= {prefix}_sum;
wire [{argument_top}:0] {prefix}_d;
{name}_fixed {prefix}_fixed (.a({prefix}_rounded[14:0]), .d({prefix}_d));
",
            of_key(unit.number, "most"),
            of_key(unit.number, of),
        ),
        (Number::Fixed { .. }, None) => {
            format!("reg [{top}:0] {prefix}_d;\nalways @(posedge clk) {prefix}_d <= most - {of};\n")
        }
        (Number::Fixed { fraction, .. }, Some(temperature)) => {
            let factor_bits = temperature.bits();
            let product = width + factor_bits;
            format!(
                "reg [{top}:0] {prefix}_plain;
always @(posedge clk) {prefix}_plain <= most - {of};
wire [{product_top}:0] {prefix}_product = {prefix}_plain * factor;
reg [{argument_top}:0] {prefix}_d;
always @(posedge clk)
  {prefix}_d <= (|{prefix}_product[{product_top}:{over}]) ? {{{bits}{{1'b1}}}} : {prefix}_product[{high}:{fraction}];
",
                product_top = product - 1,
                over = fraction + bits,
                high = fraction + bits - 1,
            )
        }
    };
    let text = argument
        + &format!("wire [15:0] {prefix}_e;\n{name}_exp {prefix}_exp (.clk(clk), .d({prefix}_d), .e({prefix}_e));\n");
    text.lines().map(|line| format!("{indent}{line}\n")).collect()
}

/// The exponentials of all lanes, and in online order of the maximum's growth.
fn distances(unit: &Softmax) -> String {
    let (width, lanes) = (unit.number.bits(), unit.lanes);
    let mut text = String::new();
    if let (Some(temperature), Some(statistics)) = (&unit.temperature, unit.statistics()) {
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
        debug_assert!(statistics.gap() > 0, "statistics take time");
    }
    let _ = write!(
        text,
        "  wire [{}:0] exps;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : exponentials
    wire [{}:0] own = x_2[lane*{width} +: {width}];
{}    assign exps[lane*16 +: 16] = lane_e & {{16{{c{}[{KEEP} + lane]}}}};
  end endgenerate
",
        lanes * 16 - 1,
        width - 1,
        distance(unit, "    ", "lane", "own"),
        exponential_stage(unit),
    );
    if unit.order == Order::Online {
        text += &distance(unit, "  ", "grown", "former");
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
  always @(posedge clk) shrink <= grown_e;
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

/// The products of exponentials and reciprocal, rounded.
fn results(unit: &Softmax) -> String {
    let (width, lanes) = (unit.number.bits(), unit.lanes);
    let rounded = match unit.number {
        Number::Bf16 => format!(
            "    {}_result round (.q(product), .scale(8'd96 - {{2'b0, extra}}), .y(rounded));\n",
            unit.name()
        ),
        Number::Fixed { .. } => format!(
            "    wire [32:0] moved = product >> ({{1'b0, extra}} + 7'd{});
    wire [{width}:0] half = moved[{width}:0] + {}'d1;
    assign rounded = half[{width}:1];
",
            31 - width,
            width + 1
        ),
    };
    let stage = exponential_stage(unit) + 1;
    format!(
        "  wire out = c{stage}[{VALID}] & (c{stage}{PASS} == 2'd{pass});
  always @(posedge clk) out_valid <= out & ~rst;
  generate for (lane = 0; lane < {lanes}; lane = lane + 1) begin : results
    reg [32:0] product;
    always @(posedge clk) product <= exps[lane*16 +: 16] * reciprocal;
    wire [{top}:0] rounded;
{rounded}    always @(posedge clk) y[lane*{width} +: {width}] <= rounded;
  end endgenerate
",
        pass = Pass::Results as u8,
        top = width - 1,
    )
}

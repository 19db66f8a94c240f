//! Pieces of Verilog-2005 that several units are made of.

use std::fmt::Write as _;

use super::number::Number;

/// A function of Verilog from the code of a number to its key ([`Number::key`]).
pub fn key(number: Number, code: &str) -> String {
    let top = number.bits() - 1;
    match number {
        Number::Fixed { .. } => format!("{{~{code}[{top}], {code}[{}:0]}}", top - 1),
        Number::Bf16 => format!("({code}[15] ? ~{code} : {{1'b1, {code}[14:0]}})"),
    }
}

/// The code of a key.
pub fn of_key(number: Number, key: &str) -> String {
    match number {
        Number::Fixed { .. } => self::key(number, key),
        Number::Bf16 => format!("({key}[15] ? {{1'b0, {key}[14:0]}} : ~{key})"),
    }
}

/// A vector of `from` bits as one of `to`, with copies of its highest bit above it or with zeros.
pub fn extended(vector: &str, from: u32, to: u32, signed: bool) -> String {
    match to - from {
        0 => vector.to_string(),
        pad if signed => format!("{{{{{pad}{{{vector}[{}]}}}}, {vector}}}", from - 1),
        pad => format!("{{{pad}'b0, {vector}}}"),
    }
}

/// Declares wires that combine `terms` of `bits` bits pairwise, level by level, by `join`; returns the name of the
/// last.
pub fn tree(
    text: &mut String,
    name: &str,
    bits: u32,
    terms: Vec<String>,
    join: impl Fn(&str, &str) -> String,
) -> String {
    let (mut level, mut terms) = (0, terms);
    while terms.len() > 1 {
        let mut joined = Vec::new();
        for (at, pair) in terms.chunks(2).enumerate() {
            let wire = format!("{name}_{level}_{at}");
            let value = match pair {
                [a, b] => join(a, b),
                _ => pair[0].clone(),
            };
            let _ = writeln!(text, "  wire [{}:0] {wire} = {value};", bits - 1);
            joined.push(wire);
        }
        terms = joined;
        level += 1;
    }
    terms.swap_remove(0)
}

/// Declares `NAME_value`, `input` shifted left until its highest bit is set, and `NAME_shift`, by how much; of zero
/// both mean nothing. Returns the width of the shift.
pub fn normalize(text: &mut String, name: &str, input: &str, bits: u32) -> u32 {
    let steps = bits.next_power_of_two().ilog2();
    let mut from = input.to_string();
    for step in (0..steps).rev() {
        let (by, wire) = (1 << step, format!("{name}_{step}"));
        let _ = writeln!(
            text,
            "  wire {wire}_empty = ~|{from}[{}:{}];\n  wire [{}:0] {wire} = {wire}_empty ? {from} << {by} : {from};",
            bits - 1,
            bits - by,
            bits - 1
        );
        from = wire;
    }
    let flags: Vec<String> = (0..steps).rev().map(|step| format!("{name}_{step}_empty")).collect();
    let _ = writeln!(
        text,
        "  wire [{}:0] {name}_value = {from};\n  wire [{}:0] {name}_shift = {{{}}};",
        bits - 1,
        steps - 1,
        flags.join(", ")
    );
    steps
}

/// The module `NAME` with inputs `a` and `b` and output `s`, all bf16: the sum, rounded to even. Subnormal numbers are
/// zeros; a sum that is not a number is `7fc0`.
pub fn bf16_add(name: &str) -> String {
    let mut text = format!(
        "\
// The sum of two bf16 numbers, rounded to even; subnormal numbers are zeros.
module {name} (input [15:0] a, input [15:0] b, output [15:0] s);
  wire swap = b[14:0] > a[14:0];
  wire [15:0] p = swap ? b : a;
  wire [15:0] q = swap ? a : b;
  wire [7:0] pm = {{|p[14:7], p[6:0] & {{7{{|p[14:7]}}}}}};
  wire [7:0] qm = {{|q[14:7], q[6:0] & {{7{{|q[14:7]}}}}}};
  // The smaller significand with a guard, a round and a sticky bit.
  wire [7:0] distance = p[14:7] - q[14:7];
  wire far = distance > 8'd10;
  wire [21:0] moved = {{qm, 14'b0}} >> distance[3:0];
  wire [10:0] lesser = far ? {{10'b0, |qm}} : {{moved[21:12], |moved[11:0]}};
  wire apart = p[15] ^ q[15];
  wire [11:0] greater = {{1'b0, pm, 3'b0}};
  wire [11:0] total = apart ? greater - {{1'b0, lesser}} : greater + {{1'b0, lesser}};
"
    );
    normalize(&mut text, "n", "total", 12);
    text += "  \
  wire up = n_value[3] & (n_value[4] | (|n_value[2:0]));
  wire [8:0] rounded = {1'b0, n_value[11:4]} + {8'b0, up};
  wire [9:0] exponent = {2'b0, p[14:7]} + 10'd1 - {6'b0, n_shift} + {9'b0, rounded[8]};
  wire none = ~n_value[11];
  wire under = exponent[9] | ~|exponent[8:0];
  wire over = ~exponent[9] & (exponent[8] | (&exponent[7:0]));
  wire special = &p[14:7];
  wire nan = special & ((|p[6:0]) | (apart & (&q[14:7])));
  assign s = nan ? 16'h7fc0
    : special ? p
    : none ? {p[15] & q[15], 15'b0}
    : under ? {p[15], 15'b0}
    : over ? {p[15], 15'h7f80}
    : {p[15], exponent[7:0], rounded[8] ? 7'b0 : rounded[6:0]};
endmodule

";
    text
}

/// The module `NAME` with an input `q` of `bits` bits and an input `scale` of 8 bits and the output `y`: the bf16
/// number `q 2^(scale - 127)`, rounded to even. Its exponent must be in the range of normal numbers.
pub fn to_bf16(name: &str, bits: u32) -> String {
    let mut text = format!(
        "\
// The bf16 number q 2^(scale - 127), rounded to even.
module {name} (input [{}:0] q, input [7:0] scale, output [15:0] y);
",
        bits - 1
    );
    let steps = normalize(&mut text, "n", "q", bits);
    let _ = write!(
        text,
        "  wire up = n_value[{guard}] & (n_value[{last}] | (|n_value[{rest}:0]));
  wire [8:0] rounded = {{1'b0, n_value[{top}:{last}]}} + {{8'b0, up}};
  wire [7:0] exponent = scale + 8'd{top} - {{{pad}'b0, n_shift}} + {{7'b0, rounded[8]}};
  assign y = n_value[{top}] ? {{1'b0, exponent, rounded[8] ? 7'b0 : rounded[6:0]}} : 16'b0;
endmodule

",
        top = bits - 1,
        last = bits - 8,
        guard = bits - 9,
        rest = bits - 10,
        pad = 8 - steps,
    );
    text
}

/// The module `NAME` with an input `a`, the code of a bf16 number without its sign, and the output `d`: the number in
/// fixed point with `fraction` bits of `bits`, truncated; too large ones have all bits set.
pub fn bf16_to_fixed(name: &str, bits: u32, fraction: u32) -> String {
    // An exponent of `even` leaves the 8 bits of the significand where they are.
    let even = 127 + 7 - fraction;
    let widest = even + bits - 8;
    format!(
        "\
// A bf16 number without its sign in fixed point with {fraction} bits after the point, truncated and saturated.
module {name} (input [14:0] a, output [{top}:0] d);
  wire [7:0] exponent = a[14:7];
  wire [{top}:0] significand = {{{pad}'b0, 1'b1, a[6:0]}};
  wire left = exponent >= 8'd{even};
  wire [7:0] up = exponent - 8'd{even};
  wire [7:0] down = 8'd{even} - exponent;
  assign d = exponent > 8'd{widest} ? {{{bits}{{1'b1}}}}
    : left ? significand << up[4:0]
    : down > 8'd8 ? {bits}'b0 : significand >> down[3:0];
endmodule

",
        top = bits - 1,
        pad = bits - 8,
    )
}

/// What [`bf16_to_fixed`] computes of a number that is not negative.
pub fn fixed_of_bf16(value: f64, bits: u32, fraction: u32) -> u64 {
    let limit = ((1u64 << bits) - 1) as f64;
    (value * (1u64 << fraction) as f64).floor().min(limit) as u64
}

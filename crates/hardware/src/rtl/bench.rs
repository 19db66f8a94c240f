//! A test bench: rows fed to a unit one after another, the Verilog that feeds them, and what it must print.

use std::path::Path;

use lessen_base::Result;
use lessen_base::atomic::write_file;

use super::unit::{Cycle, Port, Row, Unit, Word};

/// Cycles after the last row in which results may still come.
const DRAIN: usize = 32;

/// The cycles of some rows.
#[derive(Clone, Debug)]
pub struct Bench {
    module: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    cycles: Vec<Cycle>,
    elements: usize,
}

impl Bench {
    /// A bench that feeds rows to a unit.
    pub fn new(unit: &dyn Unit, rows: &[Row]) -> Bench {
        Bench {
            module: unit.name(),
            inputs: unit.inputs(),
            outputs: unit.outputs(),
            cycles: rows.iter().flat_map(|row| unit.feed(row)).collect(),
            elements: rows.iter().map(|row| row[0].len()).sum(),
        }
    }

    /// Number of cycles from the first row to the end of the last.
    pub fn cycles(&self) -> usize {
        self.cycles.len()
    }

    /// Number of elements in all rows.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The inputs of all cycles, a line each: `valid` above the ports.
    pub fn stimulus(&self) -> String {
        let bits: usize = self.inputs.iter().map(|port| port.bits).sum();
        let line = |cycle: &Cycle| {
            let mut word = cycle.input.clone().unwrap_or_default();
            while word.len() < bits {
                word.push(0, 1);
            }
            word.push(u64::from(cycle.input.is_some()), 1);
            word.hex() + "\n"
        };
        self.cycles.iter().map(line).collect()
    }

    /// What the bench must print: the outputs of all results, a line each.
    pub fn expected(&self) -> String {
        let results = self.cycles.iter().filter_map(|cycle| cycle.output.as_ref());
        results.map(|word: &Word| word.hex() + "\n").collect()
    }

    /// The module `testbench`, which reads `stimulus.hex` and writes `results.hex`. `split` connects the ports of a
    /// netlist whose vectors are single bits; with `trace` the nets of the unit are written to `activity.vcd`.
    pub fn testbench(&self, split: bool, trace: bool) -> String {
        let bits: usize = self.inputs.iter().map(|port| port.bits).sum();
        let mut wires = String::new();
        let mut connections = Vec::new();
        let mut at = 0;
        let mut connect = |port: &Port| {
            let name = port.name;
            if split && port.bits > 1 {
                connections.extend((0..port.bits).map(|bit| format!(".\\{name}[{bit}] ({name}[{bit}])")));
            } else {
                connections.push(format!(".{name}({name})"));
            }
        };
        for port in &self.inputs {
            let top = port.bits - 1;
            wires += &format!("  wire [{top}:0] {} = word[{at} +: {}];\n", port.name, port.bits);
            at += port.bits;
            connect(port);
        }
        for port in &self.outputs {
            wires += &format!("  wire [{}:0] {};\n", port.bits - 1, port.name);
            connect(port);
        }
        let outputs: Vec<&str> = self.outputs.iter().rev().map(|port| port.name).collect();
        let dump = if trace {
            "    $dumpfile(\"activity.vcd\");\n    $dumpvars(1, unit);\n    $dumpoff;\n"
        } else {
            ""
        };
        let (on, off) = if trace {
            ("    $dumpon;\n", "    $dumpoff;\n")
        } else {
            ("", "")
        };
        format!(
            "\
// Feeds {count} cycles to {module} and prints its results.
`timescale 1ns/1ps
module testbench;
  reg clk = 0;
  reg rst = 1;
  reg [{bits}:0] stimulus [0:{last}];
  reg [{bits}:0] word = 0;
  wire valid = word[{bits}];
{wires}  wire out_valid;
  {module} unit (
    .clk(clk), .rst(rst), .valid(valid), .out_valid(out_valid),
    {connections}
  );
  integer results, at;
  always #5 clk = ~clk;
  always @(posedge clk) if (out_valid === 1'b1) $fdisplay(results, \"%h\", {{{outputs}}});
  initial begin
    $readmemh(\"stimulus.hex\", stimulus);
    results = $fopen(\"results.hex\", \"w\");
{dump}    repeat (8) @(negedge clk);
    rst = 0;
{on}    for (at = 0; at < {count}; at = at + 1) begin
      word = stimulus[at];
      @(negedge clk);
    end
{off}    word = 0;
    repeat ({DRAIN}) @(negedge clk);
    $fclose(results);
    $finish;
  end
endmodule
",
            count = self.cycles.len(),
            module = self.module,
            last = self.cycles.len().max(1) - 1,
            connections = connections.join(",\n    "),
            outputs = outputs.join(", "),
        )
    }

    /// Writes `stimulus.hex`, `expected.hex`, `testbench.v` and `testbench_netlist.v` into a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<()> {
        for (name, text) in [
            ("stimulus.hex", self.stimulus()),
            ("expected.hex", self.expected()),
            ("testbench.v", self.testbench(false, false)),
            ("testbench_netlist.v", self.testbench(true, true)),
        ] {
            write_file(&folder.join(name), text.as_bytes())?;
        }
        Ok(())
    }
}

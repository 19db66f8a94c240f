//! What every unit is: ports, text, a model to the bit, a definition in `f64`, and how rows are fed to it.

use lessen_base::{Error, Result};

use super::number::Number;

/// A port beside `clk`, `rst`, `valid` and `out_valid`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name in the module.
    pub name: &'static str,
    /// Its width.
    pub bits: usize,
}

impl Port {
    /// A port of some width.
    pub fn new(name: &'static str, bits: usize) -> Port {
        Port { name, bits }
    }
}

/// The bits of several ports together, the first port lowest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    bits: Vec<bool>,
}

impl Word {
    /// Adds the low bits of a value above those that there are.
    pub fn push(&mut self, value: u64, bits: u32) {
        self.bits.extend((0..bits).map(|at| value >> at & 1 == 1));
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// Whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Hexadecimal digits, the highest first, as Verilog's `%h` writes a vector of this width.
    pub fn hex(&self) -> String {
        let digit = |nibble: &[bool]| nibble.iter().rev().fold(0, |sum, &bit| 2 * sum + u32::from(bit));
        let digits = self.bits.chunks(4).rev().map(digit);
        digits.filter_map(|digit| char::from_digit(digit, 16)).collect()
    }
}

/// One cycle of a unit's inputs, and the outputs that follow from it some cycles later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// The inputs; `None` is a cycle without `valid`.
    pub input: Option<Word>,
    /// The outputs, if the unit answers this cycle.
    pub output: Option<Word>,
}

impl Cycle {
    /// A cycle without inputs.
    pub const IDLE: Cycle = Cycle {
        input: None,
        output: None,
    };
}

/// The codes of one row: a vector of elements for each operand.
pub type Row = Vec<Vec<u64>>;

/// What the unit's definition says of one row.
#[derive(Clone, PartialEq, Debug)]
pub struct Exact {
    /// The function's value for each element.
    pub values: Vec<f64>,
    /// The greatest difference that the unit may have from it.
    pub bounds: Vec<f64>,
}

/// A hardware unit.
///
/// A unit takes up to `lanes` elements in a cycle with `valid` and gives results in a cycle with `out_valid`, in order.
/// All ports are registered inside of the unit, so that its highest frequency is its own.
pub trait Unit {
    /// The name of the module, which has all settings in it.
    fn name(&self) -> String;

    /// Elements in a cycle.
    fn lanes(&self) -> usize;

    /// The formats of the operands of an element. An operand of a row alone has one element. By default one operand in
    /// the format of results.
    fn operands(&self) -> Vec<Number> {
        vec![self.result()]
    }

    /// The format of results.
    fn result(&self) -> Number;

    /// The most elements in a row; `None` where elements do not know each other.
    fn longest(&self) -> Option<usize> {
        None
    }

    /// Input ports, in the order of the bits of a [`Word`]; by default the lanes of one operand.
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("x", self.lanes() * self.result().bits() as usize)]
    }

    /// Output ports; the results of the lanes are the first.
    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("y", self.lanes() * self.result().bits() as usize)]
    }

    /// The codes of an operand that mean something to the unit: one of any word.
    fn admissible(&self, _operand: usize, code: u64) -> u64 {
        code
    }

    /// Whether an operand has one element for the whole row.
    fn of_row(&self, _operand: usize) -> bool {
        false
    }

    /// The module and those that it uses, in Verilog-2005.
    fn verilog(&self) -> String;

    /// The codes that the unit computes of a row, to the bit.
    fn compute(&self, row: &Row) -> Vec<u64>;

    /// The function that the unit approximates, from the numbers that the codes mean.
    ///
    /// # Errors
    /// Of the graph's evaluation.
    fn exact(&self, row: &Row) -> Result<Exact>;

    /// The numbers that the codes of an operand mean.
    fn numbers(&self, row: &Row, operand: usize) -> Vec<f64> {
        let number = self.operands()[operand];
        row[operand].iter().map(|&code| number.decode(code)).collect()
    }

    /// The cycles in which the row is fed to the unit.
    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let results = self.compute(row);
        let beats = results.len().div_ceil(self.lanes());
        let word = |beat: usize| {
            let mut word = Word::default();
            for (operand, number) in row.iter().zip(self.operands()) {
                push_lanes(&mut word, operand, beat, self.lanes(), number);
            }
            let mut output = Word::default();
            push_lanes(&mut output, &results, beat, self.lanes(), self.result());
            Cycle {
                input: Some(word),
                output: Some(output),
            }
        };
        (0..beats).map(word).collect()
    }
}

/// Adds the codes of a beat to a word, zeros for lanes beyond the row.
pub fn push_lanes(word: &mut Word, codes: &[u64], beat: usize, lanes: usize, number: Number) {
    for lane in 0..lanes {
        let code = codes.get(beat * lanes + lane).copied().unwrap_or(0);
        word.push(code, number.bits());
    }
}

/// Most lanes of a unit.
pub const MOST_LANES: usize = 256;

/// Checks the number of lanes.
pub fn check_lanes(lanes: usize) -> Result<()> {
    if (1..=MOST_LANES).contains(&lanes) {
        return Ok(());
    }
    Err(Error::user(format!("a unit has 1 to {MOST_LANES} lanes, not {lanes}")))
}

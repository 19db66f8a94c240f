//! A loop with a fixed number of turns over one body, which is compiled once.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::attrs::{Attr, Attrs};
use crate::graph::{Graph, InputKind};
use crate::named::{AttrValue, Named};
use crate::registry::Registry;
use crate::tensor::Tensor;
use crate::text::{parse, print};
use crate::trace::{Trace, TraceRef};
use crate::types::Type;

/// How [`TraceRef::scan`] repeats a body. A number stands for that many turns from the first slice to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanOptions {
    /// Number of turns, at least 1.
    pub turns: usize,
    /// Whether the first turn reads the last slices, and gives the last ones.
    pub reverse: bool,
    /// Whether the carries at the begin of each turn are kept for the derivative, which otherwise runs all turns again
    /// before it runs them backwards.
    pub keeps_carries: bool,
}

impl From<usize> for ScanOptions {
    fn from(turns: usize) -> ScanOptions {
        ScanOptions {
            turns,
            reverse: false,
            keeps_carries: false,
        }
    }
}

/// Runs a body [`ScanOptions::turns`] times.
///
/// Inputs are the first carries; arrays with `turns` slices along their first axis, of which each turn reads one; and
/// constants, which every turn reads. The body takes carries, slices and constants in this order, and gives the next
/// carries and further results. Outputs are the last carries, the further results of all turns as slices of one array
/// each, and, where they are kept, the carries at the begin of each turn.
///
/// Its derivative is another scan. The body runs in the dtypes that it is written in, whatever precision a plan has for
/// other operations. Random numbers are those of its streams, the same in all turns.
#[derive(Clone, Debug)]
pub struct Scan {
    body: Arc<Graph>,
    /// The text form of the body.
    text: Arc<str>,
    options: ScanOptions,
    carries: usize,
    slices: usize,
}

impl PartialEq for Scan {
    fn eq(&self, other: &Scan) -> bool {
        let own = (&self.text, self.options, self.carries, self.slices);
        own == (&other.text, other.options, other.carries, other.slices)
    }
}

impl Scan {
    /// A scan whose body's first `carries` inputs are carries, as are its first outputs, and whose next `slices` inputs
    /// are slices.
    ///
    /// # Errors
    /// No turn; a body with states; carries that the body gives as other types than it takes.
    pub fn new(body: Graph, options: ScanOptions, carries: usize, slices: usize) -> Result<Scan> {
        if options.turns == 0 {
            return Err(Error::user("a scan has at least one turn"));
        }
        if body.inputs.iter().any(|input| input.kind == InputKind::State) || !body.assigns.is_empty() {
            return Err(Error::user("the body of a scan has no states; declare them outside"));
        }
        if carries.saturating_add(slices) > body.inputs.len() || carries > body.outputs.len() || body.outputs.is_empty()
        {
            return Err(Error::user(
                "the body of a scan takes carries and slices, and gives every carry and at least one result",
            ));
        }
        for (number, (given, taken)) in body.outputs.iter().zip(&body.inputs[..carries]).enumerate() {
            let (given, taken) = (body.ty(given.value), body.ty(taken.value));
            if given != taken {
                return Err(Error::user(format!(
                    "carry {number} begins as {taken}, but the body gives {given}"
                )));
            }
        }
        Ok(Scan {
            text: print(&body).into(),
            body: Arc::new(body),
            options,
            carries,
            slices,
        })
    }

    /// The body.
    pub fn body(&self) -> &Graph {
        &self.body
    }

    /// How often and in which order it runs.
    pub fn options(&self) -> ScanOptions {
        self.options
    }

    /// Number of carries.
    pub fn carries(&self) -> usize {
        self.carries
    }

    /// Number of inputs of which each turn reads a slice.
    pub fn slices(&self) -> usize {
        self.slices
    }

    /// The slice of each turn, in the order of the turns.
    pub fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let ScanOptions { turns, reverse, .. } = self.options;
        (0..turns).map(move |turn| if reverse { turns - 1 - turn } else { turn })
    }

    /// The same scan, whose carries at the begin of each turn are outputs.
    pub(super) fn keeping(&self) -> Scan {
        let mut keeping = self.clone();
        keeping.options.keeps_carries = true;
        keeping
    }

    /// Types of the body's inputs.
    pub(super) fn taken(&self) -> Vec<Type> {
        let inputs = self.body.inputs.iter();
        inputs.map(|input| self.body.ty(input.value).clone()).collect()
    }

    /// Types of the body's outputs.
    pub(super) fn given(&self) -> Vec<Type> {
        let outputs = self.body.outputs.iter();
        outputs.map(|output| self.body.ty(output.value).clone()).collect()
    }

    /// The type of slices of all turns.
    pub(super) fn stacked(&self, slice: &Type) -> Type {
        Type::new(slice.dtype, &[&[self.options.turns][..], &slice.shape].concat())
    }

    /// The outputs of the body for these inputs, appended to a trace.
    pub(super) fn inline(&self, trace: TraceRef, inputs: &[Tensor]) -> Vec<Tensor> {
        let mut map: Vec<Option<Tensor>> = vec![None; self.body.values.len()];
        for (input, given) in self.body.inputs.iter().zip(inputs) {
            map[input.value.index()] = Some(*given);
        }
        for node in &self.body.nodes {
            let inputs: Vec<Tensor> = node.inputs.iter().filter_map(|v| map[v.index()]).collect();
            let outputs = trace.apply_shared(node.op.clone(), &inputs);
            for (value, output) in node.outputs.iter().zip(outputs) {
                map[value.index()] = Some(output);
            }
        }
        let outputs = self.body.outputs.iter();
        outputs.filter_map(|output| map[output.value.index()]).collect()
    }
}

impl Named for Scan {
    const NAME: &'static str = "scan";

    fn to_attrs(&self) -> Attrs {
        let ScanOptions {
            turns,
            reverse,
            keeps_carries,
        } = self.options;
        let attrs = Attrs::new()
            .with("turns", turns.to_attr())
            .with("reverse", reverse.to_attr())
            .with("keeps_carries", keeps_carries.to_attr())
            .with("carries", self.carries.to_attr())
            .with("slices", self.slices.to_attr())
            .with("body", Attr::Word(self.text.to_string()));
        // The last stream of random numbers that is taken.
        match self.body.next_stream().checked_sub(1) {
            Some(stream) => attrs.with("stream", stream.to_attr()),
            None => attrs,
        }
    }

    fn from_attrs(attrs: &Attrs) -> Result<Scan> {
        let options = ScanOptions {
            turns: attrs.size("turns")?,
            reverse: attrs.bool("reverse")?,
            keeps_carries: attrs.bool("keeps_carries")?,
        };
        let body = parse(attrs.word("body")?, &Registry::standard()).map_err(|e| e.at("body"))?;
        Scan::new(body, options, attrs.size("carries")?, attrs.size("slices")?)
    }
}

impl TraceRef {
    /// Repeats a body, which is traced and compiled once: turn by turn it takes the carries of the turn before and the
    /// next slices, along the first axis of `slices`, and gives the next carries and further results. Returns the last
    /// carries, and the results of all turns, stacked along a new first axis in the order of the slices.
    ///
    /// The body may use tensors from outside, which are the same in every turn; so are random numbers that it draws:
    /// draw those that are to differ before, with an axis of turns, and give them as slices.
    ///
    /// ```
    /// use lessen_graph::{DType, Trace};
    ///
    /// let trace = Trace::new();
    /// let x = trace.input("x", DType::F32, &[7, 2, 3]);
    /// let w = trace.state("w", DType::F32, &[3, 3]);
    /// let start = trace.input("start", DType::F32, &[2, 3]);
    /// // h = tanh(x + h w), seven times.
    /// let (last, all) = trace.scan(7, &[start], &[x], |h, x| {
    ///     let h = (x[0] + h[0].matmul(w)).tanh();
    ///     (vec![h], vec![h])
    /// });
    /// assert_eq!((last[0].shape(), all[0].shape()), (vec![2, 3], vec![7, 2, 3]));
    /// ```
    ///
    /// # Panics
    /// Where no turn or neither carries nor slices are given, where a slice has another first axis, or where the body
    /// gives another number of carries or a carry of another type.
    #[track_caller]
    pub fn scan(
        self,
        options: impl Into<ScanOptions>,
        carries: &[Tensor],
        slices: &[Tensor],
        body: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
    ) -> (Vec<Tensor>, Vec<Tensor>) {
        let options = options.into();
        let given = [carries, slices].concat();
        let trace = self.innermost(format_args!("scan:"), &given);
        for x in slices {
            if x.shape().first() != Some(&options.turns) {
                trace.fail(format!("scan: {} turns need slices, not {}", options.turns, x.ty()));
            }
        }
        let inner = Trace::inside(trace);
        let declared: Vec<Tensor> = (given.iter().enumerate())
            .map(|(number, x)| {
                let ty = x.ty();
                let axes = usize::from(number >= carries.len());
                inner.input(&number.to_string(), ty.dtype, &ty.shape[axes..])
            })
            .collect();
        let (of_carries, of_slices) = declared.split_at(carries.len());
        let (next, results) = body(of_carries, of_slices);
        if next.len() != carries.len() {
            let (given, taken) = (next.len(), carries.len());
            trace.fail(format!("scan: the body gives {given} carries for {taken}"));
        }
        for (number, y) in next.iter().chain(&results).enumerate() {
            inner.output(&number.to_string(), inner.captured(format_args!("scan:"), *y));
        }
        let (body, constants) = inner.finish_inside();
        let made = Scan::new(body, options, carries.len(), slices.len());
        let scan = match made {
            Ok(scan) => scan,
            Err(error) => trace.fail(format!("scan: {error}")),
        };
        let mut outputs = trace.apply(scan, &[given, constants].concat());
        outputs.truncate(carries.len() + results.len());
        let results = outputs.split_off(carries.len());
        (outputs, results)
    }
}

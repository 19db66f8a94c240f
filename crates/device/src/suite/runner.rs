//! Runs graphs on a device with the arrays that the reference evaluator takes and gives.

use std::collections::HashMap;

use lessen_compile::{Options, Plan};
use lessen_graph::{Array, Graph, InputKind};

use super::Found;
use crate::backend::{Backend, ModelId, ProgramId};
use crate::host_array::HostArray;
use lessen_graph::Host;

/// Arrays by name.
pub(super) type Arrays = HashMap<String, Array>;

/// Bits of arrays by name, sorted.
pub(super) type Bits = Vec<(String, Vec<u8>)>;

/// A graph that a device has loaded, with its states.
pub(super) struct Loaded {
    pub(super) model: ModelId,
    pub(super) program: ProgramId,
    pub(super) graph: Graph,
}

/// Text of an error, for [`Found`].
pub(super) fn text(error: impl ToString) -> String {
    error.to_string()
}

/// An error where a condition does not hold.
pub(super) fn ensure(holds: bool, sentence: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err(sentence()) }
}

/// Data inputs as a device takes them.
pub(super) fn data(graph: &Graph, inputs: &Arrays) -> Vec<(String, HostArray)> {
    let data = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
    data.map(|input| {
        let array = &inputs[&input.name];
        (input.name.clone(), HostArray::of(array.ty.dtype, &array.data))
    })
    .collect()
}

/// Data inputs as they are given to a run.
pub(super) fn hosts(data: &[(String, HostArray)]) -> Vec<(&str, Host<'_>)> {
    data.iter().map(|(name, array)| (name.as_str(), array.host())).collect()
}

impl Loaded {
    /// Loads a plan in a model of its own, whose states have the values in `inputs`.
    pub(super) fn new(device: &mut dyn Backend, plan: Plan, inputs: &Arrays) -> Result<Loaded, String> {
        let model = device.add_model();
        let graph = plan.graph().clone();
        let program = device.load(model, plan).map_err(text)?;
        let loaded = Loaded { model, program, graph };
        loaded.set_states(device, inputs)?;
        Ok(loaded)
    }

    /// Allocates all states and gives them these values.
    pub(super) fn set_states(&self, device: &mut dyn Backend, inputs: &Arrays) -> Found {
        for input in self.graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            let ty = self.graph.ty(input.value);
            let array = HostArray::of(ty.dtype, &inputs[&input.name].data);
            device.allocate(self.model, &input.name, ty).map_err(text)?;
            device.upload(self.model, &input.name, array.host()).map_err(text)?;
        }
        Ok(())
    }

    /// Runs the graph.
    pub(super) fn run(&self, device: &mut dyn Backend, inputs: &Arrays) -> Found {
        let data = data(&self.graph, inputs);
        device.run(self.program, &hosts(&data)).map_err(text)
    }

    /// Results and states after the last run.
    pub(super) fn results(&self, device: &dyn Backend) -> Result<HashMap<String, HostArray>, String> {
        let mut all = HashMap::new();
        for output in &self.graph.outputs {
            let array = device.output(self.program, &output.name);
            let array = array.ok_or_else(|| format!("there is no result `{}` after a run", output.name))?;
            all.insert(output.name.clone(), HostArray::clone(&array));
        }
        for input in self.graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            let state = |host: Host<'_>| drop(all.insert(input.name.clone(), HostArray::from(host)));
            device.download(self.model, &input.name, &mut { state }).map_err(text)?;
        }
        Ok(all)
    }

    /// Bits of results and states after the last run.
    pub(super) fn bits(&self, device: &dyn Backend) -> Result<Bits, String> {
        let all = self.results(device)?.into_iter();
        let mut bits: Bits = all.map(|(name, array)| (name, array.to_le_bytes())).collect();
        bits.sort();
        Ok(bits)
    }
}

/// Compiles a graph for a device and loads it.
pub(super) fn load(
    device: &mut dyn Backend,
    graph: &Graph,
    options: &Options,
    inputs: &Arrays,
) -> Result<Loaded, String> {
    let plan = device.compile(graph, options).map_err(text)?;
    Loaded::new(device, plan, inputs)
}

/// Whether arrays are what is expected, up to a tolerance that is relative to the largest element.
pub(super) fn close(name: &str, found: &HostArray, expected: &Array, (relative, absolute): (f64, f64)) -> Found {
    let found: Vec<f64> = found.host().elements().collect();
    let count = expected.data.len();
    ensure(found.len() == count, || {
        format!("`{name}` has {} elements, not {count}", found.len())
    })?;
    let finite = expected.data.iter().filter(|x| x.is_finite());
    let tolerance = relative * finite.fold(0.0, |most: f64, x| most.max(x.abs())) + absolute;
    for (i, (&f, &e)) in found.iter().zip(&expected.data).enumerate() {
        let is_equal = f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= tolerance;
        ensure(is_equal, || {
            format!("element {i} of `{name}` is {f}, not {e}; the tolerance is {tolerance}")
        })?;
    }
    Ok(())
}

/// Whether two sets of bits are the same.
pub(super) fn same(found: &Bits, expected: &Bits, when: &str) -> Found {
    match found.iter().zip(expected).find(|(found, expected)| found != expected) {
        Some(((name, _), _)) => Err(format!("`{name}` has other bits {when}")),
        None => ensure(found.len() == expected.len(), || {
            format!("there are other results {when}")
        }),
    }
}

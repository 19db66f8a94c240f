//! Runs one standard operation on the CPU and compares its results with the reference evaluator's.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lessen_base::Result;
use lessen_cpu::{Device, Executable, Host, Store};
use lessen_device::suite::Sample;
use lessen_graph::{Array, DType, Graph, Trace, Type, evaluate, print};

use crate::plans::runner::{Data, Options, compile};
use crate::random::Random;

/// A graph of one operation over inputs `x0`, `x1` and so on.
pub fn graph(sample: &Sample, inputs: &[Type]) -> Graph {
    let trace = Trace::new();
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let inputs = names.iter().zip(inputs);
    let inputs: Vec<_> = inputs
        .map(|(name, ty)| trace.input(name, ty.dtype, &ty.shape))
        .collect();
    for (k, y) in trace.apply_shared(sample.op.clone(), &inputs).into_iter().enumerate() {
        trace.output(&format!("y{k}"), y);
    }
    trace.finish()
}

/// Random inputs of these types, named as in [`graph`]; integers are below `limit`.
pub fn random_inputs(random: &mut Random, types: &[Type], limit: usize) -> HashMap<String, Array> {
    let mut inputs = HashMap::new();
    for (i, ty) in types.iter().enumerate() {
        let value = |_: &[usize]| match ty.dtype {
            DType::F32 if i >= 2 => f64::from(random.unit_f32().abs()),
            DType::F32 => f64::from(random.unit_f32()),
            DType::Bool => random.below(2) as f64,
            _ => random.below(limit) as f64,
        };
        inputs.insert(format!("x{i}"), Array::from_fn(ty.clone(), value));
    }
    inputs
}

/// Runs a graph of one operation with two threads.
pub fn run(graph: &Graph, device: &mut Device, inputs: &HashMap<String, Array>) -> Result<HashMap<String, Vec<f64>>> {
    run_on(graph, device, 2, inputs)
}

/// Runs a graph of one operation on a device of `threads` threads.
pub fn run_on(
    graph: &Graph,
    device: &mut Device,
    threads: usize,
    inputs: &HashMap<String, Array>,
) -> Result<HashMap<String, Vec<f64>>> {
    let options = Options {
        threads,
        ..Options::default()
    };
    let mut executable = Executable::new(compile(graph, &options)?)?;
    let data: Vec<(&String, Data)> = inputs.iter().map(|(n, x)| (n, Data::of(x))).collect();
    let data: Vec<(&str, Host<'_>)> = data.iter().map(|(n, d)| (n.as_str(), d.host())).collect();
    executable.run(device, &mut Store::new(), &data)?;
    let outputs = graph.outputs.iter().map(|output| {
        let found = executable.output(&output.name).expect("an output of the plan");
        (output.name.clone(), found.elements().collect())
    });
    Ok(outputs.collect())
}

/// Asserts that an operation on inputs of these types gives the results of the reference evaluator. An index that the
/// operation does not admit is an error on the CPU, where the evaluator panics.
pub fn assert_runs_like_the_reference(
    sample: &Sample,
    types: &[Type],
    device: &mut Device,
    random: &mut Random,
    limit: usize,
) {
    let graph = graph(sample, types);
    let inputs = random_inputs(random, types, limit);
    let expected = catch_unwind(AssertUnwindSafe(|| evaluate(&graph, &inputs)));
    let found = run(&graph, device, &inputs);
    let (Ok(Ok(expected)), Ok(found)) = (&expected, &found) else {
        let both_refuse = !matches!(expected, Ok(Ok(_))) && found.is_err();
        assert!(both_refuse, "{expected:?} but {found:?} in\n{}", print(&graph));
        return;
    };
    for (name, array) in expected {
        let finite = array.data.iter().filter(|x| x.is_finite());
        // A sum of `n` numbers of about 1 is as large as their root, and so is its error.
        let elements = types.first().map_or(0, Type::numel);
        let n = elements as f64 / array.data.len().max(1) as f64;
        let largest = finite.fold(n.sqrt().max(1.0), |m, x| m.max(x.abs()));
        assert_eq!(found[name].len(), array.data.len(), "{name} in\n{}", print(&graph));
        for (i, (f, e)) in found[name].iter().zip(&array.data).enumerate() {
            let same = f == e || (f.is_nan() && e.is_nan());
            let near = (f - e).abs() <= 2e-5 * largest;
            assert!(
                same || near,
                "element {i} of {name} is {f}, not {e}, in\n{}",
                print(&graph)
            );
        }
    }
}

//! Data and networks of the tests.

use lessen_base::SplitMix64;
use lessen_condense::{Condensation, LabelledImages};
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, Host, SharedDevice};
use lessen_graph::{Array, Graph, InputKind, evaluate_exactly};
use lessen_nn::models::vision::{ConvNet, VisionModel};
use lessen_nn::{Weight, Weights, checkpoint::TensorFile};
use std::collections::HashMap;
use std::path::Path;

/// A CPU with this many threads.
pub fn device(threads: usize) -> SharedDevice {
    let backend: Box<dyn Backend> = Box::new(CpuBackend::new(threads).expect("threads"));
    backend.into()
}

/// `per_class` images of each class: noise around a pattern of the class.
pub fn images(classes: usize, per_class: usize, shape: [usize; 3], seed: u64) -> LabelledImages {
    let size: usize = shape.iter().product();
    let mut random = SplitMix64::new(seed);
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for class in 0..classes {
        let mut pattern = SplitMix64::keyed(7, class as u64);
        let pattern: Vec<f64> = (0..size).map(|_| pattern.unit() * 2.0 - 1.0).collect();
        for _ in 0..per_class {
            pixels.extend(pattern.iter().map(|x| (x + random.unit() - 0.5) as f32));
            labels.push(class as u32);
        }
    }
    LabelledImages::new(shape, classes, pixels, labels).expect("the images are well formed")
}

/// A ConvNet of two blocks of 8 channels.
pub fn small_network(classes: usize) -> VisionModel {
    let net = ConvNet {
        width: 8,
        depth: 2,
        ..ConvNet::new(classes)
    };
    net.into()
}

/// The `f32` arrays of a file of `tests/fixtures`.
pub fn recorded(name: &str) -> Weights {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let mut file = TensorFile::open(&path).expect("a file of recorded arrays");
    let mut arrays = Weights::new();
    for name in file.names() {
        let shape = file.shape(&name).expect("the file has the tensor").to_vec();
        let mut data = Vec::new();
        let read = file.visit(&name, &mut |bytes| {
            data.extend(bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)));
            Ok(())
        });
        read.expect("a tensor");
        arrays.insert(name, Weight { shape, data });
    }
    arrays
}

/// The states that a graph reads, as a condensation has them.
pub fn states_of(graph: &Graph, condensation: &dyn Condensation) -> HashMap<String, Array> {
    let mut states = HashMap::new();
    for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
        let state = condensation.session().state(&input.name).expect("a state");
        let data = state.host().as_f32().expect("an f32 state");
        let shape = graph.ty(input.value).shape.to_vec();
        let array = Array::f32(&shape, data.iter().map(|x| f64::from(*x)).collect());
        states.insert(input.name.clone(), array);
    }
    states
}

/// Compares the derivative by elements of a parameter with differences of `distance` in `f64`. `given` has the inputs
/// of the graph of an update with momentum 0, after which the parameter's momentum is the derivative.
pub fn assert_derivative(graph: &Graph, given: &HashMap<String, Array>, param: &str, distance: &str) {
    let momentum = format!("condensed.momentum.{param}");
    let (mut given, count) = (given.clone(), given[param].data.len());
    given.get_mut(&momentum).expect("a momentum").data.fill(0.0);
    let derivative = evaluate_exactly(graph, &given).expect("a sound graph")[&momentum].clone();
    assert!(
        derivative.data.iter().any(|x| x.abs() > 1e-4),
        "{param}: the derivative says nothing"
    );
    for place in (0..count).step_by(1 + count / 12) {
        let at = |step: f64| {
            let mut moved = given.clone();
            moved.get_mut(param).expect("a parameter").data[place] += step;
            let results = evaluate_exactly(graph, &moved).expect("a sound graph");
            results[distance].data.iter().sum::<f64>()
        };
        let (step, found) = (1e-5, derivative.data[place]);
        let difference = (at(step) - at(-step)) / (2.0 * step);
        assert!(
            (found - difference).abs() <= 1e-5 * (1.0 + found.abs()),
            "{param}: the derivative by element {place} is {found}, the difference {difference}"
        );
    }
}

/// Data inputs of a graph as arrays; those that it does not declare are left out.
pub fn given<'a>(graph: &Graph, inputs: impl IntoIterator<Item = (&'a str, Host<'a>)>) -> HashMap<String, Array> {
    let mut arrays = HashMap::new();
    for (name, host) in inputs {
        let Some(input) = graph.inputs.iter().find(|input| input.name == name) else {
            continue;
        };
        let shape = graph.ty(input.value).shape.to_vec();
        let array = match host {
            Host::I32(data) => Array::i32(&shape, data),
            Host::F32(data) => Array::f32(&shape, data.iter().map(|x| f64::from(*x)).collect()),
            _ => panic!("{name} has another dtype"),
        };
        arrays.insert(name.to_string(), array);
    }
    arrays
}

/// Iterates, and stops and resumes where it is told; returns the sum of the distances of each iteration, and the images
/// and the state at the end.
pub fn condensed<'a>(
    new: &dyn Fn() -> Box<dyn Condensation + 'a>,
    iterations: usize,
    cut: Option<usize>,
) -> (Vec<f32>, LabelledImages, Weights) {
    let (mut condensation, mut totals) = (new(), Vec::new());
    for iteration in 0..iterations {
        if cut == Some(iteration) {
            let state = condensation.state().expect("a state");
            condensation = new();
            condensation.resume(iteration, &state).expect("resumed");
        }
        let mut total = 0.0;
        let iterated = condensation.iterate(&mut |update| {
            total += update.distances.iter().sum::<f32>();
            Ok(())
        });
        iterated.expect("an iteration");
        totals.push(total);
    }
    let images = condensation.images().expect("finite images");
    let state = condensation.state().expect("a state");
    (totals, images, state)
}

/// Whether the mean of the last third is below this share of the mean of the first third.
pub fn falls(totals: &[f32], share: f32) -> bool {
    let third = totals.len() / 3;
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    mean(&totals[totals.len() - third..]) < share * mean(&totals[..third])
}

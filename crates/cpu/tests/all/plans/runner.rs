//! Runs graphs on the CPU with the arrays that the reference evaluator takes and gives.

use std::collections::HashMap;

use lessen_base::Result;
use lessen_compile::{Placement, Plan, Storage};
use lessen_cpu::{CpuTarget, Device, Executable, Host, Store};
use lessen_graph::{Array, DType, Graph, InputKind, ValueId};

/// Options that tests choose for a plan and its device.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub threads: usize,
    pub placement: Placement,
    pub budget: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            placement: Placement::default(),
            budget: None,
        }
    }
}

impl Options {
    fn of_plan(&self) -> lessen_compile::Options {
        lessen_compile::Options {
            placement: self.placement,
            budget: self.budget,
            ..lessen_compile::Options::default()
        }
    }

    fn target(&self) -> CpuTarget {
        CpuTarget { threads: self.threads }
    }
}

/// Compiles a graph for a CPU.
pub fn compile(graph: &Graph, options: &Options) -> Result<Plan> {
    lessen_compile::compile(graph, &options.of_plan(), &options.target())
}

/// The least budget of a graph on a CPU.
pub fn floor_bytes(graph: &Graph, options: &Options) -> Result<usize> {
    lessen_compile::floor_bytes(graph, &options.of_plan(), &options.target())
}

/// The storage of every value.
pub fn storage(plan: &Plan) -> Vec<Storage> {
    let values = 0..plan.graph().values.len() as u32;
    values.map(|v| plan.storage(ValueId(v))).collect()
}

/// Data in the form that a run takes.
pub enum Data {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    U8(Vec<u8>),
    Bool(Vec<u8>),
}

impl Data {
    pub fn of(array: &Array) -> Data {
        let data = array.data.iter();
        match array.ty.dtype {
            DType::F32 => Data::F32(data.map(|&x| x as f32).collect()),
            DType::I32 => Data::I32(data.map(|&x| x as i32).collect()),
            DType::U32 => Data::U32(data.map(|&x| x as u32).collect()),
            DType::U8 => Data::U8(data.map(|&x| x as u8).collect()),
            DType::Bool => Data::Bool(data.map(|&x| x as u8).collect()),
            other => panic!("a run takes no {}", other.name()),
        }
    }

    pub fn host(&self) -> Host<'_> {
        match self {
            Data::F32(x) => Host::F32(x),
            Data::I32(x) => Host::I32(x),
            Data::U32(x) => Host::U32(x),
            Data::U8(x) => Host::U8(x),
            Data::Bool(x) => Host::Bool(x),
        }
    }
}

/// The states of a graph, filled from arrays.
pub fn store(graph: &Graph, inputs: &HashMap<String, Array>) -> Store {
    let mut store = Store::new();
    for input in graph.inputs.iter().filter(|i| i.kind == InputKind::State) {
        let array = &inputs[&input.name];
        let values: Vec<f32> = array.data.iter().map(|&x| x as f32).collect();
        store.insert_f32(&input.name, &array.ty.shape, &values);
    }
    store
}

/// Runs an executable once.
pub fn run(
    executable: &mut Executable,
    device: &mut Device,
    store: &mut Store,
    inputs: &HashMap<String, Array>,
) -> Result<()> {
    let names: Vec<String> = executable.data_inputs().map(|(n, _)| n.to_string()).collect();
    let data: Vec<(String, Data)> = names.into_iter().map(|n| (n.clone(), Data::of(&inputs[&n]))).collect();
    let hosts: Vec<(&str, Host<'_>)> = data.iter().map(|(n, d)| (n.as_str(), d.host())).collect();
    executable.run(device, store, &hosts)
}

/// The `f32` outputs and the assigned states after a run, by name.
pub fn results(executable: &Executable, store: &Store) -> HashMap<String, Vec<f32>> {
    let graph = &executable.plan().graph();
    let outputs = graph.outputs.iter().map(|o| {
        let values = executable.output_f32(&o.name).expect("an f32 output");
        (o.name.clone(), values.to_vec())
    });
    let states = graph.assigns.iter().map(|a| {
        let name = &graph.input(a.target).expect("a state").name;
        (name.clone(), store.f32(name).expect("an f32 state").to_vec())
    });
    outputs.chain(states).collect()
}

/// Compiles a graph, runs it once and returns its results.
pub fn run_once(
    graph: &Graph,
    options: &Options,
    inputs: &HashMap<String, Array>,
) -> (Plan, HashMap<String, Vec<f32>>) {
    let plan = compile(graph, options).expect("the graph compiles");
    let mut executable = Executable::load(plan);
    let mut device = Device::new(options.threads).expect("threads");
    let mut states = store(graph, inputs);
    run(&mut executable, &mut device, &mut states, inputs).expect("the graph runs");
    let results = results(&executable, &states);
    (executable.plan().clone(), results)
}

/// The bits of results, to be compared exactly.
pub fn bits(results: &HashMap<String, Vec<f32>>) -> Vec<(String, Vec<u32>)> {
    let mut bits: Vec<(String, Vec<u32>)> = results
        .iter()
        .map(|(n, v)| (n.clone(), v.iter().map(|x| x.to_bits()).collect()))
        .collect();
    bits.sort();
    bits
}

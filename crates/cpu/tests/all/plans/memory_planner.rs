//! The memory planner on random programs and networks: properties of its plans at any budget; and where there are few
//! values, no set of recomputed values is faster than the chosen set.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lessen_base::cases;
use lessen_compile::{KernelKind, Options as PlanOptions, Placement, Target, passes, places, plan_as_it_is};
use lessen_cpu::{CpuTarget, Device, Executable};
use lessen_device::suite::check_plan as check;
use lessen_device::suite::programs::program;
use lessen_graph::{Array, DType, Graph, InputKind, Phase, ValueId};

use crate::plans::gpt::{DEEP, training};
use crate::plans::networks::network;
use crate::plans::runner::{self, Options, compile, floor_bytes};

/// The least bytes of a value that is worth recomputing.
const SMALLEST: usize = 16 << 10;
/// The most values for which the planner tries every set.
const FEW: usize = 8;
const BUDGETS: usize = 12;
const CPU: CpuTarget = CpuTarget { threads: 2 };

fn options(placement: Placement, budget: Option<usize>) -> Options {
    Options {
        threads: CPU.threads,
        placement,
        budget,
    }
}

/// The passes before the planner's choices.
fn simplified(graph: &Graph) -> Graph {
    let graph = lessen_rewrite::lower(graph, &|op| CPU.supports(op));
    let graph = lessen_rewrite::eliminate_dead_code(&graph);
    let graph = lessen_rewrite::fold_constants(&graph);
    let graph = lessen_rewrite::eliminate_common_subexpressions(&graph);
    let graph = passes::read_narrow(&graph, &CPU);
    let graph = lessen_rewrite::eliminate_dead_code(&graph);
    let graph = passes::sparsify(&graph, &CPU);
    passes::materialize(&graph, &CPU)
}

/// The forward values of a simplified graph that backward reads and can compute again.
fn candidates(graph: &Graph) -> Vec<ValueId> {
    let places = places(graph);
    let later = graph.nodes.iter().filter(|node| node.phase != Phase::Forward);
    let read: BTreeSet<ValueId> = later
        .flat_map(|node| &node.inputs)
        .map(|v| places[v.index()].base)
        .collect();
    let mut found = Vec::new();
    for node in graph.nodes.iter().filter(|node| node.phase == Phase::Forward) {
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        let is_slow = CPU.lower(node.op.as_ref(), &inputs, &outputs).kind == KernelKind::Reference;
        if !node.inputs.is_empty() && !is_slow {
            let is_large = |v: &&ValueId| graph.ty(**v).bytes() >= SMALLEST;
            found.extend(node.outputs.iter().filter(|v| read.contains(v)).filter(is_large));
        }
    }
    found
}

/// A graph with a name for messages, and the values of its inputs.
struct Example {
    name: String,
    graph: Graph,
    inputs: HashMap<String, Array>,
    /// Of the simplified graph.
    candidates: usize,
}

impl Example {
    fn new(name: String, graph: Graph, inputs: HashMap<String, Array>) -> Example {
        let simple = simplified(&graph);
        let trains = graph.inputs.iter().any(|input| input.kind == InputKind::State);
        Example {
            candidates: if trains { candidates(&simple).len() } else { 0 },
            name,
            graph,
            inputs,
        }
    }

    /// The random program of a seed.
    fn program(seed: u64) -> Example {
        let program = program(seed);
        Example::new(format!("the program of seed {seed}"), program.graph, program.inputs)
    }

    /// The random network of a seed.
    fn network(seed: u64, layers: usize) -> Example {
        let network = network(seed, layers);
        let name = format!("the network of seed {seed} with {layers} layers");
        Example::new(name, network.graph, network.inputs)
    }

    /// Checks the properties that hold at every budget.
    fn check(&self, placement: Placement) {
        let name = format!("{}, {placement:?}", self.name);
        let free = compile(&self.graph, &options(placement, None)).unwrap();
        let floor = floor_bytes(&self.graph, &options(placement, None)).unwrap();
        let peak = free.peak_bytes();
        assert!(floor <= peak, "{name}: the floor {floor} is above the peak {peak}");
        let mut before = f64::INFINITY;
        let mut expected = None;
        for part in 0..BUDGETS {
            let budget = floor + (peak - floor) * part / (BUDGETS - 1);
            let plan = compile(&self.graph, &options(placement, Some(budget)));
            let plan = plan.unwrap_or_else(|e| panic!("{name}, {budget} bytes: {e}"));
            let (bytes, seconds) = (plan.peak_bytes(), plan.estimated_seconds());
            assert!(bytes <= budget, "{name}: {bytes} bytes for a budget of {budget}");
            assert!(
                seconds <= before,
                "{name}: {budget} bytes take {seconds} s, fewer took {before} s"
            );
            before = seconds;
            if part == 0 || part == BUDGETS / 2 {
                check(&plan).unwrap_or_else(|e| panic!("{name}, {budget} bytes: {e}"));
                let bits = self.run(plan, &name);
                assert!(
                    *expected.get_or_insert_with(|| bits.clone()) == bits,
                    "{name}: other bits at {budget} bytes"
                );
            }
        }
        assert!(
            Some(self.run(free, &name)) == expected,
            "{name}: other bits without a budget"
        );
        let refused = compile(&self.graph, &options(placement, Some(floor - 1))).err();
        let sentence = refused.unwrap_or_else(|| panic!("{name}: {} bytes are enough", floor - 1));
        let part = format!("is below the floor of {floor} bytes;");
        assert!(sentence.to_string().contains(&part), "{name}: {sentence}");
    }

    /// The bits of a run, whose bytes are counted.
    fn run(&self, plan: lessen_compile::Plan, name: &str) -> Vec<(String, Vec<u32>)> {
        let planned = plan.peak_bytes();
        let mut executable = Executable::load(plan);
        let mut device = Device::new(CPU.threads).unwrap();
        let mut store = runner::store(&self.graph, &self.inputs);
        runner::run(&mut executable, &mut device, &mut store, &self.inputs).unwrap();
        assert_eq!(planned, executable.measured_peak_bytes(&store), "{name}: the peak");
        runner::bits(&runner::results(&executable, &store))
    }
}

#[test]
fn budgets_hold_and_more_is_never_slower() {
    let (mut graphs, mut few, mut many) = (0, 0, 0);
    let programs = (0..400).map(Example::program);
    let programs = programs
        .filter(|example| example.candidates > 0)
        .take(cases(30) as usize);
    let networks = (0..40).map(|seed| Example::network(seed, 2 + seed as usize % 12));
    for example in programs.chain(networks) {
        if graphs >= cases(70) && few >= cases(20) && many >= cases(8) {
            break;
        }
        let placement = match graphs % 2 {
            0 => Placement::BackwardFused,
            _ => Placement::Separate,
        };
        example.check(placement);
        graphs += 1;
        few += u64::from((2..=FEW).contains(&example.candidates));
        many += u64::from(example.candidates > FEW);
    }
    println!("{graphs} graphs of the seeds from 0 on: {few} with few values to choose from, {many} with many");
    assert!(
        graphs >= cases(60) && few >= cases(20) && many >= cases(8),
        "{few} and {many} of {graphs} graphs"
    );
}

#[test]
fn budgets_of_a_deep_network_hold() {
    let deep = training(DEEP);
    let mut inputs = deep.inputs.clone();
    inputs.extend(deep.batch(0));
    Example::new("a GPT".to_string(), deep.graph, inputs).check(Placement::BackwardFused);
    Example::network(7, 40).check(Placement::BackwardFused);
}

/// By how much the planner's floor is above that of all sets, its plans are slower than the fastest set that fits, and
/// its peak without a budget is above the least one among the fastest sets; and the least time of compiling.
fn beaten(example: &Example, placement: Placement) -> (Vec<f64>, Duration) {
    let simple = simplified(&example.graph);
    let values = candidates(&simple);
    let plan_options = PlanOptions {
        placement,
        ..PlanOptions::default()
    };
    let sets: Vec<(usize, f64)> = (0..1usize << values.len())
        .map(|set| {
            let chosen = values.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            let chosen: Vec<ValueId> = chosen.map(|(_, &value)| value).collect();
            let graph = passes::recompute(&simple, &chosen, &[]);
            let plan = plan_as_it_is(&lessen_rewrite::eliminate_dead_code(&graph), &plan_options, &CPU);
            (plan.peak_bytes(), plan.estimated_seconds())
        })
        .collect();
    let free = compile(&example.graph, &options(placement, None)).unwrap();
    let floor = floor_bytes(&example.graph, &options(placement, None)).unwrap();
    let least = sets.iter().map(|set| set.0).min().unwrap_or(usize::MAX);
    let peak = free.peak_bytes();
    let mut time = free.compile_time();
    let mut slower = vec![floor as f64 / least as f64];
    for part in 0..5 {
        // Below the peak without a budget, which may take a little longer for fewer bytes.
        let budget = floor + (peak - floor) * part / 5;
        if budget >= peak {
            continue;
        }
        let plan = compile(&example.graph, &options(placement, Some(budget))).unwrap();
        time = time.min(plan.compile_time());
        let fitting = sets.iter().filter(|set| set.0 <= budget);
        let fastest = fitting.map(|set| set.1).fold(f64::INFINITY, f64::min);
        slower.push(plan.estimated_seconds() / fastest);
    }
    let fastest = sets.iter().map(|set| set.1).fold(f64::INFINITY, f64::min);
    let within = |set: &&(usize, f64)| set.1 <= 1.03 * fastest;
    let smallest = sets.iter().filter(within).map(|set| set.0).min().unwrap_or(usize::MAX);
    slower.push(peak as f64 / smallest as f64);
    (slower, time)
}

#[test]
fn no_set_of_few_values_is_faster() {
    let (mut graphs, mut worst, mut longest) = (0, Vec::new(), Duration::ZERO);
    let programs = (0..cases(500)).map(Example::program);
    let networks = (100..300).map(|seed| Example::network(seed, 1 + seed as usize % 6));
    for (examined, example) in programs.chain(networks).enumerate() {
        if examined as u64 >= cases(700) && graphs >= cases(200) {
            break;
        }
        let has_bf16 = example.graph.values.iter().any(|value| value.ty.dtype == DType::BF16);
        if !(1..=FEW).contains(&example.candidates) || has_bf16 {
            continue;
        }
        graphs += 1;
        let (slower, time) = beaten(&example, Placement::BackwardFused);
        if example.graph.nodes.len() < 200 {
            longest = longest.max(time);
        }
        let by = slower.iter().copied().fold(1.0, f64::max);
        if by > 1.0 {
            worst.push(format!(
                "{} of {} values by {by:.4}: {slower:.3?}",
                example.name, example.candidates
            ));
        }
    }
    println!("{graphs} graphs of the seeds from 0 and from 100 on, compiled in {longest:?} at most");
    assert!(graphs >= cases(200), "{graphs} graphs");
    assert!(
        worst.is_empty(),
        "{} of {graphs} are beaten:\n{}",
        worst.len(),
        worst.join("\n")
    );
}

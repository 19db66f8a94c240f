//! Random programs: every pass keeps the results of a graph, every plan keeps its promises, and the CPU computes the
//! results of the reference evaluator.

use std::collections::{BTreeSet, HashMap, HashSet};

use lessen_base::cases;
use lessen_compile::{Placement, Storage, Target, passes, places};
use lessen_cpu::CpuTarget;
use lessen_device::suite::check_plan as check;
use lessen_device::suite::programs::{Program, program};
use lessen_graph::{Array, DType, Graph, Phase, Registry, ValueId, evaluate, print, verify};

use crate::plans::runner::{Options, compile, floor_bytes, storage};
use crate::plans::runner::{bits, run_once};
use crate::random::Random;

const CPU: CpuTarget = CpuTarget { threads: 2 };

type Results = HashMap<String, Array>;

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|x| x.is_finite()).fold(0.0, |m, x| m.max(x.abs()))
}

fn close(name: &str, found: &[f64], expected: &[f64], relative: f64, absolute: f64) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{name} has {} elements, not {}", found.len(), expected.len()));
    }
    let tolerance = relative * largest(expected.iter().copied()) + absolute;
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let equal = f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= tolerance;
        if !equal {
            return Err(format!(
                "element {i} of {name} is {f}, not {e}; the tolerance is {tolerance}"
            ));
        }
    }
    Ok(())
}

fn same_results(found: &Results, expected: &Results) -> Result<(), String> {
    expected
        .iter()
        .try_for_each(|(name, array)| close(name, &found[name].data, &array.data, 1e-9, 1e-12))
}

/// Runs one pass and checks its result against the results of the graph before it.
fn checked(
    name: &str,
    graph: &Graph,
    pass: impl Fn(&Graph) -> Graph,
    program: &Program,
    expected: &Results,
) -> Result<Graph, String> {
    let result = pass(graph);
    verify(&result).map_err(|e| format!("after {name}: {e}"))?;
    // A pass that changes nothing needs no second evaluation.
    if print(&result) != print(graph) {
        let found = evaluate(&result, &program.inputs).map_err(|e| format!("after {name}: {e}"))?;
        same_results(&found, expected).map_err(|e| format!("after {name}: {e}"))?;
    }
    Ok(result)
}

fn check_passes(program: &Program, expected: &Results, random: &mut Random) -> Result<(), String> {
    let run = |name: &str, graph: &Graph, pass: &dyn Fn(&Graph) -> Graph| checked(name, graph, pass, program, expected);
    let graph = run("lowering", &program.graph, &|g: &Graph| {
        lessen_rewrite::lower(g, &|op| CPU.supports(op))
    })?;
    let graph = run("dead code", &graph, &lessen_rewrite::eliminate_dead_code)?;
    let graph = run("folding", &graph, &lessen_rewrite::fold_constants)?;
    let graph = run(
        "common subexpressions",
        &graph,
        &lessen_rewrite::eliminate_common_subexpressions,
    )?;
    let graph = run("dead code", &graph, &lessen_rewrite::eliminate_dead_code)?;
    let graph = run("sparse gradients", &graph, &|g: &Graph| passes::sparsify(g, &CPU))?;
    let graph = run("materialization", &graph, &|g: &Graph| passes::materialize(g, &CPU))?;
    let chosen: Vec<ValueId> = graph
        .nodes
        .iter()
        .filter(|n| n.phase == Phase::Forward && random.chance(40))
        .flat_map(|n| n.outputs.clone())
        .collect();
    run("recomputation", &graph, &|g: &Graph| passes::recompute(g, &chosen, &[]))?;
    let hoisted = |g: &Graph| passes::hoist(g, 0, true).map_or_else(|| g.clone(), |hoisted| hoisted.graph);
    let graph = run("hoisting of predicates", &graph, &hoisted)?;
    let places = places(&graph);
    let has_bits = |v: &ValueId| {
        let ty = graph.ty(*v);
        ty.dtype == DType::Bool && ty.rank() > 0 && places[v.index()].base == *v
    };
    let forward = graph.nodes.iter().filter(|n| n.phase == Phase::Forward);
    let packed: Vec<ValueId> = forward.flat_map(|n| n.outputs.clone()).filter(has_bits).collect();
    run("keeping of bits", &graph, &|g: &Graph| {
        passes::recompute(g, &[], &packed)
    })?;
    Ok(())
}

fn check_runs(program: &Program, expected: &Results, random: &mut Random) -> Result<(), String> {
    let placement = random.pick(&[Placement::Separate, Placement::BackwardFused, Placement::ForwardFused]);
    let options = Options {
        threads: 1 + random.below(3),
        placement,
        budget: None,
    };
    let (plan, found) = run_once(&program.graph, &options, &program.inputs);
    check(&plan)?;
    let (relative, absolute) = if program.coarse { (2e-2, 1e-2) } else { (5e-5, 5e-6) };
    for (name, array) in expected {
        let values: Vec<f64> = found[name].iter().map(|&x| f64::from(x)).collect();
        close(name, &values, &array.data, relative, absolute)?;
    }
    let other = match placement {
        Placement::Separate => Placement::BackwardFused,
        _ => Placement::Separate,
    };
    let tight = Options {
        threads: 2,
        placement: other,
        budget: None,
    };
    let tight = Options {
        budget: Some(floor_bytes(&program.graph, &tight).map_err(|e| e.to_string())?),
        ..tight
    };
    let (plan, again) = run_once(&program.graph, &tight, &program.inputs);
    check(&plan).map_err(|e| format!("at the floor: {e}"))?;
    if Some(plan.peak_bytes()) > tight.budget {
        return Err("the plan exceeds its budget".to_string());
    }
    match bits(&again).into_iter().zip(bits(&found)).find(|(a, b)| a != b) {
        Some(((name, _), _)) => Err(format!("`{name}` has other bits at the floor, placed {other:?}")),
        None => Ok(()),
    }
}

/// Checks the program of a seed: passes, plans and results.
pub fn check_seed(seed: u64) -> Result<(), String> {
    let program = program(seed);
    verify(&program.graph).map_err(|e| e.to_string())?;
    let expected = evaluate(&program.graph, &program.inputs).map_err(|e| e.to_string())?;
    let mut random = Random::new(seed ^ 0xABCD);
    check_passes(&program, &expected, &mut random)?;
    check_runs(&program, &expected, &mut random)
}

fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| check_seed(seed)) {
            Ok(Ok(())) => {}
            Ok(Err(sentence)) => failed.push(format!("seed {seed}: {sentence}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                failed.push(format!("seed {seed}: panic: {}", text.unwrap_or_default()));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} programs of {seeds:?} fail:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn random_programs_agree_with_the_reference() {
    check_seeds(0..cases(1000));
}

#[test]
fn more_random_programs_agree_with_the_reference() {
    check_seeds(1000..1000 + cases(1000));
}

/// The random programs must reach every operation, and every way in which a plan stores a value.
#[test]
fn random_programs_reach_every_operation_and_every_kind_of_storage() {
    let mut operations = BTreeSet::new();
    let (mut local, mut in_place, mut partial, mut recomputed, mut whole) = (0, 0, 0, 0, 0);
    for seed in 0..1000 {
        let graph = program(seed).graph;
        operations.extend(graph.nodes.iter().map(|n| n.op.name()));
        let plan = compile(&graph, &Options::default()).unwrap();
        operations.extend(plan.graph().nodes.iter().map(|n| n.op.name()));
        // Values are recomputed where memory is short.
        let floor = floor_bytes(&graph, &Options::default()).unwrap();
        let tight = Options {
            budget: Some(floor),
            ..Options::default()
        };
        recomputed += compile(&graph, &tight).unwrap().recomputed().len();
        partial += plan.steps().iter().map(|s| s.partials.len()).sum::<usize>();
        whole += plan.steps().iter().filter(|s| s.rows.is_none()).count();
        let storage = storage(&plan);
        local += (storage.iter()).filter(|s| matches!(s, Storage::Local(_))).count();
        let mut taken = HashSet::new();
        let arena = (storage.iter()).filter(|s| matches!(s, Storage::Arena(_) | Storage::State(_)));
        in_place += arena.filter(|s| !taken.insert(format!("{s:?}"))).count();
    }
    let missing: Vec<String> = Registry::standard()
        .names()
        .into_iter()
        .filter(|n| !operations.contains(n))
        .map(str::to_string)
        .collect();
    assert!(missing.is_empty(), "no program has {missing:?}");
    let reached = [local, in_place, partial, recomputed, whole];
    assert!(reached.iter().all(|&n| n >= 20), "{reached:?}");
}

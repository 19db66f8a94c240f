//! Passes, schedules, memory plans and derivatives as text: each file of `cases/` holds cases of a name, a call, a
//! graph and the result.
//!
//! ```text
//! == what the case shows
//! pass dead_code
//! <graph>
//! -- becomes
//! <graph>
//! ```
//!
//! Calls are
//! - `pass NAME`; `pass recompute %3 %4 bits %5` names the values to recompute and to keep as bits; `pass hoist even`
//!   frees also where as much is lost. The graph that a pass returns must also verify and, where the case's inputs are
//!   floats, evaluate to the same results, but for `mixed` and `integers`, which round;
//! - `schedule` and `memory`, the plan for two workers, with `separate` for updates after the whole backward phase;
//! - `derivative %7 of %0 %1`: the graph with the gradients of `%7` as outputs `d0`, `d1`.
//!
//! `LESSEN_BLESS=1 cargo test -p lessen-compile` writes the results into the files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::SplitMix64;
use lessen_compile::{Options, Placement, compile, dump_memory, dump_schedule, passes};
use lessen_cpu::CpuTarget;
use lessen_graph::{Array, DType, Graph, Op, Registry, Trace, ValueId, evaluate, parse, print, verify};

use crate::outside::{Opaque, Scaled, Twice};

const TARGET: CpuTarget = CpuTarget { threads: 2 };

fn registry() -> Registry {
    let mut registry = Registry::with_collectives();
    registry.register("twice", |_| Ok(Arc::new(Twice))).unwrap();
    registry
        .register("scaled", |a| Ok(Arc::new(Scaled { by: a.float("by")? })))
        .unwrap();
    registry.register("opaque", |_| Ok(Arc::new(Opaque))).unwrap();
    registry
}

fn standard(op: &dyn Op) -> bool {
    !(op.is::<Twice>() || op.is::<Scaled>() || op.is::<Opaque>())
}

fn value(word: &str) -> ValueId {
    ValueId(word.trim_start_matches('%').parse().expect("the number of a value"))
}

fn run_pass(words: &[&str], graph: &Graph) -> Graph {
    match words {
        ["dead_code"] => lessen_rewrite::eliminate_dead_code(graph),
        ["cse"] => lessen_rewrite::eliminate_common_subexpressions(graph),
        ["fold"] => lessen_rewrite::fold_constants(graph),
        ["lower"] => lessen_rewrite::lower(graph, &standard),
        ["write_codes"] => lessen_rewrite::write_codes(graph),
        ["sparsify"] => passes::sparsify(graph, &TARGET),
        ["mixed"] => passes::mixed(graph, &TARGET),
        ["fill_words"] => passes::fill_words(graph, &TARGET),
        ["integers"] => lessen_rewrite::eliminate_dead_code(&passes::integers(graph)),
        ["read_narrow"] => lessen_rewrite::eliminate_dead_code(&passes::read_narrow(graph, &TARGET)),
        ["materialize"] => passes::materialize(graph, &TARGET),
        ["hoist"] | ["hoist", "even"] => {
            let hoisted = passes::hoist(graph, 0, words.len() > 1);
            hoisted.map_or_else(|| graph.clone(), |hoisted| hoisted.graph)
        }
        ["recompute", values @ ..] => {
            let (values, bits) = values.split_at(values.iter().position(|w| *w == "bits").unwrap_or(values.len()));
            let named = |words: &[&str]| words.iter().map(|w| value(w)).collect::<Vec<_>>();
            passes::recompute(graph, &named(values), &named(bits.get(1..).unwrap_or_default()))
        }
        other => panic!("there is no pass {other:?}"),
    }
}

fn derivative(words: &[&str], graph: Graph) -> Graph {
    let [of, "of", wrt @ ..] = words else {
        panic!("`derivative %7 of %0 %1`")
    };
    let trace = Trace::of(graph);
    let wrt: Vec<_> = wrt.iter().map(|w| trace.tensor(value(w))).collect();
    for (i, gradient) in trace.tensor(value(of)).grad(&wrt).into_iter().enumerate() {
        trace.output(&format!("d{i}"), gradient);
    }
    lessen_rewrite::eliminate_dead_code(&trace.finish())
}

/// The result of a call on a graph, as text.
fn called(call: &str, graph: &Graph, at: &str) -> String {
    let words: Vec<&str> = call.split_whitespace().collect();
    let planned = |words: &[&str]| {
        let placement = match words {
            ["separate"] => Placement::Separate,
            [] => Placement::BackwardFused,
            other => panic!("{at}: there is no option {other:?}"),
        };
        let options = Options {
            placement,
            ..Options::default()
        };
        compile(graph, &options, &TARGET).unwrap_or_else(|e| panic!("{at}: {e}"))
    };
    match &words[..] {
        ["pass", words @ ..] => {
            let result = run_pass(words, graph);
            verify(&result).unwrap_or_else(|e| panic!("{at}: the pass returns a malformed graph: {e}"));
            if let Some(inputs) = sample_inputs(graph).filter(|_| words != ["mixed"] && words != ["integers"]) {
                let (new, old) = (evaluate(&result, &inputs), evaluate(graph, &inputs));
                assert_eq!(new, old, "{at}: other results");
            }
            print(&result)
        }
        ["schedule", words @ ..] => dump_schedule(&planned(words)),
        ["memory", words @ ..] => dump_memory(&planned(words)),
        ["derivative", words @ ..] => print(&derivative(words, graph.clone())),
        other => panic!("{at}: there is no call {other:?}"),
    }
}

/// Numbers for the inputs of a graph; none where one of them is an index, whose range the types do not tell.
fn sample_inputs(graph: &Graph) -> Option<HashMap<String, Array>> {
    let mut random = SplitMix64::new(1);
    let mut sample = |input: &lessen_graph::Input| {
        let ty = graph.ty(input.value).clone();
        let number = match ty.dtype {
            DType::U32 => Array::full(ty, 7.0),
            // Multiples of 2^-8, so that sums are exact in any order.
            _ if ty.dtype.is_float() => Array::from_fn(ty, |_| (random.below(256) + 64) as f64 / 256.0),
            _ => return None,
        };
        Some((input.name.clone(), number))
    };
    graph.inputs.iter().map(&mut sample).collect()
}

/// Checks a case. Returns it with the result in place of the expected one, and whether they differ.
fn check_case(case: &str, file: &str) -> (String, bool) {
    let (name, rest) = case.split_once('\n').expect("a name and a body");
    let at = format!("{file}, case `{}`", name.trim());
    let (call, body) = rest.split_once('\n').expect("a call and a graph");
    let (before, after) = body
        .split_once("-- becomes\n")
        .unwrap_or_else(|| panic!("{at}: `-- becomes` is missing"));
    let parsed = |text: &str| parse(text, &registry()).unwrap_or_else(|e| panic!("{at}: {e}"));
    let graph = parsed(before);
    verify(&graph).unwrap_or_else(|e| panic!("{at}: {e}"));
    let found = called(call, &graph, &at);
    assert_eq!(called(call, &graph, &at), found, "{at}: a second run differs");
    // Graphs are compared as graphs, so that values may have other numbers in the file.
    let expected = match call.split_whitespace().next() {
        Some("pass" | "derivative") if !blessing() => print(&parsed(after)),
        _ => format!("{}\n", after.trim_end()),
    };
    if found != expected && !blessing() {
        println!("{at}: found\n{found}");
    }
    (
        format!("== {name}\n{call}\n{before}-- becomes\n{found}"),
        found != expected,
    )
}

fn blessing() -> bool {
    std::env::var_os("LESSEN_BLESS").is_some()
}

#[test]
fn text_cases_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let (mut cases, mut wrong) = (0, 0);
    for path in &files {
        let file = path.file_name().unwrap().to_string_lossy().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        let mut parts = text.split("== ");
        let mut blessed = vec![parts.next().unwrap_or_default().to_string()];
        for case in parts {
            let (found, differs) = check_case(case, &file);
            blessed.push(found);
            cases += 1;
            wrong += usize::from(differs);
        }
        if blessing() {
            let head = blessed.remove(0);
            std::fs::write(path, head + &blessed.join("\n")).unwrap();
        }
    }
    assert!(
        wrong == 0 || blessing(),
        "{wrong} cases differ; LESSEN_BLESS=1 takes over what is found"
    );
    assert!(files.len() >= 9 && cases >= 30, "{} files, {cases} cases", files.len());
}

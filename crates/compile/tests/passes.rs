//! Passes as text: each file of `passes/` holds cases of a name, a pass, a graph and what the pass makes of it.
//!
//! ```text
//! == what the case shows
//! pass dead_code
//! <graph>
//! -- becomes
//! <graph>
//! ```
//!
//! `pass recompute %3 %4` names the values to recompute. The graph that a pass returns must also verify and, where the
//! case's inputs are floats, evaluate to the same results.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_compile::passes;
use lessen_graph::{
    Array, Attr, Attrs, DType, Graph, Op, Registry, Tensor, Type, ValueId, evaluate, parse, print, verify,
};

/// An operation from outside whose decomposition uses another one from outside.
#[derive(Debug)]
struct Twice;

impl Op for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>, String> {
        Ok(inputs.to_vec())
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        Some(inputs[0].trace().apply(Scaled { by: 2.0 }, inputs))
    }
}

/// An operation from outside with an attribute.
#[derive(Debug)]
struct Scaled {
    by: f64,
}

impl Op for Scaled {
    fn name(&self) -> &'static str {
        "scaled"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("by", Attr::Float(self.by))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>, String> {
        Ok(inputs.to_vec())
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        Some(vec![inputs[0] * self.by])
    }
}

/// An operation from outside without a decomposition.
#[derive(Debug)]
struct Opaque;

impl Op for Opaque {
    fn name(&self) -> &'static str {
        "opaque"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>, String> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![inputs[0].clone()]
    }
}

fn registry() -> Registry {
    let mut registry = Registry::standard();
    registry.register("twice", |_| Ok(Arc::new(Twice)));
    registry.register("scaled", |a| Ok(Arc::new(Scaled { by: a.float("by")? })));
    registry.register("opaque", |_| Ok(Arc::new(Opaque)));
    registry
}

fn run_pass(call: &str, graph: &Graph) -> Graph {
    let mut words = call.split_whitespace();
    match words.next().expect("a pass has a name") {
        "dead_code" => passes::eliminate_dead_code(graph),
        "cse" => passes::eliminate_common_subexpressions(graph),
        "fold" => passes::fold_constants(graph),
        "lower" => passes::lower(graph),
        "materialize" => passes::materialize(graph),
        "recompute" => {
            let number = |w: &str| ValueId(w.trim_start_matches('%').parse().expect("the number of a value"));
            passes::recompute(graph, &words.map(number).collect::<Vec<_>>())
        }
        other => panic!("there is no pass `{other}`"),
    }
}

/// Numbers for the inputs of a graph; none where one of them is an index, whose range the types do not tell.
fn sample_inputs(graph: &Graph) -> Option<HashMap<String, Array>> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f64 / f64::from(1 << 24) + 0.25
    };
    let sample = |input: &lessen_graph::Input| {
        let ty = graph.ty(input.value).clone();
        let number = match ty.dtype {
            DType::U32 => Array::full(ty, 7.0),
            _ if ty.dtype.is_float() => Array::from_fn(ty, |_| next()),
            _ => return None,
        };
        Some((input.name.clone(), number))
    };
    graph.inputs.iter().map(sample).collect()
}

fn check_case(case: &str, file: &str) {
    let (name, rest) = case.split_once('\n').expect("a name and a body");
    let at = format!("{file}, case `{}`", name.trim());
    let (call, body) = rest.split_once('\n').expect("a pass and graphs");
    let call = call
        .strip_prefix("pass ")
        .unwrap_or_else(|| panic!("{at}: `pass` is missing"));
    let (before, after) = body
        .split_once("-- becomes\n")
        .unwrap_or_else(|| panic!("{at}: `-- becomes` is missing"));
    let parsed = |text: &str| parse(text, &registry()).unwrap_or_else(|e| panic!("{at}: {e}"));
    let graph = parsed(before);
    verify(&graph).unwrap_or_else(|e| panic!("{at}: {e}"));
    let result = run_pass(call, &graph);
    verify(&result).unwrap_or_else(|e| panic!("{at}: the pass returns a malformed graph: {e}"));
    let (found, expected) = (print(&result), print(&parsed(after)));
    assert_eq!(found, expected, "{at}: the pass returns\n{found}");
    if let Some(inputs) = sample_inputs(&graph) {
        assert_eq!(
            evaluate(&result, &inputs),
            evaluate(&graph, &inputs),
            "{at}: other results"
        );
    }
    assert_eq!(
        print(&run_pass(call, &graph)),
        found,
        "{at}: a second run of the pass differs"
    );
}

#[test]
fn passes_do_what_the_text_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut cases = 0;
    for path in &files {
        let file = path.file_name().unwrap().to_string_lossy().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        let text: String = text
            .lines()
            .filter(|l| !l.starts_with('#'))
            .map(|l| format!("{l}\n"))
            .collect();
        for case in text.split("== ").skip(1) {
            check_case(case, &file);
            cases += 1;
        }
    }
    assert!(
        files.len() >= 6 && cases >= 20,
        "{} files with {cases} cases",
        files.len()
    );
}

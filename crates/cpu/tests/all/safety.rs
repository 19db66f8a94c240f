//! Whatever operations and targets from outside answer, a plan runs within its memory or is refused.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lessen_base::Result;
use lessen_compile::{
    CostModel, KernelKind, Limits, Lowering, Plan, Reads, RowBlocks, RowGroup, Scratch, Target, compile,
};
use lessen_cpu::{CpuBackend, CpuTarget, Device, Executable, Store};
use lessen_device::suite::samples;
use lessen_device::{Backend, Host};
use lessen_graph::ops::{AttentionOptions, attention};
use lessen_graph::{
    Array, DType, Fold, Graph, IndexInput, Layout, Op, OutRole, Role, RowWise, Tensor, Trace, Type, evaluate,
};

use crate::plans::runner;
use crate::random::Random;

/// An answer of a target from outside that differs from the answer of the CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    EveryKernelByRows,
    EveryKernelWhole,
    EveryLayout,
    NoScratch,
    BlocksOf(usize, usize),
    OneWorker,
}

/// A CPU that lies about itself.
struct Liar(Lie);

const HONEST: CpuTarget = CpuTarget { threads: 2 };

impl Target for Liar {
    fn limits(&self) -> Limits {
        Limits {
            workers: if self.0 == Lie::OneWorker {
                1
            } else {
                HONEST.limits().workers
            },
            slice_rows: usize::MAX,
            cache_bytes: 0,
            ..HONEST.limits()
        }
    }

    fn supports(&self, op: &dyn Op) -> bool {
        HONEST.supports(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        let honest = Lowering {
            cut: 0,
            adds_slices: false,
            ..Lowering::clone(&HONEST.lower(op, inputs, outputs))
        };
        Arc::new(match self.0 {
            Lie::EveryKernelByRows => Lowering {
                kind: KernelKind::Rows { tiled: false },
                ..honest
            },
            Lie::EveryKernelWhole => Lowering {
                kind: KernelKind::Whole,
                ..honest
            },
            Lie::EveryLayout => Lowering {
                reads: vec![Reads::Any; inputs.len()],
                ..honest
            },
            Lie::NoScratch => Lowering {
                scratch: Scratch::default(),
                ..honest
            },
            _ => honest,
        })
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        match self.0 {
            Lie::BlocksOf(block, tile) => RowBlocks { block, tile },
            _ => HONEST.blocks(group),
        }
    }

    fn costs(&self) -> &dyn CostModel {
        self
    }
}

impl CostModel for Liar {}

/// Views of many kinds, products, sums over rows, attention and a gather.
fn program() -> (Graph, HashMap<String, Array>) {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[150, 24]);
    let w = trace.input("w", DType::F32, &[24, 24]);
    let ids = trace.input("ids", DType::I32, &[150, 2]);
    let y = x.matmul(w.transpose(0, 1)).gelu();
    let heads = y.reshape(&[10, 15, 3, 8]);
    let o = attention(
        heads,
        heads.transpose(1, 2).transpose(1, 2),
        heads,
        AttentionOptions::default(),
    );
    let loss = (o.reshape(&[150, 24]) + y.slice(1, 0, 12).concat_self()).layer_norm_plain();
    let second = ids.slice(1, 1, 1).reshape(&[150]);
    trace.output("rows", w.gather(second));
    trace.output("gradient", loss.sum().grad(&[w])[0]);
    trace.output("columns", loss.sum_rows());
    trace.output("largest", loss.max_axes(&[0]));
    let mut random = Random::new(3);
    let inputs = HashMap::from([
        ("x".to_string(), random.array(&[150, 24], 1.0)),
        ("w".to_string(), random.array(&[24, 24], 1.0)),
        ("ids".to_string(), random.ids(&[150, 2], 24)),
    ]);
    (trace.finish(), inputs)
}

trait Shorthand {
    fn concat_self(self) -> Self;
    fn layer_norm_plain(self) -> Self;
}

impl Shorthand for Tensor {
    fn concat_self(self) -> Self {
        lessen_graph::ops::concat::concat(&[self, self], 1)
    }

    fn layer_norm_plain(self) -> Self {
        let ones = self.trace().full(DType::F32, &[self.dim(-1)], 1.0);
        self.layer_norm(ones, ones, 1e-5)
    }
}

/// Loads and runs a plan; none where it is refused by an error or a panic.
fn results(plan: impl FnOnce() -> Result<Plan>, inputs: &HashMap<String, Array>) -> Option<HashMap<String, Vec<f32>>> {
    let attempt = catch_unwind(AssertUnwindSafe(|| -> Result<_> {
        let mut executable = Executable::new(plan()?)?;
        let mut device = Device::new(executable.plan().workers())?;
        let mut store = runner::store(executable.plan().graph(), inputs);
        runner::run(&mut executable, &mut device, &mut store, inputs)?;
        Ok(runner::results(&executable, &store))
    }));
    attempt.ok()?.ok()
}

#[test]
fn a_plan_for_a_target_that_lies_is_refused_or_runs_as_it_should() {
    let (graph, inputs) = program();
    let options = lessen_compile::Options::default();
    let expected = results(|| compile(&graph, &options, &HONEST), &inputs).expect("the honest plan runs");
    let mut refused = Vec::new();
    for lie in [
        Lie::EveryKernelByRows,
        Lie::EveryKernelWhole,
        Lie::EveryLayout,
        Lie::NoScratch,
        Lie::BlocksOf(0, 0),
        Lie::BlocksOf(1, 1),
        Lie::BlocksOf(7, 16),
        Lie::BlocksOf(150, 128),
        Lie::BlocksOf(usize::MAX, usize::MAX),
        Lie::OneWorker,
    ] {
        match results(|| compile(&graph, &options, &Liar(lie)), &inputs) {
            None => refused.push(lie),
            Some(found) => {
                for (name, values) in &expected {
                    let pairs = values.iter().zip(&found[name]);
                    let near = pairs.clone().all(|(a, b)| (a - b).abs() < 1e-3 * a.abs().max(1.0));
                    assert!(near && values.len() == found[name].len(), "{lie:?}: `{name}`");
                }
            }
        }
    }
    for lie in [
        Lie::EveryKernelByRows,
        Lie::EveryKernelWhole,
        Lie::EveryLayout,
        Lie::NoScratch,
        Lie::BlocksOf(7, 16),
    ] {
        assert!(refused.contains(&lie), "{lie:?} is not refused, but {refused:?} are");
    }
}

/// An operation from outside that gives `wrong` answers.
#[derive(PartialEq, Debug)]
struct Dishonest {
    wrong: Wrong,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    RowWise,
    Elementwise,
    ViewBeyond,
    ViewOfAnotherRank,
    ViewOfAnotherDType,
    TooFewViews,
    InPlace,
    TooFewResults,
    ShortResults,
    IndexInputBeyond,
    IndicesAreFloats,
    Folds,
}

impl Op for Dishonest {
    fn name(&self) -> &'static str {
        "test.dishonest"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let dtype = match self.wrong {
            Wrong::ViewOfAnotherDType => DType::F64,
            _ => DType::F32,
        };
        Ok(vec![Type::new(dtype, &inputs[0].shape); 2])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let full = |ty: &Type| Array::full(ty.clone(), inputs[0].data[0]);
        match self.wrong {
            Wrong::TooFewResults => vec![full(&outputs[0])],
            Wrong::ShortResults => vec![Array::full(Type::f32(&[1]), 1.0); 2],
            _ => outputs.iter().map(full).collect(),
        }
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        match self.wrong {
            Wrong::Elementwise => RowWise::Elementwise,
            Wrong::RowWise => RowWise::Rows {
                rows: 1 << 40,
                inputs: vec![Role::Rows; inputs.len() + 3],
                outputs: vec![OutRole::Sum],
            },
            _ => RowWise::No,
        }
    }

    fn view(&self, input: &Layout, _: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        let (offset, strides) = match self.wrong {
            Wrong::ViewBeyond => (input.offset + (1 << 30), input.strides.clone()),
            Wrong::ViewOfAnotherRank => (0, vec![1; 5]),
            Wrong::ViewOfAnotherDType => (0, input.strides.clone()),
            Wrong::TooFewViews => return Some(vec![input.clone()]),
            _ => return None,
        };
        Some(vec![Layout { offset, strides }; 2])
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        if self.wrong == Wrong::Folds {
            Fold::Input(0)
        } else {
            Fold::No
        }
    }

    fn in_place(&self, _: usize, _: usize, _: &[Type], _: &[Type]) -> bool {
        self.wrong == Wrong::InPlace
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        let input = match self.wrong {
            Wrong::IndexInputBeyond => 7,
            Wrong::IndicesAreFloats => 0,
            _ => return None,
        };
        Some(IndexInput {
            input,
            limit: 3,
            ignored: None,
        })
    }
}

#[test]
fn an_operation_that_lies_is_refused_or_gives_results_of_the_right_size() {
    let outcomes = [
        (Wrong::RowWise, true, None),
        (Wrong::Elementwise, true, None),
        (Wrong::ViewBeyond, false, Some("view")),
        (Wrong::ViewOfAnotherRank, false, Some("view")),
        (Wrong::ViewOfAnotherDType, false, Some("view")),
        (Wrong::TooFewViews, false, Some("view")),
        (Wrong::InPlace, true, None),
        (Wrong::TooFewResults, false, None),
        (Wrong::ShortResults, false, None),
        (Wrong::IndexInputBeyond, false, Some("index_input")),
        (Wrong::IndicesAreFloats, false, Some("index_input")),
        (Wrong::Folds, false, Some("fold")),
    ];
    for (wrong, runs, hook) in outcomes {
        let mut random = Random::new(1);
        let inputs = HashMap::from([("x".to_string(), random.array(&[130, 9], 1.0))]);
        let plan = || {
            let trace = Trace::new();
            let x = trace.input("x", DType::F32, &[130, 9]);
            let both = trace.apply(Dishonest { wrong }, &[x * 2.0]);
            for (name, y) in ["a", "b"].into_iter().zip(both) {
                trace.output(name, y.cast(DType::F32) + 1.0);
            }
            compile(&trace.finish(), &lessen_compile::Options::default(), &HONEST)
        };
        if let Some(hook) = hook {
            let error = plan().map(|_| ()).unwrap_err();
            let sentence = format!("`test.dishonest` breaks the contract of `{hook}`");
            assert!(error.message().contains(&sentence), "{wrong:?}: {error}");
        }
        let found = results(plan, &inputs);
        assert_eq!(found.is_some(), runs, "{wrong:?}");
        if let Some(found) = found {
            assert!(found.values().all(|values| values.len() == 130 * 9), "{wrong:?}");
        }
    }
}

/// An operation from outside that returns its second input, which is larger than its result.
#[derive(PartialEq, Debug)]
struct Enlarging;

impl Op for Enlarging {
    fn name(&self) -> &'static str {
        "test.enlarging"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![inputs[0].clone()]
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        Fold::Input(1)
    }
}

#[test]
fn a_result_that_folds_to_a_larger_input_is_refused_before_anything_is_planned() {
    let trace = Trace::new();
    let (small, large) = (
        trace.input("small", DType::F32, &[8]),
        trace.input("large", DType::F32, &[4 << 20]),
    );
    trace.output("y", trace.apply1(Enlarging, &[small, large]));
    let error = compile(&trace.finish(), &lessen_compile::Options::default(), &HONEST).map(|_| ());
    let error = error.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let begin = "the operation `test.enlarging` breaks the contract of `fold`: it returns an input f32[4194304]";
    assert!(error.message().starts_with(begin), "{error}");
}

#[test]
fn a_plan_without_a_copy_of_what_a_kernel_cannot_read_is_refused() {
    let (mut refused, mut loaded) = (0, 0);
    for sample in samples() {
        let inputs = sample.inputs.iter();
        let types: Vec<Type> = inputs
            .map(|(own, shape)| Type::new(own.unwrap_or(DType::F32), shape))
            .collect();
        let Ok(outputs) = sample.op.infer(&types) else {
            continue;
        };
        let honest = HONEST.lower(sample.op.as_ref(), &types, &outputs);
        for reversed in (0..types.len()).filter(|&i| types[i].rank() > 1) {
            let trace = Trace::new();
            let inputs = types.iter().enumerate().map(|(i, ty)| {
                let name = format!("x{i}");
                if i != reversed {
                    return trace.input(&name, ty.dtype, &ty.shape);
                }
                let back: Vec<usize> = (0..ty.rank()).rev().collect();
                let shape: Vec<usize> = back.iter().map(|&axis| ty.shape[axis]).collect();
                trace.input(&name, ty.dtype, &shape).permute(&back)
            });
            let inputs: Vec<_> = inputs.collect();
            for (k, y) in trace.apply_shared(sample.op.clone(), &inputs).into_iter().enumerate() {
                trace.output(&format!("y{k}"), y);
            }
            let graph = trace.finish();
            let options = lessen_compile::Options::default();
            let plan = compile(&graph, &options, &Liar(Lie::EveryLayout)).unwrap();
            let reads_all = plan.steps().iter().flat_map(|step| &step.nodes).all(|id| {
                let node = &plan.graph().nodes[id.index()];
                let types = plan.graph().input_types(node);
                let lowering = HONEST.lower(node.op.as_ref(), &types, &plan.graph().output_types(node));
                let mut inputs = node.inputs.iter().zip(&types).enumerate();
                inputs.all(|(i, (&v, ty))| lowering.accepts(i, &ty.shape, &plan.place(v).layout))
            });
            let loads = Executable::new(plan).is_ok();
            let is_reference = honest.kind == KernelKind::Reference;
            assert_eq!(loads, reads_all || is_reference, "{:?}: input {reversed}", sample.op);
            if loads { loaded += 1 } else { refused += 1 }
        }
    }
    assert!(
        loaded > 50 && refused > 50,
        "{loaded} plans are loaded, {refused} are not"
    );
}

#[test]
fn a_product_on_packed_panels_keeps_to_its_memory_whatever_its_tiles() {
    for rows in [300, 700] {
        let trace = Trace::new();
        let x = trace.input("x", DType::F32, &[rows, 128]);
        let w = trace.input("w", DType::F32, &[128, 128]);
        trace.output("y", x.matmul(w).gelu().matmul(w));
        let graph = trace.finish();
        let mut random = Random::new(5);
        let inputs = HashMap::from([
            ("x".to_string(), random.array(&[rows, 128], 1.0)),
            ("w".to_string(), random.array(&[128, 128], 0.1)),
        ]);
        let expected = evaluate(&graph, &inputs).unwrap();
        for (block, tile) in [(rows, rows), (100, 100), (320, 320), (32, 16), (usize::MAX, 64)] {
            let liar = Liar(Lie::BlocksOf(block, tile));
            let plan = || compile(&graph, &lessen_compile::Options::default(), &liar);
            let found = results(plan, &inputs).unwrap_or_else(|| panic!("tiles of {tile} rows are refused"));
            for (f, e) in found["y"].iter().zip(&expected["y"].data) {
                assert!(
                    (f64::from(*f) - e).abs() < 1e-4,
                    "{rows} rows in tiles of {tile}: {f}, not {e}"
                );
            }
        }
    }
}

#[test]
fn the_program_of_these_tests_computes_what_the_reference_does() {
    let (graph, inputs) = program();
    let options = lessen_compile::Options::default();
    let found = results(|| compile(&graph, &options, &HONEST), &inputs).unwrap();
    for (name, array) in evaluate(&graph, &inputs).unwrap() {
        for (f, e) in found[&name].iter().zip(&array.data) {
            assert!(
                (f64::from(*f) - e).abs() < 1e-3 * e.abs().max(1.0),
                "`{name}`: {f}, not {e}"
            );
        }
    }
}

#[test]
fn a_state_whose_size_cannot_be_counted_is_an_error() {
    for shape in [
        &[1usize << 62][..],
        &[1 << 40, 1 << 40],
        &[usize::MAX, 2],
        &[1 << 54, 1],
    ] {
        let mut store = Store::new();
        let ty = Type::f32(shape);
        let error = store.insert_zeros("w", &ty).unwrap_err();
        assert!(error.to_string().contains("`w`"), "{error}");
        assert!(!store.contains("w"), "{ty}");
        let mut cpu = CpuBackend::new(1).unwrap();
        let model = cpu.add_model();
        assert_eq!(cpu.allocate(model, "w", &ty).unwrap_err().exit_code(), 2);
        assert!(cpu.upload_part(model, "w", 0, Host::F32(&[1.0])).is_err());
    }
    let mut cpu = CpuBackend::new(1).unwrap();
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
        assert!(cpu.reserve(bytes).is_err(), "an arena of {bytes} bytes");
    }
}

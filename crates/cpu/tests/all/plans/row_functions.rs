//! Operations from outside that bring a kernel of rows in safe Rust.

use std::collections::HashMap;

use lessen_compile::KernelKind;
use lessen_cpu::{CpuBackend, Device, Executable};
use lessen_device::suite::{Sample, check_operation};
use lessen_graph::{
    Array, DType, Graph, IndexInput, Op, OutRole, Role, RowKernel, RowWise, Tensor, Trace, Type, evaluate,
};

use crate::plans::runner::{self, Options, compile};
use crate::random::Random;

/// How an operation says other things of itself than are so.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    Nothing,
    /// The kernel computes something else.
    Kernel,
    /// Results may overwrite inputs.
    InPlace,
}

/// `y[r, j] = x[r, j] w[j] + x[r, ids[r]]`, and the sum of all rows of `x`.
#[derive(Clone, PartialEq, Debug)]
struct Picked(Wrong);

impl Op for Picked {
    fn name(&self) -> &'static str {
        "test.picked"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(vec![inputs[0].clone(), inputs[1].clone()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [x, w, ids] = [inputs[0], inputs[1], inputs[2]];
        Some(vec![x * w + x.take_along(-1, ids.unsqueeze(-1)), x.sum_rows()])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let roles = [Role::Rows, Role::Whole, Role::Rows];
        RowWise::by_rows(inputs[2].numel(), &roles, &[OutRole::Rows, OutRole::Sum])
    }

    fn in_place(&self, input: usize, output: usize, _: &[Type], _: &[Type]) -> bool {
        self.0 == Wrong::InPlace && input == output
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 2,
            limit: inputs[0].last(),
            ignored: None,
        })
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let more = if self.0 == Wrong::Kernel { 1e-3 } else { 0.0 };
        Some(RowKernel::new(move |inputs, outputs| {
            let (x, w, id) = (inputs[0].f32(), inputs[1].f32(), inputs[2].i32()[0]);
            let picked = x.get(id as usize).copied().unwrap_or(f32::NAN) + more;
            let (y, sums) = outputs.split_at_mut(1);
            for ((y, x), w) in y[0].f32().iter_mut().zip(x).zip(w) {
                *y = x * w + picked;
            }
            sums[0].f32().iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        }))
    }
}

fn sample(op: Picked) -> impl Fn(usize, usize) -> Sample {
    move |rows, columns| {
        let types = [
            Type::f32(&[rows, columns]),
            Type::f32(&[columns]),
            Type::new(DType::I32, &[rows]),
        ];
        Sample::new(op.clone(), &types)
    }
}

fn check(wrong: Wrong) -> Result<(), String> {
    check_operation(
        &|workers| Box::new(CpuBackend::new(workers).unwrap()),
        4,
        &sample(Picked(wrong)),
    )
}

#[test]
fn a_kernel_of_rows_computes_what_the_decomposition_does() {
    for wrong in [Wrong::Nothing, Wrong::InPlace] {
        check(wrong).unwrap_or_else(|sentence| panic!("{wrong:?}: {sentence}"));
    }
}

#[test]
fn a_wrong_kernel_of_rows_is_found_with_the_seed_of_its_inputs() {
    let sentence = check(Wrong::Kernel).unwrap_err();
    assert!(
        sentence.contains("seed 4") && sentence.contains("test.picked"),
        "{sentence}"
    );
}

/// The operation twice, with a gradient; the ids are computed.
fn graph([rows, columns]: [usize; 2]) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[rows, columns]);
    let w = trace.input("w", DType::F32, &[columns]);
    let ids = trace.input("ids", DType::I32, &[rows]) + trace.full(DType::I32, &[rows], 1.0);
    let both = trace.apply(Picked(Wrong::Nothing), &[x.tanh(), w, ids]);
    let again = trace.apply(Picked(Wrong::Nothing), &[both[0], w, ids]);
    let loss = again[0].sum() + (again[1] * both[1]).sum();
    trace.output("y", again[0]);
    trace.output("sum", again[1]);
    trace.output("gradient", loss.grad(&[w])[0]);
    trace.finish()
}

fn inputs(graph: &Graph, random: &mut Random, first: f64) -> HashMap<String, Array> {
    let inputs = graph.inputs.iter().map(|input| {
        let ty = graph.ty(input.value);
        let array = match ty.dtype {
            DType::I32 => Array::from_fn(ty.clone(), |i| if i[0] == 0 { first } else { (i[0] % 3) as f64 }),
            _ => random.array(&ty.shape, 1.0),
        };
        (input.name.clone(), array)
    });
    inputs.collect()
}

#[test]
fn it_runs_in_a_program_and_threads_change_no_bit() {
    let graph = graph([300, 70]);
    let inputs = inputs(&graph, &mut Random::new(5), 0.0);
    let expected = evaluate(&graph, &inputs).unwrap();
    let mut bits = Vec::new();
    for threads in [1, 2, 3] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let plan = compile(&graph, &options).unwrap();
        let names: Vec<&str> = plan.graph().nodes.iter().map(|node| node.op.name()).collect();
        assert!(
            names.contains(&"test.picked") && plan.reference_nodes().is_empty(),
            "{names:?}"
        );
        let mut executable = Executable::load(plan);
        let (mut device, mut store) = (Device::new(threads).unwrap(), runner::store(&graph, &inputs));
        runner::run(&mut executable, &mut device, &mut store, &inputs).unwrap();
        let found = runner::results(&executable, &store);
        for (name, array) in &expected {
            let largest = array.data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
            for (f, e) in found[name].iter().zip(&array.data) {
                assert!((f64::from(*f) - e).abs() < 1e-5 * largest, "`{name}`: {f}, not {e}");
            }
        }
        bits.push(["y", "sum", "gradient"].map(|name| found[name].iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
    }
    assert!(bits.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_computed_index_that_is_not_valid_ends_the_run_with_its_number() {
    let graph = graph([5, 7]);
    for (first, wrong) in [(6.0, Some("index 7")), (-2.0, Some("index -1")), (5.0, None)] {
        let inputs = inputs(&graph, &mut Random::new(6), first);
        let mut executable = Executable::load(compile(&graph, &Options::default()).unwrap());
        let (mut device, mut store) = (Device::new(1).unwrap(), runner::store(&graph, &inputs));
        let run = runner::run(&mut executable, &mut device, &mut store, &inputs);
        match (run, wrong) {
            (Ok(()), None) => {}
            (Err(error), Some(wrong)) => {
                let error = error.to_string();
                assert!(error.contains(wrong) && error.contains("below 7"), "{error}");
            }
            (run, _) => panic!("{first}: {run:?}"),
        }
    }
}

#[test]
fn types_that_no_kernel_of_rows_takes_are_evaluated_on_the_host() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]).cast(DType::F64);
    let w = trace.full(DType::F64, &[3], 0.1);
    let ids = trace.input("ids", DType::I32, &[2]);
    let both = trace.apply(Picked(Wrong::Nothing), &[x, w, ids]);
    trace.output("y", both[0].cast(DType::F32));
    let graph = trace.finish();
    let plan = compile(&graph, &Options::default()).unwrap();
    let node = plan.graph().nodes.iter().find(|node| node.op.name() == "test.picked");
    let node = node.expect("the operation itself");
    let (from, to) = (plan.graph().input_types(node), plan.graph().output_types(node));
    let target = lessen_cpu::CpuTarget { threads: 1 };
    let kind = lessen_compile::Target::lower(&target, node.op.as_ref(), &from, &to).kind;
    assert_eq!(kind, KernelKind::Reference);
    let inputs = inputs(&graph, &mut Random::new(7), 2.0);
    let mut executable = Executable::load(plan);
    let (mut device, mut store) = (Device::new(1).unwrap(), runner::store(&graph, &inputs));
    runner::run(&mut executable, &mut device, &mut store, &inputs).unwrap();
    let found = runner::results(&executable, &store);
    let expected = evaluate(&graph, &inputs).unwrap();
    let expected: Vec<f32> = expected["y"].data.iter().map(|x| *x as f32).collect();
    assert_eq!(found["y"], expected);
}

//! Work is cut into tasks: enough for all threads, and no more than it is worth.

use lessen_compile::{Options, compile};
use lessen_cpu::CpuTarget;
use lessen_cpu::test_entries::{tasks_of_steps, transpose_bits};
use lessen_graph::{DType, Tensor, Trace, TraceRef};

const THREADS: usize = 4;

/// Greatest number of tasks of each step of a program.
fn tasks(program: impl Fn(TraceRef) -> Tensor) -> Vec<usize> {
    let trace = Trace::new();
    trace.output("y", program(*trace));
    let plan = compile(&trace.finish(), &Options::default(), &CpuTarget { threads: THREADS }).unwrap();
    tasks_of_steps(&plan, THREADS).unwrap()
}

#[test]
fn work_of_few_rows_is_cut_into_tasks_for_all_threads() {
    let product = |rows: usize| {
        tasks(move |trace| {
            let x = trace.input("x", DType::F32, &[rows, 768]);
            x.matmul(trace.input("w", DType::F32, &[768, 3072]))
        })
    };
    for rows in [1, 2, 8] {
        assert_eq!(product(rows)[0], THREADS, "{rows} rows");
    }
    for rows in [9, 100, 128] {
        let product = product(rows);
        assert!(product[0] >= 12, "{rows} rows: {product:?}");
    }
    let vector = tasks(|trace| trace.input("x", DType::F32, &[200_000]).gelu());
    assert!(vector[0] >= 12, "{vector:?}");
    let sums = tasks(|trace| trace.input("x", DType::F32, &[100, 4096]).sum_rows());
    assert!(sums[0] >= 12, "{sums:?}");
    let table = tasks(|trace| {
        let ids = trace.input("ids", DType::I32, &[64]);
        trace.input("x", DType::F32, &[64, 768]).scatter_add(ids, 1000)
    });
    assert!(table[0] >= 12, "{table:?}");
    for axes in [&[0][..], &[0, 1, 2], &[1], &[0, 2]] {
        let largest = tasks(|trace| trace.input("x", DType::F32, &[40, 50, 400]).max_axes(axes));
        assert!(largest[0] >= 4, "{axes:?}: {largest:?}");
    }
}

#[test]
fn little_work_is_one_task() {
    let little = tasks(|trace| {
        let x = trace.input("x", DType::F32, &[3, 50]);
        x.matmul(trace.input("w", DType::F32, &[50, 70])).gelu()
    });
    assert_eq!(little, [1]);
}

#[test]
fn bits_are_transposed() {
    let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i << 40);
    let before: [u64; 64] = std::array::from_fn(|i| word(i as u64 + 1));
    let mut after = before;
    transpose_bits(&mut after);
    for (i, before) in before.iter().enumerate() {
        for (j, after) in after.iter().enumerate() {
            assert_eq!(before >> j & 1, after >> i & 1, "bit {j} of word {i}");
        }
    }
}

//! The time to move bytes between memory and caches, and the time to begin a step.

use std::time::{Duration, Instant};

use lessen_base::Result;
use lessen_compile::{MeasuredMemory, Operation};
use lessen_graph::{DType, NodeId, Trace};

use super::measuring::{seconds, time};
use crate::device::Device;

/// The most bytes that memory is measured with: more than caches hold.
const MOST_BYTES: usize = 128 << 20;

/// The least bytes that tell memory from the caches that threads have for themselves.
const LEAST_BYTES: usize = 4 << 20;

/// Columns of the matrix that is read and written.
const COLUMNS: usize = 1024;

/// The work of each thread in a step whose begin is measured; so much is added where a thread is not there in time.
const WORK: Duration = Duration::from_micros(2);

/// Times that a step is begun.
const BEGINS: usize = 400;

/// The bytes that memory is measured with where `memory` bytes may be taken.
pub(super) fn bytes(memory: usize) -> usize {
    memory.clamp(LEAST_BYTES, MOST_BYTES)
}

/// Measures memory with `bytes` bytes: how much longer an operation that reads one matrix and writes another takes in
/// memory than in a cache.
pub(super) fn measure(device: &mut Device, bytes: usize) -> Result<MeasuredMemory> {
    let step_overhead_seconds = step_overhead(device);
    let trace = Trace::new();
    let rows = bytes / 2 / (COLUMNS * size_of::<f32>());
    trace.output("y", -trace.input("x", DType::F32, &[rows, COLUMNS]));
    let graph = trace.finish();
    let operation = Operation::of(&graph, NodeId(graph.nodes.len() as u32 - 1));
    let in_memory = seconds(device, operation.graph.clone(), (usize::MAX, 0))?.unwrap_or(0.0) - step_overhead_seconds;
    let in_cache = time(device, &operation, step_overhead_seconds, usize::MAX)?;
    let in_cache = in_cache.map_or(0.0, |time| time.each * (rows * COLUMNS) as f64);
    // The cache first reads the bytes that are written.
    let moved = 3 * bytes / 2;
    Ok(MeasuredMemory {
        rate: moved as f64 / (in_memory - in_cache).max(0.1 * in_memory).max(1e-9),
        step_overhead_seconds,
    })
}

/// Seconds that a step takes besides its work: how much longer all threads take for a little work than one does. It is
/// a low one of many measured times, since other programs may hold a thread up.
fn step_overhead(device: &Device) -> f64 {
    let threads = device.threads();
    let one = |_| {
        let start = Instant::now();
        device.pool.run(threads, &|_, _| work());
        start.elapsed().as_secs_f64()
    };
    let mut seconds: Vec<f64> = (0..BEGINS).map(one).collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[BEGINS / 4] - WORK.as_secs_f64()).max(0.0)
}

/// Some work of a thread.
fn work() {
    let start = Instant::now();
    while start.elapsed() < WORK {
        std::hint::spin_loop();
    }
}

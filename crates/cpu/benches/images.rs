//! Time of an operation on images: `cargo bench -p lessen-cpu --bench images -- op=conv2d channels=96 groups=96`.
//!
//! Settings are `key=value`: `op` (`conv2d`, `grad_input`, `grad_weight`, `max_pool`, `max_scatter`, `average`,
//! `bilinear`, `moments`, `copy`), `images`, `height` (and width), `channels`, `out`, `groups`, `kernel`, `stride`,
//! `threads`, `repeats`. One JSON object is printed: the least time, the bytes of operands and result per second, and
//! the rate of the products.

use std::time::Instant;

use lessen_compile::{Options, compile};
use lessen_cpu::{Device, Executable, Store};
use lessen_graph::ops::{
    Conv2d, Conv2dGradInput, Conv2dGradWeight, Conv2dOptions, MaxPool2d, MaxPool2dScatter, Pool2d,
};
use lessen_graph::{DType, InputKind, Op, Tensor, Trace, TraceRef, Type};

/// The value of a setting.
fn setting(key: &str, default: &str) -> String {
    let found = std::env::args().find_map(|arg| arg.strip_prefix(&format!("{key}=")).map(str::to_string));
    found.unwrap_or(default.to_string())
}

fn number(key: &str, default: usize) -> usize {
    let text = setting(key, &default.to_string());
    text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number"))
}

/// The result of the operation on states.
fn operation(trace: TraceRef) -> Tensor {
    let (size, channels, kernel) = (number("height", 56), number("channels", 96), number("kernel", 3));
    let (out, stride) = (number("out", channels), number("stride", 1));
    let x = [number("images", 16), size, size, channels];
    let options = Conv2dOptions {
        stride: [stride; 2],
        padding: [(kernel - 1) / 2; 4],
        groups: number("groups", 1),
        ..Conv2dOptions::default()
    };
    let windows = Pool2d {
        kernel: [kernel; 2],
        stride: options.stride,
        padding: options.padding,
    };
    let weight = [out, channels / options.groups, kernel, kernel];
    let state = |name: &str, shape: &[usize]| trace.state(name, DType::F32, shape);
    let image = || state("x", &x);
    let shape = |op: &dyn Op, inputs: &[&[usize]]| {
        let types: Vec<Type> = inputs.iter().map(|shape| Type::f32(shape)).collect();
        op.infer(&types).expect("sizes that fit").remove(0).shape
    };
    let conv2d = Conv2d { options };
    match setting("op", "conv2d").as_str() {
        "conv2d" => trace.apply1(conv2d, &[image(), state("weight", &weight)]),
        "grad_input" => {
            let dy = state("dy", &shape(&conv2d, &[&x, &weight]));
            let op = Conv2dGradInput {
                options,
                size: [size; 2],
            };
            trace.apply1(op, &[dy, state("weight", &weight)])
        }
        "grad_weight" => {
            let dy = state("dy", &shape(&conv2d, &[&x, &weight]));
            let op = Conv2dGradWeight {
                options,
                kernel: [kernel; 2],
            };
            trace.apply1(op, &[image(), dy])
        }
        "max_pool" => image().max_pool2d(windows),
        "max_scatter" => {
            let y = shape(&MaxPool2d { windows }, &[&x]);
            let op = MaxPool2dScatter {
                windows,
                size: [size; 2],
            };
            let taps = trace.state("taps", DType::I32, &y);
            trace.apply1(op, &[state("dy", &y), taps])
        }
        "average" => image().avg_pool2d(windows, false),
        "bilinear" => image().resize_bilinear([2 * size; 2]),
        "moments" => image().flatten_rows().moments()[1],
        "copy" => image() + 1.0,
        other => panic!("there is no operation `{other}`"),
    }
}

fn main() {
    let trace = Trace::new();
    let result = operation(*trace);
    let ty = result.ty();
    trace.assign(trace.state("result", DType::F32, &ty.shape), result);
    let graph = trace.finish();
    let mut device = match number("threads", 0) {
        0 => Device::from_env(),
        threads => Device::new(threads),
    }
    .expect("a device");
    let node = &graph.nodes[graph.nodes.len() - 1];
    let cost = node.op.cost(&graph.input_types(node), &graph.output_types(node));
    let plan = compile(&graph, &Options::default(), &device.target()).expect("a plan");
    let mut store = Store::new();
    let mut bytes = 0;
    for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
        let ty = graph.ty(input.value);
        bytes += ty.bytes();
        let values: Vec<f32> = (0..ty.numel()).map(|i| (i % 97) as f32 / 50.0 - 1.0).collect();
        match ty.dtype {
            DType::I32 => store.insert_zeros(&input.name, ty).expect("memory"),
            _ => store.insert_f32(&input.name, &ty.shape, &values),
        }
    }
    let mut program = Executable::new(plan).expect("a program");
    let mut run = || {
        let start = Instant::now();
        program.run(&mut device, &mut store, &[]).expect("a run");
        start.elapsed().as_secs_f64()
    };
    let best = (0..number("repeats", 20)).map(|_| run()).fold(f64::MAX, f64::min);
    println!(
        "{{\"ms\": {:.4}, \"gb_per_s\": {:.2}, \"gflops\": {:.1}}}",
        best * 1e3,
        bytes as f64 / best * 1e-9,
        cost.product_flops / best * 1e-9
    );
}

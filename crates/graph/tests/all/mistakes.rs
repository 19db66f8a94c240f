//! A programmer's mistakes panic at the programmer's line with a sentence in the programmer's terms.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use lessen_graph::ops::{Conv2dOptions, Pool2d};
use lessen_graph::{
    Array, AttentionOptions, DType, Tensor, Trace, TraceRef, Type, ValueId, attention, clip_coefficient, concat,
    global_norm, vjp,
};

/// Runs `f` and returns the message and the place of its panic. The hook is the process's, so one test uses
/// it.
fn panic_of(f: impl FnOnce()) -> (String, String) {
    let place = Arc::new(Mutex::new(String::new()));
    let seen = place.clone();
    let before = std::panic::take_hook();
    let thread = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == thread {
            *seen.lock().unwrap() = info.location().map(|l| l.file().to_string()).unwrap_or_default();
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(f));
    std::panic::set_hook(before);
    let payload = result.expect_err("must panic");
    let message = payload.downcast_ref::<String>().cloned();
    let message = message.or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string()));
    (message.unwrap_or_default(), place.lock().unwrap().clone())
}

/// Ends a mistake, so that its result counts as used.
fn made<T>(_: T) {}

/// An image of one row, two pixels and three channels.
fn image(x: Tensor) -> Tensor {
    x.reshape(&[1, 1, 2, 3])
}

type Mistake = fn(TraceRef, Tensor);

/// Mistakes with an input `x` of `f32[2,3]`, and their sentences.
const MISTAKES: &[(Mistake, &str)] = &[
    (
        |t, x| made(x + t.full(DType::F32, &[2], 0.0)),
        "the shapes [2, 3] and [2] do not broadcast to a common one",
    ),
    (
        |t, x| made(x + t.full(DType::F64, &[3], 0.0)),
        "binary: f32[2,3] and f64[2,3] differ",
    ),
    (
        |_, x| made(x.matmul(x)),
        "matmul: the inner extents of f32[2,3] and f32[2,3] differ: 3 and 2",
    ),
    (
        |_, x| made(x.sum_axes(&[2])),
        "reduce: the axes [2] are not ascending axes of f32[2,3]",
    ),
    (
        |_, x| made(x.reshape(&[7])),
        "reshape: f32[2,3] has not the size of the shape [7]",
    ),
    (
        |_, x| made(x.broadcast_to(&[2, 4])),
        "broadcast: f32[2,3] does not broadcast to the shape [2, 4]",
    ),
    (
        |_, x| made(x.permute(&[0, 0])),
        "permute: [0, 0] is not an order of the axes of f32[2,3]",
    ),
    (|_, x| made(x.transpose(0, 2)), "axis 2 of a tensor of type f32[2,3]"),
    (
        |_, x| made(x.slice(-1, 2, 2)),
        "slice: f32[2,3] has no 2 positions from 2 on along an axis 1",
    ),
    (
        |_, x| made(x.pad(-3, 1, 1, 0.0)),
        "axis -3 of a tensor of type f32[2,3]",
    ),
    (
        |_, x| made(concat(&[x, x.transpose(0, 1)], 0)),
        "concat: f32[2,3] and f32[3,2] differ beyond axis 0",
    ),
    (
        |_, x| made(x.split(1, &[1, 1])),
        "split: the sizes [1, 1] do not cover an axis 1 of f32[2,3]",
    ),
    (
        |_, x| made(x.gather(x)),
        "gather: needs a table with rows and i32 ids, not f32[2,3] and f32[2,3]",
    ),
    (
        |_, x| made(x.select(x, x)),
        "select: the condition must be bool, not f32[2,3]",
    ),
    (
        |_, x| made(x.dropout(1.0, x)),
        "dropout: the key must be u32[2], not f32[2,3]",
    ),
    (
        |t, x| made(x.dropout(1.0, t.input("key", DType::U32, &[2]))),
        "dropout: the probability 1 of dropout is not at least 0 and below 1",
    ),
    (
        |_, x| made(x.cross_entropy(x)),
        "cross_entropy: the labels of logits f32[2,3] must be i32[2], not f32[2,3]",
    ),
    (
        |t, x| made(x.layer_norm(t.full(DType::F32, &[2], 1.0), t.full(DType::F32, &[3], 1.0), 1e-5)),
        "layer_norm: the parameters for rows of f32[2,3] must be f32[3], not f32[2]",
    ),
    (
        |_, x| made(x.sum().softmax()),
        "softmax: needs a last axis with elements, not f32[]",
    ),
    (|_, x| made(x.eq(x).relu()), "relu: needs a float tensor, not bool[2,3]"),
    (
        |_, x| made(attention(x, x, x, AttentionOptions::default())),
        "attention: q f32[2,3], k f32[2,3] and v f32[2,3] are not \
         [B,Tq,H,D], [B,Tk,G,D] and [B,Tk,G,Dv] of one dtype, G a divisor of H",
    ),
    (
        |_, x| made(x.conv2d(x, Conv2dOptions::default())),
        "conv2d: the image f32[2,3] is not [N,H,W,C]",
    ),
    (
        |t, x| made(image(x).conv2d(t.full(DType::F32, &[4, 3], 0.0), Conv2dOptions::default())),
        "conv2d: the weight f32[4,3] is not [O,C/G,KH,KW] of the dtype of f32[1,1,2,3]",
    ),
    (
        |t, x| made(image(x).conv2d(t.full(DType::F32, &[4, 2, 1, 1], 0.0), Conv2dOptions::default())),
        "conv2d: the weight f32[4,2,1,1] takes 2 channels in each of 1 groups, the image f32[1,1,2,3] has 3",
    ),
    (
        |t, x| {
            let groups = Conv2dOptions {
                groups: 3,
                ..Conv2dOptions::default()
            };
            made(image(x).conv2d(t.full(DType::F32, &[4, 1, 1, 1], 0.0), groups))
        },
        "conv2d: the 4 output channels of the weight f32[4,1,1,1] do not divide into 3 groups",
    ),
    (
        |t, x| made(image(x).conv2d(t.full(DType::F32, &[4, 3, 2, 2], 0.0), Conv2dOptions::default())),
        "conv2d: the height 1 with a padding of 0 before and 0 after it is less than what 2 taps with a dilation of 1 \
         cover",
    ),
    (
        |t, x| {
            let stride = Conv2dOptions {
                stride: [1, 0],
                ..Conv2dOptions::default()
            };
            made(image(x).conv2d(t.full(DType::F32, &[4, 3, 1, 1], 0.0), stride))
        },
        "conv2d: the stride along the width is 0; it must be at least 1",
    ),
    (
        |_, x| {
            let padded = Pool2d {
                padding: [0, 0, 2, 0],
                ..Pool2d::square(1)
            };
            made(image(x).max_pool2d(padded))
        },
        "max_pool2d: along the width 2 a window of 1 lies in the padding alone; use less padding",
    ),
    (
        |_, x| made(image(x).slice(2, 0, 0).resize_nearest([2, 2])),
        "resample2d: the width of the image is 0, of which no 2 can be made",
    ),
    (|_, x| made(x.grad(&[x])), "grad needs a float scalar, not f32[2,3]"),
    (
        |_, x| made(x.sum().grad(&[Trace::new().input("y", DType::F32, &[])])),
        "the derivative for a tensor of another trace",
    ),
    (
        |_, x| made(vjp(&[x], &[Some(x.sum())], &[x])),
        "the cotangent of a tensor of type f32[2,3] has type f32[]",
    ),
    (
        |t, x| {
            made(
                x.matmul(t.full(DType::F32, &[2, 3, 4], 0.0))
                    .matmul(t.full(DType::F32, &[3, 4, 4], 0.0)),
            )
        },
        "matmul: the leading axes of f32[2,2,4] and f32[3,4,4] differ",
    ),
    (
        |t, x| made(x.matmul(t.full(DType::F32, &[3], 0.0))),
        "matmul: f32[2,3] and f32[3] are not two matrices, or stacks of them, of one dtype",
    ),
    (
        |_, x| made(x.mean_axes(&[2])),
        "reduce: the axes [2] are not ascending axes of f32[2,3]",
    ),
    (
        |_, x| made(x.reshape(&[usize::MAX, 2])),
        "reshape: f32[2,3] has not the size of the shape [18446744073709551615, 2]",
    ),
    (
        |_, x| made(x.slice(0, 0, 0).split(0, &[])),
        "split: needs at least one size for f32[0,3]",
    ),
    (|_, x| made(x.cast(DType::I32) * 0.5), "full: i32[] cannot hold 0.5"),
    (
        |_, x| made(x.cast(DType::U32).pad(0, 1, 0, -1.0)),
        "pad: u32[2,3] cannot hold -1",
    ),
    (
        |t, _| made(t.full(DType::U8, &[2], 256.0)),
        "full: u8[2] cannot hold 256",
    ),
    (
        |t, _| made(t.iota(DType::U8, &[257], 0)),
        "iota: u8[257] has no positions along an axis 0",
    ),
    (
        |t, _| made(t.constant(Array::new(Type::new(DType::Bool, &[2]), vec![1.0, 2.0]))),
        "constant: bool[2] cannot hold 2",
    ),
    (
        |t, x| made(x.cross_entropy_with(t.full(DType::I32, &[2], 0.0), 1 << 40, 0.0)),
        "cross_entropy: the ignored label 1099511627776 is beyond i32",
    ),
    (
        |t, _| made(t.input("large", DType::F32, &[usize::MAX, 4])),
        "the input `large` of type f32[18446744073709551615,4] is too large",
    ),
    (
        |_, x| made(clip_coefficient(global_norm(&[x.eq(x)]), 1.0)),
        "binary: needs a float tensor, not bool[2,3]",
    ),
    (
        |t, _| made(t.input("x", DType::F32, &[])),
        "the graph already has an input called `x`",
    ),
    (
        |t, x| t.assign(x, x),
        "the input `x` is data, only a state can be assigned",
    ),
    (|t, x| t.assign(x.relu(), x), "only a state can be assigned"),
    (
        |t, x| t.assign(t.state("w", DType::F32, &[]), x),
        "the state `w` of type f32[] cannot hold a f32[2,3]",
    ),
    (
        |t, _| made(t.apply(lessen_graph::ops::Relu, &[Trace::new().input("y", DType::F32, &[2, 3])])),
        "relu: a tensor of another trace",
    ),
    (
        |t, _| t.output("y", Trace::new().input("y", DType::F32, &[])),
        "the output `y` is a tensor of another trace",
    ),
    (
        |t, _| {
            t.assign(
                t.state("w", DType::F32, &[2, 3]),
                Trace::new().input("y", DType::F32, &[2, 3]),
            )
        },
        "an assignment takes a tensor of another trace",
    ),
    (
        |t, x| t.assign(Trace::new().state("w", DType::F32, &[2, 3]), x),
        "an assignment takes a tensor of another trace",
    ),
    (
        |_, x| made(x + Trace::new().input("y", DType::F32, &[3])),
        "broadcast: a tensor of another trace",
    ),
    (
        |_, x| made(x.maximum(Trace::new().input("y", DType::F32, &[2]))),
        "broadcast: a tensor of another trace",
    ),
    (
        |_, x| made(x.matmul(Trace::new().input("y", DType::F32, &[1, 3, 1]))),
        "matmul: a tensor of another trace",
    ),
    (
        |_, x| made(x.gt(x).select(x, Trace::new().input("y", DType::F32, &[]))),
        "select: a tensor of another trace",
    ),
    (
        |_, x| made(concat(&[x, Trace::new().input("y", DType::F32, &[2, 3])], 0)),
        "concat: a tensor of another trace",
    ),
    (
        |_, x| {
            made(image(x).conv2d(
                Trace::new().input("y", DType::F32, &[3, 3, 1, 1]),
                Conv2dOptions::default(),
            ))
        },
        "conv2d: a tensor of another trace",
    ),
    (
        |_, x| made(x.cross_entropy(Trace::new().input("y", DType::I32, &[2]))),
        "cross_entropy: a tensor of another trace",
    ),
    (
        |_, x| made(x.gather(Trace::new().input("y", DType::I32, &[2]))),
        "gather: a tensor of another trace",
    ),
    (
        |_, x| made(vjp(&[x], &[Some(Trace::new().input("y", DType::F32, &[2, 3]))], &[x])),
        "the derivative for a tensor of another trace",
    ),
    (|t, _| made(t.tensor(ValueId(99))), "the graph has no value %99"),
    (
        |t, x| {
            t.output("y", x);
            t.output("y", x)
        },
        "the graph already has an output called `y`",
    ),
    (
        |t, x| {
            let w = t.state("w", DType::F32, &[2, 3]);
            t.assign(w, x);
            t.assign(w, x)
        },
        "the state `w` is assigned twice",
    ),
    (
        |_, x| made(x.broadcast_to(&[1 << 30, 1 << 30, 2, 3])),
        "broadcast: the type f32[1073741824,1073741824,2,3] is too large",
    ),
    (
        |t, x| made(x.matmul(t.full(DType::F32, &[1 << 52, 3, 1], 0.0))),
        "broadcast: the type f32[4503599627370496,2,3] is too large",
    ),
];

#[test]
fn mistakes_panic_with_a_sentence_at_the_callers_line() {
    for (mistake, sentence) in MISTAKES {
        let trace = Trace::new();
        let x = trace.input("x", DType::F32, &[2, 3]);
        let (message, file) = panic_of(|| mistake(*trace, x));
        assert_eq!(&message, sentence);
        assert!(file.ends_with("mistakes.rs"), "`{sentence}` is reported at {file}");
    }
}

#[test]
fn mistakes_are_errors_of_an_attempt() {
    for (mistake, sentence) in MISTAKES {
        let trace = Trace::new();
        let x = trace.input("x", DType::F32, &[2, 3]);
        let error = trace.attempt(|| mistake(*trace, x)).unwrap_err().to_string();
        let (place, found) = error.split_once(": ").unwrap();
        assert_eq!(&found, sentence);
        assert!(place.contains("mistakes.rs:"), "`{sentence}` is reported at {place}");
    }
}

#[test]
fn cast_and_identity_name_the_callers_line() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]);
    let made = trace.attempt(|| [x.cast(DType::F64), x.identity(), x.relu(), x + 1.0]);
    for value in made.unwrap() {
        let place = trace.place_of(value).unwrap();
        assert!(place.contains("mistakes.rs:"), "{value:?} is made at {place}");
    }
    assert_eq!(trace.place_of(x), None);
    assert_eq!(trace.place_of(Trace::new().full(DType::F32, &[], 0.0)), None);
}

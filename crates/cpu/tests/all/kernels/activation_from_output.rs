//! Derivatives of activation functions from their outputs, against the derivative of the true input in `f64`.

use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::elementwise::activation;
use lessen_cpu::kernels::elementwise::activation_from_output::{Gelu, GeluTanh, Silu, Valley, backward_from_output};
use lessen_graph::{Elementwise, Op, Type, ops};

use super::support::*;

/// A kernel from the output: rows, columns, `y`, the side, `dy` and `dx`.
type Backward = fn(usize, usize, Rows<f32>, Rows<u8>, Rows<f32>, Rows<f32>);

/// An activation: its kernels, the function and its derivative, where its minimum is, and the error that its rule
/// declares.
struct Activation {
    name: &'static str,
    forward: fn(Rows<f32>, usize),
    backward: Backward,
    value: fn(f64) -> f64,
    slope: fn(f64) -> f64,
    argmin: f64,
    declared: f64,
}

fn backward<V: Valley + Default>(n: usize, c: usize, y: Rows<f32>, side: Rows<u8>, dy: Rows<f32>, dx: Rows<f32>) {
    // SAFETY: the blocks of these tests have these sizes, and `dx` lies apart or exactly on an input.
    unsafe { backward_from_output(V::default(), n, c, y, side, dy, dx) }
}

fn declared(op: &dyn Op) -> f64 {
    let ty = Type::f32(&[1]);
    op.from_output(&[ty.clone(), ty]).expect("a rule").error
}

fn activations() -> [Activation; 3] {
    [
        Activation {
            name: "gelu",
            // SAFETY, of all: one row in place.
            forward: |r, c| unsafe { activation::gelu(false, 1, c, r, r) },
            backward: backward::<Gelu>,
            value: |x| ops::Gelu { tanh: false }.element(&[x]),
            slope: |x| ops::GeluBackward { tanh: false }.element(&[x, 1.0]),
            argmin: ops::GeluBackwardFromOutput { tanh: false }.argmin(),
            declared: declared(&ops::GeluBackward { tanh: false }),
        },
        Activation {
            name: "tanh gelu",
            // SAFETY: as above.
            forward: |r, c| unsafe { activation::gelu(true, 1, c, r, r) },
            backward: backward::<GeluTanh>,
            value: |x| ops::Gelu { tanh: true }.element(&[x]),
            slope: |x| ops::GeluBackward { tanh: true }.element(&[x, 1.0]),
            argmin: ops::GeluBackwardFromOutput { tanh: true }.argmin(),
            declared: declared(&ops::GeluBackward { tanh: true }),
        },
        Activation {
            name: "silu",
            // SAFETY: as above.
            forward: |r, c| unsafe { activation::silu(1, c, r, r) },
            backward: backward::<Silu>,
            value: |x| ops::Silu.element(&[x]),
            slope: |x| ops::SiluBackward.element(&[x, 1.0]),
            argmin: ops::SiluBackwardFromOutput::ARGMIN,
            declared: declared(&ops::SiluBackward),
        },
    ]
}

/// Every number within 0.01 of the minimum, and numbers of either sign and every magnitude.
fn points(argmin: f64) -> Vec<f32> {
    // The bits of negative numbers grow with their magnitude.
    let [above, below] = [0.01, -0.01].map(|off| ((argmin + off) as f32).to_bits());
    let near = above..below;
    let all = (0..f32::INFINITY.to_bits()).step_by(9973);
    let both = all.flat_map(|bits| [bits, bits | 1 << 31]);
    near.chain(both).map(f32::from_bits).collect()
}

/// The derivatives from the outputs of the forward kernel, for cotangents of 1.
fn derivatives(of: &Activation, x: &[f32]) -> Vec<f32> {
    let mut y = x.to_vec();
    (of.forward)(Rows::dense(y.as_mut_ptr(), x.len()), x.len());
    from_outputs(of, x, &mut y);
    y
}

/// Turns the outputs for these inputs into derivatives, for cotangents of 1.
fn from_outputs(of: &Activation, x: &[f32], y: &mut [f32]) {
    let mut side: Vec<u8> = x.iter().map(|&x| u8::from(x > of.argmin as f32)).collect();
    let rows = Rows::dense(y.as_mut_ptr(), x.len());
    let side = Rows::dense(side.as_mut_ptr(), x.len());
    let mut one = 1.0;
    (of.backward)(1, x.len(), rows, side, Rows::scalar(&mut one), rows);
}

#[test]
fn errors_are_within_what_is_declared() {
    for of in activations() {
        let x = points(of.argmin);
        let expected: Vec<f64> = x.iter().map(|&x| (of.slope)(x.into())).collect();
        at_all_levels(|level| {
            let found = derivatives(&of, &x);
            let (mut worst, mut beyond) = (0f64, 0f64);
            for (i, (&dx, &slope)) in found.iter().zip(&expected).enumerate() {
                let (x, error) = (x[i], (f64::from(dx) - slope).abs());
                let what = format!("{} {level:?}: {dx} at {x}, not {slope}", of.name);
                assert!(error <= of.declared, "{what}");
                worst = worst.max(error);
                // Farther from the minimum, where its rounding does not matter.
                if (f64::from(x) - of.argmin).abs() > 5e-3 {
                    assert!(error <= 2e-5, "{what}");
                    beyond = beyond.max(error);
                }
            }
            println!("{} {level:?}: {worst:.2e}, {beyond:.2e} beyond the minimum", of.name);
            assert!(
                worst > 0.9 * of.declared,
                "{} declares more than its error {worst}",
                of.name
            );
        });
    }
}

#[test]
fn outputs_rounded_to_nearest_leave_less_than_declared() {
    for of in activations() {
        let x = points(of.argmin);
        at_all_levels(|level| {
            let mut y: Vec<f32> = x.iter().map(|&x| (of.value)(x.into()) as f32).collect();
            from_outputs(&of, &x, &mut y);
            for (&x, &dx) in x.iter().zip(&y) {
                let error = (f64::from(dx) - (of.slope)(x.into())).abs();
                assert!(error <= 1e-4, "{} {level:?}: {dx} at {x}", of.name);
            }
        });
    }
}

#[test]
fn the_ends_and_nan() {
    at_all_levels(|_| {
        for of in activations() {
            let x = [f32::NAN, f32::INFINITY, f32::MAX, 1e3, -100.0, -3e38, -1e-45, 0.0, -0.0];
            let found = derivatives(&of, &x);
            let name = of.name;
            assert!(found[0].is_nan(), "{name}");
            assert_eq!(found[1..4], [1.0; 3], "{name}");
            assert_eq!(found[4..6], [0.0; 2], "{name}");
            assert!(found[6..].iter().all(|dx| (dx - 0.5).abs() < 2e-5), "{name}: {found:?}");
            // Numbers that are no outputs, and a cotangent that is no number.
            let (mut y, mut side) = ([-0.3, -0.3, f32::INFINITY, 2.0, 0.0, f32::NAN], [0u8, 1, 0, 0, 0, 0]);
            let mut dy = [2.0, 2.0, 2.0, 2.0, f32::NAN, 2.0];
            let rows = Rows::dense(y.as_mut_ptr(), 6);
            let (side, dy) = (Rows::dense(side.as_mut_ptr(), 6), Rows::dense(dy.as_mut_ptr(), 6));
            (of.backward)(1, 6, rows, side, dy, rows);
            assert_eq!((y[0], y[1], y[2]), (0.0, 0.0, 2.0), "{name}");
            assert!((y[3] / 2.0 - 1.0).abs() < 0.15, "{name}: {}", y[3]);
            assert!(y[4].is_nan() && y[5].is_nan(), "{name}");
        }
    });
}

#[test]
fn in_all_sizes_and_strides_and_in_place() {
    at_all_levels(|_| {
        let mut random = Random::new(12);
        for (n, c) in SIZES {
            for (i, lie) in READABLE.into_iter().enumerate() {
                let others = [READABLE[(i + 3) % 8], READABLE[(i + 5) % 8]];
                let mut y = Block::new(n, c, lie, || random.unit_f32());
                let mut side = Block::new(n, c, others[0], || [0u8, 1, 255][random.below(3)]);
                let mut dy = Block::new(n, c, others[1], || random.unit_f32());
                // One element after another.
                let mut expected = y.values();
                let (mut sides, mut dys) = (side.values(), dy.values());
                for e in 0..n * c {
                    let at = Rows::scalar(&mut expected[e]);
                    let (side, dy) = (Rows::scalar(&mut sides[e]), Rows::scalar(&mut dys[e]));
                    backward::<Gelu>(1, 1, at, side, dy, at);
                }
                for dx_lie in WRITABLE {
                    let mut dx = Block::new(n, c, dx_lie, || 7.0);
                    let before = dx.clone();
                    backward::<Gelu>(n, c, y.rows(), side.rows(), dy.rows(), dx.rows());
                    assert_eq!(dx.values(), expected, "{n}x{c} {lie:?} {others:?} {dx_lie:?}");
                    assert!(dx.same_gaps(&before), "{n}x{c} {lie:?} {others:?} {dx_lie:?}");
                }
                if WRITABLE.contains(&lie) {
                    let mut on_y = y.clone();
                    let rows = on_y.rows();
                    backward::<Gelu>(n, c, rows, side.rows(), dy.rows(), rows);
                    assert_eq!(on_y.values(), expected, "{n}x{c} {lie:?} on y");
                }
                if WRITABLE.contains(&others[1]) {
                    let rows = dy.rows();
                    backward::<Gelu>(n, c, y.rows(), side.rows(), rows, rows);
                    assert_eq!(dy.values(), expected, "{n}x{c} {others:?} on dy");
                }
            }
        }
    });
}

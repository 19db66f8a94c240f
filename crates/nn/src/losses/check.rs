//! Checks of the arguments of losses.

use lessen_graph::Tensor;

/// Refuses arguments that are not all of one type of floats; `name` begins the sentence.
#[track_caller]
pub(super) fn check_alike(name: &str, arguments: &[(&str, Tensor)]) {
    let &[(first, x), ref others @ ..] = arguments else {
        return;
    };
    let ty = x.ty();
    if !ty.dtype.is_float() {
        let sentence = format!("{name}: the {first} {ty} has no floats; cast it to f32");
        x.trace().fail(sentence);
    }
    for (other, y) in others {
        let found = y.ty();
        if found != ty {
            let sentence =
                format!("{name}: the {first} {ty} and the {other} {found} differ; reshape or cast one of them");
            x.trace().fail(sentence);
        }
    }
}

/// Refuses tensors without rows.
#[track_caller]
pub(super) fn check_rows(name: &str, x: Tensor) {
    if x.rank() == 0 {
        let sentence = format!("{name}: needs rows along a last axis, not {}", x.ty());
        x.trace().fail(sentence);
    }
}

/// Refuses a setting that is not a positive number.
#[track_caller]
pub(super) fn check_positive(name: &str, x: Tensor, (setting, value): (&str, f64)) {
    if !(value.is_finite() && value > 0.0) {
        let sentence = format!("{name}: {setting} is {value}; choose a number above 0");
        x.trace().fail(sentence);
    }
}

/// Refuses a margin that is no finite number.
#[track_caller]
pub(super) fn check_margin(name: &str, x: Tensor, margin: f64) {
    if !margin.is_finite() {
        let sentence = format!("{name}: the margin is {margin}; choose a finite number");
        x.trace().fail(sentence);
    }
}

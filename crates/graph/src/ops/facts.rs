//! Facts about operations in short lines, beside the methods of [`Op`](crate::Op) that say more.

/// Methods of an `impl Op` block from facts, for operations that are like many others in these respects:
///
/// - `elementwise`: elements of results come from the elements at the same index.
/// - `rows`: all inputs and outputs have the rows of input 0.
/// - `rows(Rows, Whole => Rows, Sum)`: roles of the inputs and of the outputs, for the rows of input 0.
/// - `rows_where_axis_is_last`: as `rows`, where the field `axis` is the last axis.
/// - `in_place((0 | 1, 0))`: patterns of inputs and outputs that may lie in one place.
/// - `never_in_place`: none may.
/// - `contraction`: see [`Op::is_contraction`](crate::Op::is_contraction).
/// - `flops(4.0)`: floating-point operations for each element of input 0.
/// - `no_flops`: elements are written, or read and written.
/// - `free`: no element is read or written.
/// - `no_derivative`: no input has a cotangent.
macro_rules! facts {
    ($($fact:ident $(($($of:tt)+))?;)+) => {
        $(facts!(@ $fact $(($($of)+))?);)+
    };
    (@ elementwise) => {
        fn row_wise(&self, _: &[$crate::Type], _: &[$crate::Type]) -> $crate::op::RowWise {
            $crate::op::RowWise::Elementwise
        }
    };
    (@ rows) => {
        fn row_wise(&self, inputs: &[$crate::Type], outputs: &[$crate::Type]) -> $crate::op::RowWise {
            $crate::op::RowWise::of_last_axis(inputs, outputs)
        }
    };
    (@ rows ($($role:ident),+ => $($out:ident),+)) => {
        fn row_wise(&self, inputs: &[$crate::Type], _: &[$crate::Type]) -> $crate::op::RowWise {
            use $crate::op::{OutRole, Role, RowWise};
            let rows = $crate::ops::rules::rows(&inputs[0]);
            RowWise::by_rows(rows, &[$(Role::$role),+], &[$(OutRole::$out),+])
        }
    };
    (@ rows_where_axis_is_last) => {
        fn row_wise(&self, inputs: &[$crate::Type], outputs: &[$crate::Type]) -> $crate::op::RowWise {
            if self.axis + 1 == inputs[0].rank() {
                $crate::op::RowWise::of_last_axis(inputs, outputs)
            } else {
                $crate::op::RowWise::No
            }
        }
    };
    (@ in_place ($($places:tt)+)) => {
        fn in_place(&self, input: usize, output: usize, _: &[$crate::Type], _: &[$crate::Type]) -> bool {
            matches!((input, output), $($places)+)
        }
    };
    (@ never_in_place) => {
        fn in_place(&self, _: usize, _: usize, _: &[$crate::Type], _: &[$crate::Type]) -> bool {
            false
        }
    };
    (@ contraction) => {
        fn is_contraction(&self) -> bool {
            true
        }
    };
    (@ flops ($flops:literal)) => {
        fn cost(&self, inputs: &[$crate::Type], outputs: &[$crate::Type]) -> $crate::op::Cost {
            $crate::op::Cost::vector($flops * inputs[0].numel() as f64, inputs, outputs)
        }
    };
    (@ no_flops) => {
        fn cost(&self, inputs: &[$crate::Type], outputs: &[$crate::Type]) -> $crate::op::Cost {
            $crate::op::Cost::vector(0.0, inputs, outputs)
        }
    };
    (@ free) => {
        fn cost(&self, _: &[$crate::Type], _: &[$crate::Type]) -> $crate::op::Cost {
            $crate::op::Cost::default()
        }
    };
    (@ no_derivative) => {
        fn vjp(&self, cx: &$crate::op::Vjp<'_>) -> Vec<Option<$crate::Tensor>> {
            vec![None; cx.inputs.len()]
        }
    };
}

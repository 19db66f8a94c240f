//! Kernels in safe Rust that an operation brings itself; see [`Op::row_kernel`]. They see memory as slices, one row of
//! each operand at a time.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use lessen_graph::{DType, IndexInput, Op, OutRole, Role, Row, RowKernel as RowFunction, RowMut, RowWise, Type};

use super::kernel::{Kernel, MAX_OPERANDS, Reads, RowKernel, Run, Types, WholeKernel};
use crate::index_errors::IndexErrors;

/// A kernel, with the facts about its operands that it needs.
#[derive(Clone)]
struct OfRows {
    run: RowFunction,
    /// For each input whether it is read whole.
    whole: Vec<bool>,
    /// For each input whether it is `i32`; it is `f32` otherwise.
    integers: Vec<bool>,
    /// The same for each output.
    integer_outputs: Vec<bool>,
    index: Option<IndexInput>,
}

/// Rows of an operand, each a run of elements.
#[derive(Clone, Copy)]
struct Runs {
    ptr: *mut u8,
    /// Bytes from one row to the next; 0 where all rows are the same memory.
    step: usize,
    /// Elements of a row.
    columns: usize,
}

/// Bytes of an element of `f32` or `i32`.
const ELEMENT: usize = 4;

impl Runs {
    const NONE: Runs = Runs {
        ptr: std::ptr::null_mut(),
        step: 0,
        columns: 0,
    };

    /// The elements of a row.
    ///
    /// # Safety
    /// The operand has the row, of elements of `T`, which nobody writes to meanwhile.
    unsafe fn row<'a, T>(self, r: usize) -> &'a [T] {
        if self.columns == 0 {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe {
            from_raw_parts(
                self.ptr.wrapping_add(r * self.step).cast::<T>().cast_const(),
                self.columns,
            )
        }
    }

    /// The elements of a row.
    ///
    /// # Safety
    /// As [`Runs::row`], and nobody else reads or writes them meanwhile.
    unsafe fn row_mut<'a, T>(self, r: usize) -> &'a mut [T] {
        if self.columns == 0 {
            return &mut [];
        }
        // SAFETY: the caller's promise.
        unsafe { from_raw_parts_mut(self.ptr.wrapping_add(r * self.step).cast(), self.columns) }
    }

    /// The addresses of the bytes of `n` rows, from the first to the end of the last.
    fn span(self, n: usize) -> (usize, usize) {
        let from = self.ptr.addr();
        (from, from + (n.saturating_sub(1)) * self.step + self.columns * ELEMENT)
    }
}

impl OfRows {
    /// Whether all indices of a row are valid; notes one that is not.
    fn admits(&self, index: IndexInput, ids: &[i32], errors: &IndexErrors) -> bool {
        let wrong = ids.iter().find(|&&id| !index.admits(id.into()));
        if let Some(&id) = wrong {
            errors.note(id, index.limit);
        }
        wrong.is_none()
    }

    /// Runs `n` rows. A row with a wrong index is left out.
    ///
    /// # Safety
    /// The operands have `n` rows of the dtypes that the kernel was made for. Nobody else reads or writes the outputs
    /// meanwhile, or writes the inputs.
    unsafe fn run(&self, n: usize, inputs: &[Runs], outputs: &[Runs], errors: &IndexErrors) {
        let apart = |a: Runs, b: Runs| {
            let ((a, a_end), (b, b_end)) = (a.span(n), b.span(n));
            a_end <= b || b_end <= a
        };
        // An operation from outside might tell the planner otherwise.
        for &y in outputs {
            let is_apart = inputs.iter().all(|&x| apart(x, y));
            assert!(is_apart, "an output of a kernel of rows lies where an input does");
        }
        // SAFETY: the caller's promise; outputs lie apart from inputs and, as different values, from each other.
        unsafe {
            if let Some(index) = self.index.filter(|index| n > 0 && self.whole[index.input])
                && !self.admits(index, inputs[index.input].row(0), errors)
            {
                return;
            }
            let mut rows = [Row::F32(&[]); MAX_OPERANDS];
            for r in 0..n {
                for ((to, x), is_i32) in rows.iter_mut().zip(inputs).zip(&self.integers) {
                    *to = if *is_i32 {
                        Row::I32(x.row(r))
                    } else {
                        Row::F32(x.row(r))
                    };
                }
                if let Some(index) = self.index.filter(|index| !self.whole[index.input])
                    && !self.admits(index, inputs[index.input].row(r), errors)
                {
                    continue;
                }
                let mut results = [const { None }; MAX_OPERANDS];
                for ((to, y), is_i32) in results.iter_mut().zip(outputs).zip(&self.integer_outputs) {
                    *to = Some(if *is_i32 {
                        RowMut::I32(y.row_mut(r))
                    } else {
                        RowMut::F32(y.row_mut(r))
                    });
                }
                let mut results = results.map(|row| row.unwrap_or(RowMut::F32(&mut [])));
                self.run.run(&rows[..inputs.len()], &mut results[..outputs.len()]);
            }
        }
    }
}

/// The kernel that an operation brings itself, where it fits these types.
pub(crate) fn row_function_kernel(op: &dyn Op, types: &Types<'_>) -> Option<Kernel> {
    let run = op.row_kernel()?;
    let operands = types.inputs.len().checked_add(types.outputs.len())?;
    let of_known_dtypes = |ty: &Type| matches!(ty.dtype, DType::F32 | DType::I32);
    let fits = operands <= MAX_OPERANDS && types.inputs.iter().chain(types.outputs).all(of_known_dtypes);
    let row_wise = op.row_wise(types.inputs, types.outputs);
    let (whole, sums): (Vec<bool>, Vec<bool>) = match &row_wise {
        RowWise::No => return None,
        RowWise::Elementwise => {
            let is_one = types.outputs.first()?.rank() == 0;
            let whole = types.inputs.iter().map(|ty| ty.rank() == 0 && !is_one);
            (whole.collect(), vec![false; types.outputs.len()])
        }
        RowWise::Rows { inputs, outputs, .. } => (
            inputs.iter().map(|role| *role == Role::Whole).collect(),
            outputs.iter().map(|role| *role == OutRole::Sum).collect(),
        ),
    };
    let index = op.index_input(types.inputs);
    let is_i32 = |ty: &Type| ty.dtype == DType::I32;
    let integers: Vec<bool> = types.inputs.iter().map(is_i32).collect();
    let integer_outputs: Vec<bool> = types.outputs.iter().map(is_i32).collect();
    let has_indices = index.is_none_or(|index| integers.get(index.input) == Some(&true));
    let sums_are_floats = sums
        .iter()
        .zip(&integer_outputs)
        .all(|(is_sum, is_i32)| !(*is_sum && *is_i32));
    let same_counts = whole.len() == integers.len() && sums.len() == integer_outputs.len();
    if !(fits && has_indices && sums_are_floats && same_counts) {
        return None;
    }
    let kernel = OfRows {
        run,
        whole,
        integers,
        integer_outputs,
        index,
    };
    if types.any_empty() {
        return on_empty(kernel, &row_wise, &sums, types);
    }
    let is_read_by_rows: Vec<usize> = (0..types.inputs.len()).filter(|&i| !kernel.whole[i]).collect();
    let has_sums = sums.contains(&true);
    let run = move |r: &Run<'_>| {
        let (mut inputs, mut outputs) = ([Runs::NONE; MAX_OPERANDS], [Runs::NONE; MAX_OPERANDS]);
        for ((to, arg), is_whole) in inputs.iter_mut().zip(r.inputs).zip(&kernel.whole) {
            let rows = arg.runs::<u8>();
            let step = if *is_whole { 0 } else { rows.row * ELEMENT };
            (to.ptr, to.step, to.columns) = (rows.ptr, step, arg.columns());
        }
        for (to, arg) in outputs.iter_mut().zip(r.outputs) {
            let rows = arg.runs::<u8>();
            (to.ptr, to.step, to.columns) = (rows.ptr, rows.row * ELEMENT, arg.columns());
        }
        // SAFETY: see `Run`; the binder checks that the plan has the roles that this kernel was made for.
        unsafe {
            kernel.run(
                r.n,
                &inputs[..r.inputs.len()],
                &outputs[..r.outputs.len()],
                r.index_errors,
            )
        };
    };
    let own = if has_sums {
        RowKernel::sums(run)
    } else {
        RowKernel::rows(run)
    };
    let own = is_read_by_rows
        .into_iter()
        .fold(own, |own, i| own.reading(i, Reads::Runs));
    own.of_roles(row_wise).into()
}

/// The kernel where an operand has no elements: one task for all rows, with empty slices.
fn on_empty(kernel: OfRows, row_wise: &RowWise, sums: &[bool], types: &Types<'_>) -> Option<Kernel> {
    let has_ids = kernel.index.is_some_and(|index| types.inputs[index.input].numel() > 0);
    let has_results = types.outputs.iter().any(|ty| ty.numel() > 0);
    let rows = match row_wise {
        RowWise::Rows { rows, .. } if has_ids || has_results => *rows,
        _ => 0,
    };
    let columns = |ty: &Type, is_one: bool| {
        let elements = ty.numel();
        match (is_one, rows) {
            (true, _) => Some(elements),
            (false, 0) => Some(0),
            (false, rows) => elements.is_multiple_of(rows).then(|| elements / rows),
        }
    };
    let widths = |types: &[Type], are_one: &[bool]| -> Option<Vec<usize>> {
        types
            .iter()
            .zip(are_one)
            .map(|(ty, is_one)| columns(ty, *is_one))
            .collect()
    };
    let (inputs, outputs) = (widths(types.inputs, &kernel.whole)?, widths(types.outputs, sums)?);
    let (sums, bytes) = (
        sums.to_vec(),
        types.outputs.iter().map(|ty| ty.bytes()).collect::<Vec<_>>(),
    );
    WholeKernel::dense(1, move |w, _| {
        let runs = |ptr: *mut u8, columns: usize, is_one: bool| Runs {
            ptr,
            step: if is_one { 0 } else { columns * ELEMENT },
            columns,
        };
        let inputs = inputs.iter().zip(&kernel.whole).enumerate();
        let inputs: Vec<Runs> = inputs
            .map(|(i, (columns, is_whole))| runs(w.dense::<u8>(i).cast_mut(), *columns, *is_whole))
            .collect();
        let own = outputs.iter().zip(&sums).zip(w.outputs);
        let own: Vec<Runs> = own
            .map(|((columns, is_sum), ptr)| runs(*ptr, *columns, *is_sum))
            .collect();
        // SAFETY: see `Work`; the rows make up each operand.
        unsafe {
            w.outputs
                .iter()
                .zip(&bytes)
                .for_each(|(y, bytes)| y.write_bytes(0, *bytes));
            kernel.run(rows, &inputs, &own, w.index_errors);
        }
    })
    .into()
}

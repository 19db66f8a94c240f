//! Rows times one shared matrix that never changes: it is packed once, and no run packs anything.

use super::number::Word;
use super::right::Right;
use super::rows::Shape;
use super::terms::{Begins, Place, Runs};
use super::{PANEL, VECTOR, WORD, is_worth, width};
use crate::kernels::kernel::{Cut, Fixed, Prepare, Run};

/// Rows that are multiplied with one panel after another.
const ROWS: usize = 96;

/// The most numbers along `k` that are added up before sums are written: a panel of them stays in the second-level
/// cache.
const BLOCK: usize = 4096;

/// The most columns of a task where all rows are one tile, in panels, and the most tasks for each thread.
const TASK: (usize, usize) = (4, 4);

/// The replacement of the kernel of a product whose second factor never changes, if that is worth it.
pub(crate) fn fixed<N: Word>(shape: Shape) -> Option<Fixed> {
    let Shape { rows, k, columns, .. } = shape;
    let right = Right::new::<N>(1, k, columns)?;
    if !N::is_packed(rows) || !is_worth(rows, k, columns) {
        return None;
    }
    Some(Fixed {
        input: 1,
        bytes: right.bytes(),
        pack: Prepare {
            tasks: right.panels(),
            run: Box::new(move |r, panel| shape.prepare::<N>(right, r, panel)),
        },
        run: Box::new(move |r| run::<N>(k / N::NUMBERS, columns, r)),
        cut: Cut::Even {
            parts: (columns / (TASK.0 * PANEL)).clamp(1, TASK.1),
            width: if columns < 2 * TASK.0 * PANEL { VECTOR } else { PANEL },
        },
    })
}

/// Computes some rows and columns, which begin at a vector. The rows' numbers follow each other. A third operand, if
/// there is one, is a row that the sums begin with.
fn run<N: Word>(words: usize, columns: usize, r: &Run<'_>) {
    let (a, y) = (r.inputs[0].runs::<N>(), r.y(0));
    let packed = r.inputs[1].packed::<u8>();
    let bias = r.inputs.get(2);
    let bias = bias.map_or(std::ptr::null(), |bias| bias.runs::<f32>().ptr.cast_const());
    // SAFETY: `fixed` has seen that the level is used.
    let held = unsafe { N::hold(r.n.min(ROWS), words.min(BLOCK)) };
    let mut pointers = [std::ptr::null::<u8>(); ROWS];
    for from in (0..r.n).step_by(ROWS) {
        let rows = ROWS.min(r.n - from);
        for (i, pointer) in pointers[..rows].iter_mut().enumerate() {
            *pointer = a.at(from + i).cast_const().cast();
        }
        for word in (0..words).step_by(BLOCK) {
            let (mut column, end) = r.columns;
            while column < end {
                let panel = column / PANEL * PANEL;
                let panel_row = width(columns - panel) * WORD;
                let within = column - panel;
                let next = (panel + PANEL).min(end);
                let terms = Runs {
                    runs: 1,
                    words: BLOCK.min(words - word),
                    pointers: pointers.as_ptr(),
                    apart: 0,
                    offset: word * WORD,
                    zeros: std::ptr::null(),
                    panel: packed.wrapping_add(panel * words * WORD + word * panel_row + within * WORD),
                    panel_apart: 0,
                    panel_row,
                };
                let first = y.at(from);
                let to = Place {
                    bias,
                    ..Place::panel(Begins::Apart(first, y.row), column, next)
                };
                // SAFETY: see `Run`; the factor is packed as `fixed` says, and the columns are this task's.
                unsafe {
                    N::rows(
                        &held,
                        rows,
                        (next - column).next_multiple_of(VECTOR),
                        terms,
                        to,
                        word > 0,
                    )
                };
                column = next;
            }
        }
    }
}

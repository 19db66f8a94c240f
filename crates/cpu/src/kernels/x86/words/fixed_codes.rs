//! Rows of codes times one shared matrix of codes that never changes: it is packed once, after it the sums of the
//! levels of each column.

use super::number::Word;
use super::right::{Right, words_at_once};
use super::rows::Shape;
use super::terms::{Begins, Place, Runs};
use super::{CACHED, PANEL, VECTOR, WORD, is_worth, width};
use crate::kernels::codes::factors::Operands;
use crate::kernels::codes::sums::{Code, Scaling, column_sums, scaled, scaled_to_codes};
use crate::kernels::codes::to_code::ToCode;
use crate::kernels::kernel::{Cut, Fixed, Prepare, Run};

/// Rows that are multiplied with one panel after another.
const ROWS: usize = 96;

/// Bytes for the sums of these rows and a panel, where they become codes.
pub(crate) const ROOM: usize = ROWS * PANEL * WORD;

/// What the rows are, and what becomes of their products.
#[derive(Clone, Copy)]
pub(crate) struct Becomes {
    /// The code of zero of the rows.
    pub(crate) zero: u8,
    /// The codes that numbers become, and where the worker's scratch has [`ROOM`] for sums.
    pub(crate) codes: Option<(ToCode, usize)>,
}

/// The most columns of a task where all rows are one tile, in panels, and the most tasks for each thread.
const TASK: (usize, usize) = (4, 4);

/// The replacement of the kernel of a product of codes whose matrix never changes, if that is worth it. The operands
/// are those of the operation; a row after them is added to each row of the result.
pub(crate) fn fixed(shape: Shape, becomes: Becomes, operands: Operands, has_bias: bool) -> Option<Fixed> {
    let Shape { rows, k, columns, .. } = shape;
    let right = Right::new::<Code>(1, k, columns)?;
    if !Code::is_used() || !is_worth(rows, k, columns) {
        return None;
    }
    let product = Product {
        words: k / Code::NUMBERS,
        columns,
        bytes: right.bytes(),
        becomes,
        operands,
        has_bias,
    };
    Some(Fixed {
        input: operands.weight,
        bytes: right.bytes().checked_add(columns.checked_mul(size_of::<i32>())?)?,
        pack: Prepare {
            tasks: right.panels(),
            run: Box::new(move |r, panel| {
                let b = r.inputs[operands.weight].matrix::<u8>();
                let some = panel * PANEL..columns.min((panel + 1) * PANEL);
                // SAFETY: see `Run`; the packed matrix and the sums after it have memory of their own, and each task
                // writes its own columns.
                unsafe {
                    let from = b.ptr.cast::<Code>().cast_const();
                    right.pack((0, panel..panel + 1), (0, k), from, (b.col, b.row), r.shared);
                    column_sums(some, k, b, r.shared.add(right.bytes()).cast());
                }
            }),
        },
        run: Box::new(move |r| run(&product, r)),
        cut: Cut::Even {
            parts: (columns / (TASK.0 * PANEL)).clamp(1, TASK.1),
            width: if columns < 2 * TASK.0 * PANEL { VECTOR } else { PANEL },
        },
    })
}

/// A product whose matrix is packed.
struct Product {
    /// Words of a row, and columns.
    words: usize,
    columns: usize,
    /// Bytes of the packed matrix.
    bytes: usize,
    becomes: Becomes,
    operands: Operands,
    has_bias: bool,
}

impl Product {
    /// What becomes of the sums.
    fn scaling(&self, r: &Run<'_>) -> Scaling {
        let operands = self.operands;
        let inputs = r.inputs;
        let count = operands.bias + usize::from(self.has_bias);
        Scaling {
            zero: self.becomes.zero.into(),
            levels: inputs[operands.weight].packed::<u8>().wrapping_add(self.bytes).cast(),
            bias: if self.has_bias {
                inputs[operands.bias].dense::<i32>().cast_const()
            } else {
                std::ptr::null()
            },
            scale: operands.scales.map_or(std::ptr::null(), |[_, of]| r.whole(of)),
            added: inputs
                .get(count)
                .map_or(std::ptr::null(), |row| row.runs::<f32>().ptr.cast_const()),
        }
    }
}

/// Computes some rows and columns, which begin at a vector.
fn run(product: &Product, r: &Run<'_>) {
    let Product {
        words,
        columns,
        operands,
        ..
    } = *product;
    let (a, y, scaling) = (r.inputs[0].runs::<u8>(), r.outputs[0], product.scaling(r));
    let packed = r.inputs[operands.weight].packed::<u8>();
    // SAFETY: `fixed` has seen that the level is used.
    let held = unsafe { Code::hold(r.n.min(ROWS), words) };
    let mut pointers = [std::ptr::null::<u8>(); ROWS];
    for from in (0..r.n).step_by(ROWS) {
        let rows = ROWS.min(r.n - from);
        for (i, pointer) in pointers[..rows].iter_mut().enumerate() {
            *pointer = a.at(from + i);
        }
        // The sums are where their numbers will be, or, panel by panel, in the scratch.
        let (first, apart) = match product.becomes.codes {
            None => (y.rows::<f32>().at(from), y.rows::<f32>().row),
            Some((_, at)) => (r.scratch.wrapping_add(at).cast(), PANEL),
        };
        let (mut column, end) = r.columns;
        while column < end {
            let panel = column / PANEL * PANEL;
            let panel_row = width(columns - panel) * WORD;
            let next = (panel + PANEL).min(end);
            let first = match product.becomes.codes {
                None => first,
                Some(_) => first.wrapping_sub(column),
            };
            let to = Place::panel(Begins::Apart(first, apart), column, next);
            let at_once = words_at_once(words, words * panel_row, CACHED);
            // SAFETY: see `Run`; the matrix is packed as `fixed` says, and the columns are this task's.
            unsafe {
                for word in (0..words).step_by(at_once) {
                    let terms = Runs {
                        runs: 1,
                        words: at_once.min(words - word),
                        pointers: pointers.as_ptr(),
                        apart: 0,
                        offset: word * WORD,
                        zeros: std::ptr::null(),
                        panel: packed.wrapping_add(panel * words * WORD + word * panel_row + (column - panel) * WORD),
                        panel_apart: 0,
                        panel_row,
                    };
                    Code::rows(
                        &held,
                        rows,
                        (next - column).next_multiple_of(VECTOR),
                        terms,
                        to,
                        word > 0,
                    );
                }
                for i in 0..rows {
                    let scale = operands.scales.map_or(0.0, |[of, _]| *r.x(of).at(from + i));
                    let row = first.wrapping_add(i * apart);
                    let sums = row.cast_const().cast();
                    match product.becomes.codes {
                        None => scaled(column..next, scale, sums, scaling, row),
                        Some((codes, _)) => {
                            let to = y.rows::<u8>().at(from + i);
                            scaled_to_codes(column..next, scale, sums, scaling, codes, to);
                        }
                    }
                }
            }
            column = next;
        }
    }
}

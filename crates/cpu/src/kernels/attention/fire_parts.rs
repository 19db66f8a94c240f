//! FIRE in the rounds of a kernel: its tables before the others, and the derivatives of its parameters after them.

use lessen_graph::ops::attention::Fire;

use super::super::kernel::{Round, Work};
use super::fire::{CHUNK, FireSizes, FireTables};
use super::fire_parameters::Parameters;
use super::fire_rows::FireSums;

/// Where an attention's FIRE is.
#[derive(Clone)]
pub(super) struct FireParts {
    pub(super) sizes: FireSizes,
    /// The inputs with the parameters.
    pub(super) inputs: Fire<usize>,
    /// The element of shared scratch where the tables begin.
    pub(super) tables: usize,
    /// Tasks that sum up derivatives for one head.
    pub(super) parts: usize,
    /// The output with the first derivative.
    pub(super) output: usize,
}

impl FireParts {
    pub(super) fn parameters(&self, w: &Work<'_>) -> Parameters {
        let arrays = Fire::from_array(self.inputs.into_array().map(|input| w.x(input)));
        // SAFETY: see `Work`; the type rule has checked the shapes.
        unsafe { Parameters::new(arrays, self.sizes.width) }
    }

    pub(super) fn tables(&self, w: &Work<'_>) -> FireTables {
        FireTables::new(self.sizes, w.shared.cast::<f32>().wrapping_add(self.tables))
    }

    /// The rounds that make the tables.
    pub(super) fn table_rounds(&self) -> [Round; 2] {
        let chunks = self.sizes.span.div_ceil(CHUNK);
        let (first, second) = (self.clone(), self.clone());
        [
            Round {
                tasks: 1 + chunks,
                run: Box::new(move |w, task| {
                    let (tables, parameters) = (first.tables(w), first.parameters(w));
                    // SAFETY: see `Work`; tasks write tables or chunks of their own.
                    unsafe {
                        match task {
                            0 => tables.make_pieces(&parameters),
                            _ => tables.make_psi(&parameters, task - 1),
                        }
                    }
                }),
            },
            Round {
                tasks: self.sizes.heads * chunks,
                run: Box::new(move |w, task| {
                    let parameters = second.parameters(w);
                    // SAFETY: as above; the round before has made the tables that are read.
                    unsafe { second.tables(w).make_biases(&parameters, task / chunks, task % chunks) };
                }),
            },
        ]
    }

    /// Elements of shared scratch of the sums: the sums by offset, as `f32`, and totals of tasks and of heads, as
    /// `f64`.
    pub(super) fn sums_scratch(&self, batch: usize) -> usize {
        let tasks = batch * self.sizes.heads * self.parts;
        // One more, so that the totals can be aligned.
        tasks * self.sizes.span + 2 * (tasks * self.task_totals() + self.sizes.heads * self.head_totals()) + 1
    }

    /// Totals of a task: two for each piece, and the derivatives of `c` and `l`.
    fn task_totals(&self) -> usize {
        2 * (self.sizes.width + 1) + 2
    }

    /// Totals of a head: the derivatives of `w1`, `b1`, `c` and `l`.
    fn head_totals(&self) -> usize {
        2 * self.sizes.width + 2
    }

    fn by_offset(&self, w: &Work<'_>, task: usize) -> *mut f32 {
        let first = self.tables + self.sizes.scratch();
        w.shared.cast::<f32>().wrapping_add(first + task * self.sizes.span)
    }

    fn totals(&self, w: &Work<'_>, tasks: usize) -> *mut f64 {
        let end = self.by_offset(w, tasks).cast::<u8>();
        let aligned = (end as usize).next_multiple_of(align_of::<f64>()) - end as usize;
        end.wrapping_add(aligned).cast()
    }

    /// The sums of a task, all zeros; `lanes` is its worker's memory.
    pub(super) fn sums(
        &self,
        w: &Work<'_>,
        batch: usize,
        (b, h): (usize, usize),
        part: usize,
        lanes: *mut f32,
    ) -> FireSums {
        let FireSizes { heads, back, span, .. } = self.sizes;
        let task = (b * heads + h) * self.parts + part;
        let by_offset = self.by_offset(w, task);
        let tasks = batch * heads * self.parts;
        let totals = self.totals(w, tasks).wrapping_add(task * self.task_totals());
        // SAFETY: see `Work`; the sums are this task's own.
        unsafe {
            by_offset.write_bytes(0, span);
            totals.write_bytes(0, self.task_totals());
        }
        FireSums {
            by_offset: by_offset.wrapping_add(back),
            totals,
            lanes,
            width: self.sizes.width,
        }
    }

    /// The rounds that make the derivatives of the parameters of the sums.
    pub(super) fn derivative_rounds(&self, batch: usize) -> [Round; 2] {
        let (first, second) = (self.clone(), self.clone());
        [
            Round {
                tasks: self.sizes.heads,
                run: Box::new(move |w, head| first.head_derivatives(w, batch, head)),
            },
            Round {
                tasks: 1,
                run: Box::new(move |w, _| second.sum_heads(w, batch)),
            },
        ]
    }

    /// The derivatives of a head's `w2` and `b2`, and its shares of the others.
    fn head_derivatives(&self, w: &Work<'_>, batch: usize, head: usize) {
        let FireSizes {
            heads,
            width,
            back,
            span,
        } = self.sizes;
        let (p, pieces) = (self.parameters(w), self.tables(w).pieces(head));
        let tasks = batch * heads * self.parts;
        let of_head = move |parts: usize| {
            (0..batch).flat_map(move |b| (0..parts).map(move |part| (b * heads + head) * parts + part))
        };
        let own = self
            .totals(w, tasks)
            .wrapping_add(tasks * self.task_totals() + head * self.head_totals());
        // The totals of the first task take up the others.
        let first = self
            .totals(w, tasks)
            .wrapping_add(head * self.parts * self.task_totals());
        let end = 2 * (pieces.kinks + 1);
        // SAFETY: see `Work`; the sums have been written, and this task alone uses the sums of the head.
        unsafe {
            if tasks == 0 {
                self.write_zeros(w, head, own);
                return;
            }
            for task in of_head(self.parts).skip(1) {
                let other = self.totals(w, tasks).wrapping_add(task * self.task_totals());
                (0..end + 2).for_each(|i| *first.add(i) += *other.add(i));
            }
            let length = p.length();
            let inverse = p.inverse(0.0);
            let (length_by_c, length_by_l) = (p.psi_by_c(length), p.psi_by_x(length) * p.length_by_l());
            let mut piece = 0;
            for at in 0..span {
                let sums = of_head(self.parts).map(|task| f64::from(*self.by_offset(w, task).add(at)));
                let d: f64 = sums.sum();
                if d == 0.0 {
                    continue;
                }
                let x = at as f64 - back as f64;
                let u = p.psi(x) * inverse;
                piece = pieces.find(u as f32, piece);
                let slope = f64::from(pieces.slope(piece)) * inverse * d;
                *first.add(2 * piece) += d;
                *first.add(2 * piece + 1) += d * u;
                *first.add(end) += slope * (p.psi_by_c(x) - u * length_by_c);
                *first.add(end + 1) -= slope * u * length_by_l;
            }
            let [dw2, db2] = [4, 5].map(|k| w.y(self.output + k));
            let sum =
                |from: usize, to: usize, which: usize| -> f64 { (from..to).map(|k| *first.add(2 * k + which)).sum() };
            for unit in 0..width {
                let (by_u, shift) = p.unit(unit);
                // The pieces in which the unit is active: the pieces before its kink, or after it.
                let kink = p.kink(unit).map(|u| pieces.find(u as f32, 0) + 1);
                let (from, to) = match kink {
                    Some(kink) if by_u < 0.0 => (0, kink),
                    Some(kink) => (kink, pieces.kinks + 1),
                    None if p.active_at_zero(unit) => (0, pieces.kinks + 1),
                    None => (0, 0),
                };
                let (d, du) = (sum(from, to, 0), sum(from, to, 1));
                *own.add(unit) = p.weight(head, unit) * du;
                *own.add(width + unit) = p.weight(head, unit) * d;
                *dw2.add(head * width + unit) = (by_u * du + shift * d) as f32;
            }
            *db2.add(head) = sum(0, pieces.kinks + 1, 0) as f32;
            *own.add(2 * width) = *first.add(end);
            *own.add(2 * width + 1) = *first.add(end + 1);
        }
    }

    /// The derivatives of a head of no sequences.
    unsafe fn write_zeros(&self, w: &Work<'_>, head: usize, own: *mut f64) {
        let width = self.sizes.width;
        // SAFETY: see `Work`.
        unsafe {
            w.y(self.output + 4).add(head * width).write_bytes(0, width);
            w.y(self.output + 5).add(head).write_bytes(0, 1);
            own.write_bytes(0, self.head_totals());
        }
    }

    /// The derivatives that all heads share.
    fn sum_heads(&self, w: &Work<'_>, batch: usize) {
        let FireSizes { heads, width, .. } = self.sizes;
        let tasks = batch * heads * self.parts;
        let first = self.totals(w, tasks).wrapping_add(tasks * self.task_totals());
        // SAFETY: see `Work`; the totals of heads have been written.
        let sum = |i: usize| -> f64 {
            (0..heads)
                .map(|h| unsafe { *first.add(h * self.head_totals() + i) })
                .sum()
        };
        let [dc, dl, dw1, db1] = [0, 1, 2, 3].map(|k| w.y(self.output + k));
        // SAFETY: see `Work`.
        unsafe {
            for unit in 0..width {
                *dw1.add(unit) = sum(unit) as f32;
                *db1.add(unit) = sum(width + unit) as f32;
            }
            *dc = sum(2 * width) as f32;
            *dl = sum(2 * width + 1) as f32;
        }
    }
}

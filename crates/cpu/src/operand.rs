//! Operands: from a value's place in the plan to pointers at run time.

use std::ops::Range;

use lessen_compile::{Plan, Storage, row_layout};
use lessen_graph::{ValueId, numel};

use crate::kernels::Rows;
use crate::kernels::kernel::{Arg, Reads};

/// Where the memory of a value begins at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    Arena,
    State(usize),
    Constant,
    Local,
}

/// The addresses that a step's work is relative to.
pub(crate) struct Bases {
    pub(crate) arena: *mut u8,
    pub(crate) constants: *mut u8,
    /// By position among the graph's inputs; null for data.
    pub(crate) states: Vec<*mut u8>,
}

// SAFETY: the addresses are only dereferenced by kernels, on the parts of memory that the plan gives to their task.
unsafe impl Sync for Bases {}
// SAFETY: as above.
unsafe impl Send for Bases {}

impl Bases {
    /// The address of a location.
    pub(crate) fn at(&self, location: Location, local: *mut u8) -> *mut u8 {
        self.of(location.region, local).wrapping_add(location.byte)
    }

    /// The address of a region.
    pub(crate) fn of(&self, region: Region, local: *mut u8) -> *mut u8 {
        match region {
            Region::Arena => self.arena,
            Region::State(i) => self.states[i],
            Region::Constant => self.constants,
            Region::Local => local,
        }
    }
}

/// A value's first byte and element size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub(crate) region: Region,
    pub(crate) byte: usize,
    pub(crate) size: usize,
}

/// The location of a value, its view's offset included.
pub(crate) fn location(plan: &Plan, constant_offsets: &[usize], value: ValueId) -> Location {
    let place = plan.place(value);
    let size = plan.graph().ty(value).dtype.bytes();
    let (region, byte) = match plan.storage(place.base) {
        Storage::Arena(byte) => (Region::Arena, byte),
        Storage::State(i) => (Region::State(i), 0),
        Storage::Constant(i) => (Region::Constant, constant_offsets[i]),
        Storage::Local(byte) => (Region::Local, byte),
        Storage::None => unreachable!("a value that a step reads or writes has storage"),
    };
    Location {
        region,
        byte: byte + place.layout.offset * size,
        size,
    }
}

/// The strides of a value. Along axes of one element they are those of a value that is dense from there on.
pub(crate) fn strides(plan: &Plan, value: ValueId) -> Vec<usize> {
    let shape = &plan.graph().ty(value).shape;
    let mut strides = plan.place(value).layout.strides.clone();
    let mut next = 1;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        if extent == 1 {
            *stride = next;
        }
        next = stride.saturating_mul(extent);
    }
    strides
}

/// An operand of a node of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowOperand {
    location: Location,
    /// Axes that enumerate the rows; empty for an operand that is read whole.
    lead: Vec<(usize, usize)>,
    columns: usize,
    step: usize,
    /// For an operand read whole, the step between the rows of the matrix that it is.
    whole_row: Option<usize>,
    /// The layouts that the kernel has declared, of which the operand has one.
    reads: Reads,
}

impl RowOperand {
    /// An operand whose row `r` is read for row `r`; none where its value does not lie in `rows` rows in one of these
    /// layouts.
    pub(crate) fn rows(
        plan: &Plan,
        constants: &[usize],
        value: ValueId,
        rows: usize,
        reads: Reads,
    ) -> Option<RowOperand> {
        let (shape, layout) = (&plan.graph().ty(value).shape, &plan.place(value).layout);
        if !reads.planned(rows).admits(shape, layout) {
            return None;
        }
        let layout = row_layout(shape, layout, rows)?;
        Some(RowOperand {
            location: location(plan, constants, value),
            lead: layout.lead,
            columns: layout.columns,
            step: layout.step,
            whole_row: None,
            reads,
        })
    }

    /// An operand that every row reads whole; none where its value does not lie in one of these layouts, or is no
    /// matrix.
    pub(crate) fn whole(plan: &Plan, constants: &[usize], value: ValueId, reads: Reads) -> Option<RowOperand> {
        let ty = plan.graph().ty(value);
        let rows = numel(&ty.shape[..ty.rank().saturating_sub(1)]);
        let matrix = RowOperand::rows(plan, constants, value, rows, reads)?;
        let row = match matrix.lead.as_slice() {
            [] => matrix.columns,
            [(_, row)] => *row,
            _ => return None,
        };
        Some(RowOperand {
            lead: Vec::new(),
            columns: ty.numel(),
            whole_row: Some(row),
            ..matrix
        })
    }

    /// The operand, of whose layouts the kernel reads only those in which rows are runs of elements; none where it
    /// lies otherwise.
    pub(crate) fn of_runs(&self) -> Option<RowOperand> {
        (self.step == 1).then(|| RowOperand {
            reads: self.reads.with_runs(),
            ..self.clone()
        })
    }

    /// The operand, which the kernel has packed.
    pub(crate) fn packed(&self) -> RowOperand {
        RowOperand {
            reads: Reads::Packed,
            ..self.clone()
        }
    }

    /// Whether one stride leads from row to row.
    pub(crate) fn is_matrix(&self) -> bool {
        self.reads.are_among(Reads::Matrix)
    }

    /// Whether every row reads all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole_row.is_some()
    }

    /// Whether the columns of a row follow each other.
    pub(crate) fn has_dense_rows(&self) -> bool {
        self.step == 1
    }

    /// Whether no element lies where one of another operand does, as far as that is known of rows: values in a worker's
    /// own memory may lie in the same place one after another.
    pub(crate) fn is_apart(&self, other: &RowOperand) -> bool {
        let [own, others] = [self, other].map(|operand| operand.location.region);
        match (own, others) {
            (Region::Arena, Region::Arena) => {
                let [own, others] = [self, other].map(RowOperand::span);
                own.end <= others.start || others.end <= own.start
            }
            _ => own != others,
        }
    }

    /// The bytes from the first element of all rows to the last one.
    fn span(&self) -> Range<usize> {
        let Location { byte, size, .. } = self.location;
        let last = |(extent, stride): &(usize, usize)| (extent - 1) * stride;
        let elements = self.lead.iter().map(last).sum::<usize>() + (self.columns - 1) * self.step + 1;
        byte..byte + elements * size
    }

    /// The operand as one row that any number of rows read; none where they read others.
    pub(crate) fn as_one_row(&self) -> Option<RowOperand> {
        let is_one = !self.is_whole() && self.has_dense_rows() && self.lead.iter().all(|(_, stride)| *stride == 0);
        is_one.then(|| RowOperand {
            lead: vec![(usize::MAX, 0)],
            reads: Reads::MatrixOfRuns,
            ..self.clone()
        })
    }

    /// Columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Some columns of an argument; all of one that is read whole.
    pub(crate) fn cut(&self, arg: Arg, first: usize, columns: usize) -> Arg {
        if self.is_whole() {
            return arg;
        }
        arg.cut(first * self.step * self.location.size, columns)
    }

    /// How many rows from `row` on one stride describes.
    pub(crate) fn uniform(&self, row: usize) -> usize {
        match self.lead.as_slice() {
            [] | [_] => usize::MAX,
            [.., (extent, _)] => extent - row % extent,
        }
    }

    /// The operand for a run of rows that begins at `row`, in a block that begins at `block`.
    #[inline]
    pub(crate) fn arg(&self, bases: &Bases, local: *mut u8, block: usize, row: usize) -> Arg {
        let base = bases.of(self.location.region, local);
        let row = if matches!(self.location.region, Region::Local) {
            row - block
        } else {
            row
        };
        let (mut elements, mut rest) = (0, row);
        for (i, &(extent, stride)) in self.lead.iter().enumerate().rev() {
            if i == 0 {
                elements += rest * stride;
            } else {
                elements += rest % extent * stride;
                rest /= extent;
            }
        }
        let ptr = base.wrapping_add(self.location.byte + elements * self.location.size);
        let rows = Rows {
            ptr,
            row: self.lead.last().map_or(self.whole_row.unwrap_or(0), |l| l.1),
            col: self.step,
        };
        Arg::new(rows, self.columns, self.reads)
    }
}

//! Operands: from a value's place in the plan to pointers at run time.

use lessen_compile::{Plan, Storage, row_layout};
use lessen_graph::ValueId;

/// Where the memory of a value begins at run time.
#[derive(Clone, Copy, Debug)]
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

// SAFETY: the addresses are only dereferenced by kernels on the parts of memory that the plan gives to their task.
unsafe impl Sync for Bases {}
// SAFETY: as above.
unsafe impl Send for Bases {}

impl Bases {
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
#[derive(Clone, Copy, Debug)]
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

/// One operand of a kernel on a run of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    pub(crate) ptr: *mut u8,
    /// Elements from row to row.
    pub(crate) row: usize,
    /// Elements from column to column.
    pub(crate) col: usize,
    /// Columns.
    pub(crate) columns: usize,
}

impl Arg {
    pub(crate) const NONE: Arg = Arg {
        ptr: std::ptr::null_mut(),
        row: 0,
        col: 0,
        columns: 0,
    };
}

/// An operand of a node of a group.
#[derive(Clone, Debug)]
pub(crate) struct RowOperand {
    location: Location,
    /// Axes that enumerate the rows; empty for an operand that is read whole.
    lead: Vec<(usize, usize)>,
    columns: usize,
    step: usize,
    /// For an operand read whole, the step between its rows if it is a matrix.
    whole_row: usize,
}

impl RowOperand {
    /// An operand that row `r` reads row `r` of.
    pub(crate) fn rows(plan: &Plan, constants: &[usize], value: ValueId, rows: usize) -> RowOperand {
        let shape = &plan.graph().ty(value).shape;
        let layout = row_layout(shape, &plan.place(value).layout, rows).expect("the schedule checked it");
        let location = location(plan, constants, value);
        RowOperand {
            location,
            lead: layout.lead,
            columns: layout.columns,
            step: layout.step,
            whole_row: 0,
        }
    }

    /// An operand that every row reads whole.
    pub(crate) fn whole(plan: &Plan, constants: &[usize], value: ValueId) -> RowOperand {
        let ty = plan.graph().ty(value);
        let strides = &plan.place(value).layout.strides;
        let (whole_row, step) = if ty.rank() == 2 {
            (strides[0], strides[1])
        } else {
            (0, 1)
        };
        let location = location(plan, constants, value);
        RowOperand {
            location,
            lead: Vec::new(),
            columns: ty.numel(),
            step,
            whole_row,
        }
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
        Arg {
            ptr,
            row: self.lead.last().map_or(self.whole_row, |l| l.1),
            col: self.step,
            columns: self.columns,
        }
    }
}

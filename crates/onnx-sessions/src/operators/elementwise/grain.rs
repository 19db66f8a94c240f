//! Which scale belongs to which element: one for all, one for each index of an axis, or one for each block along it.

use lessen_base::Result;

use lessen_onnx::host::{HostCall, HostTensor};

/// The scales of an array's elements.
pub(super) struct Grain {
    /// Products of extents before the axis, of its own, and of those after it.
    around: [usize; 3],
    kind: GrainKind,
}

enum GrainKind {
    Whole,
    Axis,
    Blocks { size: usize, count: usize },
}

impl Grain {
    /// The scales of an array of extents `shape`, by the attributes `axis` and `block_size`.
    ///
    /// # Errors
    /// Scales of other extents than they have to be, or another number of zero points.
    pub(super) fn of(
        call: &HostCall<'_>,
        shape: &[usize],
        scale: &HostTensor,
        zero: Option<&HostTensor>,
    ) -> Result<Grain> {
        if let Some(zero) = zero
            && zero.len() != scale.len()
        {
            return call.refused(format!("it has {} scales, but {} zero points", scale.len(), zero.len()));
        }
        let size = match usize::try_from(call.int("block_size", 0)) {
            Ok(size) => size,
            Err(_) => return call.refused("its block_size is negative"),
        };
        let is_empty = shape.contains(&0);
        if is_empty || size == 0 && scale.len() == 1 && scale.rank() <= 1 {
            let all = if is_empty { 0 } else { shape.iter().product() };
            return Ok(Grain {
                around: [1, 1, all],
                kind: GrainKind::Whole,
            });
        }
        let axis = match shape.len() {
            1 => 0,
            rank => call.axis(call.int("axis", 1), rank)?,
        };
        let [before, own, after] = [&shape[..axis], &shape[axis..=axis], &shape[axis + 1..]];
        let around = [before, own, after].map(|extents| extents.iter().product());
        let wrong = || {
            call.refused(format!(
                "scales of the extents {:?} do not fit {shape:?}",
                scale.shape()
            ))
        };
        if size == 0 {
            return match scale.shape() {
                [extent] if *extent == shape[axis] => Ok(Grain {
                    around,
                    kind: GrainKind::Axis,
                }),
                _ => wrong(),
            };
        }
        let mut right = shape.to_vec();
        right[axis] = shape[axis].div_ceil(size);
        if scale.shape() != right {
            return wrong();
        }
        Ok(Grain {
            around,
            kind: GrainKind::Blocks {
                size,
                count: right[axis],
            },
        })
    }

    /// Calls `each` with every element's place and that of its scale.
    pub(super) fn for_each(&self, mut each: impl FnMut(usize, usize)) {
        let [before, own, after] = self.around;
        for outer in 0..before {
            for index in 0..own {
                let start = (outer * own + index) * after;
                let (first, step) = match self.kind {
                    GrainKind::Whole => (0, 0),
                    GrainKind::Axis => (index, 0),
                    GrainKind::Blocks { size, count } => ((outer * count + index / size) * after, 1),
                };
                (0..after).for_each(|inner| each(start + inner, first + step * inner));
            }
        }
    }
}

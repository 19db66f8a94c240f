//! Operators that order, repeat or split the axes of an array.

use lessen_base::Result;

use super::extents::{bounded, extent, extents, product, steps};
use super::walk::Walk;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Transpose", transpose),
    ("", "Expand", expand),
    ("", "Tile", tile),
    ("", "DepthToSpace", depth_to_space),
    ("", "SpaceToDepth", space_to_depth),
    ("", "ReverseSequence", reverse_sequence),
];

/// The array with its axes in another order.
fn permuted(data: &HostTensor, order: &[usize]) -> Result<HostTensor> {
    let all = Walk::over(data.shape());
    let walk = Walk {
        shape: order.iter().map(|axis| all.shape[*axis]).collect(),
        steps: order.iter().map(|axis| all.steps[*axis]).collect(),
        start: 0,
    };
    HostTensor::new(&walk.shape, walk.copy(data.data()))
}

fn transpose(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let rank = data.rank();
    let order: Vec<usize> = match call.ints("perm") {
        Some(order) => {
            let is_permutation =
                order.len() == rank && order.iter().all(|axis| *axis >= 0) && call.axes(&order, rank)?.len() == rank;
            if !is_permutation {
                return call.refused(format!("its order {order:?} is none of {rank} axes"));
            }
            order.iter().map(|axis| *axis as usize).collect()
        }
        None => (0..rank).rev().collect(),
    };
    one(permuted(data, &order)?)
}

fn expand(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let target = extents(call, &call.integers(1)?)?;
    let rank = target.len().max(data.rank());
    let own = vec![1; rank - data.rank()];
    let own: Vec<usize> = own.into_iter().chain(data.shape().iter().copied()).collect();
    let others = vec![1; rank - target.len()].into_iter().chain(target.iter().copied());
    let mut walk = Walk::over(&own);
    for (axis, other) in others.enumerate() {
        match (own[axis], other) {
            (1, other) => {
                walk.shape[axis] = other;
                walk.steps[axis] = 0;
            }
            (extent, other) if other == 1 || other == extent => {}
            _ => {
                return call.refused(format!(
                    "extents {:?} and {target:?} do not broadcast to each other",
                    data.shape()
                ));
            }
        }
    }
    bounded(call, &walk.shape, data.data())?;
    one(HostTensor::new(&walk.shape, walk.copy(data.data()))?)
}

fn tile(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let mut repeats = extents(call, &call.integers(1)?)?;
    if call.opset < 6 {
        let axis = call.integers(2)?.first().copied().unwrap_or_default();
        let count = repeats.first().copied().unwrap_or(1);
        repeats = vec![1; data.rank()];
        repeats[call.axis(axis, data.rank())?] = count;
    }
    if repeats.len() != data.rank() {
        return call.refused(format!("its repeats {repeats:?} are not one for each axis"));
    }
    let shape: Option<Vec<usize>> = data
        .shape()
        .iter()
        .zip(&repeats)
        .map(|(n, r)| n.checked_mul(*r))
        .collect();
    let Some(shape) = shape else {
        return call.refused(format!("its repeats {repeats:?} are too large"));
    };
    bounded(call, &shape, data.data())?;
    let all = Walk::over(data.shape());
    let walk = Walk {
        shape: repeats.iter().zip(&all.shape).flat_map(|(r, n)| [*r, *n]).collect(),
        steps: all.steps.iter().flat_map(|step| [0, *step]).collect(),
        start: 0,
    };
    one(HostTensor::new(&shape, walk.copy(data.data()))?)
}

/// The extents of images and the size of blocks.
fn blocks(call: &HostCall<'_>) -> Result<([usize; 4], usize)> {
    let Ok(shape) = <[usize; 4]>::try_from(call.tensor(0)?.shape()) else {
        return call.refused("its input has not four axes");
    };
    match extent(call, call.int("blocksize", 0))? {
        0 => call.refused("its blocks are empty"),
        block => Ok((shape, block)),
    }
}

fn depth_to_space(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let ([n, c, h, w], block) = blocks(call)?;
    let depth = c / block / block;
    if depth.checked_mul(block).and_then(|d| d.checked_mul(block)) != Some(c) {
        return call.refused(format!("{c} channels have no whole blocks of {block} x {block}"));
    }
    let (split, order) = match call.text("mode").as_deref() {
        None | Some("DCR") => ([n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2]),
        Some("CRD") => ([n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3]),
        Some(mode) => return call.refused(format!("the mode {mode} is not known")),
    };
    let moved = permuted(&call.tensor(0)?.reshaped(&split)?, &order)?;
    one(moved.reshaped(&[n, depth, product(&[h, block]), product(&[w, block])])?)
}

fn space_to_depth(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let ([n, c, h, w], block) = blocks(call)?;
    if h % block != 0 || w % block != 0 {
        return call.refused(format!(
            "an image of {h} x {w} has no whole blocks of {block} x {block}"
        ));
    }
    let split = [n, c, h / block, block, w / block, block];
    let moved = permuted(&call.tensor(0)?.reshaped(&split)?, &[0, 3, 5, 1, 2, 4])?;
    one(moved.reshaped(&[n, product(&[c, block, block]), h / block, w / block])?)
}

fn reverse_sequence(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let lengths = call.integers(1)?;
    let batch = call.int("batch_axis", 1);
    let time = call.int("time_axis", 0);
    if data.rank() < 2 || !matches!((batch, time), (0, 1) | (1, 0)) {
        return call.refused(format!(
            "batches on axis {batch} and times on axis {time} are not known"
        ));
    }
    let shape = data.shape();
    let (batches, times) = (shape[batch as usize], shape[time as usize]);
    if lengths.len() != batches {
        return call.refused(format!("it has {} lengths for {batches} sequences", lengths.len()));
    }
    let lengths = extents(call, &lengths)?;
    if let Some(length) = lengths.iter().find(|length| **length > times) {
        return call.refused(format!("a sequence of length {length} has only {times} elements"));
    }
    if data.is_empty() {
        return one(HostTensor::clone(data));
    }
    let inner = product(&shape[2..]);
    let all = steps(&shape[..2]);
    let (of_batch, of_time) = (all[batch as usize], all[time as usize]);
    let reversed = moved!(data.data(), v => {
        let mut out = v.to_vec();
        for (b, &length) in lengths.iter().enumerate() {
            for t in 0..length {
                let (to, from) = (b * of_batch + t * of_time, b * of_batch + (length - 1 - t) * of_time);
                out[to * inner..][..inner].clone_from_slice(&v[from * inner..][..inner]);
            }
        }
        out
    });
    one(HostTensor::new(shape, reversed)?)
}

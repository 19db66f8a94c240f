//! Operators that read extents, or change them and leave the elements in their order.

use lessen_base::Result;

use super::extents::{axes_or_all, extent, product};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Shape", shape),
    ("", "Size", size),
    ("", "Reshape", reshape),
    ("", "Flatten", flatten),
    ("", "Squeeze", squeeze),
    ("", "Unsqueeze", unsqueeze),
];

fn shape(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let extents = call.tensor(0)?.shape();
    let rank = extents.len() as i64;
    let bound = |name, default| {
        let axis = call.int(name, default);
        let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
        axis.clamp(0, rank) as usize
    };
    let kept = extents.get(bound("start", 0)..bound("end", rank)).unwrap_or_default();
    one(HostTensor::vector(kept.iter().map(|extent| *extent as i64).collect()))
}

fn size(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(HostTensor::scalar(call.tensor(0)?.len() as i64))
}

fn reshape(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let Some(target) = call.integers_of("shape", 1)? else {
        return call.refused("it has no shape");
    };
    let copies_zeros = call.int("allowzero", 0) == 0;
    let mut shape = Vec::with_capacity(target.len());
    let mut inferred = None;
    for (axis, &number) in target.iter().enumerate() {
        shape.push(match number {
            0 if copies_zeros => match data.shape().get(axis) {
                Some(extent) => *extent,
                None => return call.refused(format!("its shape {target:?} has a 0 for an axis that is not there")),
            },
            -1 if inferred.is_none() => {
                inferred = Some(axis);
                1
            }
            -1 => return call.refused(format!("its shape {target:?} leaves two extents open")),
            number => extent(call, number)?,
        });
    }
    if let Some(axis) = inferred {
        match data.len().checked_div(product(&shape)) {
            Some(extent) => shape[axis] = extent,
            None => return call.refused(format!("its shape {target:?} does not say the open extent")),
        }
    }
    one(data.reshaped(&shape)?)
}

fn flatten(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.int("axis", 1);
    let rank = data.rank() as i64;
    let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if !(0..=rank).contains(&at) {
        return call.refused(format!("there is no axis {axis} in an array of {rank} axes"));
    }
    let (rows, columns) = data.shape().split_at(at as usize);
    one(data.reshaped(&[product(rows), product(columns)])?)
}

fn squeeze(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let shape = data.shape();
    let dropped = match call.integers_of("axes", 1)? {
        Some(axes) => call.axes(&axes, data.rank())?,
        None => (0..data.rank()).filter(|axis| shape[*axis] == 1).collect(),
    };
    if let Some(axis) = dropped.iter().find(|axis| shape[**axis] != 1) {
        return call.refused(format!("its axis {axis} has the extent {}, not 1", shape[*axis]));
    }
    let mut is_dropped = vec![false; data.rank()];
    dropped.into_iter().for_each(|axis| is_dropped[axis] = true);
    let kept = shape.iter().zip(is_dropped).filter(|(_, is_dropped)| !is_dropped);
    one(data.reshaped(&kept.map(|(extent, _)| *extent).collect::<Vec<usize>>())?)
}

fn unsqueeze(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let Some(axes) = call.integers_of("axes", 1)? else {
        return call.refused("it has no axes");
    };
    let rank = data.rank() + axes.len();
    let mut is_new = vec![false; rank];
    for axis in axes_or_all(call, Some(axes), rank)? {
        is_new[axis] = true;
    }
    let mut extents = data.shape().iter();
    let shape = is_new.iter().map(|is_new| match is_new {
        true => 1,
        false => extents.next().copied().unwrap_or(1),
    });
    one(data.reshaped(&shape.collect::<Vec<usize>>())?)
}

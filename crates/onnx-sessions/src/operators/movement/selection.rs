//! Operators that keep some elements, or mark them.

use std::cmp::Ordering;

use lessen_base::Result;

use super::elements::ascending;
use super::extents::{bounded, product, steps};
use super::gathering::taken;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "NonZero", non_zero),
    ("", "Compress", compress),
    ("", "Unique", unique),
    ("", "Trilu", trilu),
    ("", "OneHot", one_hot),
];

fn non_zero(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let is_there: Vec<bool> = match data.data() {
        Data::Text(texts) => texts.iter().map(|text| !text.is_empty()).collect(),
        numbers => numbers.cast(Element::Bool).to_f64().iter().map(|x| *x != 0.0).collect(),
    };
    let places: Vec<usize> = (0..data.len()).filter(|place| is_there[*place]).collect();
    let shape = [data.rank(), places.len()];
    bounded(call, &shape, &Data::I64(Vec::new()))?;
    let axes = data.shape().iter().zip(steps(data.shape()));
    let indices = axes.flat_map(|(extent, step)| places.iter().map(move |place| (place / step % extent) as i64));
    one(HostTensor::new(&shape, indices.collect::<Vec<i64>>())?)
}

fn compress(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let kept: Vec<i64> = call
        .integers(1)?
        .iter()
        .enumerate()
        .filter(|(_, is_kept)| **is_kept != 0)
        .map(|(i, _)| i as i64)
        .collect();
    if let Some(axis) = call.attribute("axis") {
        return one(taken(call, data, call.axis(axis.i, data.rank())?, &kept)?);
    }
    let flat = data.reshaped(&[data.len()])?;
    one(taken(call, &flat, 0, &kept)?)
}

fn unique(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let flat;
    let (data, axis) = match call.attribute("axis") {
        Some(axis) => (&**data, call.axis(axis.i, data.rank())?),
        None => {
            flat = data.reshaped(&[data.len()])?;
            (&flat, 0)
        }
    };
    let extent = data.shape()[axis];
    let step = product(&data.shape()[axis + 1..]);
    let rows = product(&data.shape()[..axis]);
    if data.is_empty() && extent > 0 {
        return call.refused(format!("parts of extents {:?} have no elements", data.shape()));
    }
    // The order of the parts, equal ones by index.
    let mut order: Vec<usize> = (0..extent).collect();
    let mut is_new = vec![true; extent];
    let compare = comparison(data.data());
    let compare = |a: usize, b: usize| {
        let place = |index: usize, row: usize| (row * extent + index) * step;
        let pairs = (0..rows).flat_map(|row| (0..step).map(move |i| (place(a, row) + i, place(b, row) + i)));
        let mut orders = pairs.map(|(a, b)| compare(a, b));
        orders
            .find(|order| *order != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    };
    order.sort_by(|a, b| compare(*a, *b));
    for (number, pair) in order.windows(2).enumerate() {
        is_new[number + 1] = compare(pair[0], pair[1]) != Ordering::Equal;
    }
    // The groups of equal parts: the first index of each, the number of its parts, and the group of each part.
    let (mut firsts, mut counts, mut group_of) = (Vec::new(), Vec::new(), vec![0; extent]);
    for (index, is_new) in order.into_iter().zip(is_new) {
        if is_new {
            firsts.push(index as i64);
            counts.push(0i64);
        }
        group_of[index] = firsts.len() - 1;
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
    }
    if call.int("sorted", 1) == 0 {
        let mut by_first: Vec<usize> = (0..firsts.len()).collect();
        by_first.sort_unstable_by_key(|group| firsts[*group]);
        let mut rank_of = vec![0; firsts.len()];
        by_first
            .iter()
            .enumerate()
            .for_each(|(rank, group)| rank_of[*group] = rank);
        firsts = by_first.iter().map(|group| firsts[*group]).collect();
        counts = by_first.iter().map(|group| counts[*group]).collect();
        group_of.iter_mut().for_each(|group| *group = rank_of[*group]);
    }
    let values = taken(call, data, axis, &firsts)?;
    let inverse: Vec<i64> = group_of.into_iter().map(|group| group as i64).collect();
    Ok(vec![
        values.into(),
        HostTensor::vector(firsts).into(),
        HostTensor::vector(inverse).into(),
        HostTensor::vector(counts).into(),
    ])
}

/// The order of the elements at two places.
fn comparison(data: &Data) -> Box<dyn Fn(usize, usize) -> Ordering + '_> {
    match data {
        Data::Text(v) => Box::new(|a, b| v[a].cmp(&v[b])),
        Data::U64(v) => Box::new(|a, b| v[a].cmp(&v[b])),
        Data::I64(v) => Box::new(|a, b| v[a].cmp(&v[b])),
        // Other numbers are exact in double precision.
        others => {
            let v = others.to_f64();
            Box::new(move |a, b| ascending(&v[a], &v[b]))
        }
    }
}

fn trilu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let &[.., rows, columns] = data.shape() else {
        return call.refused("its input has fewer than two axes");
    };
    let k = match call.optional(1)? {
        Some(_) => call.integers(1)?.first().copied().unwrap_or_default(),
        None => 0,
    };
    let is_upper = call.int("upper", 1) != 0;
    let kept = moved!(data.data(), v => {
        let mut out = v.to_vec();
        if columns > 0 {
            for (number, row) in out.chunks_exact_mut(columns).enumerate() {
                let diagonal = ((number % rows.max(1)) as i64).saturating_add(k);
                // The first column beyond the diagonal's own or, of the upper part, the diagonal's own.
                let bound = diagonal.saturating_add(i64::from(!is_upper)).clamp(0, columns as i64) as usize;
                let cleared = if is_upper { &mut row[..bound] } else { &mut row[bound..] };
                cleared.fill(Default::default());
            }
        }
        out
    });
    one(HostTensor::new(data.shape(), kept)?)
}

fn one_hot(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (indices, values) = (call.tensor(0)?, call.tensor(2)?);
    let depth = match call.tensor(1)?.len() {
        1 => call.number(1)? as i64,
        _ => return call.refused("its depth is not one number"),
    };
    let Ok(extent) = usize::try_from(depth) else {
        return call.refused(format!("its depth {depth} is negative"));
    };
    if values.len() != 2 {
        return call.refused("its values are not two");
    }
    let axis = call.axis(call.int("axis", -1), indices.rank() + 1)?;
    let (outer, inner) = indices.shape().split_at(axis);
    let shape = [outer, &[extent], inner].concat();
    let count = bounded(call, &shape, values.data())?;
    let step = product(inner);
    let numbers: Vec<i128> = match indices.data() {
        Data::Bool(v) => v.iter().map(|x| i128::from(*x)).collect(),
        other => {
            each_number!(other, v => v.iter().map(|x| x.to_i128()).collect(), else return call.refused("texts are no indices"))
        }
    };
    let marked = moved!(values.data(), v => {
        let mut out = vec![Clone::clone(&v[0]); count];
        for (place, &index) in numbers.iter().enumerate() {
            let at = if index < 0 { index + i128::from(depth) } else { index };
            if (0..i128::from(depth)).contains(&at) {
                out[(place / step * extent + at as usize) * step + place % step] = Clone::clone(&v[1]);
            }
        }
        out
    });
    one(HostTensor::new(&shape, marked)?)
}

//! The derivative of a scan: a scan over the turns in the other order, whose carries are the cotangents of the carries
//! and the sums of those of the constants.

use super::scan::{Scan, ScanOptions};
use crate::grad;
use crate::op::Vjp;
use crate::tensor::Tensor;
use crate::trace::Trace;
use crate::types::Type;

/// The arrays of each part of a list, given how many it has.
fn part<T: Clone>(all: &[T], from: usize, count: usize) -> Vec<T> {
    all.iter().skip(from).take(count).cloned().collect()
}

pub(super) fn vjp(scan: &Scan, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
    let (carries, slices) = (scan.carries(), scan.slices());
    let results = scan.body().outputs.len() - carries;
    let trace = cx.inputs[0].trace();
    let kept = if scan.options().keeps_carries {
        part(cx.outputs, carries + results, carries)
    } else {
        let again = trace.apply(scan.keeping(), cx.inputs);
        part(&again, carries + results, carries)
    };
    let taken = scan.taken();
    let is_float = |ty: &Type| ty.dtype.is_float();
    let wanted = |number: usize| cx.wanted[number] && is_float(&taken[number]);
    let float_carries: Vec<usize> = (0..carries).filter(|i| is_float(&taken[*i])).collect();
    let wanted_slices: Vec<usize> = (carries..carries + slices).filter(|i| wanted(*i)).collect();
    let wanted_constants: Vec<usize> = (carries + slices..taken.len()).filter(|i| wanted(*i)).collect();
    let given =
        |from: usize, count: usize| (from..from + count).filter(|k| cx.cotangents.get(*k).is_some_and(Option::is_some));
    let given_results: Vec<usize> = given(carries, results).collect();
    let given_kept: Vec<usize> = given(carries + results, carries).collect();

    let inner = Trace::inside(trace);
    let mut number = 0;
    let mut declare = |ty: &Type| {
        number += 1;
        inner.input(&number.to_string(), ty.dtype, &ty.shape)
    };
    let slice_of = |stacked: Tensor| {
        let ty = stacked.ty();
        Type::new(ty.dtype, &ty.shape[1..])
    };
    let cotangent = |k: &usize| cx.cotangents[*k].map(slice_of);
    // Carries, then slices, then constants.
    let later: Vec<Tensor> = float_carries.iter().map(|i| declare(&taken[*i])).collect();
    let sums: Vec<Tensor> = wanted_constants.iter().map(|i| declare(&taken[*i])).collect();
    let own: Vec<Tensor> = taken[..carries + slices].iter().map(&mut declare).collect();
    let of_results: Vec<Tensor> = given_results
        .iter()
        .filter_map(cotangent)
        .map(|ty| declare(&ty))
        .collect();
    let of_kept: Vec<Tensor> = given_kept.iter().filter_map(cotangent).map(|ty| declare(&ty)).collect();
    let constants: Vec<Tensor> = taken[carries + slices..].iter().map(&mut declare).collect();
    let inputs = [own, constants].concat();

    let outputs = scan.inline(*inner, &inputs);
    let mut cotangents: Vec<Option<Tensor>> = vec![None; outputs.len()];
    for (at, cotangent) in float_carries
        .iter()
        .chain(&given_results)
        .zip(later.iter().chain(&of_results))
    {
        cotangents[*at] = Some(*cotangent);
    }
    let all = float_carries.iter().chain(&wanted_slices).chain(&wanted_constants);
    let with_respect: Vec<Tensor> = all.map(|i| inputs[*i]).collect();
    let found = grad::vjp(&outputs, &cotangents, &with_respect);
    let mut found = found.into_iter().zip(&with_respect);
    let mut next = |sum: Option<Tensor>| {
        let (gradient, of) = found.next()?;
        Some(match (gradient, sum) {
            (Some(gradient), Some(sum)) => gradient + sum,
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => of.full_like(0.0),
        })
    };
    let of_carries: Vec<Tensor> = (float_carries.iter())
        .filter_map(|i| {
            let place = given_kept.iter().position(|k| *k == carries + results + i);
            next(place.map(|place| of_kept[place]))
        })
        .collect();
    let of_slices: Vec<Tensor> = wanted_slices.iter().filter_map(|_| next(None)).collect();
    let of_constants: Vec<Tensor> = sums.iter().filter_map(|sum| next(Some(*sum))).collect();
    let all = of_carries.iter().chain(&of_constants).chain(&of_slices);
    for (number, y) in all.enumerate() {
        // An output of its own, where the same value is an input or another output.
        inner.output(&number.to_string(), *y);
    }
    let body = inner.finish();

    let options = ScanOptions {
        reverse: !scan.options().reverse,
        keeps_carries: false,
        ..scan.options()
    };
    let backward = match Scan::new(
        body,
        options,
        of_carries.len() + of_constants.len(),
        carries + slices + of_results.len() + of_kept.len(),
    ) {
        Ok(backward) => backward,
        Err(error) => trace.fail_at(cx.outputs[0], format!("the derivative of a scan: {error}")),
    };
    let zeros = |i: &usize| cx.inputs[*i].full_like(0.0);
    let first = float_carries
        .iter()
        .map(|i| cx.cotangents[*i].unwrap_or_else(|| zeros(i)));
    let given: Vec<Tensor> = first
        .chain(wanted_constants.iter().map(zeros))
        .chain(kept)
        .chain(part(cx.inputs, carries, slices))
        .chain(
            given_results
                .iter()
                .chain(&given_kept)
                .filter_map(|k| cx.cotangents[*k]),
        )
        .chain(part(cx.inputs, carries + slices, taken.len()))
        .collect();
    let mut gradients = vec![None; taken.len()];
    let places = float_carries.iter().chain(&wanted_constants).chain(&wanted_slices);
    for (i, gradient) in places.zip(trace.apply(backward, &given)) {
        gradients[*i] = Some(gradient);
    }
    gradients
}

//! Loops, and scans along axes.

use lessen_base::Result;

use super::branches::truth;
use super::stacked::{Stacked, has_extents, slice};
use lessen_onnx::host::{Body, HostCall, HostOperators, HostTensor, HostValue};
use lessen_onnx::proto::ValueInfoProto;

pub(crate) const OPERATORS: HostOperators = &[("", "Loop", run_loop), ("", "Scan", scan)];

/// The most members of a batch of version 8 of Scan, which may have no elements.
const MOST_BATCH: usize = 1 << 22;

fn run_loop(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let body = call.body("body")?;
    let most = if call.has(0) {
        match call.integers(0)?[..] {
            [most] => most,
            _ => return call.refused("its number of iterations is not one number"),
        }
    } else {
        i64::MAX
    };
    let mut goes_on = if call.has(1) {
        truth(call, call.value(1)?)?
    } else {
        true
    };
    let mut state: Vec<HostValue> = call.inputs.iter().skip(2).map(present).collect();
    let states = state.len();
    check_body(call, &body, 2 + states, 1 + states)?;
    let body = body.repeated([2, 1, states]);
    let mut stacks: Vec<Stacked> = body
        .graph
        .output
        .iter()
        .skip(1 + states)
        .map(|_| Stacked::default())
        .collect();
    let with = |iteration: i64, goes_on: bool, state: &mut Vec<HostValue>| -> Result<Vec<HostValue>> {
        let declared = &body.graph.input;
        let mut inputs = vec![single(&declared[0], iteration)?, single(&declared[1], goes_on)?];
        inputs.append(state);
        Ok(inputs)
    };
    let (mut iteration, mut bytes) = (0, 0);
    while goes_on && iteration < most {
        let mut outputs = call
            .bodies
            .run(&body, with(iteration, goes_on, &mut state)?)?
            .into_iter();
        if let Some(condition) = outputs.next() {
            goes_on = truth(call, &condition)?;
        }
        state.extend(outputs.by_ref().take(states));
        for (stack, value) in stacks.iter_mut().zip(outputs) {
            stack.push(call, &value, &mut bytes)?;
        }
        iteration += 1;
    }
    let declared = body.graph.output.iter().skip(1 + states);
    if iteration == 0 && !declared.clone().all(has_extents) {
        // The body alone knows the extents that the file does not say.
        let outputs = call
            .bodies
            .run(&body, with(0, true, &mut state.clone())?)
            .unwrap_or_default();
        stacks
            .iter_mut()
            .zip(outputs.iter().skip(1 + states))
            .for_each(|(stack, value)| stack.expect(value));
    }
    for (stack, declared) in stacks.into_iter().zip(declared) {
        state.push(stack.finish(call, declared, (0, false))?.into());
    }
    Ok(state)
}

/// An input as a value, absent where it is not there.
fn present(input: &Option<HostValue>) -> HostValue {
    input.clone().unwrap_or(HostValue::Absent)
}

/// A number with the rank that an input of a body declares: none, or one axis.
fn single<T>(declared: &ValueInfoProto, number: T) -> Result<HostValue>
where
    lessen_onnx::host::Data: From<Vec<T>>,
{
    let ty = declared.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let axes = ty.and_then(|ty| ty.shape.as_ref()).map_or(0, |shape| shape.dim.len());
    let shape = if axes == 1 { &[1][..] } else { &[] };
    HostTensor::new(shape, vec![number]).map(HostValue::from)
}

/// Checks that a body takes as many inputs as it gets, and gives at least as many outputs.
fn check_body(call: &HostCall<'_>, body: &Body<'_>, takes: usize, gives: usize) -> Result<()> {
    let (inputs, outputs) = (body.graph.input.len(), body.graph.output.len());
    if inputs == takes && outputs >= gives {
        Ok(())
    } else {
        call.refused(format!(
            "its body has {inputs} inputs and {outputs} outputs, where {takes} and at least {gives} are right"
        ))
    }
}

/// How a scan goes through its inputs and gives its outputs.
struct Directions {
    /// The axis of each input, and whether it goes backwards.
    inputs: Vec<(usize, bool)>,
    /// The same of each output.
    outputs: Vec<(i64, bool)>,
}

fn scan(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    if call.opset < 9 {
        return scan_batch(call);
    }
    let body = call.body("body")?;
    let (state, scanned) = split(call, &body, 0)?;
    let body = body.repeated([0, 0, state.len()]);
    let (axes, backwards) = (call.ints("scan_input_axes"), call.ints("scan_input_directions"));
    let mut inputs = Vec::with_capacity(scanned.len());
    for (number, tensor) in scanned.iter().enumerate() {
        let axis = call.axis(entry(&axes, number), tensor.rank())?;
        inputs.push((axis, entry(&backwards, number) == 1));
    }
    let (axes, backwards) = (call.ints("scan_output_axes"), call.ints("scan_output_directions"));
    let stacks = body.graph.output.len().saturating_sub(state.len());
    let outputs = (0..stacks).map(|number| (entry(&axes, number), entry(&backwards, number) == 1));
    let directions = Directions {
        inputs,
        outputs: outputs.collect(),
    };
    scan_one(call, &body, state, &scanned, &directions, &mut 0)
}

/// An entry of a list of integers, or nought.
fn entry(list: &Option<Vec<i64>>, number: usize) -> i64 {
    list.as_ref().and_then(|list| list.get(number)).copied().unwrap_or(0)
}

/// The first state and the arrays that are scanned, from the input `first` on.
fn split(call: &HostCall<'_>, body: &Body<'_>, first: usize) -> Result<(Vec<HostValue>, Vec<HostTensor>)> {
    let count = usize::try_from(call.int("num_scan_inputs", 0)).ok();
    let given = call.inputs.len().saturating_sub(first);
    let Some(states) = count
        .filter(|count| *count > 0)
        .and_then(|count| given.checked_sub(count))
    else {
        return call.refused("its number of scanned inputs is not valid");
    };
    check_body(call, body, given, states)?;
    let state = call.inputs[first..first + states].iter().map(present).collect();
    let scanned =
        (first + states..first + given).map(|input| call.tensor(input).map(|tensor| HostTensor::clone(tensor)));
    Ok((state, scanned.collect::<Result<_>>()?))
}

/// Runs a body for each index along the axes of its inputs.
fn scan_one(
    call: &HostCall<'_>,
    body: &Body<'_>,
    mut state: Vec<HostValue>,
    scanned: &[HostTensor],
    directions: &Directions,
    bytes: &mut usize,
) -> Result<Vec<HostValue>> {
    let extents = scanned
        .iter()
        .zip(&directions.inputs)
        .map(|(tensor, (axis, _))| tensor.shape()[*axis]);
    let extents: Vec<usize> = extents.collect();
    let count = extents.first().copied().unwrap_or(0);
    if extents.iter().any(|extent| *extent != count) {
        return call.refused(format!("its scanned inputs have the lengths {extents:?}"));
    }
    let states = state.len();
    let mut stacks: Vec<Stacked> = directions.outputs.iter().map(|_| Stacked::default()).collect();
    for i in 0..count {
        let mut inputs = std::mem::take(&mut state);
        for (tensor, (axis, is_backwards)) in scanned.iter().zip(&directions.inputs) {
            let index = if *is_backwards { count - 1 - i } else { i };
            inputs.push(slice(tensor, *axis, index)?.into());
        }
        let mut outputs = call.bodies.run(body, inputs)?.into_iter();
        state.extend(outputs.by_ref().take(states));
        for (stack, value) in stacks.iter_mut().zip(outputs) {
            stack.push(call, &value, bytes)?;
        }
    }
    let declared = body.graph.output.iter().skip(states);
    for ((stack, declared), direction) in stacks.into_iter().zip(declared).zip(&directions.outputs) {
        state.push(stack.finish(call, declared, *direction)?.into());
    }
    Ok(state)
}

/// A scan of version 8: each member of a batch by itself, along the second axis.
fn scan_batch(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let body = call.body("body")?;
    let (state, scanned) = split(call, &body, 1)?;
    if call.has(0) {
        return call.refused("lengths of sequences in version 8 of Scan are not known");
    }
    let batch = scanned
        .first()
        .and_then(|tensor| tensor.shape().first())
        .copied()
        .unwrap_or(0);
    if batch > MOST_BATCH {
        return call.refused(format!("a batch of {batch} is too large"));
    }
    let backwards = call.ints("directions");
    let directions = Directions {
        inputs: (0..scanned.len())
            .map(|number| (0, entry(&backwards, number) == 1))
            .collect(),
        outputs: vec![(0, false); body.graph.output.len().saturating_sub(state.len())],
    };
    let mut stacks: Vec<Stacked> = body.graph.output.iter().map(|_| Stacked::default()).collect();
    let (mut bytes, mut all_bytes) = (0, 0);
    for member in 0..batch {
        let mut own_state = Vec::with_capacity(state.len());
        for value in &state {
            match value.tensor() {
                Some(tensor) if tensor.shape().first() == Some(&batch) => {
                    own_state.push(slice(tensor, 0, member)?.into());
                }
                _ => return call.refused("its first state has no entry for each member of the batch"),
            }
        }
        let mut own = Vec::with_capacity(scanned.len());
        for tensor in &scanned {
            match tensor.shape() {
                [extent, _, ..] if *extent == batch => own.push(slice(tensor, 0, member)?),
                other => return call.refused(format!("a scanned input has the extents {other:?}")),
            }
        }
        let outputs = scan_one(call, &body, own_state, &own, &directions, &mut bytes)?;
        for (stack, value) in stacks.iter_mut().zip(&outputs) {
            stack.push(call, value, &mut all_bytes)?;
        }
    }
    let outputs = stacks.into_iter().zip(&body.graph.output);
    outputs
        .map(|(stack, declared)| Ok(stack.finish(call, declared, (0, false))?.into()))
        .collect()
}

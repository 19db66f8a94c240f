//! Models with equal names of states, states of every dtype, and results that outlive runs.

use lessen_compile::Options;
use lessen_graph::{Array, DType, Type};

use super::budgets::training;
use super::runner::{Arrays, ensure, load, same, text};
use super::{Check, Found, NewDevice};
use crate::host_array::HostArray;
use lessen_graph::Host;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "two models with equal names of states do not touch each other",
        run: two_models,
    },
    Check {
        name: "states of every dtype are kept as they are uploaded",
        run: every_dtype,
    },
    Check {
        name: "results are those of the last run and stay as they are",
        run: results,
    },
];

fn other_inputs(inputs: &Arrays) -> Arrays {
    let halved = |array: &Array| Array::new(array.ty.clone(), array.data.iter().map(|x| x / 2.0).collect());
    inputs
        .iter()
        .map(|(name, array)| (name.clone(), halved(array)))
        .collect()
}

fn two_models(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let inputs = [inputs.clone(), other_inputs(&inputs)];
    let apart = |inputs: &Arrays| {
        let mut device = new(2);
        let loaded = load(device.as_mut(), &graph, &Options::default(), inputs)?;
        (0..3).try_for_each(|_| loaded.run(device.as_mut(), inputs))?;
        loaded.bits(device.as_ref())
    };
    let expected = [apart(&inputs[0])?, apart(&inputs[1])?];
    let mut device = new(2);
    let one = load(device.as_mut(), &graph, &Options::default(), &inputs[0])?;
    let other = load(device.as_mut(), &graph, &Options::default(), &inputs[1])?;
    for _ in 0..3 {
        one.run(device.as_mut(), &inputs[0])?;
        other.run(device.as_mut(), &inputs[1])?;
    }
    same(&one.bits(device.as_ref())?, &expected[0], "beside another model")?;
    same(&other.bits(device.as_ref())?, &expected[1], "beside another model")?;
    device.remove_model(one.model);
    same(
        &other.bits(device.as_ref())?,
        &expected[1],
        "when another model is removed",
    )
}

fn every_dtype(new: NewDevice<'_>) -> Found {
    let mut device = new(1);
    let model = device.add_model();
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::I32,
        DType::U32,
        DType::U8,
        DType::Bool,
    ];
    for dtype in dtypes {
        let ty = Type::new(dtype, &[2, 3]);
        device.allocate(model, "x", &ty).map_err(text)?;
        let mut found = None;
        device
            .download(model, "x", &mut |host| found = Some(HostArray::from(host)))
            .map_err(text)?;
        ensure(found == Some(HostArray::of(dtype, &[0.0; 6])), || {
            format!("a new state of {ty} is not zeros")
        })?;
        let numbers = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0];
        device
            .upload(model, "x", HostArray::of(dtype, &numbers).host())
            .map_err(text)?;
        device
            .upload_part(model, "x", 3, HostArray::of(dtype, &[0.0, 1.0]).host())
            .map_err(text)?;
        let read = |host: Host<'_>| found = Some(HostArray::from(host));
        device.download(model, "x", &mut { read }).map_err(text)?;
        let expected = HostArray::of(dtype, &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
        ensure(found.as_ref() == Some(&expected), || {
            format!("a state of {ty} is {found:?}, not {expected:?}")
        })?;
    }
    Ok(())
}

fn results(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let mut device = new(2);
    let loaded = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    ensure(device.output(loaded.program, "loss").is_none(), || {
        "there is a result before the first run".to_string()
    })?;
    let mut seen: Vec<HostArray> = Vec::new();
    let mut held = Vec::new();
    for run in 0..4 {
        loaded.run(device.as_mut(), &inputs)?;
        let loss = device.output(loaded.program, "loss");
        let loss = loss.ok_or_else(|| "there is no result after a run".to_string())?;
        ensure(!seen.contains(&loss), || {
            format!("the result of run {run} is that of a run before")
        })?;
        seen.push(HostArray::clone(&loss));
        held.push(loss);
    }
    ensure(seen.iter().eq(held.iter().map(|held| held.as_ref())), || {
        "a result that is held has changed".to_string()
    })?;
    ensure(device.output(loaded.program, "no such result").is_none(), || {
        "there is a result that no output declares".to_string()
    })
}

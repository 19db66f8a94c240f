//! Wrong inputs, indices and states are refused with a sentence, and change nothing.

use lessen_compile::Options;
use lessen_graph::{Array, DType, Graph, Phase, Trace, Type};

use super::runner::{Arrays, Loaded, data, ensure, hosts, load, same, text};
use super::{Check, Found, NewDevice};
use crate::backend::Backend;
use lessen_graph::Host;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "wrong inputs are refused and change nothing",
        run: wrong_inputs,
    },
    Check {
        name: "wrong indices are refused and change nothing",
        run: wrong_indices,
    },
    Check {
        name: "wrong states are refused and change nothing",
        run: wrong_states,
    },
    Check {
        name: "programs and models that are gone are errors",
        run: gone,
    },
];

/// A table whose rows are read by given and by computed indices and that is doubled by each run; and masked numbers.
fn lookup() -> (Graph, Arrays) {
    let trace = Trace::new();
    let table = trace.state("table", DType::F32, &[7, 2]);
    let ids = trace.input("ids", DType::I32, &[3]);
    let shift = trace.input("shift", DType::I32, &[3]);
    let mask = trace.input("mask", DType::Bool, &[3]);
    let x = trace.input("x", DType::F32, &[3]);
    trace.output("rows", table.gather(ids));
    trace.output("shifted", table.gather(ids + shift));
    trace.output("kept", mask.select(x, -x));
    trace.in_phase(Phase::Update, || trace.assign(table, table * 2.0));
    let array = |dtype, shape: &[usize], values: &[f64]| Array::new(Type::new(dtype, shape), values.to_vec());
    let numbers: Vec<f64> = (0..14).map(f64::from).collect();
    let inputs = [
        ("table", array(DType::F32, &[7, 2], &numbers)),
        ("ids", array(DType::I32, &[3], &[0.0, 6.0, 3.0])),
        ("shift", array(DType::I32, &[3], &[1.0, 0.0, 2.0])),
        ("mask", array(DType::Bool, &[3], &[1.0, 0.0, 1.0])),
        ("x", array(DType::F32, &[3], &[1.0, 2.0, 3.0])),
    ];
    let inputs = inputs.map(|(name, array)| (name.to_string(), array));
    (trace.finish(), Arrays::from(inputs))
}

/// A device on which the lookup has run once.
fn after_a_run(new: NewDevice<'_>) -> Result<(Box<dyn Backend>, Loaded, Arrays), String> {
    let (graph, inputs) = lookup();
    let mut device = new(2);
    let loaded = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    loaded.run(device.as_mut(), &inputs)?;
    Ok((device, loaded, inputs))
}

/// Checks that a run on this data is refused with a sentence that names `named`, and that states and results stay.
fn refused(
    (device, loaded): (&mut dyn Backend, &Loaded),
    data: &[(&str, Host<'_>)],
    (what, named): (&str, &str),
) -> Found {
    let before = loaded.bits(device)?;
    let Err(error) = device.run(loaded.program, data) else {
        return Err(format!("{what} is not refused"));
    };
    ensure(error.exit_code() == 2 && error.to_string().contains(named), || {
        format!("the error of {what} does not name {named}: {error}")
    })?;
    same(&loaded.bits(device)?, &before, &format!("after {what}"))
}

fn wrong_inputs(new: NewDevice<'_>) -> Found {
    let (mut device, loaded, inputs) = after_a_run(new)?;
    let right = data(&loaded.graph, &inputs);
    let with = |name: &'static str, host: Option<Host<'static>>| {
        let others = hosts(&right).into_iter().filter(move |(own, _)| *own != name);
        others.chain(host.map(|host| (name, host))).collect::<Vec<_>>()
    };
    let wrong: [(&str, Option<Host<'static>>, &str); 5] = [
        ("x", None, "an input that is missing"),
        ("x", Some(Host::F32(&[1.0, 2.0])), "an input of too few elements"),
        ("x", Some(Host::F64(&[1.0, 2.0, 3.0])), "an input of another dtype"),
        ("mask", Some(Host::U8(&[1, 0, 1])), "bytes for truth values"),
        (
            "mask",
            Some(Host::Bool(&[1, 2, 0])),
            "a truth value that is neither 0 nor 1",
        ),
    ];
    for (name, host, what) in wrong {
        refused(
            (device.as_mut(), &loaded),
            &with(name, host),
            (what, &format!("`{name}`")),
        )?;
    }
    loaded.run(device.as_mut(), &inputs)
}

fn wrong_indices(new: NewDevice<'_>) -> Found {
    let (mut device, loaded, inputs) = after_a_run(new)?;
    for (name, values, what) in [
        ("ids", [0.0, 7.0, 3.0], "an index beyond the table"),
        ("ids", [0.0, -1.0, 3.0], "a negative index"),
        ("shift", [0.0, 1.0, 0.0], "a computed index beyond the table"),
        ("shift", [-1.0, 0.0, 0.0], "a computed index that is negative"),
    ] {
        let mut wrong = inputs.clone();
        wrong.insert(
            name.to_string(),
            Array::new(Type::new(DType::I32, &[3]), values.to_vec()),
        );
        let wrong = data(&loaded.graph, &wrong);
        refused((device.as_mut(), &loaded), &hosts(&wrong), (what, "index"))?;
    }
    loaded.run(device.as_mut(), &inputs)
}

fn wrong_states(new: NewDevice<'_>) -> Found {
    let (mut device, loaded, inputs) = after_a_run(new)?;
    let (model, before) = (loaded.model, loaded.bits(device.as_ref())?);
    let uploads: [(usize, Host<'_>); 3] = [
        (0, Host::F64(&[0.0])),
        (13, Host::F32(&[1.0, 2.0])),
        (usize::MAX, Host::F32(&[1.0, 2.0])),
    ];
    for (first, host) in uploads {
        ensure(device.upload_part(model, "table", first, host).is_err(), || {
            format!("{} elements from {first} on are uploaded", host.dtype().name())
        })?;
    }
    ensure(device.upload(model, "table", Host::F32(&[0.0; 3])).is_err(), || {
        "too few elements are uploaded".to_string()
    })?;
    ensure(device.upload(model, "other", Host::F32(&[0.0; 3])).is_err(), || {
        "a state that is not allocated is uploaded".to_string()
    })?;
    ensure(device.download(model, "other", &mut |_| ()).is_err(), || {
        "a state that is not allocated is downloaded".to_string()
    })?;
    same(&loaded.bits(device.as_ref())?, &before, "after wrong uploads")?;
    let flags = Type::new(DType::Bool, &[2]);
    device.allocate(model, "flags", &flags).map_err(text)?;
    ensure(device.upload(model, "flags", Host::Bool(&[1, 3])).is_err(), || {
        "a truth value of 3 is uploaded".to_string()
    })?;
    device.allocate(model, "table", &Type::f32(&[2, 7])).map_err(text)?;
    let right = data(&loaded.graph, &inputs);
    ensure(device.run(loaded.program, &hosts(&right)).is_err(), || {
        "a program runs on a state of another type".to_string()
    })?;
    device.free(model, "table");
    ensure(device.run(loaded.program, &hosts(&right)).is_err(), || {
        "a program runs without its state".to_string()
    })
}

fn gone(new: NewDevice<'_>) -> Found {
    let (mut device, loaded, inputs) = after_a_run(new)?;
    let right = data(&loaded.graph, &inputs);
    device.unload(loaded.program);
    ensure(device.run(loaded.program, &hosts(&right)).is_err(), || {
        "a program runs that is unloaded".to_string()
    })?;
    ensure(device.wait(loaded.program).is_err(), || {
        "a program that is unloaded is waited for".to_string()
    })?;
    device.remove_model(loaded.model);
    ensure(device.state_type(loaded.model, "table").is_none(), || {
        "a state of a removed model is there".to_string()
    })?;
    let ty = Type::f32(&[1]);
    ensure(device.allocate(loaded.model, "w", &ty).is_err(), || {
        "a removed model takes states".to_string()
    })
}

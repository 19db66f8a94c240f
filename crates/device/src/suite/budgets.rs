//! Budgets and announced memory.

use lessen_compile::Options;
use lessen_graph::{DType, Graph, Phase, Trace};

use super::random::Random;
use super::runner::{Arrays, Loaded, ensure, load, same, text};
use super::{Check, Found, NewDevice};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "a budget changes no bit, and one below the floor is refused",
        run: budgets,
    },
    Check {
        name: "a device takes no more than a plan announces, and gives it back",
        run: announced,
    },
    Check {
        name: "sizes beyond any memory are errors",
        run: sizes,
    },
];

/// Training of two layers: their weights move against their gradients.
pub(super) fn training() -> (Graph, Arrays) {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[40, 12]);
    let weights = [("v", [12, 24]), ("w", [24, 12])].map(|(name, shape)| trace.state(name, DType::F32, &shape));
    let y = x.matmul(weights[0]).gelu().matmul(weights[1]).softmax();
    let loss = (y * y * x).mean();
    trace.output("loss", loss);
    let gradients = loss.grad(&weights);
    trace.in_phase(Phase::Update, || {
        for (weight, gradient) in weights.into_iter().zip(gradients) {
            trace.assign(weight, weight - gradient * 0.5);
        }
    });
    let mut random = Random::new(5);
    let inputs = [("x", [40, 12]), ("v", [12, 24]), ("w", [24, 12])];
    let inputs = inputs.map(|(name, shape)| (name.to_string(), random.array(&shape, 1.0)));
    (trace.finish(), Arrays::from(inputs))
}

fn budgets(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let mut device = new(2);
    let free = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    free.run(device.as_mut(), &inputs)?;
    let expected = free.bits(device.as_ref())?;
    let floor = device.floor_bytes(&graph, &Options::default()).map_err(text)?;
    let within = |budget| Options {
        budget: Some(budget),
        ..Options::default()
    };
    for budget in [floor, floor + floor / 4, 2 * floor] {
        let mut device = new(2);
        let tight = load(device.as_mut(), &graph, &within(budget), &inputs)?;
        let peak = device.plan(tight.program).peak_bytes();
        ensure(peak <= budget, || {
            format!("a plan of {peak} bytes has a budget of {budget}")
        })?;
        tight.run(device.as_mut(), &inputs)?;
        same(
            &tight.bits(device.as_ref())?,
            &expected,
            &format!("with a budget of {budget}"),
        )?;
    }
    ensure(device.compile(&graph, &within(floor - 1)).is_err(), || {
        "a budget below the floor is not refused".to_string()
    })
}

fn announced(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let mut device = new(2);
    let before = device.memory().used.total();
    let loaded = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    loaded.run(device.as_mut(), &inputs)?;
    let used = device.memory().used;
    let plan = device.plan(loaded.program);
    ensure(used.states == plan.state_bytes(), || {
        format!("{} bytes of states, not {}", used.states, plan.state_bytes())
    })?;
    ensure(used.results == plan.result_bytes(), || {
        format!("{} bytes of results, not {}", used.results, plan.result_bytes())
    })?;
    ensure(used.total() - before <= plan.peak_bytes(), || {
        format!(
            "{} bytes are used, {} announced",
            used.total() - before,
            plan.peak_bytes()
        )
    })?;
    device.remove_model(loaded.model);
    let after = device.memory().used.total();
    ensure(after == before, || {
        format!("{after} bytes are used when all is removed, not {before}")
    })
}

fn sizes(new: NewDevice<'_>) -> Found {
    use lessen_graph::Type;

    let mut device = new(1);
    let model = device.add_model();
    for shape in [&[1usize << 62][..], &[1 << 40, 1 << 40], &[usize::MAX, 3]] {
        let ty = Type::f32(shape);
        ensure(device.allocate(model, "w", &ty).is_err(), || {
            format!("a state of {ty} is allocated")
        })?;
        ensure(device.state_type(model, "w").is_none(), || {
            format!("there is a state of {ty}")
        })?;
    }
    // A scalar seen as an array that no memory holds.
    let trace = Trace::new();
    trace.output("y", trace.input("x", DType::F32, &[]).broadcast_to(&[1 << 50]));
    let plan = device.compile(&trace.finish(), &Options::default()).map_err(text)?;
    ensure(plan.peak_bytes() >= 1 << 52, || {
        "the result is not in the plan's peak".to_string()
    })?;
    let loaded = Loaded::new(device.as_mut(), plan, &Arrays::new());
    ensure(loaded.is_err(), || "a result of 2^50 floats is loaded".to_string())
}

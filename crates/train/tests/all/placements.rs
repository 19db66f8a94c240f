//! Placements that plans choose for each parameter: no worse than one placement for all of them, within budgets and
//! without, and with the same bits.

use crate::support::{descent, device};
use lessen_base::SplitMix64;
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};
use lessen_train::{StepGraphs, StepPlans, Trainer, TrainerOptions};

const ROWS: usize = 8;
const LAYERS: usize = 6;
/// Two arrays with this number of rows and columns fit in a worker's cache with room to spare, as does the narrowest
/// array.
const WIDTH: usize = 224;
/// Arrays with this number of columns do not fit.
const WIDE: usize = 2400;

/// Small layers before a large one, each of two matrices and their offsets. The subtracted mean parts their row groups.
fn loss(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.05 };
    let mut x = cx.input("x", DType::F32, &[ROWS, WIDTH]);
    for layer in 0..LAYERS {
        let own = WIDTH - 16 * layer;
        x = linear(cx, &format!("layer.{layer}.in"), x, own, init).gelu();
        x = linear(cx, &format!("layer.{layer}.out"), x, WIDTH, init);
        x = x - x.sum_axes(&[0]).reshape(&[1, WIDTH]) * (1.0 / ROWS as f64);
    }
    let x = linear(cx, "wide.in", x, WIDE, init).gelu();
    let error = linear(cx, "wide.out", x, 1, init) - cx.input("y", DType::F32, &[ROWS, 1]);
    (error * error).mean()
}

fn options(placement: Placement, clip_norm: Option<f64>, budget: Option<usize>) -> TrainerOptions {
    TrainerOptions {
        placement,
        clip_norm,
        ..descent(0.02, 0.0, budget)
    }
}

/// The plans of a placement; none where the budget is below its floor.
fn plans(placement: Placement, clip_norm: Option<f64>, budget: Option<usize>, threads: usize) -> Option<StepPlans> {
    let options = options(placement, clip_norm, budget);
    let graphs = StepGraphs::new(&options, loss).unwrap();
    StepPlans::new(device(threads).as_ref(), &options, &graphs).ok()
}

fn late(plans: &StepPlans) -> usize {
    let placements = plans.placements();
    placements
        .values()
        .filter(|own| **own == Placement::ForwardFused)
        .count()
}

/// Budgets from the floor to more than any plan takes.
fn budgets(clip_norm: Option<f64>, threads: usize) -> Vec<usize> {
    let free = options(Placement::Planned, clip_norm, None);
    let graphs = StepGraphs::new(&free, loss).unwrap();
    let floor = graphs.floor_bytes(device(threads).as_ref(), &free).unwrap();
    let most = plans(Placement::ForwardFused, clip_norm, None, threads)
        .unwrap()
        .peak_bytes();
    (0..=5).map(|part| floor + part * (most - floor) / 4).collect()
}

#[test]
fn each_parameter_has_a_placement() {
    let count = |placement| {
        let plans = plans(placement, Some(0.1), Some(1 << 30), 1).unwrap();
        (plans.placements().len(), late(&plans))
    };
    let all = 4 * (LAYERS + 1);
    assert_eq!(count(Placement::BackwardFused), (all, 0));
    assert_eq!(count(Placement::ForwardFused), (all, all));
    let (placed, late) = count(Placement::Planned);
    assert!(
        placed == all && 0 < late && late < all,
        "{late} of {placed} are delayed"
    );
}

#[test]
fn chosen_placements_are_no_worse_than_one_for_all_parameters() {
    for threads in [1, 2] {
        for clip_norm in [None, Some(0.1)] {
            let of = |placement, budget| plans(placement, clip_norm, budget, threads);
            let uniform = |budget| {
                let placements = [Placement::BackwardFused, Placement::ForwardFused];
                placements.map(|placement| of(placement, budget)).into_iter().flatten()
            };
            for budget in budgets(clip_norm, threads) {
                let planned = of(Placement::Planned, Some(budget)).unwrap();
                assert!(planned.peak_bytes() <= budget);
                for other in uniform(Some(budget)) {
                    let (own, other) = (planned.step.estimated_seconds(), other.step.estimated_seconds());
                    assert!(own <= other, "{own} s, not {other} s, within {budget} bytes");
                }
            }
            let planned = of(Placement::Planned, None).unwrap();
            for other in uniform(None) {
                let (own, seconds) = (planned.step.estimated_seconds(), other.step.estimated_seconds());
                assert!(own <= 1.03 * seconds, "{own} s, not {seconds} s");
                assert!(own < seconds || planned.peak_bytes() <= other.peak_bytes());
            }
        }
    }
}

#[test]
fn fewer_updates_are_delayed_within_a_tight_budget() {
    let counts = budgets(Some(0.1), 1).into_iter().map(|budget| {
        let plans = plans(Placement::Planned, Some(0.1), Some(budget), 1);
        late(&plans.unwrap())
    });
    let counts: Vec<usize> = counts.collect();
    let free = late(&plans(Placement::Planned, Some(0.1), None, 1).unwrap());
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(
        counts[0] < free && free <= counts[counts.len() - 1],
        "{counts:?}, and {free} without"
    );
}

#[test]
fn accumulated_gradients_delay_no_update() {
    let options = TrainerOptions {
        accumulate: 2,
        ..options(Placement::Planned, Some(0.1), Some(1 << 30))
    };
    let graphs = StepGraphs::new(&options, loss).unwrap();
    let plans = StepPlans::new(device(1).as_ref(), &options, &graphs).unwrap();
    assert_eq!((plans.placements().len(), late(&plans)), (4 * (LAYERS + 1), 0));
}

/// The bits of losses and parameters of a few steps, with a use of the parameters between.
fn trained(options: TrainerOptions, threads: usize) -> (Vec<u32>, Vec<u32>) {
    let mut trainer = Trainer::new(device(threads), options, loss).unwrap();
    let mut random = SplitMix64::keyed(9, 9);
    let mut bits = Vec::new();
    for step in 0..5 {
        let mut draw = |count: usize| (0..count).map(|_| random.unit() as f32 - 0.5).collect::<Vec<_>>();
        let (x, y) = (draw(ROWS * WIDTH), draw(ROWS));
        let report = trainer.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))]).unwrap();
        bits.push(report.loss.to_bits());
        if step == 2 {
            assert_eq!(trainer.broken_parameter().unwrap(), None);
        }
    }
    let weights = trainer.weights().unwrap();
    let values = weights.values().flat_map(|array| array.data.iter());
    (bits, values.map(|value| value.to_bits()).collect())
}

#[test]
fn chosen_placements_change_no_bit() {
    for clip_norm in [None, Some(0.1)] {
        let expected = trained(options(Placement::Separate, clip_norm, None), 1);
        for threads in [1, 2] {
            let within = budgets(clip_norm, threads).into_iter().step_by(2).map(Some);
            for budget in within.chain([None]) {
                let found = trained(options(Placement::Planned, clip_norm, budget), threads);
                assert!(found == expected, "{threads} threads, {clip_norm:?}, {budget:?}");
            }
        }
    }
}

//! Promises of a plan: the peak is the truth, and neither threads nor placement nor budget change a bit of the trained
//! parameters.

use std::collections::HashMap;
use std::sync::OnceLock;

use lessen_compile::Placement;
use lessen_cpu::Device;
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, evaluate};

use crate::plans::gpt::{DEEP, FEW_TOKENS, Size, Trained, Training, WIDE_BATCH, training};
use crate::plans::runner::{Options, compile, floor_bytes, storage};

const STEPS: usize = 4;

fn options(threads: usize, placement: Placement, budget: Option<usize>) -> Options {
    Options {
        threads,
        placement,
        budget,
    }
}

/// Trains and checks the properties of every plan.
fn train(training: &Training, options: &Options) -> Trained {
    let trained = training
        .train(options, STEPS)
        .unwrap_or_else(|e| panic!("{options:?}: {e}"));
    check(&trained.plan).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let planned = trained.plan.peak_bytes();
    assert_eq!(
        planned, trained.measured_peak_bytes,
        "{options:?}: planned and measured peak"
    );
    assert!(
        trained.plan.arena_lower_bound() <= trained.plan.arena_bytes(),
        "{options:?}"
    );
    assert!(
        options.budget.is_none_or(|b| planned <= b),
        "{options:?}: the peak is {planned}"
    );
    trained
}

fn assert_same_bits(a: &Trained, b: &Trained, what: &str) {
    for ((name, a), (_, b)) in a.bits.iter().zip(&b.bits) {
        assert!(a == b, "`{name}` differs {what}");
    }
    assert_eq!(a.bits.len(), b.bits.len());
}

/// One thread, backward-fused, without a budget.
fn plain(size: Size) -> (Training, Trained) {
    let training = training(size);
    let trained = train(&training, &options(1, Placement::BackwardFused, None));
    (training, trained)
}

fn wide_batch() -> &'static (Training, Trained) {
    static PLAIN: OnceLock<(Training, Trained)> = OnceLock::new();
    PLAIN.get_or_init(|| plain(WIDE_BATCH))
}

fn deep() -> &'static (Training, Trained) {
    static PLAIN: OnceLock<(Training, Trained)> = OnceLock::new();
    PLAIN.get_or_init(|| plain(DEEP))
}

#[test]
fn training_agrees_with_the_reference_and_learns() {
    let (training, trained) = wide_batch();
    let mut states: HashMap<String, Array> = training.inputs.clone();
    for step in 0..2 {
        states.extend(training.batch(step));
        let results = evaluate(&training.graph, &states).unwrap();
        let (found, expected) = (trained.losses[step], results["loss"].item());
        assert!(
            (f64::from(found) - expected).abs() < 1e-4,
            "step {step}: the loss is {found}, not {expected}"
        );
        states.extend(results);
    }
    let (first, last) = (trained.losses[0], trained.losses[STEPS - 1]);
    assert!(last < first - 0.2, "the losses are {:?}", trained.losses);
}

#[test]
fn threads_change_no_bit() {
    let (training, one) = wide_batch();
    for threads in [2, 3, 4] {
        let several = train(training, &options(threads, Placement::BackwardFused, None));
        assert_same_bits(one, &several, &format!("with {threads} threads"));
    }
}

#[test]
fn a_plan_for_several_threads_runs_on_a_device_with_fewer() {
    let training = training(FEW_TOKENS);
    let plan = compile(&training.graph, &options(3, Placement::Separate, None)).unwrap();
    let mut executable = lessen_cpu::Executable::load(plan);
    let mut store = training.store();
    let batch = training.batch(0);
    crate::plans::runner::run(&mut executable, &mut Device::new(2).unwrap(), &mut store, &batch).unwrap();
    let mut device = Device::new(4).unwrap();
    let error = crate::plans::runner::run(&mut executable, &mut device, &mut store, &batch).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the plan is for 3 threads, the device has 4; compile for it"
    );
}

#[test]
fn placement_changes_no_bit() {
    let (training, fused) = wide_batch();
    for threads in [1, 2] {
        let separate = train(training, &options(threads, Placement::Separate, None));
        assert_same_bits(fused, &separate, "when updates are separate");
    }
}

#[test]
fn fusing_updates_into_backward_frees_gradients() {
    let (training, fused) = plain(FEW_TOKENS);
    let separate = train(&training, &options(1, Placement::Separate, None));
    assert_same_bits(&fused, &separate, "when updates are separate");
    let (with, without) = (fused.plan.peak_bytes(), separate.plan.peak_bytes());
    assert!(with < without, "the peak is {with} fused and {without} separate");
}

#[test]
fn a_budget_changes_no_bit_and_is_kept() {
    let (training, free) = deep();
    for placement in [Placement::BackwardFused, Placement::Separate] {
        let unlimited = train(training, &options(2, placement, None)).plan.peak_bytes();
        let floor = floor_bytes(&training.graph, &options(2, placement, None)).unwrap();
        assert!(
            floor < unlimited,
            "there is something to recompute: {floor} of {unlimited} bytes"
        );
        let mut peaks = Vec::new();
        for part in (0..=4).rev() {
            let budget = floor + (unlimited - floor) * part / 4;
            let trained = train(training, &options(2, placement, Some(budget)));
            assert_same_bits(
                free,
                &trained,
                &format!("with a budget of {budget} bytes, {placement:?}"),
            );
            peaks.push(trained.plan.peak_bytes());
        }
        assert!(
            peaks.is_sorted_by(|a, b| a >= b),
            "a tighter budget gives a higher peak: {peaks:?}"
        );
        assert!(peaks[4] < peaks[0], "{peaks:?}");
    }
}

#[test]
fn more_budget_never_gives_a_slower_plan() {
    let (training, _) = deep();
    let placement = Placement::BackwardFused;
    let floor = floor_bytes(&training.graph, &options(2, placement, None)).unwrap();
    let unlimited = compile(&training.graph, &options(2, placement, None))
        .unwrap()
        .peak_bytes();
    let mut before = f64::INFINITY;
    for part in 0..=16 {
        let budget = floor + (unlimited - floor) * part / 16;
        let plan = compile(&training.graph, &options(2, placement, Some(budget))).unwrap();
        let seconds = plan.estimated_seconds();
        assert!(
            seconds <= before,
            "{budget} bytes take {seconds} seconds, less took {before}"
        );
        before = seconds;
    }
}

#[test]
fn a_budget_below_the_floor_is_refused_with_the_floor() {
    let training = training(DEEP);
    let floor = floor_bytes(&training.graph, &options(2, Placement::BackwardFused, None)).unwrap();
    for budget in [floor - 1, floor / 2, 0] {
        let refused = training.train(&options(2, Placement::BackwardFused, Some(budget)), 1);
        let sentence = refused
            .err()
            .unwrap_or_else(|| panic!("a budget of {budget} bytes is below {floor}"));
        let begin = format!("the budget of {budget} bytes is below the floor of {floor} bytes;");
        assert!(sentence.to_string().starts_with(&begin), "{sentence}");
    }
}

#[test]
fn compiling_twice_gives_the_same_plan() {
    let (training, _) = wide_batch();
    let plan = || {
        let plan = compile(&training.graph, &options(2, Placement::BackwardFused, None)).unwrap();
        let steps: Vec<String> = plan.steps().iter().map(|s| format!("{s:?}")).collect();
        (
            lessen_graph::print(plan.graph()),
            storage(&plan),
            steps,
            plan.arena_bytes(),
        )
    };
    assert_eq!(plan(), plan());
}

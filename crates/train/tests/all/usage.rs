//! What the arena holds in each step of a plan.

use crate::support::device;
use lessen_compile::Placement;
use lessen_graph::Phase;
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::{BatchShape, Model};
use lessen_train::{StepGraphs, StepPlans, TrainerOptions};

fn plans(placement: Placement, share_of_free: Option<f64>) -> StepPlans {
    let model: Model = LessenEncoder {
        config: EncoderConfig {
            width: 32,
            ffn: 64,
            ..EncoderConfig::default()
        },
    }
    .into();
    let shape = BatchShape::Padded { size: 4, length: 16 };
    let mut options = TrainerOptions {
        placement,
        ..TrainerOptions::new(0.1)
    };
    let graphs = StepGraphs::new(&options, |cx| model.forward(cx, shape).loss).unwrap();
    let backend = device(2);
    let free = StepPlans::new(backend.as_ref(), &options, &graphs).unwrap();
    let Some(share) = share_of_free else { return free };
    let floor = graphs.floor_bytes(backend.as_ref(), &options).unwrap();
    options.budget = Some(floor + (share * (free.peak_bytes() - floor) as f64) as usize);
    StepPlans::new(backend.as_ref(), &options, &graphs).unwrap()
}

#[test]
fn the_greatest_usage_is_the_bound_of_the_arena() {
    for placement in [
        Placement::Separate,
        Placement::BackwardFused,
        Placement::ForwardFused,
        Placement::Planned,
    ] {
        for share in [None, Some(0.0), Some(0.5)] {
            let plan = plans(placement, share).step;
            let usage = plan.usage();
            let most = usage.iter().map(|step| step.total()).max().unwrap();
            assert_eq!((usage.len(), most), (plan.steps().len(), plan.arena_lower_bound()));
            assert!(most <= plan.arena_bytes());
        }
    }
}

#[test]
fn forward_values_grow_until_backward_frees_them() {
    let usage = plans(Placement::BackwardFused, None).step.usage();
    let first = usage.iter().position(|step| step.phase == Phase::Backward).unwrap();
    let (forward, backward) = usage.split_at(first);
    assert!(usage[0].inputs > 0 && forward.iter().all(|step| step.backward + step.update == 0));
    let kept = |steps: &[lessen_compile::StepUsage]| steps.iter().map(|step| step.forward).collect::<Vec<_>>();
    let at_end = *kept(backward).last().unwrap();
    assert!(kept(backward)[0] > 10 * at_end, "{} and {at_end}", kept(backward)[0]);
    assert!(backward.iter().any(|step| step.backward > 0));
    assert!(
        usage.iter().any(|step| step.name.contains("attention")),
        "{:?}",
        usage[0].name
    );
}

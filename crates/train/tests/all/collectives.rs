//! Operations of several ranks in the model function: processes whose steps exchange values.

use crate::processes::on;
use crate::support::device;
use lessen_device::Host;
use lessen_graph::{DType, Ranks, Tensor, all_gather, all_reduce, broadcast_from, reduce_scatter};
use lessen_nn::layers::linear;
use lessen_nn::{BatchShape, Cx, Init};
use lessen_train::{Group, Part, Result, StepGraphs, Trainer, TrainerOptions};

const ROWS: usize = 6;
const WIDTH: usize = 40;
const STEPS: usize = 5;

/// Rows that are normalized over the batches of all groups, each compared with those of all groups.
fn loss(cx: Cx, rows: usize) -> Tensor {
    loss_of(cx, rows, cx.ranks())
}

fn loss_of(cx: Cx, rows: usize, ranks: Ranks) -> Tensor {
    let count = ranks.count as f64;
    let x = cx.input("x", DType::F32, &[rows, 4]);
    let y = linear(cx, "first", x, WIDTH, Init::Normal { std: 0.5 }).tanh();
    let over_all = |y: Tensor| all_reduce(&[y.mean_axes(&[0])], ranks) / count;
    let mean = over_all(y);
    let centred = y - mean;
    let z = centred / (over_all(centred * centred) + 1e-3).sqrt();
    let z = linear(cx, "last", z, 8, Init::Normal { std: 0.3 });
    let shape = [rows * ranks.count * 8];
    let all = all_gather(z.reshape(&[rows * 8]), &shape, ranks, rows * 8);
    let all = all.reshape(&[rows * ranks.count, 8]);
    let alike = z.matmul(all.transpose(0, 1)).tanh();
    // The first rank's scale is that of all.
    let scale = broadcast_from(y.scalar_like(1.0 + ranks.rank as f64), 0, ranks);
    let own = reduce_scatter(&[all.reshape(&shape)], ranks, rows * 8) / count;
    (alike * alike).mean() * scale + 0.1 * (own * own).mean()
}

fn number(step: usize, at: usize) -> f32 {
    ((step * 977 + at * 37) % 101) as f32 / 50.0 - 1.0
}

/// The bits of the parameters after some steps of `groups` groups, the losses, and the floor, on this process.
fn trained(groups: usize, group: Group, budget: Option<usize>) -> Result<(Vec<f32>, Vec<f32>, usize)> {
    let rows = 4 * ROWS / groups;
    let options = TrainerOptions {
        accumulate: groups,
        ranks: groups,
        group,
        budget,
        ..TrainerOptions::new(0.02)
    };
    let model = |cx: Cx| loss(cx, rows);
    let own = options.own_groups();
    let floor = StepGraphs::new(&options, model)?.floor_bytes(
        device(1).as_ref(),
        &TrainerOptions {
            budget: None,
            ..options.clone()
        },
    )?;
    let mut trainer = Trainer::new(device(1), options, model)?;
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let x = |group: usize| {
            (0..4 * rows)
                .map(move |at| number(step, group * 4 * rows + at))
                .collect()
        };
        let all: Vec<Vec<f32>> = own.clone().map(x).collect();
        let inputs: Vec<_> = all.iter().map(|x| [("x", Host::F32(x))]).collect();
        let parts = inputs.iter().map(|inputs| Part::new(1.0 / groups as f32, inputs));
        losses.push(trainer.step_on(&parts.collect::<Vec<_>>())?.loss);
    }
    assert_eq!(trainer.peak().planned, trainer.peak().measured);
    let weights = trainer.weights()?;
    Ok((
        weights.values().flat_map(|weight| weight.data.clone()).collect(),
        losses,
        floor,
    ))
}

#[test]
fn groups_that_normalize_over_all_of_their_batches_train_as_one_does_on_any_number_of_processes() {
    let (alone, losses, _) = trained(1, Group::alone(), None).unwrap();
    for groups in [2, 4] {
        let (expected, own_losses, _) = trained(groups, Group::alone(), None).unwrap();
        for (one, other) in own_losses.iter().zip(&losses) {
            assert!(
                (one - other).abs() < 1e-5 * other.abs(),
                "{own_losses:?}, not {losses:?}"
            );
        }
        let furthest = expected.iter().zip(&alone).map(|(x, y)| (x - y).abs());
        let furthest = furthest.fold(0.0, f32::max);
        assert!(furthest < 1e-4, "{furthest}");
        for size in 1..=groups {
            let all = on(size, move |group| trained(groups, group, None).unwrap());
            let is_same = |own: &(Vec<f32>, Vec<f32>, usize)| own.0 == expected && own.1 == own_losses;
            assert!(all.iter().all(is_same), "{size} processes differ");
            let floor = all.iter().map(|own| own.2).max().unwrap();
            // No budget has a message sent twice.
            let least = on(size, move |group| trained(groups, group, Some(floor)).unwrap());
            assert_eq!(least[0].0, expected);
        }
    }
}

#[test]
fn a_model_of_other_ranks_than_the_groups_and_a_function_of_several_are_refused() {
    let ranks = Ranks {
        rank: 0,
        count: 2,
        leaves: 2,
    };
    let error = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| loss_of(cx, ROWS, ranks))
        .err()
        .unwrap();
    assert!(error.to_string().contains("take Cx::ranks"), "{error}");
    let planned = TrainerOptions {
        accumulate: 4,
        ranks: 2,
        group: Group::planned(0, 2, None),
        ..TrainerOptions::new(0.1)
    };
    let error = StepGraphs::new(&planned, |cx| loss(cx, ROWS)).err().unwrap();
    assert!(error.to_string().contains("set ranks = 4"), "{error}");
    let options = TrainerOptions {
        accumulate: 2,
        ..planned
    };
    let graphs = StepGraphs::new(&options, |cx| loss(cx, ROWS)).unwrap();
    let error = graphs
        .with_function(|cx| vec![("loss", loss_of(cx, ROWS, ranks))])
        .err()
        .unwrap();
    assert!(error.to_string().contains("in steps alone"), "{error}");
}

#[test]
fn groups_side_by_side_have_batches_of_one_layout() {
    let options = TrainerOptions {
        accumulate: 2,
        ranks: 2,
        ..TrainerOptions::new(0.1)
    };
    let mut trainer = Trainer::new(device(1), options, |cx| loss(cx, ROWS)).unwrap();
    let shape = BatchShape::Padded { size: ROWS, length: 4 };
    let error = trainer.add_step(shape, |cx| loss(cx, ROWS)).err().unwrap();
    assert!(error.to_string().contains("batches of one layout"), "{error}");
}

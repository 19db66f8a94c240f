//! Experiments on condensed sets, at small size.

use crate::support::{device, images, small_network};
use lessen_condense::experiments::{
    ClassView, condensed_sets, continual, cross_architecture, proxy, rank_correlation, small_convnets,
};
use lessen_condense::{
    Augmentation, Coreset, ImageSource, InnerEpochs, LabelledImages, Method, Network, Settings, TrainingSettings,
    coreset, evaluate,
};
use lessen_nn::models::vision::{ConvNet, Norm, VisionModel, mlp};

fn training(epochs: usize) -> TrainingSettings {
    TrainingSettings {
        epochs: Some(epochs),
        rate: 0.1,
        ..TrainingSettings::default()
    }
}

fn condensing() -> Settings {
    Settings {
        iterations: 3,
        updates: 2,
        epochs: InnerEpochs::Fixed(1),
        real_batch: 8,
        ..Settings::published(Method::Md, 1).expect("an image of a class")
    }
}

#[test]
fn every_source_is_tested_on_every_target() {
    let (source, test) = (images(3, 8, [8, 8, 1], 1), images(3, 20, [8, 8, 1], 2));
    let conv = small_network(3);
    let mlp = VisionModel::Plain(mlp(3));
    let device = device(2);
    let mut told = Vec::new();
    let sets = condensed_sets(&device, &conv, &source, (&condensing(), 2), &mut |set, update| {
        told.push((set, update.iteration, update.update));
        Ok(())
    });
    let sets = sets.expect("two sets");
    assert_eq!(told.len(), 2 * 3 * 2);
    assert_ne!(sets[0], sets[1], "sets have seeds of their own");
    let real = [LabelledImages::part_of(&source, &[0, 8, 16]).expect("a part")];
    let sources: [(&str, &[LabelledImages]); 2] = [("conv", &sets), ("real", &real)];
    let targets: [(&str, &dyn Network); 2] = [("conv", &conv), ("mlp", &mlp)];
    let mut cells = Vec::new();
    let matrix = cross_architecture(
        &device,
        (&sources, &targets),
        &test,
        (&|_| Ok(training(4)), 2),
        &mut |row, column, accuracy| {
            cells.push((row, column, accuracy.values().len()));
            Ok(())
        },
    );
    let matrix = matrix.expect("a matrix");
    assert_eq!(cells, [(0, 0, 4), (0, 1, 4), (1, 0, 2), (1, 1, 2)]);
    assert_eq!(matrix.targets, ["conv", "mlp"]);
    // A cell is the evaluation of that network on those sets.
    let own: Vec<&dyn ImageSource> = sets.iter().map(|set| set as &dyn ImageSource).collect();
    let cell = evaluate(device.clone(), &mlp, (&own, &test), (&training(4), 2), &mut |_| Ok(()));
    assert_eq!(matrix.accuracies[0][1], cell.expect("an evaluation"));
}

#[test]
fn small_convnets_differ_and_their_ranks_are_compared() {
    let nets = small_convnets(3);
    assert_eq!(nets.len(), 10);
    let counts = nets.iter().map(|(name, net)| {
        let params = net.parameters([8, 8, 1]).expect("parameters");
        (
            *name,
            params.iter().map(|param| param.shape.iter().product::<usize>()).sum(),
        )
    });
    let counts: Vec<(&str, usize)> = counts.collect();
    assert!(counts[1].1 < counts[0].1 && counts[0].1 < counts[2].1, "{counts:?}");
    let (whole, test) = (images(3, 8, [8, 8, 1], 1), images(3, 30, [8, 8, 1], 2));
    let few = LabelledImages::part_of(&whole, &[0, 8, 16]).expect("a part");
    let candidates: Vec<(&str, &dyn Network)> = nets[..3]
        .iter()
        .map(|(name, net)| (*name, net as &dyn Network))
        .collect();
    let (short, long) = (training(2), training(3));
    let sets: [(&dyn ImageSource, &TrainingSettings); 2] = [(&few, &short), (&whole, &long)];
    let mut told = Vec::new();
    let found = proxy(&device(2), &candidates, (sets, &test), 2, &mut |candidate| {
        told.push(candidate.name.clone());
        Ok(())
    });
    let found = found.expect("a comparison");
    assert_eq!(told, ["width-32", "width-8", "width-64"]);
    let means = |whole: bool| -> Vec<f64> {
        let of = found.candidates.iter();
        of.map(|own| if whole { own.whole.mean() } else { own.condensed.mean() })
            .collect()
    };
    assert_eq!(found.rank_correlation(), rank_correlation(&means(false), &means(true)));
    assert_eq!(
        found.seconds()[1],
        found.candidates.iter().map(|own| own.seconds[1]).sum::<f64>()
    );
}

#[test]
fn classes_are_learnt_in_steps_from_memory_alone() {
    let (source, test) = (images(8, 6, [8, 8, 1], 1), images(8, 20, [8, 8, 1], 2));
    let device = device(2);
    let steps: [&[u32]; 4] = [&[7, 0], &[3], &[2, 5], &[1, 4, 6]];
    let network = |classes: usize| -> Box<dyn Network> { Box::new(small_network(classes)) };
    let mut classes = Vec::new();
    let mut by_coreset = |network: &dyn Network, new: &dyn ImageSource| {
        classes.push((new.classes(), new.labels().len()));
        let method = (Coreset::Random, 2);
        let chosen = coreset(device.clone(), network, new, method, &training(1), &mut |_, _| Ok(()))?;
        LabelledImages::part_of(new, &chosen)
    };
    let how = (&training(20), 2);
    let learn = |remember: &mut dyn FnMut(&dyn Network, &dyn ImageSource) -> lessen_base::Result<LabelledImages>| {
        let mut told = Vec::new();
        let accuracies = continual(
            &device,
            &network,
            (&source, &test, &steps),
            remember,
            how,
            &mut |step, _| {
                told.push(step);
                Ok(())
            },
        );
        assert_eq!(told, [0, 1, 2, 3]);
        accuracies.expect("four steps")
    };
    let accuracies = learn(&mut by_coreset);
    assert_eq!(classes, [(2, 12), (1, 6), (2, 12), (3, 18)]);
    assert!(
        accuracies[0].mean() > 0.9 && accuracies[3].mean() > 0.5,
        "{accuracies:?}"
    );
    let mut condensed = |network: &dyn Network, new: &dyn ImageSource| {
        let mut sets = condensed_sets(&device, network, new, (&condensing(), 1), &mut |_, _| Ok(()))?;
        Ok(sets.remove(0))
    };
    assert_eq!(learn(&mut condensed).len(), 4);
}

#[test]
fn views_number_classes_anew() {
    let source = images(4, 3, [2, 2, 1], 1);
    let view = ClassView::new(&source, &[3, 1]).expect("two classes");
    assert_eq!(view.labels(), [1, 1, 1, 0, 0, 0]);
    assert_eq!(
        view.gather(&[0, 5]).expect("pixels"),
        source.gather(&[3, 11]).expect("pixels")
    );
    let refusal = |classes: &[u32]| ClassView::new(&source, classes).err().expect("a refusal").to_string();
    assert!(refusal(&[1, 1]).contains("class 1 is given twice"));
    assert!(refusal(&[4]).contains("there is no class 4"));
    assert!(refusal(&[]).contains("at least one"));
}

#[test]
fn joined_sets_have_classes_of_their_own() {
    let (one, other) = (images(2, 1, [2, 2, 1], 1), images(3, 1, [2, 2, 1], 2));
    let hard = LabelledImages::of_more_classes(&[one.clone(), other.clone()]).expect("a set");
    assert_eq!(
        (hard.classes(), hard.labels(), hard.soft_labels()),
        (5, &[0, 1, 2, 3, 4][..], None)
    );
    let soft = one.with_soft_labels(vec![0.75, 0.25, 0.5, 0.5]).expect("soft labels");
    let soft = LabelledImages::of_more_classes(&[other, soft]).expect("a set");
    let rows = soft.soft_labels().expect("soft labels");
    assert_eq!(rows[..5], [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(rows[15..], [0.0, 0.0, 0.0, 0.75, 0.25, 0.0, 0.0, 0.0, 0.5, 0.5]);
    let wide = images(2, 1, [2, 3, 1], 1);
    assert!(LabelledImages::of_more_classes(&[hard, wide]).is_err());
    assert!(LabelledImages::of_more_classes(&[]).is_err());
}

#[test]
fn published_settings_follow_digits_and_batch_normalization() {
    let plain = small_network(3);
    let normed = VisionModel::from(ConvNet {
        width: 4,
        depth: 1,
        norm: Norm::default(),
        ..ConvNet::new(3)
    });
    for (network, digits, augmentation, epochs) in [
        (&plain, false, Augmentation::None, 300),
        (&plain, true, Augmentation::CropScaleRotate, 1000),
        (&normed, true, Augmentation::CropNoise, 1000),
    ] {
        let settings = TrainingSettings::published(network, [8, 8, 1], digits).expect("settings");
        assert_eq!((settings.augmentation, settings.epochs()), (augmentation, epochs));
        assert_eq!(settings.rate_of(epochs / 2 - 1, None), Ok(0.01));
        assert_eq!(settings.rate_of(epochs / 2, None), Ok(0.1 * 0.01));
        assert_eq!(settings.rate_of(0, Some(0.5)), Ok(0.5));
        assert!(settings.rate_of(0, Some(-0.5)).is_err());
    }
}

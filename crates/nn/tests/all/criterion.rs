//! How labels count: smoothing, weights of classes, and several labels of a text.

use crate::fine_tuning::values;
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::{BatchShape, Criterion, Cx, Model, Task, numbered_labels};

/// A classifier of texts of two tokens. A text has one of three classes, or several with `multi_label`.
fn classifier(multi_label: bool) -> Model {
    let config = EncoderConfig {
        vocab_size: 8,
        width: 4,
        layers: 1,
        heads: 1,
        ffn: 4,
        max_length: 2,
        labels: numbered_labels(3),
        multi_label,
        ..EncoderConfig::default()
    };
    Model::from(LessenEncoder { config })
}

/// The loss of a classifier of three classes by hand: labels, then the weights of classes.
fn classifier_loss(criterion: &Criterion, labels: &[i32]) -> f64 {
    let model = classifier(false);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false).with_criterion(criterion);
    let batch = BatchShape::Padded {
        size: labels.len(),
        length: 2,
    };
    let outputs = model.forward(cx, batch);
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    let graph = trace.finish();
    let mut given = values(&graph);
    given.insert("labels".into(), Array::i32(&[labels.len()], labels));
    let tokens: Vec<i32> = (0..2 * labels.len() as i32).map(|i| i % 8).collect();
    given.insert("tokens".into(), Array::i32(&[labels.len(), 2], &tokens));
    let mask = Type::new(DType::Bool, &[labels.len(), 2]);
    given.insert("mask".into(), Array::full(mask, 1.0));
    let results = evaluate_exactly(&graph, &given).unwrap();
    let (mut sum, mut whole) = (0.0, 0.0);
    for (logits, &label) in results["logits"].data.chunks(3).zip(labels) {
        if label < 0 {
            continue;
        }
        let log_sum = logits.iter().map(|z| z.exp()).sum::<f64>().ln();
        let weight = criterion
            .class_weights
            .as_ref()
            .map_or(1.0, |w| f64::from(w[label as usize]));
        let s = criterion.smoothing;
        let target = |class: usize| f64::from(class == label as usize) * (1.0 - s) + s / 3.0;
        let of_class = |class: usize| criterion.class_weights.as_ref().map_or(1.0, |w| f64::from(w[class]));
        let own = |class: usize| target(class) * of_class(class) * (log_sum - logits[class]);
        sum += (0..3).map(own).sum::<f64>();
        whole += weight;
    }
    let expected = if whole > 0.0 { sum / whole } else { 0.0 };
    let found = results["loss"].item();
    assert!(
        (found - expected).abs() < 1e-9,
        "{found} for {expected} with {criterion:?}"
    );
    found
}

#[test]
fn smoothing_and_class_weights_count_labels_as_they_say() {
    let labels = [2, 0, -100, 1, 2];
    let criterion = |smoothing, class_weights| Criterion {
        smoothing,
        class_weights,
        ..Criterion::default()
    };
    let weights = Some(vec![0.5, 1.0, 3.0]);
    let losses = [
        classifier_loss(&criterion(0.0, None), &labels),
        classifier_loss(&criterion(0.1, None), &labels),
        classifier_loss(&criterion(0.0, weights.clone()), &labels),
        classifier_loss(&criterion(0.1, weights.clone()), &labels),
    ];
    for (i, loss) in losses.iter().enumerate() {
        assert!(
            losses[..i].iter().all(|other| (other - loss).abs() > 1e-6),
            "{losses:?}"
        );
    }
    // Equal weights are none, and a batch without labels has no loss.
    let equal = classifier_loss(&criterion(0.0, Some(vec![2.0; 3])), &labels);
    assert!((equal - losses[0]).abs() < 1e-12);
    assert_eq!(classifier_loss(&criterion(0.0, weights), &[-100, -100]), 0.0);
}

#[test]
fn several_labels_of_a_text_have_binary_cross_entropies() {
    let model = classifier(true);
    assert_eq!(model.task(), Task::MultiLabelClassification { classes: 3 });
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let outputs = model.forward(cx, BatchShape::Padded { size: 3, length: 2 });
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    let graph = trace.finish();
    let mut given = values(&graph);
    let targets = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    given.insert("targets".into(), Array::f32(&[3, 3], targets.to_vec()));
    // The last row is padding.
    given.insert("weights".into(), Array::f32(&[3], vec![1.0, 1.0, 0.0]));
    given.insert("tokens".into(), Array::i32(&[3, 2], &[0, 1, 2, 3, 4, 5]));
    given.insert("mask".into(), Array::full(Type::new(DType::Bool, &[3, 2]), 1.0));
    // Logits so large that a plain logarithm of the probability would be infinite.
    let bias = Array::f32(&[3], vec![800.0, -800.0, 0.5]);
    given.insert("classifier.bias".into(), bias);
    let results = evaluate_exactly(&graph, &given).unwrap();
    let softplus = |z: f64| z.max(0.0) + (-z.abs()).exp().ln_1p();
    let rows = results["logits"].data.iter().zip(&targets).take(6);
    let expected: f64 = rows
        .map(|(&z, &y)| y * softplus(-z) + (1.0 - y) * softplus(z))
        .sum::<f64>()
        / 6.0;
    let found = results["loss"].item();
    assert!(
        found > 100.0 && (found - expected).abs() < 1e-9 * expected,
        "{found} for {expected}"
    );

    // The configuration says so to transformers, and is read back.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("config.json"),
        serde_json::to_string(&model.config_json()).unwrap(),
    )
    .unwrap();
    assert_eq!(model.config_json()["problem_type"], "multi_label_classification");
    assert_eq!(Model::from_dir(dir.path()).unwrap().task(), model.task());
}

//! Derivatives of whole models agree with differences: every attention, position, loss and activation.

use crate::small_models::{WEIGHTINGS, all_models, attention, given, loss_and_gradients};
use crate::support::Arrays;
use lessen_nn::{Activation, AttentionConfig, Model, Position};

/// Compares the derivative along a direction in all parameters with a central difference.
fn check_derivative(what: &str, model: &Model) {
    const STEP: f64 = 1e-6;
    let given = given(model);
    let found = loss_and_gradients(model, &given);
    let mut random = lessen_base::SplitMix64::new(7);
    let (mut before, mut after, mut slope) = (given.clone(), given.clone(), 0.0);
    for param in model.parameters() {
        let gradient = &found[&param.name];
        for (i, derivative) in gradient.data.iter().enumerate() {
            let direction = random.unit() - 0.5;
            slope += direction * derivative;
            before.get_mut(&param.name).unwrap().data[i] -= STEP * direction;
            after.get_mut(&param.name).unwrap().data[i] += STEP * direction;
        }
    }
    let loss = |given: &Arrays| loss_and_gradients(model, given)["loss"].item();
    let difference = (loss(&after) - loss(&before)) / (2.0 * STEP);
    assert!(
        (difference - slope).abs() < 2e-7 * (1.0 + slope.abs()),
        "{what}: the derivative is {slope}, the difference {difference}"
    );
}

#[test]
fn derivatives_agree_with_differences() {
    for position in Position::ALL {
        for (i, weighting) in WEIGHTINGS.into_iter().enumerate() {
            for model in all_models(attention(weighting, position, i % 2 == 0)) {
                let what = format!("{} with {weighting} and {position}", model.architecture().name());
                check_derivative(&what, &model);
            }
        }
    }
}

#[test]
fn derivatives_of_normalized_losses_agree_with_differences() {
    for loss in [
        "norm_softmax",
        "norm_softmax:gamma=inf,tau=0.5",
        "norm_softmax:floor=0.1",
        "logit_norm",
    ] {
        for mut model in all_models(AttentionConfig::default()) {
            model.set_loss(loss.parse().unwrap());
            check_derivative(&format!("{} with {loss}", model.architecture().name()), &model);
        }
    }
}

#[test]
fn activations_are_those_that_the_model_names() {
    for activation in [Activation::Elu(0.5), Activation::Silu] {
        for mut model in all_models(AttentionConfig::default()) {
            model.set_activation(activation);
            check_derivative(&format!("{} with {activation}", model.architecture().name()), &model);
        }
    }
    // HeLU has the values of ReLU, and derivatives of its own.
    for mut model in all_models(AttentionConfig::default()) {
        let given = given(&model);
        let mut with = |activation| {
            model.set_activation(activation);
            loss_and_gradients(&model, &given)
        };
        let (relu, helu) = (with(Activation::Relu), with(Activation::Helu(0.5)));
        assert_eq!(relu["loss"], helu["loss"]);
        assert_ne!(relu, helu);
        assert_eq!(relu, with(Activation::Helu(0.0)));
    }
}

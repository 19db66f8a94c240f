//! How often images and network are updated.

use crate::support::{device, images, small_network};
use lessen_condense::{Condensation, Condenser, InnerEpochs, Method, Settings, published};

/// Epochs of the network in an outer iteration, for 10 and for 50 images of a class: none follow the last update.
#[test]
fn the_papers_schedules_have_their_number_of_epochs() {
    let epochs = |method, per_class| {
        let settings = Settings::published(method, per_class).expect("a number of images");
        settings.epochs_of_iteration()
    };
    assert_eq!([10, 50].map(|per_class| epochs(Method::Md, per_class)), [450, 490]);
    assert_eq!([10, 50].map(|per_class| epochs(Method::Mda, per_class)), [190, 395]);
    assert_eq!([Method::Md, Method::Mda].map(|method| epochs(method, 1)), [0, 0]);
    assert_eq!(published(1).expect("1 image"), (1, 1));
    assert_eq!(published(49).expect("49 images"), (40, 15));
}

#[test]
fn an_outer_iteration_has_the_epochs_of_its_schedule() {
    let (source, network) = (images(2, 4, [8, 8, 1], 1), small_network(2));
    for (epochs, expected) in [
        (
            InnerEpochs::Adaptive(50),
            [50, 40, 30, 20, 10, 10, 10, 10, 10, 10, 5, 0],
        ),
        (InnerEpochs::Adaptive(5), [5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0]),
        (InnerEpochs::Fixed(3), [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0]),
    ] {
        let settings = Settings {
            updates: 12,
            epochs,
            ..Settings::published(Method::Md, 1).expect("1 image of a class")
        };
        let mut condenser = Condenser::new(device(1), &network, &source, settings).expect("a condensation");
        let mut found = Vec::new();
        let iterated = condenser.iterate(&mut |update| {
            found.push(update.epochs);
            Ok(())
        });
        iterated.expect("an iteration");
        assert_eq!(found, expected);
    }
}

/// Steps that are far too long raise the loss of the real images above that before the first one.
#[test]
fn overfitting_is_told_by_the_loss_before_the_first_epoch() {
    let (source, network) = (images(2, 4, [8, 8, 1], 1), small_network(2));
    let epochs = |network_rate| -> Vec<usize> {
        let settings = Settings {
            updates: 4,
            epochs: InnerEpochs::UntilOverfit(3),
            network_rate,
            ..Settings::published(Method::Mdo, 1).expect("1 image of a class")
        };
        let mut condenser = Condenser::new(device(1), &network, &source, settings).expect("a condensation");
        let mut found = Vec::new();
        let iterated = condenser.iterate(&mut |update| {
            found.push(update.epochs);
            Ok(())
        });
        iterated.expect("an iteration");
        found
    };
    assert_eq!(epochs(30.0)[0], 1);
    // A network that stays as it is never overfits.
    assert_eq!(epochs(0.0), [3, 3, 3, 0]);
}

#[test]
fn a_schedule_reads_the_words_it_writes() {
    for text in ["7", "adaptive", "adaptive:5", "until-overfit:5"] {
        let epochs: InnerEpochs = text.parse().expect("a schedule");
        assert_eq!(epochs.to_string(), text);
    }
    assert_eq!(
        "adaptive:50".parse::<InnerEpochs>().expect("a schedule"),
        InnerEpochs::Adaptive(50)
    );
    for text in [
        "",
        "-1",
        "5:5",
        "adaptive:",
        "adaptive:x",
        "fixed:5",
        "until-overfit:1:2",
    ] {
        let refusal = text.parse::<InnerEpochs>().expect_err(text).to_string();
        assert!(refusal.contains("adaptive:NUMBER"), "{text}: {refusal}");
    }
    assert_eq!(InnerEpochs::Adaptive(usize::MAX).most(0), usize::MAX);
}

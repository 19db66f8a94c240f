//! The printed summary of a model.

use crate::support::device;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};
use lessen_train::{Trainer, TrainerOptions, show_size};

fn loss(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[2, 30]);
    let x = cx.scope("body", |cx| linear(cx, "first", x, 64, Init::Ones));
    let x = linear(cx, "head", x, 3, Init::Ones) * cx.param("scale", &[], Init::Ones);
    (x + cx.buffer("shift", &[3], Init::Zeros)).mean()
}

#[test]
fn a_summary_has_a_row_for_each_layer_and_what_the_training_takes() {
    let options = TrainerOptions {
        frozen: "body.*".parse().unwrap(),
        ..TrainerOptions::new(0.1)
    };
    let trainer = Trainer::new(device(1), options, loss).unwrap();
    let summary = trainer.summary();
    assert_eq!((summary.elements(), summary.trained()), (1984 + 195 + 4, 196));
    assert_eq!(summary.parameter_bytes, 4 * (1984 + 195 + 4));
    // Two moments of AdamW for what is trained.
    assert_eq!(summary.state_bytes, 2 * 4 * 196);
    assert_eq!(summary.planned_peak, trainer.peak().planned);
    let expected = format!(
        "\
layer       shapes                      parameters    bytes  trained
body.first  weight [64, 30], bias [64]       1,984  7.8 KiB  no
head        weight [3, 64], bias [3]           195    780 B  yes
            scale [], shift [3]                  4     16 B  1 of them
total                                        2,183  8.5 KiB  196
states of training: 1.5 KiB; planned peak of the training: {}",
        show_size(summary.planned_peak)
    );
    assert_eq!(summary.to_string(), expected);
}

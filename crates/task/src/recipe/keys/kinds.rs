//! Kinds of values that several keys take.

use crate::recipe::class_weights::ClassWeights;
use crate::recipe::column_names::ColumnNames;
use crate::recipe::image_lists::{Augmentations, ChannelNumbers};
use crate::recipe::value::{TextSyntax, ValueKind};
use lessen_condense::{Distance, InnerEpochs, Strategy};
use lessen_graph::ops::attention::Weighting;
use lessen_nn::{Activation, Bits, Loss, Patterns, Ranges};
use std::str::FromStr;

pub(super) const SHARE: ValueKind = ValueKind::Number(0.0, 1.0);
pub(super) const NOT_NEGATIVE: ValueKind = ValueKind::Number(0.0, f64::MAX);
pub(super) const PATH: ValueKind = ValueKind::Path(&[]);
pub(super) const ACTIVATION: ValueKind = form::<Activation>(Activation::words);
pub(super) const ATTENTION: ValueKind = form::<Weighting>(Weighting::words);
pub(super) const BITS: ValueKind = form::<Bits>(Bits::words);
pub(super) const RANGES: ValueKind = form::<Ranges>(Ranges::words);
pub(super) const LOSS: ValueKind = form::<Loss>(Loss::words);
pub(super) const DISTANCE: ValueKind = form::<Distance>(Distance::words);
pub(super) const INNER_EPOCHS: ValueKind = form::<InnerEpochs>(InnerEpochs::words);
pub(super) const STRATEGY: ValueKind = form::<Strategy>(Strategy::words);
pub(super) const NAMES: ValueKind = list::<Patterns>(Patterns::words);
pub(super) const COLUMNS: ValueKind = list::<ColumnNames>(ColumnNames::words);
pub(super) const AUGMENTATIONS: ValueKind = list::<Augmentations>(Augmentations::words);
pub(super) const CHANNEL_NUMBERS: ValueKind = list::<ChannelNumbers>(ChannelNumbers::words);
pub(super) const WEIGHTS: ValueKind = list::<ClassWeights>(ClassWeights::words);

/// Texts that a type is parsed from; `words` lists them for messages.
const fn form<T: FromStr>(words: fn() -> String) -> ValueKind {
    ValueKind::TextSyntax(TextSyntax {
        words,
        accepts: |text| text.parse::<T>().is_ok(),
    })
}

/// Lists that a type is parsed from, which may be empty; `words` lists their items for messages.
const fn list<T: FromStr>(words: fn() -> String) -> ValueKind {
    ValueKind::List(TextSyntax {
        words,
        accepts: |text| text.is_empty() || text.parse::<T>().is_ok(),
    })
}

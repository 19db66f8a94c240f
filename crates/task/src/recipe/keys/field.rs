//! How values of settings become fields of a type.

use super::{DataFormat, ModelKind, OptimizerKind, RecordSplit, SearchMethod, SpaceKind};
use crate::recipe::class_weights::ClassWeights;
use crate::recipe::column_names::ColumnNames;
use crate::recipe::image_lists::{Augmentations, ChannelNumbers};
use crate::recipe::value::SettingValue;
use crate::recipe::warmup::Warmup;
use lessen_base::word::Word;
use lessen_compile::{CostSource, Placement, Precision};
use lessen_condense::{Distance, InnerEpochs, Level, Method, Start, Strategy};
use lessen_data::{Documents, Problem};
use lessen_graph::ops::attention::Weighting;
use lessen_nn::checkpoint::WeightDtype;
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::Network;
use lessen_nn::{Activation, Bits, Loss, LrScheduleKind, NormKind, Patterns, Position, Ranges};
use lessen_search::{CostGradient, CostKind};
use std::path::PathBuf;

/// A type that a setting can have.
pub(super) trait Field: Sized {
    /// Reads a value; none where its type is another one, or where it is missing and may not be.
    fn of(value: Option<&SettingValue>) -> Option<Self>;
}

impl Field for bool {
    fn of(value: Option<&SettingValue>) -> Option<bool> {
        match value? {
            SettingValue::Switch(on) => Some(*on),
            _ => None,
        }
    }
}

impl Field for u64 {
    fn of(value: Option<&SettingValue>) -> Option<u64> {
        match value? {
            SettingValue::Count(count) | SettingValue::Size(count) => Some(*count),
            _ => None,
        }
    }
}

impl Field for usize {
    fn of(value: Option<&SettingValue>) -> Option<usize> {
        Some(usize::try_from(u64::of(value)?).unwrap_or(usize::MAX))
    }
}

impl Field for f64 {
    fn of(value: Option<&SettingValue>) -> Option<f64> {
        match value? {
            SettingValue::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl Field for String {
    fn of(value: Option<&SettingValue>) -> Option<String> {
        match value? {
            SettingValue::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl Field for PathBuf {
    fn of(value: Option<&SettingValue>) -> Option<PathBuf> {
        String::of(value).map(PathBuf::from)
    }
}

impl Field for Warmup {
    fn of(value: Option<&SettingValue>) -> Option<Warmup> {
        match value? {
            SettingValue::Count(steps) => Some(Warmup::Steps(*steps)),
            SettingValue::Number(share) => Some(Warmup::Share(*share)),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    /// A text without characters and a list without items are none.
    fn of(value: Option<&SettingValue>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            Some(SettingValue::Text(text)) if text.is_empty() => Some(None),
            Some(SettingValue::List(items)) if items.is_empty() => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// A word of an enumeration.
fn word<T: Word>(value: Option<&SettingValue>) -> Option<T> {
    T::from_word(&String::of(value)?)
}

macro_rules! word_fields {
    ($($name:ident),*) => {
        $(impl Field for $name {
            fn of(value: Option<&SettingValue>) -> Option<$name> {
                word(value)
            }
        })*
    };
}

macro_rules! form_fields {
    ($($name:ident),*) => {
        $(impl Field for $name {
            fn of(value: Option<&SettingValue>) -> Option<$name> {
                String::of(value)?.parse().ok()
            }
        })*
    };
}

macro_rules! list_fields {
    ($($name:ident),*) => {
        $(impl Field for $name {
            fn of(value: Option<&SettingValue>) -> Option<$name> {
                value?.joined().parse().ok()
            }
        })*
    };
}

form_fields!(
    Activation,
    Bits,
    Distance,
    InnerEpochs,
    Loss,
    Ranges,
    Strategy,
    Weighting
);

list_fields!(Augmentations, ChannelNumbers, ClassWeights, ColumnNames, Patterns);

word_fields!(
    ModelKind,
    SearchMethod,
    SpaceKind,
    CostKind,
    CostGradient,
    CostSource,
    DataFormat,
    Documents,
    Level,
    Method,
    Network,
    NormKind,
    OptimizerKind,
    Position,
    Problem,
    RecordSplit,
    Spread,
    Start,
    LrScheduleKind,
    WeightDtype,
    Placement,
    Precision
);

//! The keys of recipes. [`settings!`](crate::settings) declares a section of them as a structure; a [`Schema`] is the
//! list of sections that settings may have: [`CORE`] has those of a run, and jobs have further ones.

mod choices;
mod data_formats;
mod key_type;
mod model_kind;
mod schema;
mod section;
mod table;

pub use self::choices::{OptimizerKind, RecordSplit};
pub use self::data_formats::DataFormat;
pub(crate) use self::data_formats::data_formats;
pub use self::key_type::{
    BUDGET, COUNT_OR_SHARE, KeyType, NOT_NEGATIVE, SHARE, SIZE, SWITCH, TEXT, choice, count, form, kind_of_optional,
    kind_of_required, list, number, path,
};
pub(crate) use self::model_kind::transformers;
pub use self::model_kind::{ModelKind, Transformer};
pub use self::schema::Schema;
pub use self::section::{Key, Section};
pub use self::table::{DataKeys, ImageKeys, LoraKeys, ModelKeys, OptimizerKeys, RecordKeys, RunKeys, TrainKeys};

/// The sections of a run.
pub const SECTIONS: [&[Key]; 8] = [
    RunKeys::KEYS,
    ModelKeys::KEYS,
    DataKeys::KEYS,
    ImageKeys::KEYS,
    TrainKeys::KEYS,
    OptimizerKeys::KEYS,
    LoraKeys::KEYS,
    RecordKeys::KEYS,
];

/// The keys of a run. Condensations and searches have sections of their own, which a run keeps.
pub static CORE: Schema = Schema {
    sections: &SECTIONS,
    kept: &["condense", "search"],
};

/// The default of `data.threshold`.
pub(crate) const THRESHOLD: f64 = 0.5;

/// The default of `data.separator`.
pub(crate) const SEPARATOR: &str = ",";

/// The word for a tokenizer made of the characters of the training texts.
pub const CHARACTERS: &str = "characters";

/// The word for a tokenizer with a vocabulary of word pieces that is learned of the training texts.
pub const WORD_PIECE: &str = "wordpiece";

/// The word for a tokenizer with pairs of bytes that are learned of the training texts.
pub const BYTE_PAIRS: &str = "bpe";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::names::OTHER_NAMES;

    #[test]
    fn names_are_unique() {
        let keys: Vec<&Key> = CORE.keys().collect();
        for (index, key) in keys.iter().enumerate() {
            assert!(keys[..index].iter().all(|other| other.name != key.name), "{}", key.name);
        }
        for (key, others) in OTHER_NAMES {
            assert!(CORE.find(key).is_ok(), "{key}");
            assert!(others.iter().all(|other| CORE.find(other) == Err(*key)), "{others:?}");
        }
    }
}

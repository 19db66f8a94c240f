//! The types that keys have: the values that they take, and what these become.

use crate::recipe::value::{SettingValue, TextSyntax, ValueKind, fit};
use crate::recipe::warmup::Warmup;
use lessen_base::word::Word;
use std::marker::PhantomData;
use std::str::FromStr;

/// The values that a key takes, which become a `T`.
pub struct KeyType<T> {
    kind: ValueKind,
    read: fn(&SettingValue) -> Option<T>,
}

impl<T> KeyType<T> {
    /// Reads the value of a key that has a default.
    pub fn required(&self, value: Option<&SettingValue>) -> Option<T> {
        (self.read)(&fit(self.kind, value?.clone())?)
    }

    /// Reads the value of a key that has none; a text without characters and a list without items are none, too.
    pub fn optional(&self, value: Option<&SettingValue>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            Some(value) if value.is_empty() => Some(None),
            value => self.required(value).map(Some),
        }
    }
}

/// The values of a key that has a default; the second argument tells the type of its field.
pub const fn kind_of_required<T>(key: KeyType<T>, _: PhantomData<T>) -> ValueKind {
    key.kind
}

/// The values of a key that has none.
pub const fn kind_of_optional<T>(key: KeyType<T>, _: PhantomData<Option<T>>) -> ValueKind {
    key.kind
}

/// `true` or `false`.
pub const SWITCH: KeyType<bool> = KeyType {
    kind: ValueKind::Switch,
    read: |value| match value {
        SettingValue::Switch(on) => Some(*on),
        _ => None,
    },
};

/// A number from 0 to 1.
pub const SHARE: KeyType<f64> = number(0.0, 1.0);

/// A number from 0 on.
pub const NOT_NEGATIVE: KeyType<f64> = number(0.0, f64::MAX);

/// A number of bytes with a unit.
pub const SIZE: KeyType<usize> = KeyType {
    kind: ValueKind::Size,
    read: whole,
};

/// A size, a share of the memory that this process can have, or all of it.
pub const BUDGET: KeyType<usize> = KeyType {
    kind: ValueKind::Budget,
    read: whole,
};

/// Any text.
pub const TEXT: KeyType<String> = KeyType {
    kind: ValueKind::Text,
    read: text,
};

/// A number of steps, or their share of all.
pub const COUNT_OR_SHARE: KeyType<Warmup> = KeyType {
    kind: ValueKind::CountOrShare,
    read: |value| match value {
        SettingValue::Count(steps) => Some(Warmup::Steps(*steps)),
        SettingValue::Number(share) => Some(Warmup::Share(*share)),
        _ => None,
    },
};

/// A whole number, at least this.
pub const fn count<T: TryFrom<u64>>(least: u64) -> KeyType<T> {
    KeyType {
        kind: ValueKind::Count(least),
        read: whole,
    }
}

/// A number between these two, both included.
pub const fn number(low: f64, high: f64) -> KeyType<f64> {
    KeyType {
        kind: ValueKind::Number(low, high),
        read: |value| match value {
            SettingValue::Number(number) => Some(*number),
            _ => None,
        },
    }
}

/// The path of a file or folder, or one of the words.
pub const fn path<T: From<String>>(words: &'static [&'static str]) -> KeyType<T> {
    KeyType {
        kind: ValueKind::Path(words),
        read: |value| text(value).map(T::from),
    }
}

/// A word of an enumeration.
pub const fn choice<T: Word>() -> KeyType<T> {
    KeyType {
        kind: ValueKind::Choice(T::WORDS),
        read: |value| T::from_word(&text(value)?),
    }
}

/// A text that a type is parsed from; `words` lists such texts for messages.
pub const fn form<T: FromStr>(words: fn() -> String) -> KeyType<T> {
    KeyType {
        kind: ValueKind::TextSyntax(TextSyntax {
            words,
            accepts: |text| text.parse::<T>().is_ok(),
        }),
        read: |value| text(value)?.parse().ok(),
    }
}

/// A list that a type is parsed from, which may be empty; `words` lists its items for messages.
pub const fn list<T: FromStr>(words: fn() -> String) -> KeyType<T> {
    KeyType {
        kind: ValueKind::List(TextSyntax {
            words,
            accepts: |text| text.is_empty() || text.parse::<T>().is_ok(),
        }),
        read: |value| value.joined().parse().ok(),
    }
}

fn text(value: &SettingValue) -> Option<String> {
    match value {
        SettingValue::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn whole<T: TryFrom<u64>>(value: &SettingValue) -> Option<T> {
    match value {
        SettingValue::Count(number) | SettingValue::Size(number) => T::try_from(*number).ok(),
        _ => None,
    }
}

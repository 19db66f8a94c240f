//! Sections of keys: each is a structure whose declaration is the table of its keys.

use crate::recipe::value::{SettingValue, ValueKind};

/// A key that recipes and `--set` may give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Section and name, such as `train.lr`.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: ValueKind,
    /// The words of those that read it, such as optimizers or methods; none where all do.
    pub readers: &'static [&'static str],
    /// The default, as TOML; none where the key is optional.
    pub default: Option<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

impl Key {
    /// Whether what this word names reads the key.
    pub fn is_read_by(&self, reader: &str) -> bool {
        self.readers.is_empty() || self.readers.contains(&reader)
    }
}

/// The keys of a section with their types.
pub trait Section: Sized {
    /// All of them, in the order in which they are listed and written.
    const KEYS: &'static [Key];

    /// Reads their values.
    ///
    /// # Errors
    /// The name of the key whose value is missing or not taken.
    fn read<'a>(get: &dyn Fn(&str) -> Option<&'a SettingValue>) -> std::result::Result<Self, &'static str>;
}

/// Declares sections: for each a structure that is a [`Section`](crate::recipe::keys::Section). A key has a name, the
/// type of its field, its [`KeyType`](crate::recipe::keys::KeyType), its readers where not all read it, its default,
/// and its meaning. The field of a key without default is an `Option`.
#[macro_export]
macro_rules! settings {
    ($($(#[$doc:meta])* $section:ident: $keys:ident {
        $($name:ident: $ty:ty [$type:expr] $(of $($reader:ident)+)? $(= $default:literal)?, $meaning:literal;)*
    })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $keys {
            $(#[doc = $meaning] pub $name: $ty,)*
        }

        impl $crate::recipe::keys::Section for $keys {
            const KEYS: &'static [$crate::recipe::keys::Key] = &[$($crate::recipe::keys::Key {
                name: concat!(stringify!($section), ".", stringify!($name)),
                kind: $crate::settings!(@kind [$type] [$ty] $($default)?),
                readers: &[$($(stringify!($reader)),+)?],
                default: $crate::settings!(@default $($default)?),
                meaning: $meaning,
            },)*];

            fn read<'a>(
                get: &dyn Fn(&str) -> Option<&'a $crate::recipe::value::SettingValue>,
            ) -> std::result::Result<$keys, &'static str> {
                Ok($keys {
                    $($name: {
                        let name = concat!(stringify!($section), ".", stringify!($name));
                        $crate::settings!(@read [$type] [get(name)] $($default)?).ok_or(name)?
                    },)*
                })
            }
        })*
    };
    (@kind [$type:expr] [$ty:ty]) => {
        $crate::recipe::keys::kind_of_optional($type, std::marker::PhantomData::<$ty>)
    };
    (@kind [$type:expr] [$ty:ty] $default:literal) => {
        $crate::recipe::keys::kind_of_required($type, std::marker::PhantomData::<$ty>)
    };
    (@read [$type:expr] [$value:expr]) => { $type.optional($value) };
    (@read [$type:expr] [$value:expr] $default:literal) => { $type.required($value) };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
}

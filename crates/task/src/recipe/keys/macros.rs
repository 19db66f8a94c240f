//! The macro that makes structures and the list of keys of one table.

/// Makes a structure for each section, [`Keys`] of all sections, and [`KEYS`].
macro_rules! keys {
    ($($(#[$doc:meta])* $section:ident: $keys:ident {
        $($name:ident: $ty:ty [$kind:expr] $(= $default:literal)?, $meaning:literal;)*
    })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $keys {
            $(#[doc = $meaning] pub $name: $ty,)*
        })*

        /// The values of all keys.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Keys {
            $($(#[$doc])* pub $section: $keys,)*
        }

        impl Keys {
            /// Reads the values of all keys.
            ///
            /// # Errors
            /// The key whose value is missing or not taken.
            pub fn read<'a>(get: impl Fn(&str) -> Option<&'a SettingValue>) -> Result<Keys, &'static Key> {
                Ok(Keys {
                    $($section: $keys {
                        $($name: {
                            let name = concat!(stringify!($section), ".", stringify!($name));
                            <$ty as Field>::of(get(name)).ok_or_else(|| known(name))?
                        },)*
                    },)*
                })
            }
        }

        /// All keys, section by section.
        pub const KEYS: &[Key] = &[$($(Key {
            name: concat!(stringify!($section), ".", stringify!($name)),
            kind: $kind,
            default: keys!(@default $($default)?),
            meaning: $meaning,
        },)*)*];
    };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
}

pub(super) use keys;

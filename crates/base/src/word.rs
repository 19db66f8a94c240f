//! Words for the variants of an enumeration. One list makes the words that a key takes, the parser and the printed
//! text, so that none can lack a word.

/// An enumeration whose variants have words.
pub trait Word: Copy + 'static {
    /// The words of all variants.
    const WORDS: &'static [&'static str];

    /// The word of this variant.
    fn word(self) -> &'static str;

    /// The variant of a word; none for any other text.
    fn from_word(word: &str) -> Option<Self>;
}

/// Implements [`Word`](crate::word::Word) for an enumeration from the list of its variants and their words; the
/// compiler refuses a list without some variant. With what a variant is, such as `"level of gradients"`, it implements
/// parsing and printing, too; in front of a declaration it makes the enumeration.
#[macro_export]
macro_rules! words {
    ($name:ident { $($variant:ident $(($($inner:tt)*))? = $word:literal,)* }) => {
        impl $crate::word::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn word(self) -> &'static str {
                match self {
                    $($name::$variant $(($($inner)*))? => $word,)*
                }
            }

            fn from_word(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$variant $(($($inner)*))?),)*
                    _ => None,
                }
            }
        }
    };
    ($name:ident, $what:literal { $($variant:ident $(($($inner:tt)*))? = $word:literal,)* }) => {
        $crate::words!($name { $($variant $(($($inner)*))? = $word,)* });

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(word: &str) -> $crate::Result<$name> {
                $crate::word::Word::from_word(word).ok_or_else(|| {
                    $crate::Error::user(format!(
                        concat!("there is no ", $what, " `{}`; choose one of {}"),
                        word,
                        <$name as $crate::word::Word>::WORDS.join(", ")
                    ))
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::word::Word::word(*self))
            }
        }
    };
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        $crate::words!($name { $($variant = $word,)* });

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::word::Word::word(*self))
            }
        }
    };
}

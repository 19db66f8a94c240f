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

/// Implements [`Word`] for an enumeration from the list of its variants and their words; the compiler refuses a list
/// without some variant.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal,)* }) => {
        impl $crate::recipe::words::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            fn from_word(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        words!($name { $($variant = $word,)* });

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::recipe::words::Word::word(*self))
            }
        }
    };
}

pub(crate) use words;

//! Values of fields of requests: those that are read, and those that must stay as they are.

use crate::options::MOST_TEXTS;
use crate::refusal::Refusal;
use lessen_data::TextPair;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A value of which only its sort is known, so that it takes no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Given {
    /// Nothing, or `null`.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// A list with so many elements.
    List(usize),
    /// An object with so many fields.
    Object(usize),
}

impl Given {
    /// Refuses any value but one that asks for nothing: `null`, or one of `plain`.
    ///
    /// # Errors
    /// The field's refusal, which says why.
    pub fn only(&self, name: &str, plain: &[Given], why: &str) -> Result<(), Refusal> {
        if *self == Given::Null || plain.contains(self) {
            return Ok(());
        }
        Err(Refusal::field(name, why).with_code("unsupported_value"))
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Given, E> {
                Ok(Given::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Given, E> {
                Ok(Given::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Given, E> {
                Ok(Given::Number(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Given, E> {
                Ok(Given::Number(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Given, E> {
                Ok(Given::Number(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Given, E> {
                Ok(Given::Text(value.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Given::List(count))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Given, A::Error> {
                let mut count = 0;
                while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Given::Object(count))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// One text or several.
#[derive(Clone, Debug, PartialEq)]
pub enum Texts {
    /// A string.
    One(String),
    /// A list of strings.
    Many(Vec<String>),
}

impl Texts {
    /// The texts in order.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct Strings;

        impl<'de> Visitor<'de> for Strings {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts::One(text.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Texts, A::Error> {
                bounded(list).map(Texts::Many)
            }
        }

        deserializer.deserialize_any(Strings)
    }
}

/// The elements of a list of at most [`MOST_TEXTS`].
fn bounded<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(mut list: A) -> Result<Vec<T>, A::Error> {
    let mut found = Vec::new();
    while let Some(element) = list.next_element()? {
        if found.len() == MOST_TEXTS {
            return Err(de::Error::custom(format!("more than {MOST_TEXTS} elements")));
        }
        found.push(element);
    }
    Ok(found)
}

/// A list of at most [`MOST_TEXTS`] elements.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<List<T>, A::Error> {
                bounded(list).map(List)
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

/// Texts and pairs of texts: a string, a pair of strings, or a list of lists of one or two strings.
#[derive(Clone, Debug, PartialEq)]
pub enum Pairs {
    /// One text or one pair.
    One(TextPair),
    /// Several.
    Many(Vec<TextPair>),
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Any;

        const EXPECTED: &str = "a string, a pair of strings, or a list of lists of one or two strings";

        impl<'de> Visitor<'de> for Any {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E>(self, text: &str) -> Result<Pairs, E> {
                Ok(Pairs::One((text.to_string(), None)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Pairs, A::Error> {
                let pair = |texts: Vec<String>| {
                    let mut texts = texts.into_iter();
                    match (texts.next(), texts.next(), texts.next()) {
                        (Some(first), second, None) => Ok((first, second)),
                        _ => Err(de::Error::custom(format!("expected {EXPECTED}"))),
                    }
                };
                let (mut strings, mut pairs) = (Vec::new(), Vec::new());
                for element in bounded::<Texts, A>(list)? {
                    match element {
                        Texts::One(text) => strings.push(text),
                        Texts::Many(texts) => pairs.push(pair(texts)?),
                    }
                }
                match (strings.is_empty(), pairs.is_empty()) {
                    (false, true) => pair(strings).map(Pairs::One),
                    (true, _) => Ok(Pairs::Many(pairs)),
                    (false, false) => Err(de::Error::custom(format!("expected {EXPECTED}"))),
                }
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// A prompt: a text, or its tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Token ids.
    Tokens(Vec<i32>),
}

/// The prompts of a request: a string, a list of strings, a list of token ids, or a list of such lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts(pub Vec<Prompt>);

/// The most token ids of a prompt.
const MOST_TOKENS: usize = 1 << 17;

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Prompts, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Prompts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list of strings, a list of token ids, or a list of lists of token ids")
            }

            fn visit_str<E>(self, text: &str) -> Result<Prompts, E> {
                Ok(Prompts(vec![Prompt::Text(text.to_string())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Prompts, A::Error> {
                let (mut prompts, mut tokens) = (Vec::new(), Vec::new());
                while let Some(element) = list.next_element::<Element>()? {
                    match element {
                        Element::Token(token) => tokens.push(token),
                        Element::Prompt(prompt) => prompts.push(prompt),
                    }
                    if prompts.len() > MOST_TEXTS || tokens.len() > MOST_TOKENS {
                        return Err(de::Error::custom("more elements than any model takes"));
                    }
                }
                match (tokens.is_empty(), prompts.is_empty()) {
                    (false, false) => Err(de::Error::custom("token ids beside prompts; give one sort")),
                    (false, true) => Ok(Prompts(vec![Prompt::Tokens(tokens)])),
                    (true, _) => Ok(Prompts(prompts)),
                }
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// An element of a list of prompts.
enum Element {
    Token(i32),
    Prompt(Prompt),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Element, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Element;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token id or a list of token ids")
            }

            fn visit_str<E>(self, text: &str) -> Result<Element, E> {
                Ok(Element::Prompt(Prompt::Text(text.to_string())))
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Element, E> {
                let id = i32::try_from(id).map_err(|_| E::custom(format!("{id} is no token id")))?;
                Ok(Element::Token(id))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = list.next_element::<u32>()? {
                    if tokens.len() == MOST_TOKENS {
                        return Err(de::Error::custom("more tokens than any model takes"));
                    }
                    let id = i32::try_from(token).map_err(|_| de::Error::custom(format!("{token} is no token id")))?;
                    tokens.push(id);
                }
                Ok(Element::Prompt(Prompt::Tokens(tokens)))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

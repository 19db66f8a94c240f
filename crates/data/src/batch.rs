//! A batch: named arrays of fixed shape, with the numbers of real examples and tokens.

/// The label of a position or example that the loss ignores.
pub const IGNORE: i32 = -100;

/// One array of a batch, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Integers: token ids, token types, class labels.
    I32 {
        /// The size of each axis.
        shape: Vec<usize>,
        /// The elements.
        data: Vec<i32>,
    },
    /// Floating-point numbers: regression targets and weights.
    F32 {
        /// The size of each axis.
        shape: Vec<usize>,
        /// The elements.
        data: Vec<f32>,
    },
    /// Booleans, one byte each, 0 or 1.
    Bool {
        /// The size of each axis.
        shape: Vec<usize>,
        /// The elements.
        data: Vec<u8>,
    },
}

impl Field {
    /// Makes an integer array.
    pub fn i32(shape: impl Into<Vec<usize>>, data: Vec<i32>) -> Field {
        Field::I32 {
            shape: shape.into(),
            data,
        }
    }

    /// Makes a floating-point array.
    pub fn f32(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Field {
        Field::F32 {
            shape: shape.into(),
            data,
        }
    }

    /// Makes a boolean array; the elements are 0 or 1.
    pub fn bool(shape: impl Into<Vec<usize>>, data: Vec<u8>) -> Field {
        Field::Bool {
            shape: shape.into(),
            data,
        }
    }

    /// Returns the size of each axis.
    pub fn shape(&self) -> &[usize] {
        match self {
            Field::I32 { shape, .. } | Field::F32 { shape, .. } | Field::Bool { shape, .. } => shape,
        }
    }

    /// Returns the elements of an [`Field::I32`].
    pub fn as_i32(&self) -> Option<&[i32]> {
        match self {
            Field::I32 { data, .. } => Some(data),
            _ => None,
        }
    }

    /// Returns the elements of an [`Field::F32`].
    pub fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Field::F32 { data, .. } => Some(data),
            _ => None,
        }
    }

    /// Returns the elements of a [`Field::Bool`].
    pub fn as_bool(&self) -> Option<&[u8]> {
        match self {
            Field::Bool { data, .. } => Some(data),
            _ => None,
        }
    }
}

/// The arrays of one training or evaluation step.
///
/// Labelled texts come without padding: `B` texts follow each other in a row of `N` tokens, which is their number
/// rounded up to a [`bucket`](crate::bucket).
///
/// | field | type | meaning |
/// |---|---|---|
/// | `tokens` | i32 `[1, N]` | token ids |
/// | `types` | i32 `[1, N]` | token types: 0 in the first text of a pair, 1 in the second |
/// | `positions` | i32 `[N]` | position of each token in its text |
/// | `segments` | i32 `[N]` | number of each token's text; `B` for tokens of none, which come last |
/// | `starts` | i32 `[B + 1]` | the first token of each text, then the end of the last one |
/// | `firsts` | i32 `[B]` | the first token of each text; 0 where there is no text |
/// | `labels` | i32 `[B]` | of a classification: the class, or [`IGNORE`] |
/// | `targets` | f32 `[B]` | of a regression: the score; 0 where there is no text |
/// | `targets` | f32 `[B, C]` | of texts with any of `C` classes: 1 for each class of the text, 0 for the others |
/// | `weights` | f32 `[B]` | beside `targets`: 1 for a text, 0 where there is none; or the weights that texts have |
///
/// Sentences with labelled words have, beside the first six, `labels` (i32 `[1, N]`: the class of a word at its first
/// token, and [`IGNORE`] elsewhere).
///
/// Masked language models have, beside the first six, `places` (i32 `[M]`, the tokens to predict: their places in the
/// row) and `labels` (i32 `[M]`: what they were, or [`IGNORE`] where there is none); see
/// [`masked_places`](crate::masked_places).
///
/// Language models with documents have them in the same way, in `B` windows of `T` tokens one after another: a text is
/// a part of a document in a window, `N` is `B · T`, `labels` (i32 `[1, N]`) are the tokens after each, and there are
/// no types.
///
/// Other language models have `B` windows of the same length `T`: `tokens` (i32 `[B, T]`, padded on the right) and
/// `labels` (i32 `[B, T]`: the token after each, or [`IGNORE`]).
///
/// Images have `images` (f32 `[B, height, width, channels]`, normalized) and `labels` (i32 `[B]`), or where they are
/// mixed `targets` (f32 `[B, C]`: the share of each class) and `weights`; see
/// [`ImageBatches`](crate::images::ImageBatches).
///
/// The last batch of an epoch may have fewer than `B` texts or windows. The others are empty or padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The arrays by name.
    pub fields: Vec<(String, Field)>,
    /// Number of texts, windows or images; empty ones come last.
    pub examples: usize,
    /// Number of real tokens; for language models, number of positions with a label; for images, that of examples.
    pub tokens: usize,
}

impl Batch {
    /// Returns the number of `labels` that are not [`IGNORE`].
    pub fn labels(&self) -> usize {
        let labels = self.get("labels").and_then(Field::as_i32).unwrap_or_default();
        labels.iter().filter(|label| **label != IGNORE).count()
    }

    /// Returns the array of this name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, field)| field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_name_and_seen_as_its_own_type_only() {
        let field = Field::i32([1, 2], vec![3, 4]);
        let batch = Batch {
            fields: vec![("tokens".into(), field)],
            examples: 1,
            tokens: 2,
        };
        let field = batch.get("tokens").unwrap();
        assert_eq!((field.shape(), field.as_i32()), (&[1, 2][..], Some(&[3, 4][..])));
        assert_eq!((field.as_f32(), field.as_bool()), (None, None));
        assert!(batch.get("labels").is_none());
    }
}

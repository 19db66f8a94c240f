//! A batch: named arrays of fixed shape, with the number of real examples and tokens in them.

/// The label of a position that the loss ignores.
pub const IGNORE: i32 = -100;

/// One array of a batch, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Integers: token ids, type ids, class labels.
    I32 {
        /// The size of each axis.
        shape: Vec<usize>,
        /// The elements.
        data: Vec<i32>,
    },
    /// Real numbers: regression targets and weights.
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
    /// Integers in this shape.
    pub fn i32(shape: impl Into<Vec<usize>>, data: Vec<i32>) -> Field {
        Field::I32 {
            shape: shape.into(),
            data,
        }
    }

    /// Real numbers in this shape.
    pub fn f32(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Field {
        Field::F32 {
            shape: shape.into(),
            data,
        }
    }

    /// Booleans, one byte each, in this shape.
    pub fn bool(shape: impl Into<Vec<usize>>, data: Vec<u8>) -> Field {
        Field::Bool {
            shape: shape.into(),
            data,
        }
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        match self {
            Field::I32 { shape, .. } | Field::F32 { shape, .. } | Field::Bool { shape, .. } => shape,
        }
    }

    /// The elements of an [`Field::I32`].
    pub fn as_i32(&self) -> Option<&[i32]> {
        match self {
            Field::I32 { data, .. } => Some(data),
            _ => None,
        }
    }

    /// The elements of an [`Field::F32`].
    pub fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Field::F32 { data, .. } => Some(data),
            _ => None,
        }
    }

    /// The elements of a [`Field::Bool`].
    pub fn as_bool(&self) -> Option<&[u8]> {
        match self {
            Field::Bool { data, .. } => Some(data),
            _ => None,
        }
    }
}

/// The arrays of one step, for batch size `B` and length `T`.
///
/// | field | type | of | meaning |
/// |---|---|---|---|
/// | `tokens` | i32 `[B, T]` | all | token ids, filled up on the right with the padding token |
/// | `mask` | bool `[B, T]` | texts with labels | 1 at real tokens |
/// | `types` | i32 `[B, T]` | texts with labels | 0 in the first text of a pair, 1 in the second |
/// | `labels` | i32 `[B]` | classification | the class, or [`IGNORE`] |
/// | `targets` | f32 `[B]` | regression | the score, 0 in padding rows |
/// | `weights` | f32 `[B]` | regression | 1 for a real example, 0 in padding rows |
/// | `labels` | i32 `[B, T]` | language models | the token that follows position `t`, or [`IGNORE`] |
///
/// The shape is always the full one: when the examples run out, padding rows fill the batch. The mask of a
/// row without any real token (a padding row, an empty text) has a 1 at its first, padding, token: a mean or
/// a softmax over no token at all would be NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The arrays by name.
    pub fields: Vec<(String, Field)>,
    /// How many rows are real examples; the real ones come first.
    pub examples: usize,
    /// How many tokens are real; for language models, how many positions have a label.
    pub tokens: usize,
}

impl Batch {
    /// The array of this name.
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

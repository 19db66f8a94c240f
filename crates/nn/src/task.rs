//! Training objectives of models, and their data inputs.

/// The training objective of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// One class per text or image: data input `labels`, `i32[B]`.
    Classification {
        /// Number of classes.
        classes: usize,
    },
    /// Any of several classes per text or image: data inputs `targets`, `f32[B, classes]` with 1 for each label and 0
    /// for the others, and `weights`, `f32[B]`.
    MultiLabelClassification {
        /// Number of classes.
        classes: usize,
    },
    /// One number per text or image: data inputs `targets` and `weights`, `f32[B]`.
    Regression,
    /// The next token at every position: data input `labels`, `i32[B, T]`.
    LanguageModelling,
    /// One class per token: data input `labels`, `i32[B, T]`.
    TokenClassification {
        /// Number of classes.
        classes: usize,
    },
    /// The answer to a question, a part of a text: data input `answers`, `i32[2, B]`, the places of its first and its
    /// last token.
    QuestionAnswering,
    /// The masked tokens: data input `labels`, `i32[B, T]`.
    MaskedLanguageModelling,
}

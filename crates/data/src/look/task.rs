//! What can be learnt from data.

use serde::Serialize;

use crate::labels::Problem;

/// What can be learnt from data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// One of several classes for each text or pair.
    Classes,
    /// Any of several labels for each text or pair.
    SeveralLabels,
    /// A number for each text or pair.
    Number,
    /// A label for each word of a sentence.
    Tags,
    /// How text goes on.
    #[default]
    TextAlone,
    /// A class or a number for each row of a table.
    Table(Problem),
    /// A class for each image.
    Images,
    /// Answers to questions, which are parts of a text.
    Questions,
}

impl Task {
    /// The task in words.
    pub fn words(self) -> &'static str {
        match self {
            Task::Classes => "a class for each text",
            Task::SeveralLabels => "labels for each text, several or none",
            Task::Number => "a number for each text",
            Task::Tags => "a label for each word",
            Task::TextAlone => "how text goes on",
            Task::Table(Problem::Regression) => "a number for each row of a table",
            Task::Table(_) => "a class for each row of a table",
            Task::Images => "a class for each image",
            Task::Questions => "answers to questions about texts",
        }
    }

    /// The task in a word of JSON.
    fn key(self) -> &'static str {
        match self {
            Task::Classes => "classes",
            Task::SeveralLabels => "several_labels",
            Task::Number => "number",
            Task::Tags => "tags",
            Task::TextAlone => "text",
            Task::Table(Problem::Regression) => "table_number",
            Task::Table(_) => "table_classes",
            Task::Images => "images",
            Task::Questions => "questions",
        }
    }
}

impl Serialize for Task {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

//! The facts of a look from which choices follow.

use lessen_base::{Error, Result};
use lessen_data::Problem;
use lessen_data::look::{Look, Role, Task};

/// What examples are, and what is learned of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExampleKind {
    /// Texts with one class, several labels or a number each.
    Texts(Answer),
    /// Words with classes.
    Tags,
    /// Texts alone, which are continued.
    TextAlone,
    /// Rows of numbers and categories with a class or a number.
    Table(Answer),
    /// Images with classes.
    Images,
}

/// What is right for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Class,
    Labels,
    Number,
}

/// The facts of a look.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub kind: ExampleKind,
    /// Rows with a label, or images, of the training data.
    pub rows: usize,
    /// Whether the data has a split of its own to validate on.
    pub has_dev: bool,
    /// Number of classes or labels; 0 where there are none.
    pub classes: usize,
    /// The share of the rarest class.
    pub rarest: f64,
    /// Whether each example has two texts.
    pub has_pairs: bool,
    /// Whether words are separated by spaces.
    pub has_spaces: bool,
    /// Words that 99 of 100 texts have at most.
    pub words: usize,
    /// Characters that 99 of 100 texts have at most.
    pub characters: usize,
    /// Keys and values of columns that the usual names do not tell.
    pub columns: Vec<(&'static str, String)>,
    /// The column by which rows belong together, if there is one to hold rows out by.
    pub group: Option<String>,
    /// The column of the time at which rows were made, if there is one to hold rows out by.
    pub time: Option<String>,
    /// Rows and columns of the images; none where they differ.
    pub size: Option<[usize; 2]>,
}

impl Facts {
    /// The facts of a look.
    ///
    /// # Errors
    /// Data that is learned by a recipe alone.
    pub(super) fn of(look: &Look) -> Result<Facts> {
        let kind = match look.task {
            Task::Classes => ExampleKind::Texts(Answer::Class),
            Task::SeveralLabels => ExampleKind::Texts(Answer::Labels),
            Task::Number => ExampleKind::Texts(Answer::Number),
            Task::Tags => ExampleKind::Tags,
            Task::TextAlone => ExampleKind::TextAlone,
            Task::Table(Problem::Regression) => ExampleKind::Table(Answer::Number),
            Task::Table(_) => ExampleKind::Table(Answer::Class),
            Task::Images => ExampleKind::Images,
            Task::Questions => {
                return Err(Error::user(format!(
                    "{} has questions about texts, which a pretrained model is needed for; use `lessen train squad --init \
                     HF_DIR --data {}`",
                    look.path, look.path
                )));
            }
        };
        let texts = look.texts.as_ref();
        let mut columns = look.settings.clone();
        columns.extend(look.separator.clone().map(|separator| ("data.separator", separator)));
        Ok(Facts {
            kind,
            rows: look.rows.train - look.unlabelled,
            has_dev: look.rows.dev.is_some(),
            classes: look.classes.as_ref().map_or(0, |classes| classes.counts.len()),
            rarest: look.classes.as_ref().map_or(0.0, |classes| classes.rarest),
            has_pairs: look.has_pairs,
            has_spaces: texts.is_none_or(|texts| texts.has_spaces),
            words: texts.map_or(0, |texts| texts.words.p99),
            characters: texts.map_or(0, |texts| texts.characters.p99),
            columns,
            group: holding_out(look, Role::Group),
            time: holding_out(look, Role::Time),
            size: look.image_size,
        })
    }
}

/// The first column with a role by which rows can be held out.
fn holding_out(look: &Look, role: Role) -> Option<String> {
    let mut columns = look.columns.iter();
    let found = columns.find(|column| column.role == role && column.holds_out)?;
    Some(found.name.clone())
}

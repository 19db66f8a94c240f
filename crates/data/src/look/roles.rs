//! What the columns of a file are for.

use std::path::Path;

use lessen_base::Result;

use super::role::{ColumnLook, ENOUGH, Role, usual_role};
use super::several::{flags, separator_of};
use super::task::Task;
use super::{LookOptions, comma};
use crate::columns::{Columns, LabelAt};
use crate::files::quoted;
use crate::labels::Problem;
use crate::table::ColumnKind;
use crate::table::columns::kind_of;
use crate::table::label::{label_of, problem_of};
use crate::table::profile::{Profile, ValueKind};

/// Names of texts that are texts whatever they hold.
const SURE: [&str; 4] = ["text", "sentence", "review", "comment"];

/// Characters of a text from which on it is one, beside columns of numbers.
const LONG: f64 = 60.0;

/// Columns of numbers and categories, the label among them, beside which short words are no text to learn from.
const MANY_COLUMNS: usize = 4;

/// Where labels stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LabelIn {
    #[default]
    Nowhere,
    One(usize),
    Each(Vec<usize>),
}

/// The roles of all columns, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Roles {
    pub(super) columns: Vec<ColumnLook>,
    pub(super) text: Option<usize>,
    pub(super) text_pair: Option<usize>,
    pub(super) label: LabelIn,
    /// What stands between labels of a row.
    pub(super) separator: Option<String>,
    pub(super) task: Task,
    pub(super) reason: String,
    /// Keys of recipes for the columns that usual names do not tell, and their values.
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) problems: Vec<String>,
}

/// The columns of a file as the first rows show them.
pub(super) struct Seen<'a> {
    pub(super) path: &'a Path,
    pub(super) names: &'a [String],
    pub(super) is_named: bool,
    pub(super) profiles: &'a [Profile],
    pub(super) options: &'a LookOptions,
}

impl Seen<'_> {
    /// The roles of the columns.
    ///
    /// # Errors
    /// A column that is asked for and is not there.
    pub(super) fn roles(&self) -> Result<Roles> {
        let mut roles = Roles {
            columns: self
                .names
                .iter()
                .zip(self.profiles)
                .map(|(name, profile)| usual_role(name, profile))
                .collect(),
            ..Roles::default()
        };
        self.find_texts(&mut roles)?;
        match roles.text {
            Some(text) => self.learn_texts(text, &mut roles)?,
            None => self.learn_table(&mut roles)?,
        }
        for (at, (name, profile)) in self.names.iter().zip(self.profiles).enumerate() {
            let is_list = roles.label == LabelIn::One(at) && roles.separator.is_some();
            if !is_list && roles.text != Some(at) {
                roles.problems.extend(comma::remark(name, profile));
            }
        }
        Ok(roles)
    }

    /// The columns as they are asked for.
    fn given(&self) -> Columns {
        let options = self.options;
        Columns {
            text: options.text.clone(),
            text_pair: options.text_pair.clone(),
            label: options.label.clone(),
            several: options.problem == Some(Problem::MultiLabel),
            ..Columns::default()
        }
    }

    /// The texts: as they are asked for, by usual names, or else the longest words.
    fn find_texts(&self, roles: &mut Roles) -> Result<()> {
        let given = self.given();
        let usual = match given.named(self.path, 0, self.names, false) {
            Ok(found) => Some((found.text, found.text_pair)),
            Err(error) if given.text.is_some() => return Err(error),
            Err(_) => None,
        };
        if let Some((text, pair)) = usual.filter(|(text, _)| given.text.is_some() || self.can_be_text(*text)) {
            let is_asked = given.text.is_some();
            let reason = if is_asked {
                "as asked (data.text)"
            } else {
                "a usual name of it"
            };
            roles.set(text, Role::Text, reason);
            roles.text = Some(text);
            if let Some(pair) = pair {
                roles.set(pair, Role::TextPair, "a usual name of it");
                roles.text_pair = Some(pair);
            }
            return Ok(());
        }
        let others = self.informative(None);
        let longest = (0..self.names.len())
            .filter(|at| self.is_like_text(*at) && given.label.as_ref() != Some(&self.names[*at]))
            .max_by(|one, other| {
                self.profiles[*one]
                    .mean_length()
                    .total_cmp(&self.profiles[*other].mean_length())
            });
        let Some(text) = longest else {
            if let Some(names) = self.names_alone() {
                roles.set(names, Role::Text, "words beside which there is nothing to learn from");
                roles.text = Some(names);
            }
            return Ok(());
        };
        let length = self.profiles[text].mean_length();
        if others < MANY_COLUMNS || length >= LONG {
            roles.set(
                text,
                Role::Text,
                &format!("the longest texts, of {length:.0} characters in the mean"),
            );
            roles.text = Some(text);
        }
        Ok(())
    }

    /// The last column of words that differ, such as names, where there is a label and nothing else to learn from.
    fn names_alone(&self) -> Option<usize> {
        let given = self.options.label.as_ref();
        let label = match given {
            Some(given) => self.names.iter().position(|own| own == given),
            None => label_of(self.names, self.profiles).map(|found| found.0),
        }?;
        let is_of_names = |at: &usize| {
            let (name, profile) = (&self.names[*at], &self.profiles[*at]);
            let is_category = matches!(usual_role(name, profile).role, Role::Category);
            *at != label && is_category && profile.values() >= ENOUGH && profile.share_of_different() > 0.5
        };
        let has_inputs = self.informative(Some(label)) > 0;
        (0..self.names.len())
            .rev()
            .find(is_of_names)
            .filter(|_| !has_inputs && self.profiles[label].different() > 1)
    }

    /// Whether a column with a usual name holds texts, and no numbers or categories of a table.
    fn can_be_text(&self, at: usize) -> bool {
        let (profile, name) = (&self.profiles[at], self.names[at].trim().to_lowercase());
        if SURE.contains(&&name[..]) {
            return true;
        }
        let is_category = profile.different() <= 20 && profile.share_of_different() < 0.1 && profile.values() >= ENOUGH;
        let is_table = self.informative(Some(at)) >= MANY_COLUMNS && profile.mean_length() < LONG;
        profile.kind() == ValueKind::Words && !is_category && !is_table
    }

    /// Whether a column is of texts by its values.
    fn is_like_text(&self, at: usize) -> bool {
        let profile = &self.profiles[at];
        let is_long = profile.share_with_spaces() >= 0.3 && profile.mean_length() >= 10.0;
        let is_wide = profile.mean_bytes() >= 2.0 * profile.mean_length() && profile.mean_length() >= 3.0;
        let is_other = matches!(
            usual_role(&self.names[at], profile).role,
            Role::Id | Role::Time | Role::Group
        );
        let differ = profile.different() > 20 || profile.share_of_different() > 0.5;
        profile.kind() == ValueKind::Words && (is_long || is_wide) && differ && !is_other
    }

    /// Columns of numbers and categories that something can be learnt from.
    fn informative(&self, but: Option<usize>) -> usize {
        let is_one = |at: &usize| {
            let kind = kind_of(&self.names[*at], &self.profiles[*at], false);
            Some(*at) != but && matches!(kind, Ok(ColumnKind::Number { .. } | ColumnKind::Category { .. }))
        };
        (0..self.names.len()).filter(is_one).count()
    }

    /// The label of texts, and what is learnt.
    fn learn_texts(&self, text: usize, roles: &mut Roles) -> Result<()> {
        let mut given = self.given();
        given.text = Some(self.names[text].clone());
        given.text_pair = roles.text_pair.map(|pair| self.names[pair].clone());
        let at = given
            .named(self.path, 0, self.names, self.options.label.is_some())?
            .label;
        let mut reason = match self.options.label {
            Some(_) => "as asked (data.label)",
            None => "a usual name of it",
        };
        let mut label = match at {
            Some(LabelAt::One(at)) => LabelIn::One(at),
            Some(LabelAt::Each(columns)) => LabelIn::Each(columns),
            None => LabelIn::Nowhere,
        };
        if let LabelIn::One(at) = label
            && self.options.label.is_none()
            && let Some(why) = self.names_rows(at)
        {
            let name = quoted(&self.names[at]);
            roles.set(at, Role::Id, why);
            roles.problems.push(format!(
                "the column {name} is no label: {why}; name the column to be learnt with data.label"
            ));
            label = LabelIn::Nowhere;
        }
        if label == LabelIn::Nowhere {
            let free: Vec<usize> = (0..self.names.len())
                .filter(|at| roles.can_be_label(*at, &self.profiles[*at]))
                .collect();
            let columns_of_flags: Vec<usize> = free.iter().copied().filter(|at| flags(&self.profiles[*at])).collect();
            let last = free.iter().rev().find(|at| self.is_like_label(**at));
            if columns_of_flags.len() > 1 && columns_of_flags.len() == free.len() {
                (label, reason) = (LabelIn::Each(columns_of_flags), "it has 0 and 1 alone");
            } else if let Some(at) = last {
                (label, reason) = (LabelIn::One(*at), "the last column with few values");
            } else if let Some(at) = free.iter().rev().find(|at| self.profiles[**at].fractions > 0) {
                (label, reason) = (LabelIn::One(*at), "the last column of numbers");
            }
        }
        match &label {
            LabelIn::One(at) => {
                roles.set(*at, Role::Label, reason);
                self.task_of_label(*at, roles);
            }
            LabelIn::Each(columns) => {
                columns.iter().for_each(|at| roles.set(*at, Role::Label, reason));
                (roles.task, roles.reason) = (Task::SeveralLabels, "columns of 0 and 1 are labels".to_string());
            }
            LabelIn::Nowhere => {
                (roles.task, roles.reason) = (Task::TextAlone, "there is no column of labels".to_string());
            }
        }
        roles.label = label;
        for column in &mut roles.columns {
            if matches!(column.role, Role::Number | Role::Category) {
                *column = ColumnLook {
                    role: Role::Ignored,
                    reason: "beside the text".to_string(),
                    ..column.clone()
                };
            }
        }
        self.add_settings(roles);
        Ok(())
    }

    /// What the labels of texts without columns pose; classes where they are folders.
    pub(super) fn task_of_texts(&self, roles: &mut Roles, are_folders: bool) {
        if are_folders {
            (roles.task, roles.reason) = (Task::Classes, "there is a folder for each class".to_string());
        } else {
            self.task_of_label(0, roles);
            roles.reason = roles.reason.replacen("'label' has", "after the tab are", 1);
        }
    }

    /// What a column of labels poses.
    fn task_of_label(&self, at: usize, roles: &mut Roles) {
        let profile = &self.profiles[at];
        let separator = separator_of(&self.names[at], profile);
        (roles.task, roles.reason) = match (self.options.problem, separator) {
            (Some(Problem::Regression), _) => (Task::Number, "as asked (data.problem)".to_string()),
            (Some(Problem::SingleLabel), _) => (Task::Classes, "as asked (data.problem)".to_string()),
            (Some(Problem::MultiLabel), separator) => {
                roles.separator = separator.or_else(|| Some(",".to_string()));
                (Task::SeveralLabels, "as asked (data.problem)".to_string())
            }
            (None, Some(separator)) => {
                let reason = format!(
                    "{} lists labels between {}",
                    quoted(&self.names[at]),
                    quoted(&separator)
                );
                roles.separator = Some(separator);
                (Task::SeveralLabels, reason)
            }
            (None, None) => {
                let (problem, reason) = problem_of(profile);
                let task = if problem == Problem::Regression {
                    Task::Number
                } else {
                    Task::Classes
                };
                (
                    task,
                    reason.replacen("it has", &format!("{} has", quoted(&self.names[at])), 1),
                )
            }
        };
    }

    /// Why a column names rows, where it does.
    fn names_rows(&self, at: usize) -> Option<&'static str> {
        let profile = &self.profiles[at];
        let is_unlike = profile.are_all_different() && profile.values() >= ENOUGH && profile.fractions == 0;
        match profile.kind() {
            _ if !is_unlike => None,
            ValueKind::Number if profile.counts_up => Some("it counts the rows"),
            ValueKind::Number | ValueKind::Words => Some("its values are all different"),
            ValueKind::Date | ValueKind::Nothing => None,
        }
    }

    /// Whether a column has few values, as labels do.
    fn is_like_label(&self, at: usize) -> bool {
        let profile = &self.profiles[at];
        // A class may be called `none`, which stands for a missing value elsewhere.
        let different = profile.different() as u64 + u64::from(profile.missing > 0);
        (2..=20.max(profile.rows / 10)).contains(&different)
            && profile.mean_length() < LONG
            && profile.kind() != ValueKind::Date
            && self.names_rows(at).is_none()
    }

    /// The columns of a table and what is learnt of it.
    fn learn_table(&self, roles: &mut Roles) -> Result<()> {
        let found = match &self.options.label {
            Some(label) => {
                let columns = Columns {
                    text: Some(label.clone()),
                    ..Columns::default()
                };
                let at = columns.named(self.path, 0, self.names, false)?.text;
                Some((at, "as asked (data.label)"))
            }
            None => label_of(self.names, self.profiles),
        };
        roles.task = Task::Table(Problem::SingleLabel);
        for (at, (name, profile)) in self.names.iter().zip(self.profiles).enumerate() {
            if Some(at) == found.map(|found| found.0) {
                continue;
            }
            let (role, reason) = match kind_of(name, profile, false) {
                Ok(ColumnKind::Number { .. }) => (Role::Number, "numbers".to_string()),
                Ok(ColumnKind::Date { .. }) => (Role::Time, "dates".to_string()),
                Ok(ColumnKind::Category { values }) => (Role::Category, format!("{} values", values.len())),
                Err(reason) => (Role::Ignored, reason),
            };
            // Rows of a group are kept together, and its values are learnt from as others are.
            if !matches!(roles.columns[at].role, Role::Group | Role::Id) {
                roles.set(at, role, &reason);
            }
        }
        let Some((at, reason)) = found else {
            roles.reason = "there is no column of texts".to_string();
            return Ok(());
        };
        roles.set(at, Role::Label, reason);
        roles.label = LabelIn::One(at);
        let (problem, why) = match self.options.problem {
            Some(problem) => (problem, "as asked (data.problem)".to_string()),
            None => problem_of(&self.profiles[at]),
        };
        roles.task = Task::Table(problem);
        roles.reason = why.replacen("it has", &format!("{} has", quoted(&self.names[at])), 1);
        roles.settings.push(("data.label", self.names[at].clone()));
        Ok(())
    }

    /// The keys for the columns of texts that their reader does not find by itself.
    fn add_settings(&self, roles: &mut Roles) {
        let usual = Columns {
            several: roles.task == Task::SeveralLabels,
            ..Columns::default()
        };
        let found = usual
            .named(self.path, 0, self.names, true)
            .ok()
            .filter(|_| self.is_named);
        let name = |at: usize| self.names[at].clone();
        if let Some(text) = roles.text
            && found
                .as_ref()
                .is_none_or(|found| found.text != text || found.text_pair != roles.text_pair)
        {
            roles.settings.push(("data.text", name(text)));
            roles
                .settings
                .extend(roles.text_pair.map(|pair| ("data.text_pair", name(pair))));
        }
        let own = match &roles.label {
            LabelIn::Nowhere => None,
            LabelIn::One(at) => Some((LabelAt::One(*at), name(*at))),
            LabelIn::Each(columns) => {
                let names: Vec<String> = columns.iter().map(|at| name(*at)).collect();
                Some((LabelAt::Each(columns.clone()), names.join(",")))
            }
        };
        if let Some((at, names)) = own
            && found.as_ref().is_none_or(|found| found.label != Some(at))
        {
            roles.settings.push(("data.label", names));
        }
    }
}

impl Roles {
    fn set(&mut self, at: usize, role: Role, reason: &str) {
        self.columns[at].role = role;
        self.columns[at].reason = reason.to_string();
    }

    /// Whether a column beside texts can hold labels.
    fn can_be_label(&self, at: usize, profile: &Profile) -> bool {
        matches!(self.columns[at].role, Role::Number | Role::Category | Role::Ignored) && profile.values() > 0
    }
}

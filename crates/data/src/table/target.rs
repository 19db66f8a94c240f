//! What the labels of a table's rows are looked up in.

use lessen_base::{Error, Result};

use super::label::problem_of;
use super::labelled_files::LabelledFiles;
use super::options::TableOptions;
use super::profile::Profile;
use crate::classes::{Classes, Found, score_of};
use crate::files::quoted;
use crate::held_out::Deal;
use crate::labels::{LabelKind, Labels, Problem};
use crate::raw_label::RawLabel;
use crate::unlabelled::Unlabelled;

/// What labels are looked up in.
pub(super) enum Target {
    Classes(Classes),
    Scores,
}

impl Target {
    /// That of the training files, with the labels of their rows, which are added to the deal.
    pub(super) fn of(
        train: &LabelledFiles,
        options: &TableOptions,
        known: Option<Classes>,
        (skipped, deal): (&mut Vec<Unlabelled>, &mut Deal),
    ) -> Result<(Target, Labels)> {
        let of_schema = options.schema.as_ref().map(|schema| match schema.target {
            Some(_) => Problem::Regression,
            None => Problem::SingleLabel,
        });
        let problem = match options.problem.or(of_schema) {
            Some(problem) => problem,
            None if known.is_some() => Problem::SingleLabel,
            None => {
                let mut profile = Profile::new();
                train.without_inputs().for_each(|row| {
                    if let Some(RawLabel::One(label)) = &row.label.label {
                        profile.add(label);
                    }
                    Ok(())
                })?;
                problem_of(&profile).0
            }
        };
        let target = match (problem, known) {
            (Problem::Regression, _) => Target::Scores,
            (Problem::SingleLabel, Some(classes)) => Target::Classes(classes),
            (Problem::SingleLabel, None) => {
                let mut found = Found::default();
                skipped.push(train.without_inputs().for_each(|row| {
                    deal.add(&row.label);
                    found.add(&row.label)
                })?);
                let (classes, labels) = found.sorted(train.first())?;
                return Ok((Target::Classes(classes), Labels::Classes(labels)));
            }
            (Problem::MultiLabel, _) => {
                return Err(Error::user(
                    "data.problem is \"multi_label_classification\", and the rows of a table have one label each; set \
                     it to \"single_label_classification\" or \"regression\"",
                ));
            }
        };
        let (labels, without) = target.labels_of(train, deal)?;
        skipped.push(without);
        Ok((target, labels))
    }

    /// The labels of the rows of files, which are added to the deal; one at least.
    pub(super) fn labels_of(&self, files: &LabelledFiles, deal: &mut Deal) -> Result<(Labels, Unlabelled)> {
        let files = files.without_inputs();
        let (labels, skipped) = match self {
            Target::Classes(classes) => {
                let mut labels = Vec::new();
                let skipped = files.for_each(|row| {
                    deal.add(&row.label);
                    labels.push(classes.of(&row.label)?);
                    Ok(())
                })?;
                (Labels::Classes(labels), skipped)
            }
            Target::Scores => {
                let mut scores = Vec::new();
                let skipped = files.for_each(|row| {
                    deal.add(&row.label);
                    scores.push(score_of(&row.label)?);
                    Ok(())
                })?;
                (Labels::Scores(scores), skipped)
            }
        };
        if labels.is_empty() {
            return Err(Error::user(format!(
                "{} has no row with a value in {}; add some, or name another column with data.label",
                files.first().display(),
                quoted(&files.label)
            )));
        }
        Ok((labels, skipped))
    }

    /// What there is to say of how labels were looked up.
    pub(super) fn remark(&self) -> Option<String> {
        match self {
            Target::Classes(classes) => classes.remark(),
            Target::Scores => None,
        }
    }

    /// What labels are.
    pub(super) fn into_kind(self) -> LabelKind {
        match self {
            Target::Classes(classes) => LabelKind::Classes(classes.into_names()),
            Target::Scores => LabelKind::Score,
        }
    }
}

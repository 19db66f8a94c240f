//! What a model sees of the columns of a table, learnt from its training rows.

use lessen_base::{Error, Result};

use super::columns::kind_of;
use super::labelled_files::LabelledFiles;
use super::options::TableOptions;
use super::part::TablePart;
use super::profile::{Moments, Profile};
use super::schema::{ColumnKind, TableColumn, TableSchema};
use crate::files::quoted;
use crate::labels::Labels;

/// The columns as the training rows have them, and those that are left out with the reasons.
pub(super) fn learnt(
    train: &LabelledFiles,
    options: &TableOptions,
    is_training: impl Fn(usize) -> bool,
    remarks: &mut Vec<String>,
) -> Result<(TableSchema, Vec<(String, String)>)> {
    let mut profiles = vec![Profile::new(); train.inputs.len()];
    let mut number = 0;
    train.for_each(|row| {
        if is_training(number) {
            row.cells()
                .zip(&mut profiles)
                .for_each(|(cell, profile)| profile.add(cell));
        }
        number += 1;
        Ok(())
    })?;
    let (mut columns, mut left_out) = (Vec::new(), Vec::new());
    for (name, profile) in train.inputs.iter().zip(&profiles) {
        match kind_of(name, profile, options.inputs.is_some()) {
            Ok(kind) => {
                let others = match kind {
                    ColumnKind::Number { .. } => profile.values() - profile.numbers.count,
                    ColumnKind::Date { .. } => profile.values() - profile.dates.count,
                    ColumnKind::Category { .. } => 0,
                };
                if others > 0 {
                    let what = if matches!(kind, ColumnKind::Date { .. }) {
                        "date"
                    } else {
                        "number"
                    };
                    remarks.push(format!(
                        "{others} values of the column {} are no {what} and count as missing",
                        quoted(name)
                    ));
                }
                columns.push(TableColumn {
                    name: name.clone(),
                    kind,
                });
            }
            Err(reason) => left_out.push((name.clone(), reason)),
        }
    }
    let listed: Vec<String> = left_out
        .iter()
        .map(|(name, reason)| format!("{} ({reason})", quoted(name)))
        .collect();
    if columns.is_empty() {
        return Err(Error::user(format!(
            "{} has no column to learn {} from{}; add columns of numbers or categories, or name some with data.inputs",
            train.first().display(),
            quoted(&train.label),
            if listed.is_empty() {
                String::new()
            } else {
                format!(": {}", listed.join(", "))
            }
        )));
    }
    if !listed.is_empty() {
        remarks.push(format!("columns are left out: {}", listed.join(", ")));
    }
    let schema = TableSchema {
        columns,
        label: train.label.clone(),
        target: None,
    };
    Ok((schema, left_out))
}

/// Mean and standard deviation of the training scores.
pub(super) fn scale(scores: &[f32], is_training: impl Fn(usize) -> bool) -> [f64; 2] {
    let mut moments = Moments::default();
    let own = scores.iter().enumerate().filter(|(row, _)| is_training(*row));
    own.for_each(|(_, score)| moments.add(f64::from(*score)));
    [moments.mean, moments.std()]
}

/// The wanted rows of files as a model sees them; `labels` are theirs.
pub(super) fn encoded(
    files: &LabelledFiles,
    schema: &TableSchema,
    labels: Labels,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<TablePart> {
    let (width, rows) = (schema.width(), labels.len());
    let mut values: Vec<f32> = Vec::new();
    let room = rows
        .checked_mul(width)
        .and_then(|elements| values.try_reserve_exact(elements).ok());
    room.ok_or_else(|| {
        Error::user(format!(
            "{rows} rows of {width} numbers each, which {} gives, do not fit in memory; learn from fewer columns \
             (data.inputs)",
            files.first().display()
        ))
    })?;
    let (mut lines, mut number) = (Vec::with_capacity(rows), 0);
    files.for_each(|row| {
        if is_wanted(number) {
            let cells: Vec<Option<&str>> = row.cells().map(Some).collect();
            schema.encode(&cells, &mut values);
            lines.push(u32::try_from(row.row.line).unwrap_or(u32::MAX));
        }
        number += 1;
        Ok(())
    })?;
    if lines.len() != rows {
        return Err(Error::user(format!(
            "{} has changed while it was read; start again",
            files.first().display()
        )));
    }
    Ok(TablePart::new(values, width, labels, lines))
}

//! Fields of the files of sentence-transformers: no field that changes a result is passed over.

use lessen_base::Result;
use lessen_nn::Fields;
use serde_json::Value;

/// Refuses fields of a file that are not among `known`.
///
/// # Errors
/// The first unknown field.
pub(super) fn check_known(fields: &Fields, known: &[&str]) -> Result<()> {
    let map = fields.clone().into_map();
    let is_unknown = |(field, value): &(&String, &Value)| !known.contains(&field.as_str()) && !value.is_null();
    match map.iter().find(is_unknown) {
        Some((field, value)) => Err(fields.error(
            field,
            format!("is {value}, and Lessen does not know what it changes; remove it if it changes nothing"),
        )),
        None => Ok(()),
    }
}

/// Refuses a field that is present with another value than `only`.
///
/// # Errors
/// The field.
pub(super) fn must_be(fields: &Fields, field: &str, only: &Value) -> Result<()> {
    match fields.get(field) {
        Some(value) if value != only => {
            Err(fields.error(field, format!("is {value}, and Lessen embeds texts only with {only}")))
        }
        _ => Ok(()),
    }
}

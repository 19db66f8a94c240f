//! The request of a job, `lessen condense` or `lessen search`: its recipe, flags over the recipe's keys, its folder.

use lessen_base::{Error, Result};
use lessen_jobs::SCHEMA;
use lessen_jobs::job::{JobKind, Request};
use lessen_task::folder::names::{last_run, next_run};
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_train::parse_budget;
use std::path::PathBuf;

/// A flag, the key that it stands for, and its value with the text of it, where it is given.
pub type Flag = (&'static str, &'static str, Option<(SettingValue, String)>);

/// A flag of a text.
pub fn text(flag: &'static str, key: &'static str, given: Option<&String>) -> Flag {
    let value = given.map(|text| (SettingValue::Text(text.clone()), text.clone()));
    (flag, key, value)
}

/// A flag of a path.
///
/// # Errors
/// A path that is no text.
pub fn path(flag: &'static str, key: &'static str, given: Option<&PathBuf>) -> Result<Flag> {
    let value = given.map(|path| Ok((SettingValue::of_path(path)?, path.display().to_string())));
    Ok((flag, key, value.transpose()?))
}

/// A flag of a number.
pub fn count(flag: &'static str, key: &'static str, given: Option<u64>) -> Flag {
    (
        flag,
        key,
        given.map(|count| (SettingValue::Count(count), count.to_string())),
    )
}

/// The flag `--budget`.
///
/// # Errors
/// A size that is none.
pub fn budget(given: Option<&String>) -> Result<Flag> {
    let size = given.map(|size| Ok((SettingValue::Size(parse_budget(size)? as u64), size.clone())));
    Ok(("--budget", "run.budget", size.transpose()?))
}

/// The request of a job of this kind: of a recipe in a new folder, or of a folder that is resumed. Flags go over the
/// recipe, and assignments of `--set` over them.
///
/// # Errors
/// A recipe that is none, no folder to resume, a value that a key does not take.
pub fn request(
    kind: JobKind,
    recipe: Option<&str>,
    (out, resume): (Option<&PathBuf>, bool),
    flags: &[Flag],
    set: &[String],
) -> Result<Request> {
    let apply = |settings: &mut Settings| {
        for (flag, key, given) in flags {
            if let Some((value, shown)) = given {
                settings.set_named(key, value.clone(), format!("{flag} {shown}"))?;
            }
        }
        set.iter().try_for_each(|assignment| settings.set_flag(assignment))
    };
    let named = recipe.map(|name| SCHEMA.load(name)).transpose()?;
    let name = named
        .as_ref()
        .and_then(|settings| settings.text("run.recipe"))
        .map(str::to_string);
    let folder = format!("{}-{}", kind.prefix, name.as_deref().unwrap_or("recipe"));
    if resume {
        let found = out.cloned().or_else(|| last_run(&folder)).ok_or_else(|| {
            Error::user(format!(
                "there is no {} of this recipe in runs/ to resume; name its folder with --out",
                kind.noun
            ))
        })?;
        return Request::resume_job(kind, found, name.as_deref(), apply);
    }
    let mut settings = named.ok_or_else(|| Error::internal("a recipe is required"))?;
    apply(&mut settings)?;
    Ok(Request::new(
        settings,
        out.cloned().unwrap_or_else(|| next_run(&folder)),
    ))
}

//! What a condensation says at its end.

use super::manifest::Manifest;
use crate::planning::account::Account;
use lessen_task::folder::spent::Spent;
use lessen_task::recipe::BUILT_IN;
use lessen_task::wording::{counted, show_duration};
use lessen_train::show_size;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What a condensation says at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its folder.
    pub out: PathBuf,
    /// The name of the recipe.
    pub recipe: String,
    /// Number of images.
    pub images: usize,
    /// Iterations that are done, and all of them where they are known.
    pub done: usize,
    /// All iterations, where they are known.
    pub iterations: Option<usize>,
    /// Whether Ctrl-C stopped it.
    pub interrupted: bool,
    /// The mean distance in the first iteration of this process and in the last one; none where there was none.
    pub distances: Option<[f64; 2]>,
    /// Seconds of all sessions.
    pub seconds: f64,
    /// The most bytes that were planned to be resident.
    pub planned: usize,
    /// The most bytes that were allocated at once.
    pub measured: usize,
    /// The most bytes that a process has had resident, where the system tells.
    pub resident: Option<usize>,
    /// The parts of what this process announced.
    pub(super) account: Account,
}

impl Report {
    /// The report of a condensation, of which `spent` was taken in all sessions.
    pub(super) fn new(out: PathBuf, manifest: &Manifest, images: usize, spent: &Spent) -> Report {
        Report {
            out,
            recipe: manifest.recipe.clone(),
            images,
            done: manifest.done,
            iterations: manifest.own.iterations,
            interrupted: false,
            distances: None,
            seconds: spent.seconds,
            planned: spent.planned,
            measured: spent.measured,
            resident: spent.resident,
            account: Account::default(),
        }
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "folder": self.out.display().to_string(),
            "recipe": self.recipe,
            "images": self.images,
            "done": self.done,
            "iterations": self.iterations,
            "interrupted": self.interrupted,
            "first_distance": self.distances.map(|[first, _]| first),
            "last_distance": self.distances.map(|[_, last]| last),
            "seconds": self.seconds,
            "peak_bytes": { "planned": self.planned, "measured": self.measured, "resident": self.resident },
            "account_bytes": self.account.to_json(),
        })
    }

    /// Some lines of text.
    pub fn to_text(&self) -> String {
        let distances = self.distances.map_or(String::new(), |[first, last]| {
            format!(", distance {first:.4} at first and {last:.4} at last")
        });
        let resident = self
            .resident
            .map_or(String::new(), |resident| format!(", {} resident", show_size(resident)));
        let out = self.out.display();
        let made = match self.iterations {
            Some(0) => "chosen".to_string(),
            _ => format!("after {}", counted(self.done as u64, "iteration")),
        };
        let mut text = format!(
            "{} {made} in {}{distances}\npeak memory {} planned, {} allocated{resident}\n",
            counted(self.images as u64, "image"),
            show_duration(self.seconds),
            show_size(self.planned),
            show_size(self.measured),
        );
        let is_built_in = BUILT_IN.iter().any(|built_in| built_in.name == self.recipe);
        let recipe = if is_built_in { &self.recipe } else { "RECIPE" };
        text += &format!("{out}/images.png shows them; `lessen train {recipe} --data {out}` trains on them\n");
        text
    }
}

//! The page of condensations: the images as they developed, the distances, settings and results.

use crate::condensing::{CondensedFolder, Manifest};
use lessen_base::Result;
use lessen_pages::figure::{Figure, Line, LineLook};
use lessen_pages::html::{document, folded, grid, note, section, table};
use lessen_pages::plot::{Thinned, escaped};
use lessen_task::folder::metrics;
use lessen_task::folder::spent::Spent;
use lessen_task::wording::{counted, show_duration};
use lessen_train::show_size;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Greatest distance in multiples of the least beyond which the axis is logarithmic.
const FAR: f64 = 10.0;

/// A condensation, as a page shows it.
struct Shown {
    /// Its name on the page.
    name: String,
    manifest: Manifest,
    spent: Spent,
    /// The course of the sum of distances, and of each layer.
    total: Thinned,
    layers: BTreeMap<String, Thinned>,
    /// Pictures in base 64, with the iterations that were done.
    pictures: Vec<(usize, String)>,
}

/// The page of folders of condensations with these names, and a sentence for everything that is missing or damaged.
///
/// # Errors
/// A folder without a manifest.
pub(super) fn page(folders: &[PathBuf], names: Vec<String>) -> Result<(String, Vec<String>)> {
    let mut problems = Vec::new();
    let shown = folders.iter().zip(names).map(|(root, name)| {
        let folder = CondensedFolder::open(root)?;
        read(&folder, name, &mut problems)
    });
    let shown: Vec<Shown> = shown.collect::<Result<_>>()?;
    let title = match &shown[..] {
        [one] => format!("Condensation {}", one.name),
        _ => counted(shown.len() as u64, "condensation"),
    };
    let images: String = shown.iter().map(developed).collect();
    let distances: Vec<String> = shown
        .iter()
        .enumerate()
        .map(|(index, one)| layers(index, one))
        .collect();
    let sections = [
        section("results", "Results", &results(&shown)),
        section("images", "Images as they developed", &images),
        section(
            "distances",
            "Distances of gradients",
            &grid(&(total(&shown) + &distances.concat())),
        ),
        section("settings", "Settings", &settings(&shown)),
    ];
    let html = document("Lessen report", &title, &problems, &sections.concat());
    Ok((html, problems))
}

fn read(folder: &CondensedFolder, name: String, problems: &mut Vec<String>) -> Result<Shown> {
    let (mut total, mut layers) = (Thinned::default(), BTreeMap::<String, Thinned>::new());
    let path = folder.metrics();
    let visited = metrics::visit(&path, |line| {
        let Some(step) = line["step"].as_u64() else { return };
        let add = |curve: &mut Thinned, value: &Value| {
            if let Some(value) = value.as_f64() {
                curve.add(step, value);
            }
        };
        add(&mut total, &line["distance"]);
        for (layer, value) in line["distances"].as_object().into_iter().flatten() {
            add(layers.entry(layer.clone()).or_default(), value);
        }
    });
    match visited {
        Ok(broken) if broken.is_empty() => {}
        Ok(broken) => problems.push(format!(
            "{} has {} that cannot be read",
            path.display(),
            counted(broken.len() as u64, "line")
        )),
        Err(error) => problems.push(error.to_string()),
    }
    let mut pictures = Vec::new();
    for (done, path) in folder.pictures()? {
        match fs::read(&path) {
            Ok(bytes) => pictures.push((done, base64::encode(bytes))),
            Err(error) => problems.push(format!("{} cannot be read ({error})", path.display())),
        }
    }
    Ok(Shown {
        name,
        manifest: folder.manifest()?,
        spent: Spent::read(&folder.sessions()),
        total,
        layers,
        pictures,
    })
}

/// What was made, of what, and what it took.
fn results(all: &[Shown]) -> String {
    let heads: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    type Cell = fn(&Shown) -> String;
    let rows: [(&str, Cell); 8] = [
        ("recipe", |one| one.manifest.recipe.clone()),
        ("images of a class", |one| {
            one.manifest.own.settings.get("per_class").cloned().unwrap_or_default()
        }),
        ("classes", |one| one.manifest.classes.len().to_string()),
        ("condensed from", |one| {
            let data = &one.manifest.data;
            format!("{} images of {}", data.images, data.place())
        }),
        ("iterations", |one| match one.manifest.own.iterations {
            Some(all) if all != one.manifest.done => format!("{} of {all}", one.manifest.done),
            _ => one.manifest.done.to_string(),
        }),
        ("time", |one| show_duration(one.spent.seconds)),
        ("peak memory as planned", |one| show_size(one.spent.planned)),
        ("peak memory resident", |one| {
            one.spent.resident.map_or("unknown".to_string(), show_size)
        }),
    ];
    let rows: Vec<(String, Vec<String>)> = rows
        .into_iter()
        .map(|(name, cell)| (name.to_string(), all.iter().map(cell).collect()))
        .collect();
    table("Results", "", &heads, &rows)
}

/// The images after the last iteration, and folded away those of earlier ones.
fn developed(one: &Shown) -> String {
    let Some(((done, last), earlier)) = one.pictures.split_last() else {
        return note(&format!("{} has no pictures.", one.name));
    };
    let classes = one.manifest.classes.join(", ");
    let shown = |done: usize, png: &str| {
        let caption = escaped(&format!("{}, after {}", one.name, counted(done as u64, "iteration")));
        format!(
            "<figure><figcaption>{caption}</figcaption>\n<img class=\"condensed\" src=\"data:image/png;base64,{png}\" \
             alt=\"{caption}: a row for each class\" loading=\"lazy\"></figure>\n"
        )
    };
    let before: String = earlier.iter().map(|(done, png)| shown(*done, png)).collect();
    let rows = note(&format!("A row for each class, from above: {classes}."));
    let before = if before.is_empty() {
        before
    } else {
        folded(
            &format!("{} of {}", counted(earlier.len() as u64, "earlier picture"), one.name),
            &before,
        )
    };
    shown(*done, last) + &rows + &before
}

/// The sums of distances of all condensations.
fn total(all: &[Shown]) -> String {
    let lines = all
        .iter()
        .enumerate()
        .map(|(colour, one)| line(&one.name, colour, &one.total));
    figure("distance", "Distance of all layers", lines.collect())
}

/// The distances of the layers of a condensation.
fn layers(index: usize, one: &Shown) -> String {
    let lines = one.layers.iter().enumerate();
    let lines = lines.map(|(colour, (layer, curve))| line(layer, colour, curve));
    figure(
        &format!("distance-{index}"),
        &format!("Distance of each layer, {}", one.name),
        lines.collect(),
    )
}

fn line(name: &str, colour: usize, curve: &Thinned) -> Line {
    Line {
        name: name.to_string(),
        colour,
        look: LineLook::Solid,
        points: curve.points(),
        told: true,
    }
}

fn figure(id: &str, title: &str, lines: Vec<Line>) -> String {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    Figure {
        id: id.to_string(),
        title: title.to_string(),
        unit: String::new(),
        note: "The mean over the updates of an iteration.".to_string(),
        along: "iteration".to_string(),
        reach: (Vec::new(), Vec::new()),
        log: least > 0.0 && most > FAR * least,
        lines,
        marks: Vec::new(),
        figures: String::new(),
    }
    .to_html()
}

/// The settings as they were followed.
fn settings(all: &[Shown]) -> String {
    let heads: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let keys: BTreeSet<&String> = all.iter().flat_map(|one| one.manifest.own.settings.keys()).collect();
    let cell = |one: &Shown, key: &String| one.manifest.own.settings.get(key).cloned().unwrap_or_default();
    let rows: Vec<(String, Vec<String>)> = keys
        .into_iter()
        .map(|key| {
            (
                format!("condense.{key}"),
                all.iter().map(|one| cell(one, key)).collect(),
            )
        })
        .collect();
    table("Settings", "", &heads, &rows)
}

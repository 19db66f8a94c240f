//! The page of searches: what was found and what it costs, the bits of its blocks, the course of the search.

use crate::job::{JobFolder, SEARCH};
use crate::searching::{ARCHITECTURE, CHOICES, REPORT};
use lessen_base::Result;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_pages::figure::{Figure, Line, LineLook};
use lessen_pages::html::{document, folded, grid, note, number, section, table};
use lessen_pages::plot::Thinned;
use lessen_task::folder::metrics;
use lessen_task::folder::spent::Spent;
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::{counted, show_duration};
use lessen_train::show_size;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of the metrics in one figure, with their names in its legend.
type Lines = &'static [(&'static str, &'static str)];

/// The figures of a course: name, title, and the numbers in it.
const FIGURES: [(&str, &str, Lines); 5] = [
    (
        "loss",
        "Loss",
        &[("loss", "weights"), ("validation_loss", "validation")],
    ),
    (
        "accuracy",
        "Accuracy",
        &[
            ("validation_accuracy", "validation"),
            ("accuracy", "episode"),
            ("best", "best episode so far"),
        ],
    ),
    (
        COST,
        "Cost",
        &[
            ("mean_cost", "mean of all networks"),
            ("likeliest_cost", "likeliest choices"),
            ("cost", "episode"),
        ],
    ),
    (
        "entropy",
        "Entropy of the choices, as a share of the greatest",
        &[("entropy", "entropy")],
    ),
    ("temperature", "Temperature", &[("temperature", "temperature")]),
];

/// The figure whose unit is that of the cost.
const COST: &str = "cost";

/// Fewest points of a curve that is drawn as a line.
const MANY: usize = 40;

/// A search, as a page shows it.
struct Shown {
    /// Its name on the page.
    name: String,
    settings: Settings,
    spent: Spent,
    /// The numbers that it ended with; null before its end.
    numbers: Value,
    network: Option<MixedArchitecture>,
    /// The probability of each possibility of each choice of each block; null where there is no supernet.
    choices: Value,
    curves: BTreeMap<String, Thinned>,
}

/// The page of folders of searches with these names, and a sentence for everything that is missing or damaged.
///
/// # Errors
/// A folder without the settings of a search.
pub(super) fn page(folders: &[PathBuf], names: Vec<String>) -> Result<(String, Vec<String>)> {
    let mut problems = Vec::new();
    let shown = folders.iter().zip(names).map(|(root, name)| {
        let folder = JobFolder::open(SEARCH, root)?;
        read(&folder, name, &mut problems)
    });
    let shown: Vec<Shown> = shown.collect::<Result<_>>()?;
    let title = match &shown[..] {
        [one] => format!("Search {}", one.name),
        _ => format!("{} searches", shown.len()),
    };
    let each = |show: fn(usize, &Shown) -> String| -> String {
        shown.iter().enumerate().map(|(index, one)| show(index, one)).collect()
    };
    let sections = [
        section("results", "Results", &results(&shown)),
        section("network", "Network", &each(network)),
        section("curves", "Course", &grid(&each(curves))),
        section("choices", "Probabilities of the choices", &each(choices)),
        section("settings", "Settings", &settings(&shown)),
    ];
    let html = document("Lessen report", &title, &problems, &sections.concat());
    Ok((html, problems))
}

fn read(folder: &JobFolder, name: String, problems: &mut Vec<String>) -> Result<Shown> {
    let mut curves = BTreeMap::<String, Thinned>::new();
    let path = folder.metrics();
    let visited = metrics::visit(&path, |line| {
        let Some(step) = line["step"].as_u64() else { return };
        for (key, value) in line.as_object().into_iter().flatten() {
            if let Some(value) = value.as_f64() {
                curves.entry(key.clone()).or_default().add(step, value);
            }
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
    let root = folder.root();
    if !root.join(REPORT).is_file() {
        problems.push(format!("{} has not ended", root.display()));
    }
    let network = text_of(&root.join(ARCHITECTURE), problems).and_then(|text| {
        let parsed = MixedArchitecture::parse(&text);
        parsed.map_err(|error| problems.push(error.to_string())).ok()
    });
    Ok(Shown {
        name,
        settings: folder.settings()?,
        spent: Spent::read(&folder.sessions()),
        numbers: json_of(&root.join(REPORT), problems),
        network,
        choices: json_of(&root.join(CHOICES), problems),
        curves,
    })
}

/// The text of a file; none where there is no such file.
fn text_of(path: &Path, problems: &mut Vec<String>) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let text = fs::read_to_string(path);
    text.map_err(|error| problems.push(format!("{} cannot be read ({error})", path.display())))
        .ok()
}

/// The value in a file; null where there is none.
fn json_of(path: &Path, problems: &mut Vec<String>) -> Value {
    let Some(text) = text_of(path, problems) else {
        return Value::Null;
    };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        problems.push(format!("{} is damaged ({error})", path.display()));
        Value::Null
    })
}

/// A number that a search ended with, with its unit.
fn figure_of(one: &Shown, key: &str, unit: &str) -> String {
    let found = one.numbers[key].as_f64();
    found.map_or("–".to_string(), |found| {
        format!("{} {unit}", number(found)).trim_end().to_string()
    })
}

/// The unit of the cost.
fn unit(one: &Shown) -> &str {
    one.numbers["unit"].as_str().unwrap_or_default()
}

/// What was found, what it costs, and what the search took.
fn results(all: &[Shown]) -> String {
    let heads: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let word = |one: &Shown, key: &str| one.numbers[key].as_str().unwrap_or("–").to_string();
    type Cell<'a> = &'a dyn Fn(&Shown) -> String;
    let rows: [(&str, Cell<'_>); 15] = [
        ("method", &|one| word(one, "method")),
        ("hardware", &|one| word(one, "accelerator")),
        ("what is searched by", &|one| word(one, "cost")),
        ("cost of the network", &|one| figure_of(one, "value", unit(one))),
        ("least cost of the space", &|one| figure_of(one, "least", unit(one))),
        ("greatest cost of the space", &|one| figure_of(one, "most", unit(one))),
        ("limit", &|one| figure_of(one, "limit", unit(one))),
        ("energy of an image", &|one| figure_of(one, "energy_mj", "mJ")),
        ("time of an image", &|one| figure_of(one, "latency_ms", "ms")),
        ("weights", &|one| figure_of(one, "size_mb", "MB")),
        ("blocks", &|one| figure_of(one, "blocks", "")),
        ("mean bits of 1 x 1 layers", &|one| {
            figure_of(one, "mean_bits_pointwise", "")
        }),
        ("mean bits of depthwise layers", &|one| {
            figure_of(one, "mean_bits_depthwise", "")
        }),
        ("time", &|one| show_duration(one.spent.seconds)),
        ("peak memory as planned", &|one| show_size(one.spent.planned)),
    ];
    let rows: Vec<(String, Vec<String>)> = rows
        .into_iter()
        .map(|(name, cell)| (name.to_string(), all.iter().map(cell).collect()))
        .collect();
    table("Results", "", &heads, &rows)
}

/// The blocks of a network, and the bits of each as a picture.
fn network(index: usize, one: &Shown) -> String {
    let Some(network) = &one.network else {
        return note(&format!("{} has no network yet.", one.name));
    };
    let bits = |which: usize| {
        let blocks = network.blocks.iter().enumerate();
        blocks
            .map(|(at, block)| ((at + 1) as f64, f64::from(block.bits[which])))
            .collect()
    };
    let line = |name: &str, which: usize| Line {
        name: name.to_string(),
        colour: which,
        look: LineLook::Marked,
        points: bits(which),
        told: true,
    };
    let picture = Figure {
        id: format!("bits-{index}"),
        title: format!("Bits of each block, {}", one.name),
        unit: "bits".to_string(),
        note: format!("The first and the last layers have {} bits.", network.bits),
        along: "block".to_string(),
        reach: (vec![1.0], vec![0.0, 8.0]),
        log: false,
        lines: vec![line("1 x 1 layers", 0), line("depthwise layer", 1)],
        marks: Vec::new(),
        figures: String::new(),
    };
    let heads = [
        "channels",
        "stride",
        "expansion",
        "kernel",
        "bits of 1 x 1 layers",
        "bits of the depthwise layer",
    ];
    let rows: Vec<(String, Vec<String>)> = (network.blocks.iter().enumerate())
        .map(|(at, block)| {
            let cells = [block.out, block.stride, block.expansion, block.kernel].map(|number| number.to_string());
            let bits = block.bits.map(|bits| bits.to_string());
            ((at + 1).to_string(), cells.into_iter().chain(bits).collect())
        })
        .collect();
    let caption = format!(
        "Blocks of {}, after {} channels and before {}",
        one.name, network.stem, network.last
    );
    grid(&picture.to_html()) + &table(&caption, "block", &heads.map(str::to_string), &rows)
}

/// The course of a search: a figure for each thing that it has numbers of.
fn curves(index: usize, one: &Shown) -> String {
    let figure = |(id, title, lines): &(&str, &str, Lines)| {
        let found = lines
            .iter()
            .enumerate()
            .filter_map(|(colour, (key, name))| Some((colour, *name, one.curves.get(*key)?.points())));
        let lines: Vec<Line> = found
            .map(|(colour, name, points)| Line {
                name: name.to_string(),
                colour,
                look: if points.len() < MANY {
                    LineLook::Marked
                } else {
                    LineLook::Solid
                },
                points,
                told: true,
            })
            .collect();
        if lines.is_empty() {
            return String::new();
        }
        Figure {
            id: format!("{id}-{index}"),
            title: format!("{title}, {}", one.name),
            unit: if *id == COST {
                unit(one).to_string()
            } else {
                String::new()
            },
            note: String::new(),
            along: along(one).to_string(),
            reach: (Vec::new(), Vec::new()),
            log: false,
            lines,
            marks: Vec::new(),
            figures: String::new(),
        }
        .to_html()
    };
    FIGURES.iter().map(figure).collect()
}

/// What a search counts: searches for bits have tests of bits after their epochs.
fn along(one: &Shown) -> &'static str {
    match one.settings.text("search.method") {
        Some("allocation") => "epochs, then tests",
        Some("haq") => "epochs, then episodes",
        _ => "epoch",
    }
}

/// The probabilities of all possibilities, folded away.
fn choices(_: usize, one: &Shown) -> String {
    let Some(blocks) = one.choices.as_array() else {
        return String::new();
    };
    let of = |block: &Value| block.as_object().cloned().unwrap_or_default();
    let aspects: BTreeSet<String> = blocks
        .iter()
        .flat_map(|block| of(block).into_iter().map(|(name, _)| name))
        .collect();
    let heads: Vec<String> = aspects.iter().cloned().collect();
    let cell = |block: &Value, aspect: &String| {
        let all = of(&block[aspect]);
        let shown = all.iter().map(|(name, probability)| {
            let percent = 100.0 * probability.as_f64().unwrap_or_default();
            format!("{name}: {percent:.0} %")
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<(String, Vec<String>)> = (blocks.iter().enumerate())
        .map(|(at, block)| {
            (
                at.to_string(),
                aspects.iter().map(|aspect| cell(block, aspect)).collect(),
            )
        })
        .collect();
    let caption = format!("Blocks of the space, {}", one.name);
    folded(&caption, &table(&caption, "block", &heads, &rows))
}

/// The settings of the searches, as the recipe and its flags have them.
fn settings(all: &[Shown]) -> String {
    let heads: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let has_part = |key: &&str| {
        ["search.", "data.", "image.", "run."]
            .iter()
            .any(|own| key.starts_with(own))
    };
    let given = all
        .iter()
        .flat_map(|one| one.settings.values.keys().map(String::as_str));
    let keys: BTreeSet<&str> = given.filter(has_part).collect();
    let cell = |one: &Shown, key: &str| one.settings.get(key).map_or(String::new(), |value| value.to_string());
    let rows: Vec<(String, Vec<String>)> = keys
        .into_iter()
        .map(|key| (key.to_string(), all.iter().map(|one| cell(one, key)).collect()))
        .collect();
    table("Settings", "", &heads, &rows)
}

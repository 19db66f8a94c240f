//! The grid of an experiment: its points, which differ in settings, and a run of each point for every seed.

use super::follows::{Follows, order};
use super::reader::Reader;
use lessen_base::{Error, Result};
use lessen_task::recipe::phase_tables::is_name;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue};
use std::ffi::OsStr;

/// What the name of a run's folder begins with, within that of its point.
const OF_SEED: &str = "seed-";

/// Most runs of an experiment.
const MOST: usize = 1 << 12;

/// An axis of the grid: a key that takes one value after another.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its name in tables and plots.
    pub name: String,
    key: String,
    values: Vec<SettingValue>,
    origin: Origin,
}

/// A point of the grid.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Its name: that of its variant, and its values on the axes.
    pub name: String,
    /// The name without the axis number `i`, for each axis, and the value there if it is a number.
    pub along: Vec<(String, Option<f64>)>,
    /// What it takes from other points.
    pub follows: Follows,
    settings: Settings,
}

/// A variant: its name, what it is in words, what it takes from other points, and its settings.
type Variant = (String, Option<String>, Follows, Settings);

/// What the sort of runs decides of a grid: the key that takes the seeds, and which keys of a variant say what it takes
/// from other points.
pub(super) struct OfRuns<'a> {
    pub seed_key: &'static str,
    pub follows: &'a dyn Fn(&mut Reader<'_, '_>) -> Result<Follows>,
}

/// A run of an experiment.
#[derive(Clone, Debug)]
pub(super) struct GridRun {
    /// The number of its point.
    pub point: usize,
    /// Its seed.
    pub seed: u64,
    /// Its folder within that of the experiment.
    pub folder: String,
    /// Its settings.
    pub settings: Settings,
}

/// A grid.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub axes: Vec<Axis>,
    pub points: Vec<Point>,
    pub seeds: Vec<u64>,
    /// Names of variants, and what they are in words, as far as the file says.
    pub variants: Vec<(String, String)>,
    /// The key that takes the seeds.
    seed_key: &'static str,
    /// The numbers of all points, each after those that it follows.
    order: Vec<usize>,
}

impl Grid {
    /// Reads variants, axes and seeds over settings that all runs have.
    ///
    /// # Errors
    /// A key that is unknown, missing or has a wrong value; a grid without a point; points that follow each other.
    pub(super) fn read(reader: &mut Reader<'_, '_>, base: &Settings, of_runs: &OfRuns<'_>) -> Result<Grid> {
        let seeds = match reader.list("seeds")? {
            None => vec![1],
            Some(seeds) => seeds
                .into_iter()
                .map(|seed| seed_of(reader, seed))
                .collect::<Result<_>>()?,
        };
        let mut axes: Vec<Axis> = Vec::new();
        for mut table in reader.tables("axis")? {
            let key = table.required("key", "key = \"train.warmup\"")?;
            let values = table.list("values")?.unwrap_or_default();
            if values.is_empty() {
                return Err(table.error(&format!(
                    "the axis {key} has no values; write some, such as values = [1, 2]"
                )));
            }
            let own = key.rsplit('.').next().unwrap_or_default().to_string();
            let (name, origin) = (table.text("name")?.unwrap_or(own), table.origin());
            table.finish()?;
            axes.push(Axis {
                name,
                key,
                values,
                origin,
            });
        }
        let variants = variants(reader, base, of_runs)?;
        if variants.is_empty() && axes.is_empty() || seeds.is_empty() {
            return Err(reader.error(
                "the grid is empty; write at least one [[variant]] with a name or one [[axis]] with key and values, and a \
                 seed",
            ));
        }
        let variants = if variants.is_empty() {
            vec![(String::new(), None, Follows::default(), base.clone())]
        } else {
            variants
        };
        let told = variants
            .iter()
            .filter_map(|(name, text, ..)| Some((name.clone(), text.clone()?)));
        let told: Vec<(String, String)> = told.collect();
        let count = axes
            .iter()
            .map(|axis| axis.values.len())
            .chain([variants.len(), seeds.len()])
            .fold(1usize, usize::saturating_mul);
        if count > MOST {
            return Err(reader.error(&format!("the grid has {count} runs; choose at most {MOST}")));
        }
        let mut points = Vec::new();
        for variant in &variants {
            points.extend(product(&axes, variant)?);
        }
        for (index, point) in points.iter().enumerate() {
            if points[..index]
                .iter()
                .any(|other| slug(&other.name) == slug(&point.name))
            {
                return Err(reader.error(&format!(
                    "two points are called '{}', or so alike that their folders are the same; give them other names",
                    point.name
                )));
            }
        }
        let named: Vec<(&str, &Follows)> = points.iter().map(|own| (&own.name[..], &own.follows)).collect();
        let order = order(&named).map_err(|error| reader.error(&error.to_string()))?;
        Ok(Grid {
            axes,
            points,
            seeds,
            variants: told,
            seed_key: of_runs.seed_key,
            order,
        })
    }

    /// The points that have a row in the table, with their numbers.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &Point)> {
        let all = self.points.iter().enumerate();
        all.filter(|(_, point)| !point.follows.is_untrained)
    }

    /// For every point whether its name is one of these, or a point of such a name follows it; all where there is none.
    pub(super) fn asked(&self, names: &[String]) -> Vec<bool> {
        let points = self.points.iter();
        let mut asked: Vec<bool> = points
            .map(|own| names.is_empty() || names.contains(&own.name))
            .collect();
        for &own in self.order.iter().rev() {
            let follows = |name: &str| asked[own] && self.points[own].follows.points().any(|other| other == name);
            let followed = (0..asked.len()).filter(|&at| !asked[at] && follows(&self.points[at].name));
            for at in followed.collect::<Vec<usize>>() {
                asked[at] = true;
            }
        }
        asked
    }

    /// All runs, point by point for the first seed, then for the next one: an experiment that is stopped has a run of
    /// every point as soon as it can. A point is after those that it follows. `change` puts flags over their settings.
    ///
    /// # Errors
    /// The errors of `change`; two runs with the same settings.
    pub(super) fn runs(&self, change: &dyn Fn(&mut Settings) -> Result<()>) -> Result<Vec<GridRun>> {
        let mut runs: Vec<GridRun> = Vec::new();
        for &seed in &self.seeds {
            for &number in &self.order {
                let mut settings = self.points[number].settings.clone();
                let origin = Origin::Flag("the seeds".to_string());
                settings.set_at(self.seed_key, SettingValue::Count(seed), origin)?;
                change(&mut settings)?;
                let is_same = |run: &&GridRun| {
                    self.points[run.point].follows == self.points[number].follows
                        && run.settings.difference(&settings, &[]).is_none()
                };
                if let Some(same) = runs.iter().find(is_same) {
                    return Err(Error::user(format!(
                        "the runs {} and {} have the same settings; let them differ, and leave out flags that set what the \
                         grid varies",
                        self.title(same.point, same.seed),
                        self.title(number, seed)
                    )));
                }
                runs.push(GridRun {
                    point: number,
                    seed,
                    folder: folder(&self.points[number].name, seed),
                    settings,
                });
            }
        }
        Ok(runs)
    }

    /// How messages call a run.
    pub(super) fn title(&self, point: usize, seed: u64) -> String {
        format!("'{}', seed {seed}", self.points[point].name)
    }
}

fn seed_of(reader: &Reader<'_, '_>, seed: SettingValue) -> Result<u64> {
    match seed {
        SettingValue::Count(seed) => Ok(seed),
        other => Err(reader.error(&format!("seeds must be whole numbers, not {other}"))),
    }
}

/// Names, texts and settings of the variants.
fn variants(reader: &mut Reader<'_, '_>, base: &Settings, of_runs: &OfRuns<'_>) -> Result<Vec<Variant>> {
    let mut variants = Vec::new();
    for mut table in reader.tables("variant")? {
        let name = table.required("name", "name = \"softmax\"")?;
        let text = table.text("text")?;
        let follows = (of_runs.follows)(&mut table)?;
        let mut settings = base.clone();
        table
            .merge_into(&mut settings)
            .map_err(|error| error.at(format!("variant {name}")))?;
        variants.push((name, text, follows, settings));
    }
    Ok(variants)
}

/// The points of a variant: one for each combination of the axes' values.
fn product(axes: &[Axis], (name, _, follows, settings): &Variant) -> Result<Vec<Point>> {
    let mut combinations: Vec<Vec<&SettingValue>> = vec![Vec::new()];
    for axis in axes {
        combinations = combinations
            .iter()
            .flat_map(|values| axis.values.iter().map(move |value| [&values[..], &[value]].concat()))
            .collect();
    }
    let mut points = Vec::new();
    for values in combinations {
        let mut settings = settings.clone();
        for (axis, value) in axes.iter().zip(&values) {
            settings.set_at(&axis.key, (*value).clone(), axis.origin.clone())?;
        }
        let named = |leave_out: Option<usize>| -> String {
            let parts = axes.iter().zip(&values).enumerate();
            let parts = parts.filter(|(index, _)| Some(*index) != leave_out);
            let parts = parts.map(|(_, (axis, value))| format!("{} {}", axis.name, plain(value)));
            let variant = (!name.is_empty()).then(|| name.clone());
            variant.into_iter().chain(parts).collect::<Vec<_>>().join(", ")
        };
        let along = values.iter().enumerate();
        points.push(Point {
            name: named(None),
            along: along
                .map(|(index, value)| (named(Some(index)), number(value)))
                .collect(),
            follows: follows.clone(),
            settings,
        });
    }
    Ok(points)
}

/// A value as a table shows it.
fn plain(value: &SettingValue) -> String {
    match value {
        SettingValue::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn number(value: &SettingValue) -> Option<f64> {
    match value {
        SettingValue::Count(count) | SettingValue::Size(count) => Some(*count as f64),
        SettingValue::Number(number) => Some(*number),
        SettingValue::Switch(_) | SettingValue::Text(_) | SettingValue::List(_) => None,
    }
}

/// The folder of a run of the point with this name, within that of the experiment.
pub(super) fn folder(point: &str, seed: u64) -> String {
    format!("{}/{OF_SEED}{seed}", slug(point))
}

/// Whether a folder is called as that of a seed within the folder of its point.
pub(crate) fn of_seed(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(OF_SEED)
}

/// A name as that of a folder or file.
pub(super) fn slug(name: &str) -> String {
    let fits = |c: char| is_name(&c.to_string()) || c == '.';
    let plain: String = name.chars().map(|c| if fits(c) { c } else { ' ' }).collect();
    let parts: Vec<&str> = plain.split_whitespace().collect();
    match parts.join("-").trim_matches('.') {
        "" => "point".to_string(),
        slug => slug.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SCHEMA;
    use lessen_task::recipe::document::Document;

    fn grid(text: &str) -> Result<Grid> {
        let document = Document::parse(text, "x.toml", None)?;
        let base = SCHEMA.parse("data.format = \"text\"", "base.toml")?;
        let mut reader = Reader::new(&document);
        let of_runs = OfRuns {
            seed_key: "train.seed",
            follows: &|_| Ok(Follows::default()),
        };
        let grid = Grid::read(&mut reader, &base, &of_runs)?;
        reader.finish()?;
        Ok(grid)
    }

    fn refused(text: &str) -> String {
        grid(text).unwrap_err().to_string()
    }

    #[test]
    fn variants_and_axes_are_multiplied() {
        let text = "seeds = [1, 5]\n[[axis]]\nkey = \"train.warmup\"\nvalues = [0, 10]\n[[axis]]\nkey = \"train.lr\"\n\
                    name = \"rate\"\nvalues = [0.5]\n[[variant]]\nname = \"SGD: plain\"\noptimizer.kind = \"sgd\"\n\
                    [[variant]]\nname = \"AdamW\"\n";
        let grid = grid(text).unwrap();
        let names: Vec<&str> = grid.points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "SGD: plain, warmup 0, rate 0.5",
                "SGD: plain, warmup 10, rate 0.5",
                "AdamW, warmup 0, rate 0.5",
                "AdamW, warmup 10, rate 0.5"
            ]
        );
        assert_eq!(
            grid.points[1].along[0],
            ("SGD: plain, rate 0.5".to_string(), Some(10.0))
        );
        let runs = grid.runs(&|_| Ok(())).unwrap();
        assert_eq!((runs.len(), runs[4].point, runs[4].seed), (8, 0, 5));
        assert_eq!(runs[5].folder, "SGD-plain-warmup-10-rate-0.5/seed-5");
        assert_eq!(runs[5].settings.get("train.warmup"), Some(&SettingValue::Count(10)));
        assert_eq!(runs[5].settings.get("train.seed"), Some(&SettingValue::Count(5)));
        let same = grid
            .runs(&|settings| settings.set_flag("train.warmup=3"))
            .unwrap_err()
            .to_string();
        assert!(same.contains("have the same settings; let them differ"), "{same}");
    }

    #[test]
    fn an_empty_grid_and_wrong_keys_are_refused() {
        for empty in [
            "",
            "seeds = [1]",
            "seeds = []\n[[variant]]\nname = \"a\"",
            "variant = []",
        ] {
            assert!(
                refused(empty).starts_with("x.toml line 1: the grid is empty; "),
                "{empty}"
            );
        }
        assert_eq!(
            refused("[[axis]]\nkey = \"train.lr\"\nvalues = []"),
            "x.toml line 1: the axis train.lr has no values; write some, such as values = [1, 2]"
        );
        assert_eq!(
            refused("[[axis]]\nkey = \"train.stps\"\nvalues = [1]"),
            "x.toml line 1: there is no key 'train.stps'; did you mean train.steps?"
        );
        assert_eq!(
            refused("[[variant]]\nname = \"a\"\n[variant.train]\nstps = 3"),
            "variant a: x.toml line 4: there is no key 'train.stps'; did you mean train.steps?"
        );
        assert!(refused("[[variant]]\ntrain.lr = 1").contains("variant.name is missing"));
        assert!(refused("seeds = [0.5]\n[[variant]]\nname = \"a\"").contains("seeds must be whole numbers, not 0.5"));
        assert!(refused("[[variant]]\nname = \"a b\"\n[[variant]]\nname = \"a, b\"").contains("two points are called"));
        assert_eq!(
            refused("[[variant]]\nname = \"a\"\n[[axis]]\nkye = \"train.lr\""),
            "x.toml line 3: axis.key is missing; write one, such as key = \"train.warmup\""
        );
    }
}

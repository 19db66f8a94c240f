//! The page of one or several runs: one HTML file that needs nothing else, with the curves of all runs over each other,
//! their memory over a step, their settings and results.
//!
//! ```text
//! folders ──▶ Run (metrics are read as a stream) ──▶ tables and figures ──▶ page.html with page.css and page.js in it
//! ```

mod choice;
mod condensation;
#[cfg(test)]
mod picture_tests;
mod search;

use crate::experiment::of_seed;
use crate::job::{CONDENSATION, JobFolder, SEARCH};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_pages::html::{self, section};
use lessen_pages::run::Run;
use lessen_pages::{curves, memory, pictures, statistics, tables};
use lessen_task::wording::counted;
use std::fs;
use std::path::{Path, PathBuf};

/// What makes the page of folders with these names, and a sentence for everything that is missing or damaged.
type PageOf = fn(&[PathBuf], Vec<String>) -> Result<(String, Vec<String>)>;

/// A page that has been made.
pub struct Page {
    html: String,
    runs: usize,
    problems: Vec<String>,
}

impl Page {
    /// Reads the folders of runs, of condensations or of searches, and makes their page; the folder of an experiment
    /// stands for those in it. Missing and damaged files are left out, with a sentence here and on the page.
    ///
    /// # Errors
    /// A folder without a run, and folders of several kinds.
    pub fn of(folders: &[PathBuf]) -> Result<Page> {
        let folders = &folders.iter().flat_map(|folder| runs_in(folder)).collect::<Vec<_>>()[..];
        let names = names(folders);
        let jobs = [
            (CONDENSATION, "condensed images", condensation::page as PageOf),
            (SEARCH, "a search", search::page),
        ];
        for (kind, what, page) in jobs {
            let is_one = |folder: &PathBuf| JobFolder::is_at(kind, folder);
            if let Some(one) = folders.iter().find(|folder| is_one(folder)) {
                if let Some(other) = folders.iter().find(|folder| !is_one(folder)) {
                    return Err(Error::user(format!(
                        "{} has {what} and {} has not; make a page of each",
                        one.display(),
                        other.display()
                    )));
                }
                let (html, problems) = page(folders, names)?;
                let runs = folders.len();
                return Ok(Page { html, runs, problems });
            }
        }
        let runs = folders.iter().zip(names).map(|(folder, name)| Run::read(folder, name));
        let runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let problems: Vec<String> = runs.iter().flat_map(|run| run.problems.clone()).collect();
        Ok(Page {
            html: page(&runs, &problems),
            runs: runs.len(),
            problems,
        })
    }

    /// The HTML.
    pub fn html(&self) -> &str {
        &self.html
    }

    /// The number of runs on it.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// A sentence for everything that is missing or damaged.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Writes the page.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, self.html.as_bytes())
    }
}

/// Whether a folder is that of a run or of a job.
fn is_run(folder: &Path) -> bool {
    folder.join("config.toml").is_file()
        || [CONDENSATION, SEARCH]
            .iter()
            .any(|&kind| JobFolder::is_at(kind, folder))
}

/// The runs of a folder: those of an experiment, which has a folder for each point and in it one for each seed, in the
/// order of their names; for any other folder itself.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let points = if is_run(folder) { Vec::new() } else { below(folder) };
    let mut found: Vec<PathBuf> = points.iter().flat_map(|point| below(point)).collect();
    found.retain(|path| path.file_name().is_some_and(of_seed) && is_run(path));
    found.sort();
    if found.is_empty() {
        found.push(folder.to_path_buf());
    }
    found
}

/// Names of the runs: the last parts of their paths, as many as tell each from all others; the path as it was given
/// where the same folder is named twice.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let whole = |folder: &PathBuf| folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let whole: Vec<PathBuf> = folders.iter().map(whole).collect();
    let last = |path: &Path, count: usize| -> PathBuf {
        let parts: Vec<_> = path.components().collect();
        parts[parts.len().saturating_sub(count)..].iter().collect()
    };
    let is_single = |name: &PathBuf, count| whole.iter().filter(|path| last(path, count) == *name).count() == 1;
    let name = |(folder, path): (&PathBuf, &PathBuf)| {
        let mut tails = (1..=path.components().count()).map(|count| (last(path, count), count));
        let found = tails.find(|(name, count)| is_single(name, *count));
        found.map_or_else(|| folder.display().to_string(), |(name, _)| name.display().to_string())
    };
    folders.iter().zip(&whole).map(name).collect()
}

fn page(runs: &[Run], problems: &[String]) -> String {
    let title = match runs {
        [run] => format!("Run {}", run.name),
        _ => counted(runs.len() as u64, "run"),
    };
    let diverged = runs
        .iter()
        .filter_map(|run| Some(format!("{}: {}.", run.name, run.diverged.as_ref()?)));
    let told: Vec<String> = diverged.chain(problems.iter().cloned()).collect();
    let settings = section("settings", "Settings", &tables::settings(runs));
    let sections = [
        section("results", "Results", &tables::results(runs)),
        section("data", "Data, choices and comparison", &choice::section(runs)),
        section("curves", "Curves", &curves::figures(runs)),
        section(
            "memory",
            "Memory over a step, as planned",
            &html::grid(&memory::figures(runs)),
        ),
        section(
            "confusion",
            "Confusion matrix of the last evaluation",
            &tables::confusions(runs),
        ),
        section("labels", "Labels in the last evaluation", &tables::labels(runs)),
        section("pictures", "Pictures of the last evaluation", &pictures::grids(runs)),
        section("samples", "Samples", &tables::samples(runs)),
        section("statistics", "Recorded statistics", &statistics::figures(runs)),
    ];
    // Runs are compared by what differs between them; of a single one the results come first.
    let sections = match runs {
        [_] => sections.concat() + &settings,
        _ => settings + &sections.concat(),
    };
    html::document("Lessen report", &title, &told, &sections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_task::recipe;
    use std::fmt::Write;

    /// A folder with settings and these metrics.
    fn run(root: &Path, metrics: &str) {
        fs::create_dir_all(root).unwrap();
        fs::write(root.join("config.toml"), recipe::load("adder").unwrap().to_toml()).unwrap();
        fs::write(root.join("metrics.jsonl"), metrics).unwrap();
    }

    #[test]
    fn a_long_run_takes_no_more_room_than_a_short_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut metrics = String::new();
        for step in 1..=60_000 {
            let loss = if step == 40_001 {
                77.25
            } else {
                1.0 + f64::from(step % 100)
            };
            writeln!(
                metrics,
                "{{\"step\": {step}, \"loss\": {loss}, \"lr\": 0.1, \"step_ms\": 5}}"
            )
            .unwrap();
        }
        run(dir.path(), &metrics);
        let page = Page::of(&[dir.path().to_path_buf()]).unwrap();
        assert!(page.html().len() < 350_000, "{}", page.html().len());
        let told = page.html().split_once("<figure id=\"curve-loss\"").unwrap().1;
        assert!(told.contains("Bold: their mean over ") && told.contains(">60000</td>"));
    }

    /// The texts of a page, a line for each piece, without its style and scripts, and without the table of all
    /// settings, which grows with the recipes' keys.
    fn texts(page: &Page, root: &Path) -> String {
        let page = page.html().replace(&root.display().to_string(), "ROOT");
        let (mut text, mut rest) = (String::new(), page.as_str());
        while let Some((before, after)) = rest.split_once('<') {
            if !before.trim().is_empty() {
                text += &format!("{}\n", before.trim());
            }
            let (tag, after) = after.split_once('>').unwrap();
            let name = tag.split(' ').next().unwrap();
            rest = match name {
                "style" | "script" => after.split_once(&format!("</{name}>")).unwrap().1,
                "title" => after.split_once("</title>").unwrap().1,
                "details"
                    if after.starts_with("<summary>Settings that") || after.starts_with("<summary>All settings") =>
                {
                    text += "(settings, folded away)\n";
                    after.split_once("</details>").unwrap().1
                }
                _ => after,
            };
        }
        text
    }

    /// A run of the adder with these settings beside a few, whose loss and norm scatter.
    fn scattered(root: &Path, steps: u32, settings: &str, rate: f64) {
        let mut metrics = String::new();
        for step in 1..=steps {
            let scatter = f64::from(step * 7919 % 101) / 101.0;
            let loss = 2.0 / (1.0 + f64::from(step) / 100.0) + 0.1 * scatter;
            writeln!(
                metrics,
                "{{\"step\": {step}, \"loss\": {loss}, \"lr\": {rate}, \"gradient_norm\": {}, \"step_ms\": 5}}",
                1.0 + scatter
            )
            .unwrap();
            if step % 100 == 0 {
                writeln!(
                    metrics,
                    "{{\"step\": {step}, \"dev_loss\": {loss}, \"dev_accuracy\": 1}}"
                )
                .unwrap();
            }
        }
        run(root, &metrics);
        let common = "run.recipe = \"adder\"\ntrain.batch = 64\ntrain.seed = 1\n";
        fs::write(root.join("config.toml"), format!("{common}{settings}\n")).unwrap();
        let peaks = "{\"planned\": 10485760, \"measured\": 9437184, \"resident\": 11534336, \"plans\": 4194304}";
        let report = format!("{{\"step_ms\": 5.0, \"samples_per_s\": 1234.5, \"peak_bytes\": {peaks}}}");
        fs::write(root.join("report.json"), report).unwrap();
    }

    #[test]
    fn the_texts_of_a_page_are_as_expected() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["short", "long"].map(|name| dir.path().join(name));
        scattered(&folders[0], 120, "train.lr = 0.002", 0.002);
        scattered(&folders[1], 3000, "train.lr = 0.001\nmodel.layers = 2", 0.001);
        let page = Page::of(&folders).unwrap();
        crate::expected_text::check("pages/two_runs.txt", &texts(&page, dir.path()));
        let page = Page::of(&folders[1..]).unwrap();
        crate::expected_text::check("pages/one_run.txt", &texts(&page, dir.path()));
    }

    #[test]
    fn runs_of_any_length_are_smoothed_alike_and_flat_curves_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["short", "long"].map(|name| dir.path().join(name));
        scattered(&folders[0], 120, "train.lr = 0.002", 0.002);
        scattered(&folders[1], 3000, "train.lr = 0.001", 0.001);
        let page = Page::of(&folders).unwrap();
        let html = page.html();
        for figure in ["curve-loss", "curve-gradient-norm"] {
            let (_, told) = html.split_once(&format!("<figure id=\"{figure}\"")).unwrap();
            let (told, _) = told.split_once("</figure>").unwrap();
            // A short run alone would not be smoothed; beside a longer one it is, over as many steps.
            assert!(
                told.contains("Bold: their mean over 100 steps, in every run."),
                "{told}"
            );
            assert_eq!(told.matches("class=\"curve faint").count(), 2);
            assert!(told.contains("\"name\":\"short, mean\"") || told.contains("\"name\":\"short, training, mean\""));
        }
        let flat = "Flat, and therefore not drawn: Accuracy on dev 100\u{a0}%; Learning rate 0.002 in short, 0.001 in \
                    long; Time of a step 5\u{a0}ms.";
        assert!(html.contains(flat), "{html}");
        for figure in ["curve-lr", "curve-step-ms", "curve-dev-accuracy"] {
            assert!(!html.contains(&format!("<figure id=\"{figure}\"")), "{figure}");
        }
    }

    #[test]
    fn what_differs_between_runs_comes_first_and_peaks_stand_in_one_row() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["one", "other"].map(|name| dir.path().join(name));
        scattered(&folders[0], 5, "train.lr = 0.002", 0.1);
        scattered(&folders[1], 5, "train.lr = 0.001", 0.1);
        let page = Page::of(&folders).unwrap();
        let (before, after) = page.html().split_once("<h2 id=\"results\">").unwrap();
        assert!(before.contains("<th scope=\"row\">train.lr</th>") && !after.contains("train.lr"));
        let (differing, equal) = before
            .split_once("<details><summary>Settings that are the same in all runs")
            .unwrap();
        assert!(!differing.contains("train.batch") && equal.contains("<th scope=\"row\">train.batch</th><td>"));
        let row = "<th scope=\"row\">Peak memory</th><td>10.0\u{a0}MiB\u{a0}planned, 9.0\u{a0}MiB\u{a0}measured, \
                   11.0\u{a0}MiB\u{a0}resident</td>";
        assert!(after.contains(row), "{after}");
        assert_eq!(
            (
                after.matches("Peak memory<").count(),
                after.matches("Peak memory:").count()
            ),
            (1, 1)
        );
        // Of a single run the results come first.
        let page = Page::of(&folders[..1]).unwrap();
        let (before, after) = page.html().split_once("<h2 id=\"results\">").unwrap();
        assert!(
            !before.contains("train.lr") && after.contains("<dt>Peak memory</dt>") && after.contains(">train.lr</th>")
        );
    }

    #[test]
    fn places_of_the_page_are_filled_and_names_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["x/one", "y/one", "y/{{script}}"].map(|name| dir.path().join(name));
        folders
            .iter()
            .for_each(|folder| run(folder, "{\"step\": 1, \"loss\": 2.5}\n"));
        let page = Page::of(&folders).unwrap();
        assert!(
            page.html()
                .contains("<th scope=\"col\">x/one</th><th scope=\"col\">y/one</th>")
        );
        assert!(page.html().contains("<th scope=\"col\">{{script}}</th>") && page.html().ends_with("</html>\n"));
        for place in ["{{title}}", "{{style}}", "{{sections}}", "{{problems}}"] {
            assert!(!page.html().contains(place), "{place}");
        }
        assert!(page.html().contains("All settings are the same."));
    }

    #[test]
    fn the_folder_of_an_experiment_stands_for_its_runs() {
        let dir = tempfile::tempdir().unwrap();
        let metrics = "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 1.5}\n";
        for of_point in ["plain", "warm"] {
            for seed in [1, 2] {
                run(&dir.path().join(format!("grid/{of_point}/seed-{seed}")), metrics);
            }
        }
        run(&dir.path().join("alone"), metrics);
        let page = Page::of(&[dir.path().join("grid"), dir.path().join("alone")]).unwrap();
        let names = ["plain/seed-1", "plain/seed-2", "warm/seed-1", "warm/seed-2", "alone"];
        let heads = names.map(|name| format!("<th scope=\"col\">{name}</th>")).concat();
        assert!(page.html().contains(&heads), "{}", page.html());
        assert_eq!(page.runs(), 5);
        // A folder without runs is refused as before.
        fs::create_dir_all(dir.path().join("empty/within")).unwrap();
        let refused = Page::of(&[dir.path().join("empty")]).err().unwrap().to_string();
        assert!(refused.contains("empty holds no run"), "{refused}");
    }

    #[test]
    fn a_run_from_a_checkpoint_has_the_sizes_of_its_model() {
        let dir = tempfile::tempdir().unwrap();
        let (init, root) = (dir.path().join("init"), dir.path().join("run"));
        run(&root, "{\"step\": 1, \"loss\": 2.5}\n");
        let settings = format!(
            "run.recipe = \"x\"\n[model]\ninit = {:?}\nlayers = 12\nffn = 3072\n",
            init.display()
        );
        fs::write(root.join("config.toml"), settings).unwrap();
        let shown = || Page::of(std::slice::from_ref(&root)).unwrap().html().to_string();
        // Nothing is known of a checkpoint that is gone.
        assert!(!shown().contains(">model.layers<") && shown().contains(">model.init<"));
        fs::create_dir(&init).unwrap();
        fs::write(init.join("config.json"), "{\"n_layer\": 6, \"n_inner\": null}").unwrap();
        let page = shown();
        assert!(page.contains("<th scope=\"row\">model.layers</th><td>6</td>"), "{page}");
        assert!(!page.contains(">model.ffn<"));
    }

    #[test]
    fn labels_are_shown_with_their_scores() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "{\"step\": 1, \"loss\": 2.5}\n");
        let row = |name| {
            format!("{{\"name\": \"{name}\", \"precision\": 0.5, \"recall\": 1, \"f1\": 0.6667, \"support\": 3}}")
        };
        let file = format!("{{\"step\": 7, \"labels\": [{}, {}]}}", row("a<b"), row("micro"));
        fs::write(dir.path().join("labels.json"), file).unwrap();
        let page = Page::of(&[dir.path().to_path_buf()]).unwrap();
        let cells = "<td>50.0 %</td><td>100.0 %</td><td>66.7 %</td><td>3</td></tr>";
        assert!(page.html().contains(&format!("<th scope=\"row\">a&lt;b</th>{cells}")));
        assert!(page.html().contains("after step 7</th>"));
        fs::write(dir.path().join("labels.json"), "{\"step\": 7}").unwrap();
        let page = Page::of(&[dir.path().to_path_buf()]).unwrap();
        assert!(
            page.problems()
                .iter()
                .any(|problem| problem.contains("has a damaged labels.json"))
        );
    }

    #[test]
    fn a_confusion_matrix_is_shown_with_recall_and_precision() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "{\"step\": 1, \"loss\": 2.5}\n");
        let matrix = "{\"step\": 7, \"classes\": [\"a<b\", \"c\"], \"counts\": [[3, 1], [0, 4]]}";
        fs::write(dir.path().join("confusion.json"), matrix).unwrap();
        let page = Page::of(&[dir.path().to_path_buf()]).unwrap();
        let (_, section) = page.html().split_once("<table class=\"confusion\">").unwrap();
        for expected in [
            "after step 7: rows are right",
            "<td class=\"right\" style=\"--share:0.750\" title=\"a&lt;b taken for a&lt;b: 3 of 4\">3</td>",
            "<td class=\"wrong\" style=\"--share:0.500\" title=\"a&lt;b taken for c: 1 of 4\">1</td>",
            "<td class=\"margin\">75.0 %</td></tr>",
            "<td class=\"margin\">100.0 %</td><td class=\"margin\">80.0 %</td><td class=\"margin\">87.5 %</td>",
        ] {
            assert!(section.contains(expected), "{expected}");
        }
        fs::write(dir.path().join("confusion.json"), matrix.replace("[0, 4]", "[0]")).unwrap();
        let page = Page::of(&[dir.path().to_path_buf()]).unwrap();
        assert!(
            page.problems()
                .iter()
                .any(|problem| problem.contains("without a row and a column for each class"))
        );
    }
}

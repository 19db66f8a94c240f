//! The page of one or several runs: one HTML file that needs nothing else, with the curves of all runs over each other,
//! their memory over a step, their settings and results.
//!
//! ```text
//! folders ──▶ Run (metrics are read as a stream) ──▶ tables and figures ──▶ page.html with page.css and page.js in it
//! ```

mod curves;
pub(crate) mod figure;
pub(crate) mod html;
pub(crate) mod memory;
mod pictures;
mod run;
mod statistics;
mod tables;

use self::html::section;
use self::run::Run;
use crate::wording::counted;
use lessen_base::Result;
use lessen_base::atomic::write_file;
use std::path::{Path, PathBuf};

/// A page that has been made.
pub struct Page {
    html: String,
    problems: Vec<String>,
}

impl Page {
    /// Reads the folders of runs and makes their page. Missing and damaged files are left out, with a sentence here and
    /// on the page.
    ///
    /// # Errors
    /// A folder without a run.
    pub fn of(folders: &[PathBuf]) -> Result<Page> {
        let names = names(folders);
        let runs = folders.iter().zip(names).map(|(folder, name)| Run::read(folder, name));
        let runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let problems: Vec<String> = runs.iter().flat_map(|run| run.problems.clone()).collect();
        Ok(Page {
            html: page(&runs, &problems),
            problems,
        })
    }

    /// The HTML.
    pub fn html(&self) -> &str {
        &self.html
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

/// Names of the runs: the last parts of their paths, or the whole paths where these are not unique.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let last = |folder: &PathBuf| {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        whole.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    let short: Vec<Option<String>> = folders.iter().map(last).collect();
    let name = |(folder, name): (&PathBuf, &Option<String>)| match name {
        Some(name) if short.iter().filter(|other| other.as_ref() == Some(name)).count() == 1 => name.clone(),
        _ => folder.display().to_string(),
    };
    folders.iter().zip(&short).map(name).collect()
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
    let sections = [
        section("results", "Results", &tables::results(runs)),
        section("curves", "Curves", &html::grid(&curves::figures(runs))),
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
        section("settings", "Settings", &tables::settings(runs)),
    ];
    html::document("Lessen report", &title, &told, &sections.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;
    use std::fmt::Write;
    use std::fs;

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

    #[test]
    fn places_of_the_page_are_filled_and_names_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["x/one", "y/one", "y/{{script}}"].map(|name| dir.path().join(name));
        folders
            .iter()
            .for_each(|folder| run(folder, "{\"step\": 1, \"loss\": 2.5}\n"));
        let page = Page::of(&folders).unwrap();
        let whole = folders[0].display().to_string();
        assert!(page.html().contains(&format!("<th scope=\"col\">{whole}</th>")));
        assert!(page.html().contains("<th scope=\"col\">{{script}}</th>") && page.html().ends_with("</html>\n"));
        for place in ["{{title}}", "{{style}}", "{{sections}}", "{{problems}}"] {
            assert!(!page.html().contains(place), "{place}");
        }
        assert!(page.html().contains("All settings are the same."));
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

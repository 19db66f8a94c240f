//! The page of results: Markdown, with its plots as files beside it. A viewer shows an SVG that is linked as an image;
//! many strip one that is written into the page or into a `data:` link.

use super::Experiment;
use super::claim::{Claim, Judged, judge};
use super::grid::slug;
use super::pairs::Pairs;
use super::results::{Record, by_seed, summary};
use super::significance;
use lessen_base::atomic::{check_link, unwritable, write_file};
use lessen_base::{Error, Result};
use std::fs;
use std::path::Path;

/// Texts of a page beside its numbers.
pub(super) struct About<'a> {
    pub command: &'a str,
    /// The settings that all runs have beside the recipe's.
    pub fixed: &'a [String],
    pub machine: &'a str,
    /// How long all runs took, in words.
    pub time: &'a str,
    /// The number of runs.
    pub runs: usize,
    /// What there is to say of the runs, a line each.
    pub notes: &'a [String],
}

/// A plot of the page.
struct Link {
    title: String,
    /// Its file, from the folder of the page.
    place: String,
    /// Remarks under it; may be empty.
    notes: String,
}

/// Refuses a place where a page, or the folder of its plots, cannot be written, before any run.
///
/// # Errors
/// The place and the remedy.
pub(super) fn check_place(page: &Path, has_plots: bool) -> Result<()> {
    check_link(page)?;
    let shown = page.display();
    if page.is_dir() || page.file_name().is_none() {
        return Err(Error::user(format!(
            "the page {shown} is a folder; name a file, such as results.md"
        )));
    }
    if has_plots && page.extension().is_none() {
        return Err(Error::user(format!(
            "the page {shown} has no extension, and its plots would lie in a folder of the same name; call it {shown}.md"
        )));
    }
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let folder = page.ancestors().skip(1).find(is_there).unwrap_or(Path::new(""));
    let probe = folder.join(format!(
        ".{}.probe",
        page.file_name().unwrap_or_default().to_string_lossy()
    ));
    write_file(&probe, &[]).map_err(|_| {
        Error::user(format!(
            "the page {shown} cannot be written; name another place with page or --page"
        ))
    })?;
    fs::remove_file(&probe).map_err(|error| unwritable(&probe, &error))
}

/// A table cell's text.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

impl Experiment {
    /// Writes the page and its plots.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_page(&self, page: &Path, records: &[Record], about: &About<'_>) -> Result<()> {
        let folder = page.parent().unwrap_or(Path::new(""));
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let plots = folder.join(&name);
        let to_make = if self.plots.is_empty() { folder } else { &plots };
        if !to_make.as_os_str().is_empty() {
            fs::create_dir_all(to_make).map_err(|error| unwritable(to_make, &error))?;
        }
        let mut links = Vec::new();
        for (index, plot) in self.plots.iter().enumerate() {
            let (chart, notes) = plot.chart(&self.grid.points, &self.grid.axes, &self.measures, records);
            let file = format!("{}-{}.svg", index + 1, slug(&plot.title));
            write_file(&plots.join(&file), chart.to_svg().as_bytes())?;
            links.push(Link {
                title: plot.title.clone(),
                place: format!("{name}/{file}"),
                notes,
            });
        }
        write_file(page, self.page_text(records, about, &links).as_bytes())
    }

    /// The text of the page.
    fn page_text(&self, records: &[Record], about: &About<'_>, links: &[Link]) -> String {
        let seeds: Vec<String> = self.grid.seeds.iter().map(u64::to_string).collect();
        let mut text = format!("# {}\n\n", self.title);
        for paragraph in &self.text {
            text += &format!("{}\n\n", paragraph.trim());
        }
        text += &format!(
            "Written by Lessen {}, which anyone can run again:\n\n```\n{}\n```\n\n- Machine: {}\n- Recipe `{}`; {} points, \
             seeds {}, {} {} in {}\n",
            env!("CARGO_PKG_VERSION"),
            about.command,
            about.machine,
            self.recipe,
            self.grid.rows().count(),
            seeds.join(", "),
            about.runs,
            self.kind.counted(),
            about.time
        );
        for line in self.kind.told().iter().chain(about.notes) {
            text += &format!("- {line}\n");
        }
        if !about.fixed.is_empty() {
            text += &format!("- Settings of all runs: {}\n", about.fixed.join(", "));
        }
        text += &format!(
            "\n## Results\n\n{}\n{}",
            self.table(records),
            self.about_numbers(&seeds)
        );
        if !self.claims.is_empty() {
            text += &format!("\n## Claims\n\n{}", self.claim_table(records));
        }
        if !links.is_empty() {
            text += "\n## Plots\n\nLines are means over the seeds, bands one standard deviation.\n";
        }
        for Link { title, place, notes } in links {
            text += &format!("\n![{title}]({place})\n");
            if !notes.is_empty() {
                text += &format!("\n{notes}\n");
            }
        }
        if !self.grid.variants.is_empty() {
            text += "\n## Variants\n\n";
        }
        for (name, about) in &self.grid.variants {
            text += &format!("- **{name}**: {about}\n");
        }
        text
    }

    /// Whether a paper's number is known of a measure.
    fn has_paper(&self, measure: &str) -> bool {
        self.papers.iter().any(|paper| paper.measure == measure)
    }

    /// The table of the results: a row for each point, a column for each measure and for the paper's numbers.
    pub(super) fn table(&self, records: &[Record]) -> String {
        let mut heads = vec![String::new()];
        for measure in &self.measures {
            heads.push(cell(&measure.name));
            if self.has_paper(&measure.name) {
                heads.push("paper".to_string());
            }
        }
        let mut text = format!("| {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len() - 1));
        for (point, about) in self.grid.rows() {
            let mut row = vec![cell(&about.name)];
            for (number, measure) in self.measures.iter().enumerate() {
                row.push(self.cell_of(records, point, number));
                if self.has_paper(&measure.name) {
                    let paper = self
                        .papers
                        .iter()
                        .find(|p| p.measure == measure.name && p.point == about.name);
                    row.push(paper.map_or(String::new(), |paper| measure.show(paper.value)));
                }
            }
            text += &format!("| {} |\n", row.join(" | "));
        }
        text
    }

    fn cell_of(&self, records: &[Record], point: usize, number: usize) -> String {
        let measure = &self.measures[number];
        let diverged = records
            .iter()
            .filter(|record| record.point == point && record.diverged[number])
            .count();
        let diverged = if diverged > 0 {
            format!("{diverged} diverged")
        } else {
            String::new()
        };
        match summary(records, point, number) {
            Some(found) if diverged.is_empty() => measure.show_summary(found, ""),
            Some(found) => measure.show_summary(found, &format!(", {diverged}")),
            None if diverged.is_empty() => "–".to_string(),
            None => diverged,
        }
    }

    /// What the numbers of the table are: the statistics, and the measure of each column.
    fn about_numbers(&self, seeds: &[String]) -> String {
        let own = self.kind.about_cells(&seeds.join(", "));
        let cells = own.unwrap_or_else(|| match seeds {
            [seed] => format!("A cell is the number of the run with seed {seed}; one seed has no spread."),
            _ => format!(
                "A cell is the mean over the seeds {} ± the standard deviation of a run (n - 1), and in brackets the number \
                 of runs. A deviation has two digits and its mean as many places, unless the file says `digits`.",
                seeds.join(", ")
            ),
        });
        let mut text = format!("{cells} Columns:\n\n");
        for measure in &self.measures {
            let digits = measure
                .digits
                .map_or(String::new(), |digits| format!("; `digits = {digits}`"));
            text += &format!("- **{}**: {}{digits}\n", measure.name, measure.describe());
        }
        text
    }

    /// Claims, their numbers, and verdicts.
    fn claim_table(&self, records: &[Record]) -> String {
        let mut text = "| claim | measured | verdict |\n|---|---|---|\n".to_string();
        let judged = self.judged(records);
        for (claim, found) in &judged {
            let word = found.verdict.words();
            text += &format!("| {} | {} | **{word}** |\n", cell(&claim.text), cell(&found.measured));
        }
        text += &format!(
            "\nVerdicts are of t-tests over the seeds, two-sided: of the differences of runs with the same seed, or of one \
             point's numbers against a bound, with one degree of freedom less than seeds. At most {} % is the chance that any \
             claim of this page is decided where nothing differs: the level is divided among the tested claims (Holm), {}.",
            100.0 * significance::LEVEL,
            judged.iter().filter(|(_, found)| found.chance.is_some()).count()
        );
        if judged.iter().any(|(_, found)| found.ratio.is_some()) {
            text += " A ratio is that of the two means beside it; its deviation is that of the ratios seed by seed, or, \
                     where the seeds of the points differ, follows from both deviations.";
        }
        if judged
            .iter()
            .any(|(_, found)| found.pairs.as_ref().is_some_and(Pairs::has_networks))
        {
            text += " A pair is a network on both sides with the same seed, initial values among them; networks of one set \
                     are not independent, so that the test has the mean difference of each set.";
        }
        text + "\n"
    }

    /// The claims with their verdicts.
    pub(super) fn judged(&self, records: &[Record]) -> Vec<(&Claim, Judged)> {
        let (claims, mut judged): (Vec<&Claim>, Vec<Judged>) = self
            .claims
            .iter()
            .filter_map(|claim| {
                let number = self.measures.iter().position(|measure| measure.name == claim.measure)?;
                let of = |name: &str| {
                    let point = self.grid.points.iter().position(|point| point.name == name);
                    point.map_or(Vec::new(), |point| by_seed(records, point, number))
                };
                let mut judged = claim.measured(&self.measures[number], of);
                judged.measured = format!("{}: {}", claim.measure, judged.measured);
                Some((claim, judged))
            })
            .unzip();
        judge(&mut judged);
        claims.into_iter().zip(judged).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_task::recipe::document::Document;

    /// An experiment of two points with these measures and claims.
    fn experiment(seeds: &str, rest: &str) -> Experiment {
        let head = "title = \"Two | of them\"\ntext = \"What is claimed.\"\nrecipe = \"adder\"\n";
        let grid =
            "[[variant]]\nname = \"one\"\ntext = \"The first one.\"\n[[variant]]\nname = \"two\"\ntrain.lr = 0.1\n";
        let text = format!("{head}seeds = {seeds}\n{grid}{rest}");
        Experiment::read(&Document::parse(&text, "two.toml", None).unwrap()).unwrap()
    }

    fn record(point: usize, seed: u64, numbers: &[f64]) -> Record {
        Record {
            point,
            seed,
            network: 0,
            numbers: numbers.iter().copied().map(Some).collect(),
            courses: vec![Vec::new(); numbers.len()],
            diverged: vec![false; numbers.len()],
        }
    }

    const ABOUT: About<'static> = About {
        command: "lessen experiment two.toml",
        fixed: &[],
        machine: "a machine",
        time: "3 s of training steps",
        runs: 6,
        notes: &[],
    };

    /// Checks the text of a page, of any version.
    fn check(name: &str, page: &str) {
        let version = format!("Lessen {},", env!("CARGO_PKG_VERSION"));
        crate::expected_text::check(name, &page.replace(&version, "Lessen VERSION,"));
    }

    #[test]
    fn a_page_lists_its_statistics_measures_claims_and_ratios() {
        let rest = "[[measure]]\nname = \"loss\"\nvalue = \"dev_loss\"\n\
                    [[measure]]\nname = \"right, %\"\nvalue = \"dev_accuracy\"\nat = \"best\"\nscale = 100\n\
                    [[measure]]\nvalue = \"step_ms\"\ndigits = 2\n[[measure]]\nvalue = \"loss\"\nat = 3\n\
                    [[paper]]\npoint = \"two\"\nmeasure = \"loss\"\nvalue = 1.5\n\
                    [[claim]]\ntext = \"One is better.\"\nmeasure = \"loss\"\nbetter = \"one\"\nthan = \"two\"\n\
                    [[claim]]\ntext = \"Two is.\"\nmeasure = \"loss\"\nbetter = \"two\"\nthan = \"one\"\nby = 0.1\n\
                    [[claim]]\ntext = \"More right.\"\nmeasure = \"right, %\"\nbetter = \"two\"\nthan = \"one\"\n\
                    [[claim]]\ntext = \"Half.\"\nmeasure = \"right, %\"\npoint = \"one\"\nat_least = 0.5\n";
        let experiment = experiment("[1, 2, 3]", rest);
        let mut records = Vec::new();
        for seed in 1..=3 {
            let by = seed as f64;
            records.push(record(
                0,
                seed,
                &[1.25 + 0.013 * by, 0.40 + 0.02 * by, 5.0 + 0.1 * by, 2.5],
            ));
            records.push(record(
                1,
                seed,
                &[1.5 + 0.017 * by, 0.60 + 0.03 * by, 5.5 - 0.1 * by, 2.5e-7 * by],
            ));
        }
        records[5].diverged = vec![true; 4];
        records[5].numbers = vec![None; 4];
        let links = [Link {
            title: "A plot".to_string(),
            place: "two/1-A-plot.svg".to_string(),
            notes: "2 points are not drawn.".to_string(),
        }];
        check("pages/experiment.md", &experiment.page_text(&records, &ABOUT, &links));
        let one = self::experiment("[7]", "[[measure]]\nvalue = \"dev_loss\"\n");
        let records = [record(0, 7, &[1.25]), record(1, 7, &[1.5])];
        check(
            "pages/experiment_of_one_seed.md",
            &one.page_text(&records, &About { runs: 2, ..ABOUT }, &[]),
        );
    }

    #[test]
    fn better_and_worse_are_words_in_both_directions() {
        for (value, own, other, expected) in [
            ("dev_loss", [1.0, 1.25], [2.0, 2.25], "held: better by 1.0000"),
            ("dev_loss", [2.0, 2.25], [1.0, 1.25], "not held: worse by 1.0000"),
            ("dev_accuracy", [0.9, 0.8], [0.5, 0.39], "held: better by 0.4050"),
            ("dev_accuracy", [0.5, 0.39], [0.9, 0.8], "not held: worse by 0.4050"),
            (
                "dev_accuracy",
                [0.9, 0.8],
                [0.5, 0.6],
                "not decided with 2 seeds: better by 0.30",
            ),
            (
                "dev_accuracy",
                [0.5, 0.6],
                [0.5, 0.6],
                "not decided with 2 seeds: equal",
            ),
        ] {
            let rest = format!(
                "[[measure]]\nvalue = \"{value}\"\n[[claim]]\ntext = \"It is.\"\nmeasure = \"{value}\"\nbetter = \"one\"\n\
                 than = \"two\"\n"
            );
            let experiment = experiment("[1, 2]", &rest);
            let numbers = [(0, own), (1, other)];
            let all = numbers
                .iter()
                .flat_map(|(point, numbers)| (0..2).map(move |at| (*point, at, numbers[at])));
            let records: Vec<Record> = all
                .map(|(point, at, number)| record(point, at as u64 + 1, &[number]))
                .collect();
            let judged = &experiment.judged(&records)[0].1;
            let (_, told) = judged.measured.split_once("(2): ").unwrap();
            let (difference, rest) = told.split_once("; ").unwrap();
            assert_eq!(format!("{}: {difference}", judged.verdict.words()), expected);
            // The ratio is that of the means, with the deviation of the ratios of both seeds.
            let mean = |numbers: [f64; 2]| (numbers[0] + numbers[1]) / 2.0;
            let ratio = judged.ratio.unwrap();
            assert!(
                (ratio.value - mean(own) / mean(other)).abs() < 1e-12 && ratio.paired,
                "{rest}"
            );
            let apart = (own[0] / other[0] - own[1] / other[1]).abs() / 2f64.sqrt();
            assert!((ratio.deviation.unwrap() - apart).abs() < 1e-12, "{rest}");
        }
    }
}

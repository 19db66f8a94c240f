//! The page of results: Markdown, with its plots as files beside it. A viewer shows an SVG that is linked as an image;
//! many strip one that is written into the page or into a `data:` link.

use super::Experiment;
use super::claim::Verdict;
use super::grid::slug;
use super::results::{Record, summary};
use lessen_base::Result;
use lessen_base::atomic::{unwritable, write_file};
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
            let chart = plot.chart(&self.grid.points, &self.grid.axes, &self.measures, records);
            let file = format!("{}-{}.svg", index + 1, slug(&plot.title));
            write_file(&plots.join(&file), chart.to_svg().as_bytes())?;
            links.push((plot.title.clone(), format!("{name}/{file}")));
        }
        write_file(page, self.page_text(records, about, &links).as_bytes())
    }

    /// The text of the page; `links` are titles and places of the plots.
    fn page_text(&self, records: &[Record], about: &About<'_>, links: &[(String, String)]) -> String {
        let seeds: Vec<String> = self.grid.seeds.iter().map(u64::to_string).collect();
        let mut text = format!("# {}\n\n", self.title);
        for paragraph in &self.text {
            text += &format!("{}\n\n", paragraph.trim());
        }
        text += &format!(
            "Written by Lessen {}, which anyone can run again:\n\n```\n{}\n```\n\n- Machine: {}\n- Recipe `{}`; {} points, \
             seeds {}, {} runs in {}\n",
            env!("CARGO_PKG_VERSION"),
            about.command,
            about.machine,
            self.recipe,
            self.grid.points.len(),
            seeds.join(", "),
            records.len(),
            about.time
        );
        if !about.fixed.is_empty() {
            text += &format!("- Settings of all runs: {}\n", about.fixed.join(", "));
        }
        text += "- Numbers are means over the seeds ± standard deviation (n - 1), with the number of runs behind\n";
        text += &format!("\n## Results\n\n{}", self.table(records));
        if !self.claims.is_empty() {
            text += &format!("\n## Claims\n\n{}", self.claim_table(records));
        }
        if !links.is_empty() {
            text += "\n## Plots\n\nLines are means over the seeds, bands one standard deviation.\n";
        }
        for (title, link) in links {
            text += &format!("\n![{title}]({link})\n");
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
        for (point, about) in self.grid.points.iter().enumerate() {
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
            .filter(|record| record.point == point && record.diverged)
            .count();
        let diverged = if diverged > 0 {
            format!("{diverged} diverged")
        } else {
            String::new()
        };
        match summary(records, point, number) {
            Some(found) => {
                let spread = if found.count > 1 {
                    format!(" ± {}", measure.show(found.deviation))
                } else {
                    String::new()
                };
                let more = if diverged.is_empty() {
                    String::new()
                } else {
                    format!(", {diverged}")
                };
                format!("{}{spread} ({}{more})", measure.show(found.mean), found.count)
            }
            None if diverged.is_empty() => "–".to_string(),
            None => diverged,
        }
    }

    /// Claims, their numbers, and verdicts.
    fn claim_table(&self, records: &[Record]) -> String {
        let mut text = "| claim | measured | verdict |\n|---|---|---|\n".to_string();
        for (claim, verdict, how) in self.verdicts(records) {
            text += &format!("| {} | {} | **{}** |\n", cell(claim), cell(&how), verdict.word());
        }
        text += "\nA claim held, or did not, where the difference of the means is larger than the deviation.\n";
        text
    }

    /// The verdicts on the claims.
    pub(super) fn verdicts(&self, records: &[Record]) -> Vec<(&str, Verdict, String)> {
        let judged = self.claims.iter().filter_map(|claim| {
            let number = self.measures.iter().position(|measure| measure.name == claim.measure)?;
            let of = |name: &str| {
                let point = self.grid.points.iter().position(|point| point.name == name)?;
                summary(records, point, number)
            };
            let (verdict, how) = claim.verdict(&self.measures[number], of);
            Some((claim.text.as_str(), verdict, format!("{}: {how}", claim.measure)))
        });
        judged.collect()
    }
}

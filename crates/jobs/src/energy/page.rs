//! The page of a network's energy.

use lessen_base::Result;
use lessen_base::atomic::write_file;
use std::path::Path;

use super::report::{COLUMNS, EnergyReport};
use lessen_pages::html::{document, note, section, table};

impl EnergyReport {
    /// Writes a self-contained page of HTML.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn write_html(&self, path: &Path) -> Result<()> {
        write_file(path, page(self).as_bytes())
    }
}

/// The whole page.
fn page(report: &EnergyReport) -> String {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|word| word.to_string()).collect() };
    let totals: Vec<(String, Vec<String>)> = report
        .totals()
        .into_iter()
        .map(|(name, value)| (name, vec![value]))
        .collect();
    let intro = note(&format!(
        "{}, batches of {}.",
        report.network.source, report.network.batch
    ));
    let whole = intro + &table("The whole network", "", &words(&["on this accelerator"]), &totals);
    let mappings = report.mapping_rows();
    let mappings = match mappings.is_empty() {
        true => String::new(),
        false => table(
            "Ways to compute groups",
            "groups",
            &words(&["cycles", "ms", "mJ", "computed as"]),
            &mappings,
        ),
    };
    let mut rows: Vec<(String, Vec<String>)> = report
        .network
        .layers
        .iter()
        .enumerate()
        .map(|(at, layer)| (layer.name.clone(), report.cells(Some(at))))
        .collect();
    rows.push(("total".to_string(), report.cells(None)));
    let remarks: String = report.remarks().iter().map(|remark| note(remark)).collect();
    let sections = [
        section("overview", "The whole network", &whole),
        section("groups", "Convolutions with groups", &mappings),
        section("layers", "Layers", &table("Layers", "layer", &words(&COLUMNS), &rows)),
        section("notes", "What the numbers rest on", &remarks),
    ];
    document("Lessen energy", &report.title(), report.missing(), &sections.concat())
}

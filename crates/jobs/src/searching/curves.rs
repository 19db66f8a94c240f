//! The numbers of an epoch by name, and their curves.

use lessen_base::Result;
use lessen_pages::plot::{Chart, Sample, Series};
use lessen_search::Epoch;
use lessen_task::folder::metrics;
use std::path::Path;

/// Numbers that the chart has, each as a part of its first value.
const DRAWN: [(&str, &str); 4] = [
    ("loss", "loss of the weights"),
    ("validation_loss", "validation loss"),
    ("mean_cost", "mean cost"),
    ("entropy", "entropy of the choices"),
];

/// The numbers of an epoch.
pub(super) fn numbers(epoch: &Epoch) -> Vec<(&'static str, f64)> {
    let mut all = vec![("loss", epoch.loss)];
    if let Some([loss, accuracy]) = epoch.validation {
        all.extend([("validation_loss", loss), ("validation_accuracy", accuracy)]);
    }
    all.extend([
        ("mean_cost", epoch.mean_cost),
        ("likeliest_cost", epoch.cost),
        ("entropy", epoch.entropy),
        ("temperature", epoch.temperature),
    ]);
    all
}

/// The curves of the metrics in a file, as SVG.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn curves(path: &Path, unit: &str) -> Result<String> {
    let lines = metrics::lines(path)?;
    let series = DRAWN.iter().filter_map(|(name, shown)| {
        let points: Vec<(f64, f64)> = (lines.iter())
            .filter_map(|line| Some((line["step"].as_f64()?, line[*name].as_f64()?)))
            .collect();
        let (_, first) = *points.first()?;
        let points = points.into_iter().map(|(x, y)| Sample {
            x,
            y: if first == 0.0 { y } else { y / first },
            spread: 0.0,
        });
        let with_unit = if *name == "mean_cost" {
            format!(", {first:.4} {unit} at first")
        } else {
            String::new()
        };
        Some(Series {
            name: format!("{shown}{with_unit}"),
            points: points.collect(),
        })
    });
    let chart = Chart {
        title: "Search: losses, cost and entropy over their first values".to_string(),
        x_label: "epoch".to_string(),
        y_label: "part of the first value".to_string(),
        log_x: false,
        log_y: false,
        marked: lines.len() < 20,
        series: series.collect(),
    };
    Ok(chart.to_svg())
}

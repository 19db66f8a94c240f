//! The page of runs: what is on it, what it says of damaged folders, and that a browser shows it.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Trains a tiny adder and returns nothing; its folder is `out`.
fn train(dir: &Path, out: &str, more: &[&str]) {
    let own = [
        "--steps",
        "12",
        "--set",
        "train.eval_every=4",
        "--set",
        "train.clip_norm=1",
    ];
    succeed(dir, &tiny_adder(&[&own, more, &["--out", out]].concat()));
}

/// The page of the runs `runs`.
fn page_of(dir: &Path, runs: &[&str]) -> String {
    let printed = succeed(dir, &[&["report"], runs, &["--out", "page.html"]].concat());
    assert_eq!(printed, "written to page.html\n");
    fs::read_to_string(dir.join("page.html")).unwrap()
}

/// What scripts are told of the plot of this name.
fn told(page: &str, id: &str) -> Value {
    let figure = page
        .split_once(&format!("<figure id=\"{id}\""))
        .unwrap_or_else(|| panic!("{id}"))
        .1;
    let script = figure.split_once("<script type=\"application/json\">").unwrap().1;
    serde_json::from_str(script.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_has_the_curves_the_memory_and_the_settings_of_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    train(dir, "plain", &["--set", "record.every=6"]);
    train(dir, "<i>wide & \"odd\"", &["--set", "train.lr=0.02"]);
    let page = page_of(dir, &["plain", "<i>wide & \"odd\""]);

    // Nothing is asked of a network, and names are texts.
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let found = page.matches(outside).count();
        assert_eq!(found, 0, "{outside}");
    }
    assert!(!page.contains("<i>wide") && page.contains("&lt;i&gt;wide &amp; &quot;odd&quot;"));

    let loss = told(&page, "curve-loss");
    let series: Vec<&str> = loss["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    let odd = "<i>wide & \"odd\"";
    let expected = [
        "plain, training",
        "plain, dev",
        &format!("{odd}, training"),
        &format!("{odd}, dev"),
    ];
    assert_eq!(series, expected);
    let metrics = fs::read_to_string(dir.join("plain/metrics.jsonl")).unwrap();
    let lines: Vec<Value> = metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let losses: Vec<f64> = lines.iter().filter_map(|line| line["loss"].as_f64()).collect();
    let drawn = loss["series"][0]["y"].as_array().unwrap();
    assert_eq!(drawn.len(), 12);
    for (drawn, loss) in drawn.iter().zip(losses) {
        assert!((drawn.as_f64().unwrap() - loss).abs() < 1e-5 * loss);
    }
    for id in [
        "curve-dev-accuracy",
        "curve-lr",
        "curve-gradient-norm",
        "curve-step-ms",
        "statistic-0-0",
    ] {
        assert!(
            !told(&page, id)["series"][0]["y"].as_array().unwrap().is_empty(),
            "{id}"
        );
    }

    // The memory is what the plan says.
    let plan = json(
        dir,
        &[
            &["plan", "adder", "--json"],
            TINY_ADDER,
            &["--set", "train.clip_norm=1"],
        ]
        .concat(),
    );
    let memory: Value = serde_json::from_str(&fs::read_to_string(dir.join("plain/memory.json")).unwrap()).unwrap();
    let stage = &memory["stages"][0];
    assert_eq!(
        (&stage["states"], &stage["operations"].as_array().unwrap().len().into()),
        (&plan["state_bytes"], &plan["steps_in_schedule"])
    );
    assert!(stage["arena"].as_u64() <= plan["arena_bytes"].as_u64());
    let shown = told(&page, "memory-0");
    assert_eq!(
        shown["names"].as_array().unwrap().len(),
        stage["operations"].as_array().unwrap().len()
    );

    let differing = page.split_once("aria-label=\"Settings that differ\"").unwrap().1;
    let differing = differing.split_once("</table>").unwrap().0;
    assert!(differing.contains("train.lr") && differing.contains("record.every") && !differing.contains("train.batch"));
    assert!(page.contains(">train.batch</th>") && page.contains("id=\"samples\""));

    // A page of one run is written into its folder.
    let object = json(dir, &["report", "plain", "--json"]);
    assert_eq!(
        (object["page"].as_str(), object["problems"].as_array().unwrap().len()),
        (Some("plain/report.html"), 0)
    );
    assert!(
        fs::read_to_string(dir.join("plain/report.html"))
            .unwrap()
            .contains("<dl class=\"tiles\">")
    );
}

#[test]
fn what_is_missing_or_cut_off_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    train(dir, "run", &[]);
    let path = |name: &str| dir.join("run").join(name);
    let metrics = fs::read(path("metrics.jsonl")).unwrap();
    fs::write(path("metrics.jsonl"), &metrics[..metrics.len() - 9]).unwrap();
    fs::write(path("report.json"), "{\"steps\": 1").unwrap();
    fs::remove_file(path("memory.json")).unwrap();
    let object = json(dir, &["report", "run", "--json"]);
    let problems: Vec<&str> = object["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].starts_with("run has 1 line in metrics.jsonl that cannot be read and left out"));
    assert!(problems[1].starts_with("run has a damaged report.json (EOF"));
    assert_eq!(
        problems[2],
        "run has no memory.json, so its memory over a step is not shown."
    );
    let page = fs::read_to_string(path("report.html")).unwrap();
    assert!(problems.iter().all(|problem| page.contains(problem)) && page.contains("id=\"curve-loss\""));

    // A run that is still on its way.
    fs::remove_file(path("report.json")).unwrap();
    fs::remove_file(path("metrics.jsonl")).unwrap();
    let output = lessen(dir, &["report", "run"]);
    let told = stderr(&output);
    assert!(output.status.success() && told.contains("run has no report.json: after 0 steps it has not ended yet"));
    assert!(told.contains("metrics.jsonl cannot be read"), "{told}");
}

#[test]
fn what_is_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sentence = refuse(dir, &["report", "nowhere"]);
    assert!(sentence.contains("the folder nowhere does not exist"), "{sentence}");
    let sentence = refuse(dir, &["report", "."]);
    assert!(sentence.contains("holds no run"), "{sentence}");
    train(dir, "run", &[]);
    let sentence = refuse(dir, &["report", "run", "--out", "none/page.html"]);
    assert!(sentence.contains("none/page.html cannot be written"), "{sentence}");
    assert!(!dir.join("run/report.html").exists());
}

/// What the script exits with where there is no browser, and a shell where there is no Python.
const SKIPPED: [Option<i32>; 2] = [Some(77), Some(127)];

#[test]
fn a_browser_shows_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    train(dir, "plain", &["--set", "record.every=6"]);
    train(dir, "deeper", &["--set", "model.layers=2"]);
    page_of(dir, &["plain", "deeper"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-report");
    let output = Command::new(script).arg("page.html").current_dir(dir).output().unwrap();
    let said = stderr(&output);
    if SKIPPED.contains(&output.status.code()) {
        println!("skipped: {}", said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
}

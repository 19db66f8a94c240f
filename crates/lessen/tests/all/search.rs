//! Search for architecture and precision from data to a folder: what it leaves, that its network trains, that a killed
//! search resumes to the same bytes, and what is refused.

use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A search over networks that compute in a moment.
const TINY: &[&str] = &[
    "search",
    "mnist",
    "--data",
    "bars",
    "--set",
    "search.width=0.125",
    "--set",
    "search.depth=1",
    "--set",
    "search.kernels=3,5",
    "--set",
    "search.expansions=1,2",
    "--set",
    "search.bits=2,8",
    "--set",
    "search.batch=16",
    "--set",
    "search.frozen_epochs=1",
    "--set",
    "search.logit_rate=0.1",
];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [TINY, more].concat()
}

/// The files of a search that no clock decides, by name.
fn results(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in [root.to_path_buf(), root.join("checkpoint")] {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let is_timed = ["metrics.jsonl", "sessions.json"].contains(&&*name) || name.starts_with("events.");
            // Names of folders are written into the recipe.
            if path.is_file() && !is_timed && name != "recipe.toml" && name != "search.toml" {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The metrics of a search without what a clock decides.
fn metrics(root: &Path) -> Vec<Value> {
    let text = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("epoch_ms");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_search_leaves_a_network_within_its_limit_that_trains_with_its_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let free = json(dir, &tiny(&["--epochs", "2", "--out", "free", "--json"]));
    let [least, most] = ["least", "most"].map(|key| free[key].as_f64().unwrap());
    assert!(0.0 < least && least < most, "{free}");
    let limit = format!("{}mJ", least + 0.1 * (most - least));
    let found = json(
        dir,
        &tiny(&[
            "--epochs",
            "2",
            "--limit",
            &limit,
            "--set",
            "search.spread=range8",
            "--out",
            "found",
            "--json",
        ]),
    );
    let value = found["value"].as_f64().unwrap();
    assert!(value <= least + 0.1 * (most - least) * (1.0 + 1e-9), "{found}");
    assert!(
        (value - found["energy_mj"].as_f64().unwrap()).abs() <= 1e-9 * value,
        "{found}"
    );
    let root = dir.join("found");
    for name in [
        "report.md",
        "curves.svg",
        "choices.json",
        "metrics.jsonl",
        "manifest.json",
    ] {
        assert!(root.join(name).is_file(), "{name}");
    }
    let described: Value = serde_json::from_slice(&fs::read(root.join("architecture.json")).unwrap()).unwrap();
    let blocks = described["blocks"].as_array().unwrap().len();
    assert_eq!(found["blocks"], blocks);

    let steps = ["--set", "train.steps=30", "--set", "train.batch=16"];
    let recipe = ["train", "found/recipe.toml", "--data", "bars", "--out", "trained"];
    succeed(dir, &[&recipe[..], &steps].concat());
    let config: Value = serde_json::from_slice(&fs::read(dir.join("trained/model/config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["architecture"], &config["batch_norm"]),
        (&described, &Value::from("range8"))
    );
    assert!(config.to_string().contains("\"dynamic\""), "{config}");
    // Its bits are those that its energy is told at.
    let energy = json(dir, &["energy", "trained", "--json"]);
    let of_layer = |layer: &Value| {
        (
            layer["name"].as_str().unwrap().to_string(),
            layer["weight_bits"].clone(),
        )
    };
    let bits: BTreeMap<String, Value> = energy["layers"].as_array().unwrap().iter().map(of_layer).collect();
    for (number, block) in described["blocks"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            bits[&format!("blocks.{number}.depthwise")],
            block["bits"][1],
            "{bits:?}"
        );
        assert_eq!(bits[&format!("blocks.{number}.project")], block["bits"][0], "{bits:?}");
    }
    assert_eq!(bits["stem"], described["bits"]);
    let scores = json(dir, &["eval", "trained", "--split", "test", "--json"]);
    assert_eq!(scores["examples"], 21);
    succeed(dir, &["export", "trained", "exported"]);

    // Bits of the network that was found, by the other two methods: with its own bits it keeps to the limit.
    let fixed = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--limit",
        &limit,
        "--epochs",
        "2",
        "--set",
        "search.batch=16",
        "--set",
        "search.bits=2,4,8",
        "--set",
        "search.architecture=found/architecture.json",
        "--json",
    ];
    let allocated = json(
        dir,
        &[&fixed[..], &["--set", "search.method=allocation", "--out", "a"]].concat(),
    );
    assert!(allocated["value"].as_f64().unwrap() <= least + 0.1 * (most - least) * (1.0 + 1e-9));
    assert_eq!(allocated["sensitivities"].as_array().unwrap().len(), blocks);
    let haq = ["search.method=haq", "search.episodes=3", "search.random_episodes=1"];
    let haq = haq.iter().flat_map(|flag| ["--set", flag]).chain(["--out", "h"]);
    let haq = json(dir, &[&fixed[..], &haq.collect::<Vec<_>>()].concat());
    assert_eq!(haq["episodes"], 3);
    assert!(haq["value"].as_f64().unwrap() <= least + 0.1 * (most - least) * (1.0 + 1e-9));
}

/// An accelerator of 4 bits.
const FOUR_BITS: &str = "name = \"four\"\nclock_hz = 500000000\nrows = 4\ncolumns = 4\nhigh_bits = 4\nlow_bits = 2\n\
     weight_buffer = 65536\nactivation_buffer = 32768\noutput_buffer = 16384\nmemory_bits = 64\n[energy]\n\
     core_cycle = 1.0\nweight_read = 0.02\nweight_write = 0.03\nactivation_read = 0.06\nactivation_write = 0.1\n\
     output_read = 0.03\noutput_write = 0.07\ndram = 15.0\n";

/// A network of three blocks whose bits are searched.
const NETWORK: &str = r#"{"stem": 4, "stem_stride": 2, "blocks": [
    {"out": 4, "stride": 1, "expansion": 2, "kernel": 3, "bits": [8, 8]},
    {"out": 8, "stride": 2, "expansion": 2, "kernel": 3, "bits": [8, 8]},
    {"out": 8, "stride": 1, "expansion": 2, "kernel": 5, "bits": [8, 8]}
], "last": 16, "bits": 8}"#;

/// A search for the bits of that network by a method, within a limit that all of its bits keep to.
fn bits<'a>(method: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    bits_within("1000mJ", method, more)
}

/// A search for the bits of that network by a method, within a limit.
fn bits_within<'a>(limit: &'a str, method: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let command = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--limit",
        limit,
        "--set",
        "search.architecture=network.json",
        "--set",
        "search.batch=16",
        "--set",
        "search.bits=2,4,8",
        "--set",
        method,
    ];
    [&command[..], more].concat()
}

/// Runs a command whole, and again killed after its first checkpoint whose count is at least `done`, and then resumed:
/// both folders have the same bytes.
fn killed_and_resumed(dir: &Path, command_of: &dyn Fn(&str) -> Vec<String>, done: u64) {
    let [whole, killed] = ["whole", "killed"].map(command_of);
    succeed(dir, &whole.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = command(dir, &killed.iter().map(String::as_str).collect::<Vec<_>>())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let reached = || -> Option<u64> {
        let text = fs::read_to_string(dir.join("killed/checkpoint/checkpoint.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["done"].as_u64()
    };
    while reached().is_none_or(|reached| reached < done) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.join("killed/report.json").exists(), "the search had ended");
    let output = lessen(dir, &["search", "--resume", "--out", "killed"]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("resuming after "), "{told}");
    assert_eq!(results(&dir.join("killed")), results(&dir.join("whole")));
    assert_eq!(metrics(&dir.join("killed")), metrics(&dir.join("whole")));
}

#[test]
fn a_killed_search_resumes_and_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let often = ["--set", "search.checkpoint_minutes=1e-9", "--epochs", "8"];
    let all = |out: &str| owned(&tiny(&[&often[..], &["--out", out]].concat()));
    killed_and_resumed(dir, &all, 1);
    // A finished one stays as it is, and other settings are another search.
    let before = results(&dir.join("killed"));
    succeed(dir, &["search", "--resume", "--out", "killed"]);
    assert_eq!(results(&dir.join("killed")), before);
    let sentence = refuse(dir, &["search", "--resume", "--out", "killed", "--seed", "7"]);
    assert!(sentence.contains("search.seed was"), "{sentence}");
}

fn owned(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| one.to_string()).collect()
}

#[test]
fn killed_searches_for_bits_resume_and_end_with_the_same_bytes() {
    // While the network is trained, and while its bits are tested.
    for (method, done) in [
        ("search.method=allocation", 1),
        ("search.method=allocation", 5),
        ("search.method=haq", 1),
        ("search.method=haq", 26),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        bars(dir);
        fs::write(dir.join("network.json"), NETWORK).unwrap();
        let often = ["--set", "search.checkpoint_minutes=1e-9", "--epochs", "3"];
        // The agent learns after 20 episodes, so that it must have learned the same in the process that resumes.
        let haq = ["--set", "search.episodes=40"];
        let haq = if method.ends_with("haq") { &haq[..] } else { &[] };
        let all = |out: &str| owned(&bits(method, &[&often[..], haq, &["--out", out]].concat()));
        killed_and_resumed(dir, &all, done);
    }
}

#[test]
fn a_network_with_one_choice_of_bits_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("network.json"), NETWORK).unwrap();
    let only = ["--set", "search.bits=4", "--out", "only", "--json"];
    let found = json(dir, &bits("search.method=allocation", &only));
    assert_eq!(
        (&found["epochs"], &found["mean_bits_depthwise"]),
        (&0.into(), &4.0.into())
    );
    assert_eq!(found["value"], found["least"]);
    assert!(!dir.join("only/checkpoint").exists(), "nothing was trained");
}

#[test]
fn the_least_cost_that_a_refusal_names_is_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("network.json"), NETWORK).unwrap();
    for (cost, unit, nothing) in [("energy", "mJ", "1nJ"), ("size", "MB", "1B"), ("latency", "ms", "1ns")] {
        let more = ["--cost", cost, "--epochs", "1", "--json", "--out", cost];
        let sentence = refuse(dir, &bits_within(nothing, "search.method=allocation", &more));
        let least = sentence
            .split("takes is ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let least = least.unwrap_or_else(|| panic!("{sentence}"));
        assert!(least.ends_with(unit), "{sentence}");
        let found = json(dir, &bits_within(least, "search.method=allocation", &more));
        assert_eq!(found["value"], found["least"], "{cost}");
        let used = found["utilisation"].as_f64().unwrap();
        assert!(0.0 < used && used <= 1.0, "{used}");
        let report = fs::read_to_string(dir.join(cost).join("report.md")).unwrap();
        let shown = format!("{:.1} % of the units are used", 100.0 * used);
        assert!(report.contains(&shown), "{report}");
    }
}

#[test]
fn without_a_mapping_that_of_the_least_cost_is_taken_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("network.json"), NETWORK).unwrap();
    let least = |out: &str, more: &[&str]| {
        let all = [
            &["--epochs", "1", "--json", "--out", out, "--set", "search.bits=4"][..],
            more,
        ]
        .concat();
        json(dir, &bits("search.method=allocation", &all))["least"]
            .as_f64()
            .unwrap()
    };
    let chosen = least("chosen", &[]);
    let settings = fs::read_to_string(dir.join("chosen/search.toml")).unwrap();
    let kept = settings
        .lines()
        .find(|line| line.contains("depthwise"))
        .unwrap_or_else(|| panic!("{settings}"));
    for mapping in ["per-group", "columns", "taps", "dense"] {
        let own = least(mapping, &["--set", &format!("search.depthwise={mapping}")]);
        assert!(chosen <= own, "{mapping}: {own} is below {chosen}");
        assert!(!kept.contains(mapping) || chosen == own, "{mapping}: {own}, {kept}");
    }
}

#[test]
fn bits_of_layers_without_rounding_are_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("network.json"), NETWORK).unwrap();
    fs::write(
        dir.join("wide.toml"),
        FOUR_BITS.replace("high_bits = 4", "high_bits = 32"),
    )
    .unwrap();
    for method in ["search.method=allocation", "search.method=haq"] {
        let out = method.rsplit('=').next().unwrap();
        let mut more = vec![
            "--epochs",
            "1",
            "--json",
            "--out",
            out,
            "--set",
            "search.bits=8,32",
            "--accelerator",
            "wide.toml",
        ];
        more.extend(if out == "haq" {
            &["--set", "search.episodes=2"][..]
        } else {
            &[]
        });
        let found = json(dir, &bits(method, &more));
        let bits = found["mean_bits_pointwise"].as_f64().unwrap();
        assert!((8.0..=32.0).contains(&bits), "{found}");
    }
    // The hardware of the default has no such bits, which is said before anything is trained.
    let sentence = refuse(
        dir,
        &bits(
            "search.method=allocation",
            &["--set", "search.bits=8,32", "--out", "none"],
        ),
    );
    assert!(sentence.contains("32 bits") && !dir.join("none").exists(), "{sentence}");
}

#[test]
fn a_page_shows_searches_with_their_blocks_and_curves() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("network.json"), NETWORK).unwrap();
    let found = json(dir, &tiny(&["--epochs", "2", "--out", "joint", "--json"]));
    succeed(
        dir,
        &bits("search.method=allocation", &["--epochs", "1", "--out", "exact"]),
    );
    succeed(dir, &["report", "joint", "exact", "--out", "both.html"]);
    let page = fs::read_to_string(dir.join("both.html")).unwrap();
    for expected in [
        "<tr><th scope=\"col\"></th><th scope=\"col\">joint</th><th scope=\"col\">exact</th></tr>",
        "<tr><th scope=\"col\">block</th><th scope=\"col\">channels</th>",
        "<td>joint</td><td>allocation</td>",
        "<h2 id=\"network\">",
        "<figure id=\"bits-0\"",
        "<figure id=\"bits-1\"",
        "<figure id=\"loss-0\"",
        "<figure id=\"cost-0\"",
        "<figure id=\"temperature-0\"",
        "<figure id=\"loss-1\"",
        "Blocks of the space, joint",
        "<th scope=\"row\">search.limit</th>",
        "<caption>Blocks of exact, after 4 channels and before 16</caption>",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("<figure id=\"temperature-1\"") && !page.contains("Blocks of the space, exact"));
    let cost = found["value"].as_f64().unwrap();
    let digits = format!("{cost:.9}");
    assert!(page.contains(&digits[..5]), "{cost}");
    fs::write(dir.join("joint/choices.json"), "[").unwrap();
    fs::remove_file(dir.join("joint/report.json")).unwrap();
    let told = json(dir, &["report", "joint", "--json"]);
    let problems = told["problems"].to_string();
    assert!(
        problems.contains("has not ended") && problems.contains("choices.json is damaged"),
        "{problems}"
    );
    let sentence = refuse(dir, &["report", "joint", "."]);
    assert!(sentence.contains("make a page of each"), "{sentence}");
}

#[test]
fn searches_that_cannot_be_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    fs::write(dir.join("four.toml"), FOUR_BITS).unwrap();
    fs::write(dir.join("none.toml"), FOUR_BITS.replace("rows = 4\n", "")).unwrap();
    for (more, expected) in [
        (&["--limit", "1nJ"][..], "the least that one takes is "),
        (&["--limit", "1ms"], "the limit `1ms` is no energy"),
        (&["--cost", "energy", "--accelerator", "haq"], "has no energy"),
        (&["--accelerator", "four.toml"], "bits"),
        (&["--accelerator", "none.toml"], "rows"),
        (&["--accelerator", "nowhere"], "nowhere"),
        (&["--set", "search.kernels=4"], "odd kernel"),
        (&["--set", "search.kernels=three"], "is no list of numbers"),
        (&["--set", "search.bits=1,8"], "give 2 to 8"),
        (&["--set", "search.batch=1000"], "a batch has 1000"),
        (
            &["--set", "search.episodes=5"],
            "has no part in search.method = \"joint\"",
        ),
        (&["--set", "search.method=allocation"], "search.width"),
        (&["--set", "train.lr=1"], "train.lr has no part in a search"),
        (&["--set", "search.temperature=0"], "temperature is 0"),
    ] {
        let sentence = refuse(dir, &tiny(&[more, &["--out", "none"]].concat()));
        assert!(sentence.contains(expected), "{more:?}: {sentence}");
        assert!(!dir.join("none").exists(), "{more:?}");
    }
    let allocation = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--set",
        "search.method=allocation",
        "--out",
        "none",
    ];
    let sentence = refuse(dir, &allocation);
    assert!(sentence.contains("name it with --limit"), "{sentence}");
    for method in ["search.method=allocation", "search.method=haq"] {
        fs::write(dir.join("network.json"), NETWORK).unwrap();
        let sentence = refuse(dir, &bits_within("1nJ", method, &["--out", "none"]));
        assert!(sentence.contains("the least that one takes is "), "{sentence}");
        assert!(!dir.join("none").exists(), "{method}");
    }
    for (more, expected) in [
        (&["--accelerator", "four.toml"][..], "bits"),
        (&["--set", "search.validation=0.001"], "to judge by"),
        (&["--set", "search.validation=0.05"], "are left to judge bits by"),
        (
            &["--set", "search.temperature=2"],
            "has no part in search.method = \"allocation\"",
        ),
    ] {
        let sentence = refuse(
            dir,
            &bits("search.method=allocation", &[more, &["--out", "none"]].concat()),
        );
        assert!(sentence.contains(expected), "{more:?}: {sentence}");
        assert!(!dir.join("none").exists(), "{more:?}");
    }
    let train = ["train", "mnist", "--data", "bars", "--out", "none", "--set"];
    let sentence = refuse(dir, &[&train[..], &["search.epochs=3"]].concat());
    assert!(sentence.contains("is for `lessen search`"), "{sentence}");
    let sentence = refuse(dir, &[&train[..], &["model.architecture=four.toml"]].concat());
    assert!(sentence.contains("mixed-mobilenet"), "{sentence}");
    let kind = ["model.kind=mixed-mobilenet", "--set", "model.architecture=four.toml"];
    let sentence = refuse(dir, &[&train[..], &kind].concat());
    assert!(sentence.contains("no description of an architecture"), "{sentence}");
}

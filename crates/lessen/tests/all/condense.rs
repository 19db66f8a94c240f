//! Condensation from data to a folder, and what is done with the folder: resuming, training, a page.

use crate::images::bars;
use crate::support::*;
use lessen::data::arrays::{Dtype, npz};
use lessen::data::images::read_image;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two images of each class by a network that computes in a moment.
pub const TINY: &[&str] = &[
    "condense",
    "mnist",
    "--data",
    "bars",
    "--per-class",
    "2",
    "--set",
    "condense.width=4",
    "--set",
    "condense.depth=1",
    "--set",
    "condense.real_batch=8",
    "--set",
    "condense.updates=2",
    "--set",
    "condense.epochs=1",
];

/// The tiny condensation with more arguments.
pub fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [TINY, more].concat()
}

/// The files of a condensation that no clock decides, by name.
fn results(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in [root.to_path_buf(), root.join("pictures"), root.join("checkpoint")] {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let is_timed = ["metrics.jsonl", "sessions.json"].contains(&&*name) || name.starts_with("events.");
            if path.is_file() && !is_timed {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The metrics of a condensation without what a clock decides.
fn metrics(root: &Path) -> Vec<Value> {
    let text = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("iteration_ms");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn one_image_of_each_class_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let of_each = TINY.iter().position(|flag| *flag == "--per-class").unwrap();
    let mut arguments = TINY.to_vec();
    arguments.drain(of_each..of_each + 2);
    arguments.extend(["--iterations", "1", "--out", "few", "--json"]);
    assert_eq!(json(dir, &arguments)["images"], 3);
}

#[test]
fn images_that_leave_the_range_of_the_data_are_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for (rate, warnings) in [("0.1", 0), ("100000", 1)] {
        let rate_key = format!("condense.image_rate={rate}");
        let output = lessen(dir, &tiny(&["--iterations", "2", "--set", &rate_key, "--out", rate]));
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(
            stderr(&output).matches("root mean square").count(),
            warnings,
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_folder_has_images_to_look_at_and_arrays_on_which_recipes_train() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let report = json(dir, &tiny(&["--iterations", "40", "--out", "few", "--json"]));
    assert_eq!(
        (&report["images"], &report["done"], &report["interrupted"]),
        (&6.into(), &40.into(), &false.into())
    );
    let [first, last] = ["first_distance", "last_distance"].map(|key| report[key].as_f64().unwrap());
    assert!(last < first, "{report}");

    // What is seen: a row for each class, 8 pixels of each image enlarged eight times.
    let few = dir.join("few");
    let picture = read_image(&few.join("images.png")).unwrap();
    assert_eq!(picture.shape(), [3 * 66 + 2, 2 * 66 + 2, 1]);
    let kept: Vec<bool> = [0, 1, 2, 5, 10, 20, 40, 3]
        .iter()
        .map(|done| few.join(format!("pictures/iteration-{done}.png")).exists())
        .collect();
    assert_eq!(kept, [true, true, true, true, true, true, true, false]);
    assert_eq!(
        fs::read(few.join("images.png")).unwrap(),
        fs::read(few.join("pictures/iteration-40.png")).unwrap()
    );

    // What programs read.
    let arrays: BTreeMap<_, _> = npz::read(&few.join("condensed.npz")).unwrap().into_iter().collect();
    assert_eq!(arrays["images"].shape(), [6, 8, 8, 1]);
    assert_eq!(arrays["images"].dtype(), Dtype::Float(4));
    assert_eq!(arrays["labels"].integers().unwrap(), [0, 0, 1, 1, 2, 2]);
    let tensors = lessen::nn::checkpoint::TensorFile::open(&few.join("condensed.safetensors")).unwrap();
    assert_eq!(tensors.shape("images"), Some(&[6, 8, 8, 1][..]));
    assert_eq!(tensors.names().len(), 4);
    let manifest: Value = serde_json::from_slice(&fs::read(few.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["classes"], serde_json::json!(["top", "middle", "bottom"]));
    assert_eq!(
        (
            &manifest["data"]["images"],
            &manifest["iterations"],
            &manifest["settings"]["seed"]
        ),
        (&96.into(), &40.into(), &"1".into())
    );
    assert_eq!(
        fs::read_to_string(few.join("classes.txt")).unwrap(),
        "top\nmiddle\nbottom\n"
    );

    // Any recipe trains on them, in a batch of all of them; the images that score it are those of the data.
    for (recipe, epochs) in [("mnist", "train.epochs=100"), ("cifar10", "train.epochs=2")] {
        let out = format!("trained-{recipe}");
        let output = lessen(
            dir,
            &[
                "train", recipe, "--data", "few", "--set", epochs, "--out", &out, "--json",
            ],
        );
        let told = stderr(&output);
        assert!(output.status.success(), "{told}");
        assert!(
            told.contains("the 6 training images are condensed from 96 of "),
            "{told}"
        );
        assert!(
            told.contains("they are read as they are, as numbers and not as bytes"),
            "{told}"
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["steps"], epochs["train.epochs=".len()..].parse::<u64>().unwrap());
        let scores = json(dir, &["eval", &out, "--split", "test", "--json"]);
        assert_eq!(scores["examples"], 21);
        let has_few = told.contains("are 2 steps on 6 condensed images, from which networks learn in some hundred");
        assert_eq!(has_few, recipe == "cifar10", "{told}");
        if recipe == "mnist" {
            assert!(scores["test_accuracy"].as_f64().unwrap() > 0.9, "{scores}");
        }
    }
}

#[test]
fn a_killed_condensation_resumes_and_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let often = ["--set", "condense.checkpoint_minutes=1e-9"];
    let all = |out| tiny(&[&["--iterations", "60", "--out", out], &often[..]].concat());
    succeed(dir, &all("whole"));
    let mut child = command(dir, &all("killed"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !dir.join("killed/checkpoint").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let stopped_at = |root: &str| {
        let path = dir.join(root).join("checkpoint/checkpoint.json");
        let mark: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        mark["done"].as_u64().unwrap()
    };
    let done = stopped_at("killed");
    assert!((1..60).contains(&done), "{done}");
    let output = lessen(dir, &["condense", "--resume", "--out", "killed"]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("resuming after iteration "), "{told}");
    assert_eq!(results(&dir.join("killed")), results(&dir.join("whole")));
    assert_eq!(metrics(&dir.join("killed")), metrics(&dir.join("whole")));

    // A finished one stays as it is, and can have more iterations.
    let before = results(&dir.join("killed"));
    succeed(dir, &["condense", "--resume", "--out", "killed"]);
    assert_eq!(results(&dir.join("killed")), before);
    succeed(
        dir,
        &["condense", "mnist", "--resume", "--out", "killed", "--iterations", "61"],
    );
    succeed(dir, &tiny(&["--iterations", "61", "--out", "longer"]));
    let (longer, resumed) = (results(&dir.join("longer")), results(&dir.join("killed")));
    for name in [
        "condensed.npz",
        "images.png",
        "checkpoint/state.safetensors",
        "manifest.json",
    ] {
        assert_eq!(longer[name], resumed[name], "{name}");
    }
    assert!(!resumed.contains_key("pictures/iteration-60.png"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_after_an_update_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let child = command(dir, &tiny(&["--iterations", "100000", "--out", "few"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !dir.join("few/pictures/iteration-1.png").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no iteration after a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(
        told.contains("go on with `lessen condense --resume --out few`"),
        "{told}"
    );
    let mark = fs::read_to_string(dir.join("few/checkpoint/checkpoint.json")).unwrap();
    let done = serde_json::from_str::<Value>(&mark).unwrap()["done"].to_string();
    // It is as if it had ended there.
    succeed(dir, &["condense", "--resume", "--out", "few", "--iterations", &done]);
    succeed(dir, &tiny(&["--iterations", &done, "--out", "same"]));
    assert_eq!(
        fs::read(dir.join("few/condensed.npz")).unwrap(),
        fs::read(dir.join("same/condensed.npz")).unwrap()
    );
}

#[test]
fn threads_and_budgets_change_no_byte_and_a_budget_binds_the_whole_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let larger = ["--set", "condense.width=128", "--set", "condense.real_batch=32"];
    let with = |more: &[&'static str]| tiny(&[&larger[..], &["--iterations", "2", "--json"], more].concat());
    let free = json(dir, &with(&["--out", "free"]));
    check_memory(&free);
    let floor = floor_of(&refuse(dir, &with(&["--budget", "1M", "--out", "none"])));
    assert!(!dir.join("none").exists(), "nothing is left");
    let planned = free["peak_bytes"]["planned"].as_u64().unwrap();
    assert!(floor < planned, "{floor} {planned}");
    for (budget, out) in [(floor, "tight"), ((floor + planned) / 2, "middle")] {
        let size = format!("{budget}B");
        let args = [
            tiny(&larger),
            vec!["--iterations", "2", "--json", "--budget", &size, "--out", out],
        ]
        .concat();
        let report = json(dir, &args);
        check_memory(&report);
        assert!(report["peak_bytes"]["planned"].as_u64().unwrap() <= budget, "{report}");
        assert_eq!(
            fs::read(dir.join(out).join("condensed.npz")).unwrap(),
            fs::read(dir.join("free/condensed.npz")).unwrap(),
            "{out}"
        );
    }
    succeed(dir, &with(&["--threads", "3", "--out", "threads"]));
    assert_eq!(results(&dir.join("threads")), results(&dir.join("free")));
}

/// Checks that no more was allocated and resident than was announced.
fn check_memory(report: &Value) {
    let bytes = |key: &str| report["peak_bytes"][key].as_u64();
    let planned = bytes("planned").unwrap();
    let part = |name: &str| report["account_bytes"][name].as_u64().unwrap();
    let beside = part("code") + part("allocator");
    assert!(bytes("measured").unwrap() + beside <= planned, "{report}");
    assert!(bytes("resident").is_none_or(|resident| resident <= planned), "{report}");
    let parts: u64 = report["account_bytes"]
        .as_object()
        .unwrap()
        .values()
        .map(|part| part.as_u64().unwrap())
        .sum();
    assert_eq!(parts, planned);
}

/// The floor that a refusal names, in bytes.
fn floor_of(sentence: &str) -> u64 {
    let (_, after) = sentence.split_once("is below the floor of ").unwrap();
    let (_, bytes) = after.split_once('(').unwrap();
    bytes.split_once(" bytes)").unwrap().0.parse().unwrap()
}

#[test]
fn a_time_is_filled_by_iterations_that_are_then_settled() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let output = lessen(dir, &tiny(&["--set", "condense.minutes=0.005", "--out", "timed"]));
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("fill the time; the same images are made everywhere by --iterations ")
            && told.contains(" --set condense.real_batch=8"),
        "{told}"
    );
    let manifest: Value = serde_json::from_slice(&fs::read(dir.join("timed/manifest.json")).unwrap()).unwrap();
    let count = manifest["iterations"].as_u64().unwrap();
    assert_eq!(manifest["done"], count);
    let count = count.to_string();
    succeed(dir, &tiny(&["--iterations", &count, "--out", "counted"]));
    let (timed, counted) = (results(&dir.join("timed")), results(&dir.join("counted")));
    let own = |name: &str| name != "condense.toml";
    for (name, bytes) in timed.iter().filter(|(name, _)| own(name)) {
        assert_eq!(counted.get(name), Some(bytes), "{name}");
    }
    assert_eq!(timed.len(), counted.len());
}

#[test]
fn the_page_shows_the_images_as_they_developed_and_the_distances() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    succeed(dir, &tiny(&["--iterations", "3", "--out", "few"]));
    assert_eq!(succeed(dir, &["report", "few"]), "written to few/report.html\n");
    let page = fs::read_to_string(dir.join("few/report.html")).unwrap();
    assert_eq!(
        page.matches("<img class=\"condensed\" src=\"data:image/png;base64,iVBOR")
            .count(),
        4
    );
    for expected in [
        "Condensation few",
        "few, after 3 iterations",
        "A row for each class, from above: top, middle, bottom.",
        "<figure id=\"distance\"",
        "<figure id=\"distance-0\"",
        "features.0",
        "condense.distance",
        "96 images of ",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    // Condensations beside each other, and not beside a run.
    succeed(dir, &tiny(&["--iterations", "1", "--out", "one"]));
    succeed(dir, &["report", "few", "one", "--out", "both.html"]);
    let both = fs::read_to_string(dir.join("both.html")).unwrap();
    assert!(both.contains("2 condensations") && both.contains("one, after 1 iteration<"));
    let heads = "<tr><th scope=\"col\"></th><th scope=\"col\">few</th><th scope=\"col\">one</th></tr>";
    assert_eq!(both.matches(heads).count(), 2, "of results and of settings");
    succeed(dir, &tiny_adder(&["--steps", "2", "--out", "adder"]));
    let sentence = refuse(dir, &["report", "adder", "few"]);
    assert!(
        sentence.ends_with("few has condensed images and adder has not; make a page of each"),
        "{sentence}"
    );
}

#[test]
fn a_test_split_elsewhere_scores_what_is_learned_of_condensed_images() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = bars(dir);
    succeed(dir, &tiny(&["--iterations", "1", "--out", "few"]));
    let elsewhere = dir.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for name in ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        fs::rename(data.join(name), elsewhere.join(name)).unwrap();
    }
    fs::remove_dir_all(&data).unwrap();
    let train = ["train", "mnist", "--data", "few", "--steps", "1", "--out", "trained"];
    let sentence = refuse(dir, &train);
    assert!(
        sentence.contains("was condensed from ") && sentence.ends_with("name others with data.test"),
        "{sentence}"
    );
    let test = format!("data.test={}", text(&elsewhere));
    succeed(dir, &[&train[..], &["--set", &test]].concat());
}

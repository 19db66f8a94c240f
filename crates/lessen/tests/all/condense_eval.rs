//! Evaluation of condensed images: networks learn from them and are tested on the images of the recipe.

use crate::condense::tiny;
use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Two sets of two images of each class.
fn sets(dir: &Path) {
    bars(dir);
    for seed in ["1", "2"] {
        let out = format!("few-{seed}");
        let made = tiny(&["--iterations", "8", "--seed", seed, "--out", &out]);
        succeed(dir, &made);
    }
}

/// An evaluation with more arguments.
fn eval<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["condense", "eval"], more].concat()
}

#[test]
fn networks_learn_from_condensed_images_and_threads_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sets(dir);
    let own = eval(&[
        "few-1",
        "few-2",
        "--networks",
        "2",
        "--epochs",
        "150",
        "--augment",
        "none",
        "--whole",
        "3",
        "--json",
    ]);
    let found = json(dir, &own);
    let with_more_threads = json(dir, &[&own[..], &["--threads", "2"]].concat());
    assert_eq!(found["networks"], with_more_threads["networks"]);
    let without_learning = json(dir, &[&own[..], &["--learning-rate", "0"]].concat());
    assert_ne!(
        found["networks"][0]["accuracies"],
        without_learning["networks"][0]["accuracies"]
    );
    assert_eq!(
        (&found["images"], &found["tested"]),
        (&serde_json::json!([6, 6]), &21.into())
    );
    let network = &found["networks"][0];
    assert_eq!(network["network"], "convnet-3 of width 4 and depth 1");
    assert_eq!(
        (&network["epochs"], &network["augmentation"]),
        (&150.into(), &"none".into())
    );
    let accuracies: Vec<f64> = network["accuracies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect();
    assert!(
        accuracies.len() == 4 && accuracies.iter().all(|accuracy| *accuracy > 0.7),
        "{found}"
    );
    let number = |key: &str| network[key].as_f64().unwrap();
    assert!((number("mean") - accuracies.iter().sum::<f64>() / 4.0).abs() < 1e-12);
    assert!((number("relative") - number("mean") / number("whole")).abs() < 1e-12);
    assert!(number("deviation") >= 0.0);

    // Other networks, other data, and the published augmentation of the recipe.
    fs::rename(dir.join("bars"), dir.join("moved")).unwrap();
    let output = lessen(
        dir,
        &eval(&[
            "few-1",
            "--network",
            "mlp,convnet-3",
            "--networks",
            "1",
            "--epochs",
            "2",
            "--data",
            "moved",
        ]),
    );
    let (told, text) = (stderr(&output), String::from_utf8(output.stdout).unwrap());
    assert!(
        told.contains("mlp: 1 network on 6 images, 2 epochs with augmentation crop_scale_rotate"),
        "{told}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("mlp: accuracy "), "{text}");
    assert!(
        lines[1].starts_with("convnet-3: accuracy ") && lines[1].ends_with(" % over 1 network"),
        "{text}"
    );
}

#[test]
fn mistakes_of_evaluations_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sets(dir);
    fs::create_dir(dir.join("other")).unwrap();
    for entry in fs::read_dir(dir.join("bars")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join("other").join(path.file_name().unwrap())).unwrap();
    }
    fs::write(dir.join("other/classes.txt"), "top\nmiddle\nlow\n").unwrap();
    for (more, expected) in [
        (&["bars"][..], "the folder bars holds no condensation"),
        (&["few-1", "nowhere"], "the folder nowhere does not exist"),
        (
            &["few-1", "--network", "lenet,lenin"],
            "--network lenin: there is no such network",
        ),
        (
            &["few-1", "--network", "mlp,lenet"],
            "--network lenet: images of 8 x 8 pixels with 1 channels do not fit",
        ),
        (&["few-1", "--networks", "0"], "train at least one"),
        (&["few-1", "--epochs", "0"], "epochs = 0"),
        (&["few-1", "--learning-rate", "-1"], "learning rate = -1"),
        (
            &["few-1", "--learning-rate", "1e30", "--epochs", "9"],
            "no network has an accuracy, since the loss of each became infinite or NaN",
        ),
        (
            &["few-1", "--data", "other"],
            "have other classes than those of the data",
        ),
    ] {
        let sentence = refuse(dir, &eval(more));
        assert!(sentence.contains(expected), "{more:?}: {sentence}");
    }
    let manifest = dir.join("few-2/manifest.json");
    let mut learned: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    learned["learned_rate"] = 0.5.into();
    fs::write(&manifest, learned.to_string()).unwrap();
    assert_eq!(
        refuse(dir, &eval(&["few-1", "few-2", "--learning-rate", "0.1"])),
        "error: the learning rate 0.1 is not that of the images in few-2, 0.5, which was learned with them; leave it out"
    );
    fs::remove_dir_all(dir.join("bars")).unwrap();
    let sentence = refuse(dir, &eval(&["few-1"]));
    assert!(sentence.contains("bars"), "{sentence}");
}

#[test]
fn the_peak_is_announced_and_a_budget_binds_without_a_change_of_accuracies() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sets(dir);
    let own = eval(&["few-1", "--networks", "2", "--epochs", "3", "--whole", "1", "--json"]);
    let found = json(dir, &own);
    let told = stderr(&lessen(dir, &own));
    assert!(told.contains(", tested on 21 of 3 classes, peak memory "), "{told}");
    let peak = |found: &Value, of: &str| found["peak_bytes"][of].as_u64().unwrap();
    let (planned, measured) = (peak(&found, "planned"), peak(&found, "measured"));
    assert!(measured <= planned, "{measured} of {planned}");

    let sentence = refuse(dir, &[&own[..], &["--budget", "1M"]].concat());
    let (_, floor) = sentence.split_once(" is below the floor of ").unwrap();
    let (_, floor) = floor.split_once('(').unwrap();
    let (floor, _) = floor.split_once(" bytes)").unwrap();
    let within = json(dir, &[&own[..], &["--budget", &format!("{floor}B")]].concat());
    assert_eq!(within["networks"], found["networks"]);
    assert!(peak(&within, "planned") <= floor.parse().unwrap(), "{within}");
}

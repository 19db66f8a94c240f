//! Condensations that are refused: one sentence, and nothing is left.

use crate::condense::tiny;
use crate::images::{bars, idx};
use crate::support::*;
use std::fs;
use std::path::Path;

/// The sentence with which arguments are refused; nothing is left of them.
fn refused(dir: &Path, args: &[&str]) -> String {
    let sentence = refuse(dir, &[args, &["--out", "none"]].concat());
    assert!(!dir.join("none").exists(), "{args:?}");
    sentence
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let told = |more: &[&str]| refused(dir, &tiny(more));
    for (more, expected) in [
        (
            &["--set", "condense.per_class=33"][..],
            "condense.per_class = 33 (--set condense.per_class=33): the class top has only 32 images; ask for no more",
        ),
        (
            &["--set", "condense.per_class=0"],
            "--set condense.per_class=0: condense.per_class must be a whole number, at least 1, not 0",
        ),
        (
            &["--set", "condense.distance=d5"],
            "condense.distance must be one of d1, d2, d3, d4, and sums of them",
        ),
        (
            &["--set", "condense.level=all"],
            "condense.level must be one of intra, inter, interleaved, multi",
        ),
        (
            &["--set", "condense.image_momentum=1"],
            "image_momentum = 1 makes no sense; choose a number from 0 and below 1",
        ),
        (
            &["--set", "condense.network=lenet"],
            "condense.width = 4 (--set condense.width=4) is for convnet-3, and the network is lenet; leave it out",
        ),
        (
            &["--set", "train.lr=0.1"],
            "--set train.lr=0.1: train.lr has no part in a condensation; leave it out",
        ),
        (
            &["--set", "image.augment=flip"],
            "image.augment has no part in a condensation; leave it out",
        ),
        (&["--set", "data.path=nowhere"], "nowhere"),
        (
            &["--set", "condense.depth=9"],
            "condense.network = \"convnet-3\": images of 8 x 8 pixels with 1 channels do not fit the network",
        ),
    ] {
        let sentence = told(more);
        assert!(sentence.contains(expected), "{more:?}: {sentence}");
    }
    let sentence = refused(dir, &["condense", "adder", "--per-class", "1"]);
    assert!(
        sentence.contains("the recipe adder is for data.format = adder, and this command needs images"),
        "{sentence}"
    );
    let sentence = refuse(
        dir,
        &["train", "mnist", "--data", "bars", "--set", "condense.per_class=1"],
    );
    assert!(
        sentence.ends_with("condense.per_class is for `lessen condense`, and has no part in a training; leave it out")
    );
}

#[test]
fn a_class_without_images_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = dir.join("bars");
    fs::create_dir(&data).unwrap();
    for name in ["train", "t10k"] {
        let file = |what: &str| data.join(format!("{name}-{what}-ubyte"));
        idx(&file("images-idx3"), &[4, 8, 8], &[9; 256]);
        idx(&file("labels-idx1"), &[4], &[0, 2, 0, 2]);
    }
    let sentence = refused(dir, &tiny(&["--iterations", "1"]));
    assert!(
        sentence.ends_with("the class 1 has no image to learn from; give images of every class"),
        "{sentence}"
    );
}

#[test]
fn what_is_resumed_must_be_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    succeed(dir, &tiny(&["--iterations", "2", "--out", "few"]));
    let before = fs::read(dir.join("few/condensed.npz")).unwrap();
    let told = |more: &[&str]| refuse(dir, &[&["condense", "--resume", "--out", "few"], more].concat());
    let sentence = told(&["--set", "condense.distance=d1"]);
    assert!(
        sentence.contains("condense.distance was d1+d2 in the condensation few and is d1 now"),
        "{sentence}"
    );
    let sentence = told(&["--method", "baseline"]);
    assert!(
        sentence.contains("condense.method was mda in the condensation few and is baseline now"),
        "{sentence}"
    );
    let sentence = told(&["--seed", "2"]);
    assert!(
        sentence.contains("condense.seed was 1 in the condensation few and is 2 now"),
        "{sentence}"
    );
    let sentence = told(&["--set", "image.size=16"]);
    assert!(
        sentence.contains("image.size was nothing in the condensation few and is 16 now"),
        "{sentence}"
    );
    let sentence = told(&["--iterations", "1"]);
    assert!(
        sentence.contains("ends after 1 iteration, but the condensation few has done 2 already"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["condense", "cifar10", "--resume", "--out", "few"]);
    assert!(
        sentence.contains("the condensation few is of the recipe mnist, not cifar10"),
        "{sentence}"
    );

    // Other images under the same path, and the same images elsewhere.
    fs::create_dir(dir.join("other")).unwrap();
    for entry in fs::read_dir(dir.join("bars")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join("other").join(path.file_name().unwrap())).unwrap();
    }
    succeed(dir, &["condense", "--resume", "--out", "few", "--data", "other"]);
    let labels = dir.join("other/train-labels-idx1-ubyte");
    let mut bytes = fs::read(&labels).unwrap();
    let end = bytes.len() - 1;
    bytes[end] = (bytes[end] + 1) % 3;
    fs::write(&labels, bytes).unwrap();
    let sentence = told(&["--data", "other", "--iterations", "3"]);
    assert!(
        sentence.contains("is not what the condensation few began with") && sentence.contains("its contents differ"),
        "{sentence}"
    );
    assert_eq!(fs::read(dir.join("few/condensed.npz")).unwrap(), before);

    // Folders of other kinds.
    let sentence = refuse(dir, &["condense", "--resume", "--out", "bars"]);
    assert!(
        sentence.contains("holds no condensation (it has no condense.toml)"),
        "{sentence}"
    );
    let sentence = refuse(dir, &tiny(&["--iterations", "1", "--out", "few"]));
    assert!(
        sentence.contains("the folder few is not empty; go on with its run by --resume"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["train", "--resume", "--out", "few"]);
    assert!(sentence.contains("holds no run"), "{sentence}");
}

#[test]
fn a_damaged_folder_is_refused_as_data_and_to_resume() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    succeed(dir, &tiny(&["--iterations", "2", "--out", "few"]));
    let train = ["train", "mnist", "--data", "few", "--steps", "1"];
    let sentence = refused(
        dir,
        &[&train[..], &["--set", "image.augment=jitter:0.1:0:0:0"]].concat(),
    );
    assert!(
        sentence.contains("which changes the colours of bytes, and these images are numbers"),
        "{sentence}"
    );
    let sentence = refused(dir, &[&train[..], &["--set", "image.size=16"]].concat());
    assert!(
        sentence.contains("does not go with condensed images, which are numbers of the size [8, 8]"),
        "{sentence}"
    );
    for (file, expected) in [
        ("condensed.npz", "condensed.npz is no sound archive of NumPy arrays"),
        ("preprocessor_config.json", "preprocessor_config.json"),
        ("manifest.json", "manifest.json"),
    ] {
        let path = dir.join("few").join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let sentence = refused(dir, &train);
        assert!(sentence.contains(expected), "{file}: {sentence}");
        fs::write(&path, whole).unwrap();
    }
    let state = dir.join("few/checkpoint/state.safetensors");
    let mut bytes = fs::read(&state).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&state, bytes).unwrap();
    let sentence = refuse(dir, &["condense", "--resume", "--out", "few", "--iterations", "3"]);
    assert!(
        sentence.contains("state.safetensors is not the file that was written"),
        "{sentence}"
    );
}

//! What a run does not go on with: other data, an earlier end, another checkpoint to start from.

use crate::support::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// A classifier of titles that has done 4 steps in the folder `run`.
fn classified(dir: &Path) {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", "checkpoint_every = 2\n"));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run"]));
}

const RESUME: [&str; 6] = ["train", "--resume", "--out", "run", "--steps", "6"];

#[test]
fn other_training_data_is_refused_wherever_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    classified(dir);
    let file = dir.join("titles/train.txt");
    let whole = fs::read_to_string(&file).unwrap();
    let before = fs::read(dir.join("run/config.toml")).unwrap();
    let refused_with = |name: &str, changed: &str| {
        fs::write(dir.join("titles").join(name), changed).unwrap();
        let sentence = refuse(dir, &RESUME);
        assert!(
            sentence.contains("titles is not what the run run began with (")
                && sentence.ends_with("); restore the data, or start another run with another --out"),
            "{sentence}"
        );
        sentence
    };
    let sentence = refused_with("train.txt", &format!("{whole}one more\t0\n"));
    assert!(sentence.contains("(40 examples then, 41 now)"), "{sentence}");
    let relabelled = whole.replacen("sun\t0", "sun\t1", 1);
    for changed in [whole.replacen("day 3 ", "day 7 ", 1), relabelled] {
        let sentence = refused_with("train.txt", &changed);
        assert!(sentence.contains("(its contents differ)"), "{sentence}");
    }
    fs::write(&file, &whole).unwrap();
    refused_with("class.txt", "foul\nfair\n");
    fs::write(dir.join("titles/class.txt"), "fair\nfoul\n").unwrap();
    assert_eq!(fs::read(dir.join("run/config.toml")).unwrap(), before);

    fs::rename(dir.join("titles"), dir.join("moved")).unwrap();
    succeed(dir, &[&RESUME[..], &["--data", "moved"]].concat());
}

#[test]
fn other_validation_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    classified(dir);
    let file = dir.join("titles/dev.txt");
    let whole = fs::read_to_string(&file).unwrap();
    for (changed, how) in [
        (format!("{whole}one more\t0\n"), "(12 examples then, 13 now)"),
        (whole.replacen("sun\t0", "sun\t1", 1), "(its contents differ)"),
    ] {
        fs::write(&file, changed).unwrap();
        let sentence = refuse(dir, &RESUME);
        assert!(
            sentence.starts_with("error: the validation data ") && sentence.contains(how),
            "{sentence}"
        );
    }
    fs::write(&file, &whole).unwrap();
    succeed(dir, &RESUME);
}

#[test]
fn edited_settings_that_the_checkpoint_cannot_follow_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    classified(dir);
    let path = dir.join("run/config.toml");
    let written = fs::read_to_string(&path).unwrap();
    let edit = |from: &str, to: &str| {
        assert!(written.contains(from), "{written}");
        fs::write(&path, written.replace(from, to)).unwrap();
        for args in [
            &RESUME[..],
            &["eval", "run"],
            &["predict", "run", "--text", "sun"],
            &["generate", "run", "--prompt", "sun"],
        ] {
            let sentence = refuse(dir, args);
            assert!(
                sentence.contains("the model in run/") && sentence.ends_with("; restore the run's config.toml"),
                "{args:?}: {sentence}"
            );
        }
        refuse(dir, &RESUME)
    };
    let longer = edit("max_length = 12", "max_length = 13");
    assert!(
        longer.contains("data.max_length = 13 (run/config.toml line ")
            && longer.contains("is more than the 12 positions of the model in run/checkpoints/step-4;"),
        "{longer}"
    );
    let wider = edit("width = 16", "width = 32");
    assert!(
        wider.contains("the settings under [model] describe a model with "),
        "{wider}"
    );
    edit("layers = 1", "layers = 2");
    edit("kind = \"encoder\"", "kind = \"bert\"");
    fs::write(&path, &written).unwrap();
    succeed(dir, &RESUME);
}

/// All files of a folder with their contents, but the lock.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !path.ends_with(".lock") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_run_without_a_checkpoint_that_can_be_read_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    classified(dir);
    let checkpoints = || fs::read_dir(dir.join("run/checkpoints")).unwrap();
    let paths = || checkpoints().map(|entry| entry.unwrap().path());
    let whole: Vec<_> = paths().map(|path| (path.clone(), contents(&path))).collect();
    assert_eq!(whole.len(), 2);
    let restore = || {
        for (path, file) in whole.iter().flat_map(|(_, files)| files) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
    };
    let refused = |what: &str, named: &str| {
        let before = contents(&dir.join("run"));
        let sentence = refuse(dir, &RESUME);
        assert!(
            sentence
                .starts_with("error: the run run was left as it is, since it has no whole checkpoint to resume from")
                && sentence.ends_with("; restore a checkpoint, or start another run with another --out"),
            "{what}: {sentence}"
        );
        assert!(sentence.contains(named), "{what}: {sentence}");
        assert!(contents(&dir.join("run")) == before, "{what}");
    };
    for file in ["training.json", "model.safetensors", "config.json", "tokenizer.json"] {
        for damage in ["cut", "changed", "removed"] {
            for path in paths() {
                let path = path.join(file);
                let mut bytes = fs::read(&path).unwrap();
                let last = bytes.len() - 1;
                match damage {
                    "cut" => fs::write(&path, &bytes[..last / 2]).unwrap(),
                    "changed" => {
                        bytes[last / 2] ^= 0x55;
                        fs::write(&path, bytes).unwrap();
                    }
                    _ => fs::remove_file(&path).unwrap(),
                }
            }
            if (file, damage) == ("training.json", "changed") {
                // Which part of the file differs decides what is wrong with it.
                let before = contents(&dir.join("run"));
                refuse(dir, &RESUME);
                assert!(contents(&dir.join("run")) == before, "{file} {damage}");
            } else {
                refused(&format!("{file} {damage}"), &format!("step-4/{file} cannot be used ("));
            }
            restore();
        }
    }
    // A damaged one beside a whole one is passed over.
    fs::remove_file(dir.join("run/checkpoints/step-4/training.json")).unwrap();
    let output = lessen(dir, &RESUME);
    assert!(
        output.status.success() && stderr(&output).contains("warning: run/checkpoints/step-4/training.json"),
        "{}",
        stderr(&output)
    );
    // A run at its end, without any.
    fs::remove_dir_all(dir.join("run/checkpoints")).unwrap();
    let before = contents(&dir.join("run"));
    let sentence = refuse(dir, &[&RESUME[..4], &["--steps", "8"]].concat());
    assert!(
        sentence.contains("the run run was left as it is, since it has no whole checkpoint to resume from; "),
        "{sentence}"
    );
    assert!(contents(&dir.join("run")) == before);
}

#[test]
fn a_run_that_another_process_trains_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let long = tiny_adder(&[
        "--steps",
        "1000000",
        "--set",
        "train.checkpoint_every=1",
        "--out",
        "run",
    ]);
    let mut first = command(dir, &long)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.join("run/checkpoints/step-1").is_dir() && !dir.join("run/checkpoints/step-2").is_dir() {
        assert_eq!(first.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(2));
    }
    let resumed = refuse(dir, &RESUME[..4]);
    let expected = format!("error: the run run is being trained by process {}; ", first.id());
    assert!(resumed.starts_with(&expected), "{resumed}");
    let new = refuse(dir, &tiny_adder(&["--steps", "2", "--out", "run"]));
    assert!(new.contains("run is not empty; "), "{new}");
    assert_eq!(first.try_wait().unwrap(), None, "the first process goes on");
    // Reading is allowed.
    succeed(dir, &["report", "run"]);
    // The system releases the lock of a process that is killed.
    first.kill().unwrap();
    first.wait().unwrap();
    let after = lessen(dir, &[&RESUME[..4], &["--steps", "1"]].concat());
    assert!(!stderr(&after).contains("is being trained"), "{}", stderr(&after));
}

#[test]
fn the_folder_of_an_older_version_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    classified(dir);
    let path = dir.join("run/config.toml");
    let written = fs::read_to_string(&path).unwrap();
    let without = written.replacen("[run]\nrecipe = \"encoder\"\n", "# recipe: encoder\n", 1);
    assert_ne!(without, written);
    fs::write(&path, without).unwrap();
    for args in [&RESUME[..], &["eval", "run"]] {
        let sentence = refuse(dir, args);
        assert!(
            sentence.starts_with("error: run/config.toml has no run.recipe, so another version of Lessen wrote it; "),
            "{sentence}"
        );
    }
}

#[test]
fn another_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 2];
    let more = ["--set", "data.max_length=16", "--steps", "2", "--out", "run"];
    let start = ["train", "shakespeare", "--data", "text.txt"];
    succeed(dir, &[&start[..], tiny, &more].concat());
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(50)).unwrap();
    let sentence = refuse(dir, &RESUME);
    assert!(sentence.contains("(540 bytes then, 450 now)"), "{sentence}");
}

#[test]
fn an_end_before_what_is_done_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&["--steps", "4", "--out", "run"]));
    assert_eq!(
        refuse(dir, &["train", "--resume", "--out", "run", "--steps", "1"]),
        "error: train.steps = 1 (--steps 1) ends after 1 step, but the run run has done 4 already; resume with at least \
         as many, or start another run with another --out"
    );
    assert!(dir.join("run/report.json").is_file());
    // There is nothing to do, which is no mistake.
    let report = json(dir, &["train", "--resume", "--out", "run", "--json"]);
    assert_eq!(report["steps"], 4);
}

#[test]
fn another_checkpoint_to_start_from_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "bert");
    let start = ["train", "bert-classifier", "--init", "first/model", "--data", "titles"];
    let more = ["--set", "train.batch=4", "--set", "data.max_length=12"];
    let own = ["--steps", "1", "--out", "run"];
    succeed(dir, &[&start[..], &more, &own].concat());
    let with = |init: &'static str| [&RESUME[..4], &["--steps", "2", "--init", init]].concat();
    assert_eq!(
        refuse(dir, &with("first/best")),
        "error: --init first/best has no effect on the run run, which goes on from its own checkpoint; leave it out, or \
         start another run with another --out"
    );
    succeed(dir, &with("./first/../first/model"));
    // Once the run has begun, what it began from may be gone.
    fs::remove_dir_all(init).unwrap();
    succeed(dir, &[&RESUME[..4], &["--steps", "3"]].concat());
}

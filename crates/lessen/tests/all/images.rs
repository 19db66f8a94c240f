//! Models of images from files to a checkpoint, and what does not go together with them.

use crate::support::{json, refuse, succeed, text, titles, train_on};
use lessen::data::images::{Image, png};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a file of the format idx.
pub fn idx(path: &Path, shape: &[u32], bytes: &[u8]) {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|size| file.extend(size.to_be_bytes()));
    file.extend(bytes);
    fs::write(path, file).unwrap();
}

/// Writes a folder of grey images of 8 x 8: which of three horizontal bars is bright decides the class.
pub fn bars(dir: &Path) -> PathBuf {
    let folder = dir.join("bars");
    fs::create_dir_all(&folder).unwrap();
    for (name, count) in [("train", 96), ("t10k", 21)] {
        let label = |image: usize| (image * 5 % 3) as u8;
        let pixel = |image: usize, at: usize| {
            let is_bright = at / 8 / 3 == usize::from(label(image));
            if is_bright {
                220
            } else {
                ((image * 31 + at * 17) % 50) as u8
            }
        };
        let pixels: Vec<u8> = (0..count * 64).map(|at| pixel(at / 64, at % 64)).collect();
        let labels: Vec<u8> = (0..count).map(label).collect();
        let file = |what: &str| folder.join(format!("{name}-{what}-ubyte"));
        idx(&file("images-idx3"), &[count as u32, 8, 8], &pixels);
        idx(&file("labels-idx1"), &[count as u32], &labels);
    }
    fs::write(folder.join("classes.txt"), "top\nmiddle\nbottom\n").unwrap();
    folder
}

/// Writes a recipe for a tiny model of images of kind `kind`, with the lines `more` at its end.
fn recipe(dir: &Path, kind: &str, more: &str) -> PathBuf {
    let path = dir.join(format!("{kind}.toml"));
    let sizes = match kind {
        "vit" | "deit" => "layers = 1\nwidth = 16\nheads = 2\nffn = 32\npatch = 4\n",
        _ => "",
    };
    let text = format!(
        "# A tiny model of images.\n[model]\nkind = \"{kind}\"\n{sizes}[data]\nformat = \"images\"\nheld_out = 0.0\n\
         [train]\nbatch = 16\nepochs = 16\nlr = 0.01\nwarmup = 4\n{more}"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn images_are_learnt_saved_and_learnt_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = bars(dir);
    for (kind, class) in [
        ("vit", "ViTForImageClassification"),
        ("deit", "DeiTForImageClassification"),
        ("convnet-3", "LessenImageClassifier"),
        ("resnet20", "LessenImageClassifier"),
    ] {
        let recipe = recipe(dir, kind, "");
        succeed(dir, &train_on(&recipe, &data, &["--out", kind]));
        let scores = json(dir, &["eval", kind, "--split", "test", "--json"]);
        assert_eq!(scores["test_accuracy"], 1.0, "{scores}");
        let config: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.join(kind).join("model/config.json")).unwrap()).unwrap();
        assert_eq!(config["architectures"][0], class);
        assert_eq!(config["image_size"], 8);
        match class {
            "LessenImageClassifier" => assert_eq!(config["network"], kind),
            _ => assert_eq!(config["patch_size"], 4),
        }
        assert_eq!(config["id2label"]["2"], "bottom");

        // Files are told apart, in colour too.
        let files = ["top.png", "bottom.png"].map(|name| dir.join(name));
        for (file, first, channels) in [(&files[0], 0, 1), (&files[1], 6, 3)] {
            let is_bright = |at: usize| (first..first + 3).contains(&(at / channels / 8));
            let pixels = (0..64 * channels)
                .map(|at| if is_bright(at) { 220 } else { 20 })
                .collect();
            fs::write(file, png(&Image::new([8, 8, channels], pixels))).unwrap();
        }
        let asked = ["predict", kind, "--json", "--image", text(&files[0]), text(&files[1])];
        let answers = json(dir, &asked);
        let label = |number: usize| answers["images"][number]["label"].clone();
        assert_eq!([label(0), label(1)], ["top", "bottom"], "{answers}");

        // A folder of its own is evaluated as the run is, and another run starts where it ended.
        let alone = format!("{kind}-alone");
        succeed(dir, &["export", kind, &alone]);
        let own = [
            "eval",
            &alone,
            "--data",
            text(&data),
            "--split",
            "test",
            "--set",
            "train.batch=16",
            "--json",
        ];
        let own = json(dir, &own);
        assert_eq!(own["test_loss"], scores["test_loss"]);
        let out = format!("{kind}-again");
        let more = ["--init", &alone, "--steps", "1", "--set", "train.lr=0", "--out", &out];
        succeed(dir, &train_on(&recipe, &data, &more));
        let again = json(dir, &["eval", &out, "--split", "test", "--json"]);
        // A step moves the statistics of batch normalization, at any learning rate.
        assert_eq!(again["test_loss"] == scores["test_loss"], kind != "resnet20");
    }
}

#[test]
fn mixed_images_are_learnt_and_a_run_resumes_bit_by_bit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, more) = (
        bars(dir),
        "checkpoint_every = 48\nlabel_smoothing = 0.1\nclass_weights = \"balanced\"\n",
    );
    for kind in ["vit", "resnet20"] {
        let recipe = recipe(
            dir,
            kind,
            &format!("{more}[image]\naugment = [\"flip\"]\nmixup = 0.4\ncutmix = 1.0\n"),
        );
        succeed(dir, &train_on(&recipe, &data, &["--out", kind]));
        let run = dir.join(kind);
        let weights = || fs::read(run.join("model/model.safetensors")).unwrap();
        let before = weights();
        fs::remove_dir_all(run.join("checkpoints/step-96")).unwrap();
        succeed(dir, &["train", "--resume", "--out", kind]);
        assert!(weights() == before, "{kind}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (bars(dir), recipe(dir, "vit", ""));
    let refused = |more: &[&str]| refuse(dir, &[&train_on(&recipe, &data, &["--out", "none"])[..], more].concat());
    let sentence = refused(&["--set", "model.patch=3"]);
    assert!(
        sentence.contains("(--set model.patch=3) does not divide the images, which are 8 x 8; choose a divisor"),
        "{sentence}"
    );
    let sentence = refused(&["--set", "model.kind=bert"]);
    assert!(
        sentence.contains("model.kind = bert cannot learn data.format = images; choose vit or deit or convnet-3 or "),
        "{sentence}"
    );
    let sentence = refused(&["--set", "model.kind=alexnet", "--set", "model.patch=4"]);
    assert!(
        sentence.contains("is for Transformers, and this is alexnet"),
        "{sentence}"
    );
    let small = self::recipe(dir, "alexnet", "");
    let sentence = refuse(dir, &train_on(&small, &data, &["--out", "none"]));
    assert!(
        sentence.contains("images of 8 x 8 pixels with 1 channels do not fit the network; use larger ones"),
        "{sentence}"
    );
    succeed(dir, &train_on(&recipe, &data, &["--steps", "1", "--out", "run"]));
    let sentence = refused(&["--init", "run/model", "--set", "image.size=12"]);
    assert!(
        sentence.contains("images of 12 x 12 x 1 (rows, columns, channels) do not fit the model, which reads 8 x 8"),
        "{sentence}"
    );
    let titles = titles(dir);
    let more = ["--data", text(&titles), "--init", "run/model", "--out", "none"];
    let sentence = refuse(dir, &[&["train", "bert-classifier"][..], &more].concat());
    assert!(!dir.join("none").exists(), "{sentence}");
    fs::write(dir.join("broken.png"), [0x89, b'P', b'N', b'G']).unwrap();
    let sentence = refuse(dir, &["predict", "run", "--image", "broken.png"]);
    assert!(sentence.contains("broken.png"), "{sentence}");
    let sentence = refuse(dir, &["predict", "run", "--text", "a bright bar"]);
    assert!(
        sentence.contains("the model reads images and has no tokenizer"),
        "{sentence}"
    );
    fs::remove_file(dir.join("run/model/preprocessor_config.json")).unwrap();
    let sentence = refuse(dir, &["eval", "run"]);
    assert!(
        sentence.contains("has a model of images but no preprocessor_config.json"),
        "{sentence}"
    );
}

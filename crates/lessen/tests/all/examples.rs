//! The examples, run as programs.

use crate::support::*;
use lessen::nn::initialize;
use lessen::nn::models::vision::{ConvNet, Norm, VisionModel};
use lessen::prelude::*;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// The folder of the examples' programs, built if need be.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--offline",
            "--locked",
            "-p",
            "lessen",
            // With it, features of dependencies are those of the other tests, which nothing compiles again.
            "-p",
            "lessen-python",
            "--examples",
        ]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let output = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Path::new(env!("CARGO_BIN_EXE_lessen")).with_file_name("examples")
    })
}

fn run(name: &str, arguments: &[&Path]) -> Output {
    let mut command = Command::new(programs().join(name));
    command.args(arguments).env("LESSEN_THREADS", "1").output().unwrap()
}

/// What an example prints, which must succeed.
fn printed(name: &str, arguments: &[&Path]) -> String {
    let output = run(name, arguments);
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_spiral_is_learnt_and_an_operation_added() {
    let text = printed("spiral", &[]);
    let right: u32 = text.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(right > 450, "{text}");
    assert!(!printed("custom_operation", &[]).is_empty());
    let text = printed("row_kernel", &[]);
    let loss: f64 = text.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(loss < 1e-3, "{text}");
}

#[test]
fn a_generator_learns_against_a_discriminator_in_one_trainer() {
    let text = printed("gan", &[]);
    let mean: f64 = text.trim().strip_prefix("mean ").unwrap().parse().unwrap();
    assert!((2.0..4.0).contains(&mean), "{text}");
}

#[test]
fn an_optimizer_of_ones_own_ends_where_the_built_in_one_does() {
    let text = printed("own_optimizer", &[]);
    let [mine, built_in] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    assert_eq!(mine, built_in);
    assert!(mine.starts_with("[0.50"), "{text}");
}

#[test]
fn a_search_finds_the_line_itself_first() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.txt");
    fs::write(
        &file,
        "the dog came home\n\nit was a long day\nthe cat sat on the mat\na fire\n",
    )
    .unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../saved/tests/fixtures/embeddings/mean-normalize");
    let text = printed("search", &[&model, &file, Path::new("the cat sat on the mat")]);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.starts_with("1.000 the cat sat on the mat\n"), "{text}");
    assert!(!run("search", &[&model]).status.success());
}

/// A server of the command, which ends when it is dropped.
struct Served(Child);

impl Served {
    /// Serves a model on a free port; the server, and its URL when it is ready.
    fn start(model: &Path) -> (Served, String) {
        let mut command = command(model, &["serve", text(model), "--port", "0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        (Served(child), ready["url"].as_str().unwrap().to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_client_asks_a_server_for_classes_vectors_and_texts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ask = |url: &str, arguments: &[&str]| {
        let arguments: Vec<&Path> = [&[url], arguments].concat().into_iter().map(Path::new).collect();
        printed("ask_server", &arguments)
    };

    let model = checkpoint(dir, "encoder");
    let (_server, url) = Served::start(&model);
    let found = ask(&url, &["predict", "day 3 sun", "rain"]);
    for (line, said) in found.lines().zip(["day 3 sun", "rain"]) {
        let predicted = json(dir, &["predict", text(&model), "--text", said, "--json"]);
        let expected = &predicted["label"];
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        assert_eq!((words[1], words[2]), (expected.as_str().unwrap(), said), "{predicted}");
    }
    assert_eq!(found.lines().count(), 2);
    let refused = run("ask_server", &[&url, "embed", "a"].map(Path::new));
    assert!(
        stderr(&refused).contains("the server refuses: /embed is for other models"),
        "{refused:?}"
    );

    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../saved/tests/fixtures/embeddings/mean-normalize");
    let (_server, url) = Served::start(&model);
    let found = ask(&url, &["embed", "the cat sat", "the dog came home", "the cat sat"]);
    let lines: Vec<&str> = found.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with(" the dog came home"), "{found}");
    assert_eq!(lines[1], "1.000 the cat sat");

    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let train = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "2",
        "--out",
        "language",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 6];
    let small = [
        "--set",
        "data.max_length=48",
        "--set",
        "train.batch=2",
        "--set",
        "train.eval_every=0",
    ];
    succeed(dir, &[&train[..], tiny, &small].concat());
    let (_server, url) = Served::start(&dir.join("language"));
    let generate = [
        "generate",
        "language",
        "--prompt",
        "ab",
        "--tokens",
        "32",
        "--temperature",
        "0",
    ];
    assert_eq!(ask(&url, &["complete", "ab"]), succeed(dir, &generate));

    let nobody = run("ask_server", &["http://127.0.0.1:1", "complete", "a"].map(Path::new));
    assert!(stderr(&nobody).contains("127.0.0.1:1 does not answer"), "{nobody:?}");
    assert!(!run("ask_server", &[Path::new(&url)]).status.success());
}

#[test]
fn a_model_is_saved_and_goes_on_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    let until = |folder: &Path, steps: &str| printed("resume", &[folder, Path::new(steps)]);
    let expected = until(&whole, "120");
    until(&parts, "50");
    let text = until(&parts, "120");
    assert!(text.starts_with("going on after step 50\n"), "{text}");
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        expected.lines().collect::<Vec<_>>()
    );
    assert!(
        expected.contains("step 120: loss ") && expected.contains("sin(0.5) = 0.479"),
        "{expected}"
    );
    for file in ["model.safetensors", "training.safetensors", "training.json"] {
        assert!(
            fs::read(whole.join(file)).unwrap() == fs::read(parts.join(file)).unwrap(),
            "{file}"
        );
    }
}

#[test]
fn batches_are_shuffled_and_come_again() {
    let text = printed("batches", &[]);
    let numbers = |line: &str| {
        let digits = line.split_once(':').unwrap().1.chars().filter(char::is_ascii_digit);
        digits.map(|digit| digit.to_digit(10).unwrap()).collect::<Vec<u32>>()
    };
    let lines: Vec<&str> = text.lines().collect();
    let (first, second) = (numbers(lines[0]), numbers(lines[1]));
    assert_ne!(first, second);
    for epoch in [&first, &second] {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    }
    assert_eq!(numbers(lines[2]), second[2..4]);
    assert!(
        lines[3].starts_with("4 texts of ") && lines[3].contains("Packed"),
        "{text}"
    );
}

/// Writes a file of the format idx.
fn idx(path: &Path, shape: &[u32], bytes: &[u8]) {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|size| file.extend(size.to_be_bytes()));
    file.extend(bytes);
    fs::write(path, file).unwrap();
}

/// Writes images and labels: the digit is the column of a bright bar, with some noise around.
fn digits(dir: &Path, name: &str, count: usize) {
    let label = |image: usize| (image * 7 % 10) as u8;
    let pixel = |image: usize, at: usize| {
        let bar = at % 28 / 2 == usize::from(label(image)) + 1;
        if bar { 200 } else { ((image * 31 + at * 17) % 40) as u8 }
    };
    let pixels: Vec<u8> = (0..count * 784).map(|at| pixel(at / 784, at % 784)).collect();
    let labels: Vec<u8> = (0..count).map(label).collect();
    idx(
        &dir.join(format!("{name}-images-idx3-ubyte")),
        &[count as u32, 28, 28],
        &pixels,
    );
    idx(&dir.join(format!("{name}-labels-idx1-ubyte")), &[count as u32], &labels);
}

#[test]
fn digits_are_learnt_evaluated_and_predicted() {
    let dir = tempfile::tempdir().unwrap();
    let (data, out) = (dir.path(), dir.path().join("out"));
    digits(data, "train", 1000);
    digits(data, "t10k", 130);
    let once = printed("mnist", &[data, &out, Path::new("2")]);
    assert!(
        once.contains("step 10: loss ") && once.contains("step 20: loss "),
        "{once}"
    );
    let more = printed("mnist", &[data, &out, Path::new("6")]);
    assert!(
        more.contains("going on after step 20") && more.contains("step 60: "),
        "{more}"
    );
    assert!(more.lines().last().unwrap().ends_with("accuracy 100.00 %"), "{more}");

    let images = data.join("t10k-images-idx3-ubyte");
    let answers = printed("mnist_predict", &[&out.join("checkpoint"), &images]);
    let digits: Vec<usize> = answers.lines().map(|line| line[..1].parse().unwrap()).collect();
    assert_eq!(digits, (0..130).map(|image| image * 7 % 10).collect::<Vec<usize>>());

    let refused = |name: &str, arguments: &[&Path]| String::from_utf8(run(name, arguments).stderr).unwrap();
    let sentence = refused("mnist_predict", &[&out, &images]);
    assert!(sentence.contains("model.safetensors"), "{sentence}");
    fs::write(&images, [0x1f, 0x8b, 8, 0]).unwrap();
    let sentence = refused("mnist", &[data, &dir.path().join("other")]);
    assert!(
        sentence.contains("cannot be unpacked") && sentence.contains("it is cut off or damaged"),
        "{sentence}"
    );
}

#[test]
fn a_derivative_of_derivatives_leads_to_images_with_a_nearer_gradient() {
    let dir = tempfile::tempdir().unwrap();
    let model = VisionModel::from(ConvNet {
        norm: Norm::Group(4),
        ..ConvNet::new(10)
    });
    let mut weights = Weights::new();
    {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        model.forward(cx, cx.param("learned", &[10, 32, 32, 3], Init::Normal { std: 1.0 }));
        cx.param("real", &[64, 32, 32, 3], Init::Normal { std: 1.0 });
        weights.extend(initialize(&cx.params(), 1));
    }
    let distance = |weights: &Weights| {
        checkpoint::save(dir.path(), &serde_json::Map::new(), weights).unwrap();
        let text = printed("gradient_matching", &[dir.path()]);
        text.trim().strip_prefix("distance ").unwrap().parse::<f64>().unwrap()
    };
    let before = distance(&weights);
    let bytes = fs::read(dir.path().join("gradient.f32")).unwrap();
    let gradient: Vec<f32> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    let learned = &mut weights.get_mut("learned").unwrap().data;
    assert_eq!(gradient.len(), learned.len());
    // A small step against the gradient does what its length says.
    let square: f64 = gradient.iter().map(|g| f64::from(*g).powi(2)).sum();
    let step = 0.01 * before / square;
    learned
        .iter_mut()
        .zip(&gradient)
        .for_each(|(x, g)| *x -= step as f32 * g);
    let share = (before - distance(&weights)) / before;
    assert!((0.008..0.012).contains(&share), "{share}");
}

#[test]
fn titles_are_condensed_in_the_space_of_their_embeddings() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |count: usize| -> String {
        let title = |n: usize| match n % 2 {
            0 => format!("the goal of match {n}\t0\n"),
            _ => format!("shares fall by {n}\t1\n"),
        };
        (0..count).map(title).collect()
    };
    fs::write(dir.path().join("train.txt"), lines(24)).unwrap();
    fs::write(dir.path().join("dev.txt"), lines(8)).unwrap();
    let numbers = ["1", "1", "1", "2"].map(Path::new);
    let text = printed("condense_titles", &[&[dir.path()][..], &numbers].concat());
    let expected = [
        "condensed: 1 of each of 2 classes",
        "real titles: 1 of each of 2 classes",
    ];
    assert_eq!(text.lines().count(), 2, "{text}");
    for (line, begin) in text.lines().zip(expected) {
        assert!(line.starts_with(begin), "{text}");
    }

    fs::write(dir.path().join("dev.txt"), "a title without a class\n").unwrap();
    let refused = run("condense_titles", &[dir.path()]);
    assert!(stderr(&refused).contains("dev.txt line 1"), "{refused:?}");
}

#[test]
fn pseudo_labels_are_condensed_beside_all_labels() {
    let dir = tempfile::tempdir().unwrap();
    for (split, count) in [("train", 100), ("t10k", 10)] {
        let head = |kind: u8, shape: &[u32]| -> Vec<u8> {
            let sizes = shape.iter().flat_map(|size| size.to_be_bytes());
            [0, 0, 8, kind].into_iter().chain(sizes).collect()
        };
        // Each tenth image is a labelled one: the classes change every ten images.
        let class = |image: u32| if count == 100 { image / 10 } else { image };
        let pixels = (0..count).flat_map(|image| (0..64).map(move |pixel| (class(image) * 20 + pixel) as u8));
        let images: Vec<u8> = head(3, &[count, 8, 8]).into_iter().chain(pixels).collect();
        let labels: Vec<u8> = head(1, &[count])
            .into_iter()
            .chain((0..count).map(|image| class(image) as u8))
            .collect();
        fs::write(dir.path().join(format!("{split}-images-idx3-ubyte")), images).unwrap();
        fs::write(dir.path().join(format!("{split}-labels-idx1-ubyte")), labels).unwrap();
    }
    let numbers = ["1", "1", "1", "1"].map(Path::new);
    let text = printed("condense_pseudo_labels", &[&[dir.path()][..], &numbers].concat());
    let begins: Vec<&str> = text.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(begins, ["labels", "a tenth", "pseudo-labels", "all labels"], "{text}");

    let refused = run(
        "condense_pseudo_labels",
        &[dir.path(), Path::new("1"), Path::new("many")],
    );
    assert!(
        stderr(&refused).contains("argument 3") && stderr(&refused).contains("'many'"),
        "{refused:?}"
    );
}

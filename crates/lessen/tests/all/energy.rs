//! `lessen energy`: models of all sorts on models of hardware, and what it refuses.

use crate::onnx_file::{Extent, F32, Graph};
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const ACCELERATOR: &str = "name = \"mine\"\nclock_hz = 500000000\nrows = 16\ncolumns = 32\nhigh_bits = 8\n\
     low_bits = 2\nweight_buffer = 65536\nactivation_buffer = 32768\noutput_buffer = 16384\nmemory_bits = 192\n\
     [energy]\ncore_cycle = 235.104\nweight_read = 0.02137\nweight_write = 0.02892\nactivation_read = 0.05947\n\
     activation_write = 0.1137\noutput_read = 0.03316\noutput_write = 0.07308\ndram = 15.0\n";

const NETWORK: &str = "[[layer]]\nname = \"stem\"\nkind = \"convolution\"\ninputs = 3\noutputs = 8\nsize = 16\n\
     kernel = 3\n[[layer]]\nname = \"mix\"\nkind = \"depthwise\"\ninputs = 8\nsize = 16\nkernel = 3\n\
     [[layer]]\nname = \"head\"\nkind = \"linear\"\ninputs = 64\noutputs = 10\n";

fn energy(dir: &Path, model: &str, more: &[&str]) -> Value {
    json(dir, &[&["energy", model, "--json"], more].concat())
}

fn names(report: &Value) -> Vec<&str> {
    let layers = report["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect()
}

fn sum(report: &Value, key: &str) -> u64 {
    let layers = report["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer[key].as_u64().unwrap()).sum()
}

#[test]
fn a_published_network_has_its_layers_totals_choices_and_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let report = energy(dir, "mobilenet-v2", &["--bits", "8"]);
    assert_eq!(names(&report).len(), 53);
    let total = &report["total"];
    for key in ["cycles", "compute_cycles", "stall_cycles", "macs", "weight_bytes"] {
        assert_eq!(total[key].as_u64().unwrap(), sum(&report, key), "{key}");
    }
    // A choice is stated, the others are beside it, and the total is that of the chosen one.
    assert_eq!(report["depthwise"], "per-group");
    let choices = report["depthwise_choices"].as_object().unwrap();
    assert_eq!(choices.len(), 6);
    assert_eq!(choices["per-group"], *total);
    let columns = energy(dir, "mobilenet-v2", &["--bits", "8", "--depthwise", "columns"]);
    assert_eq!(columns["total"], choices["columns"]);
    assert!(columns["total"]["cycles"].as_u64() < total["cycles"].as_u64());

    let printed = succeed(
        dir,
        &["energy", "mobilenet-v2", "--bits", "w4a8", "--html", "page.html"],
    );
    for word in [
        "stage7.1.depthwise",
        "w4a8",
        "per-group (chosen)",
        "left-out",
        "groups are computed as per-group",
    ] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(page.contains("stage7.1.depthwise") && page.ends_with("</html>\n") && !page.contains("NaN"));
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn recipes_and_runs_have_the_layers_of_their_models() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let report = energy(dir, "cifar10", &["--bits", "8", "--batch", "2"]);
    let layers = report["layers"].as_array().unwrap();
    assert!(
        layers.len() >= 20 && layers[0]["kind"] == "convolution",
        "{:?}",
        names(&report)
    );
    assert_eq!(layers.last().unwrap()["kind"], "linear");

    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "run"]));
    let report = energy(dir, "run", &["--bits", "8", "--batch", "3", "--length", "5"]);
    let kinds: Vec<&str> = report["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|layer| layer["kind"].as_str().unwrap())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|own| **own == kind).count();
    // Query, key and value, their projection, two layers of the MLP, and the head; scores and values.
    assert_eq!(
        (count("product"), kinds.len() - count("product") - count("linear")),
        (2, 0),
        "{:?}",
        names(&report)
    );
    assert!(count("linear") >= 5);
    let others = report["without_products"].as_array().unwrap();
    assert!(!others.is_empty() && report["without_model"].as_array().unwrap().is_empty());
    let longer = energy(dir, "run", &["--bits", "8", "--batch", "3", "--length", "6"]);
    assert!(longer["total"]["macs"].as_u64() > report["total"]["macs"].as_u64());
    let refused = refuse(dir, &["energy", "run", "--bits", "8", "--length", "1000"]);
    assert!(refused.contains("1000"), "{refused}");
}

#[test]
fn lists_of_layers_bits_and_accelerators_come_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
    write("net.toml", NETWORK);
    write("bits.toml", "default = 8\n[layers]\nmix = \"w4a8\"\n");
    write("mine.toml", ACCELERATOR);
    let plain = energy(dir, "net.toml", &["--bits", "8"]);
    assert_eq!(
        (names(&plain), &plain["model"]),
        (vec!["stem", "mix", "head"], &Value::from("net"))
    );
    let mixed = energy(dir, "net.toml", &["--bits", "bits.toml", "--accelerator", "mine.toml"]);
    assert_eq!(
        (&mixed["layers"][1]["weight_bits"], &mixed["layers"][2]["weight_bits"]),
        (&4.into(), &8.into())
    );
    assert_eq!(mixed["layers"][0]["cycles"], plain["layers"][0]["cycles"]);

    // A list whose layers all have bits needs no others.
    write("own.toml", &NETWORK.replace("name = ", "bits = 4\nname = "));
    let own = energy(dir, "own.toml", &[]);
    assert_eq!(own["layers"][0]["weight_bits"], 4);
    // The other models of hardware have no energy, and say so.
    let serial = energy(dir, "net.toml", &["--bits", "8", "--accelerator", "haq"]);
    assert!(serial["total"]["energy_nj"].is_null() && serial.get("depthwise").is_none());
    let printed = succeed(dir, &["energy", "net.toml", "--bits", "8", "--accelerator", "cpu"]);
    assert!(
        printed.contains("GFLOP/s") && printed.contains("not modelled"),
        "{printed}"
    );

    write("lacks.toml", &ACCELERATOR.replace("memory_bits = 192\n", ""));
    write("empty.toml", "layer = []\n");
    write("other.toml", "default = 8\n[layers]\ntail = 4\n");
    let lacks: &[(&[&str], &str)] = &[
        (
            &["net.toml", "--bits", "8", "--accelerator", "lacks.toml"],
            "missing field `memory_bits`",
        ),
        (
            &["net.toml", "--bits", "8", "--accelerator", "bf_x"],
            "no file called 'bf_x'",
        ),
        (
            &["net.toml", "--bits", "9"],
            "layer stem: bf_e does not have weights of 9 bits",
        ),
        (
            &["net.toml", "--bits", "w8a16"],
            "layer stem: bf_e does not have activations of 16 bits",
        ),
        (&["net.toml", "--bits", "many"], "'many' is no number of bits"),
        (&["net.toml", "--bits", "other.toml"], "no layer called tail"),
        (&["empty.toml", "--bits", "8"], "no layers that multiply"),
        (&["net.toml", "--bits", "8", "--batch", "0"], "--batch 0"),
        (
            &["net.toml", "--bits", "8", "--length", "8"],
            "--length is for models of texts",
        ),
        (
            &[
                "net.toml",
                "--bits",
                "8",
                "--accelerator",
                "haq",
                "--depthwise",
                "dense",
            ],
            "--depthwise is for",
        ),
        (&["net.toml"], "has no bits of its own; name them with --bits"),
        (&["mobilenet-v2"], "has no bits of its own; name them with --bits"),
        (&["cifar10"], "has no bits of its own; name them with --bits"),
        (&["nothing", "--bits", "8"], "no recipe and no file called 'nothing'"),
    ];
    for (args, word) in lacks {
        let refused = refuse(dir, &[&["energy"], *args, &["--html", "page.html"]].concat());
        assert!(refused.contains(word), "{args:?}: {refused}");
        assert!(!dir.join("page.html").exists());
    }
}

#[test]
fn an_onnx_file_has_its_layers_and_what_has_no_model_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let image = [
        Extent::Named("batch"),
        Extent::Size(4),
        Extent::Size(8),
        Extent::Size(8),
    ];
    Graph::default()
        .input("x", F32, &image)
        .floats("stem.weight", &[6, 2, 3, 3], &[0.1; 108])
        .node_with(
            "Conv",
            "y",
            &["x", "stem.weight"],
            &[("group", &[2]), ("pads", &[1, 1, 1, 1])],
        )
        .node("Relu", "z", &["y"])
        .node("Frobnicate", "w", &["z"])
        .output("w", F32)
        .write(&dir.join("net.onnx"));
    let output = lessen(dir, &["energy", "net.onnx", "--bits", "8", "--batch", "5", "--json"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("Frobnicate") && said.contains("has no cost model"),
        "{said}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((names(&report), &report["batch"]), (vec!["stem"], &Value::from(5)));
    assert_eq!(report["layers"][0]["macs"], 5 * 64 * 9 * 2 * 6);
    assert_eq!(report["without_model"].as_array().unwrap().len(), 1);
    let notes = report["notes"].as_array().unwrap();
    assert!(
        notes
            .iter()
            .any(|note| note.as_str().unwrap().contains("could not be run")),
        "{notes:?}"
    );

    Graph::default()
        .input("x", F32, &[Extent::Size(3)])
        .node("Relu", "y", &["x"])
        .output("y", F32)
        .write(&dir.join("relu.onnx"));
    let refused = refuse(dir, &["energy", "relu.onnx", "--bits", "8"]);
    assert!(refused.contains("relu.onnx has no layers that multiply"), "{refused}");
}

#[test]
fn an_onnx_file_of_integers_has_the_layers_of_its_floats() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let weight: Vec<f32> = (0..40).map(|i| (i as f32 - 20.0) / 10.0).collect();
    Graph::default()
        .input("x", F32, &[Extent::Named("batch"), Extent::Size(8)])
        .floats("weight", &[8, 5], &weight)
        .node("MatMul", "y", &["x", "weight"])
        .output("y", F32)
        .write(&dir.join("floats.onnx"));
    succeed(dir, &["quantize", "floats.onnx", "-o", "integers.onnx"]);
    let report = |file| energy(dir, file, &["--bits", "8", "--batch", "3"]);
    let [floats, integers] = ["floats.onnx", "integers.onnx"].map(report);
    for report in [&floats, &integers] {
        assert_eq!(names(report).len(), 1);
        assert_eq!(report["layers"][0]["macs"], 3 * 8 * 5);
        assert!(report["without_model"].as_array().unwrap().is_empty(), "{report}");
    }
    assert_eq!(floats["layers"][0]["cycles"], integers["layers"][0]["cycles"]);
}

#[test]
fn images_of_integers_have_the_channels_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let weight: Vec<f32> = (0..5 * 3 * 9).map(|i| (i as f32 - 60.0) / 100.0).collect();
    let image = || [1, 3, 8, 8].map(Extent::Size);
    Graph::default()
        .input("random", F32, &image())
        .node("Relu", "x", &["random"])
        .output("x", F32)
        .write(&dir.join("images.onnx"));
    succeed(dir, &["run", "images.onnx", "-o", "images.npz"]);
    Graph::default()
        .input("x", F32, &image())
        .floats("weight", &[5, 3, 3, 3], &weight)
        .node("Conv", "y", &["x", "weight"])
        .output("y", F32)
        .write(&dir.join("floats.onnx"));
    let calibrated = ["--calibrate", "images.npz"];
    succeed(
        dir,
        &[&["quantize", "floats.onnx", "-o", "integers.onnx"], &calibrated[..]].concat(),
    );
    let [floats, integers] = ["floats.onnx", "integers.onnx"].map(|file| energy(dir, file, &["--bits", "8"]));
    for report in [&floats, &integers] {
        assert_eq!(names(report).len(), 1);
        assert_eq!(report["layers"][0]["macs"], 6 * 6 * 5 * 3 * 9);
    }
    assert_eq!(floats["layers"][0]["cycles"], integers["layers"][0]["cycles"]);
}

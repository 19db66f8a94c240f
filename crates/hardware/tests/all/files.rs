//! Accelerators, networks and bits from TOML files.

use lessen_hardware::bitfusion::Accelerator;
use lessen_hardware::{Bits, BitsByLayer, LayerKind, LayerShape, read_network};

const ACCELERATOR: &str = r#"
name = "mine"
clock_hz = 500_000_000
rows = 16
columns = 32
high_bits = 8
low_bits = 2
weight_buffer = 65536
activation_buffer = 32768
output_buffer = 16384
memory_bits = 192
[energy]
core_cycle = 235.104
weight_read = 0.02137
weight_write = 0.02892
activation_read = 0.05947
activation_write = 0.1137
output_read = 0.03316
output_write = 0.07308
dram = 15.0
"#;

#[test]
fn an_accelerator_is_read_and_each_missing_field_is_named() {
    let read = Accelerator::parse(ACCELERATOR).unwrap();
    assert_eq!((read.name.as_str(), read.rows, read.memory_bits), ("mine", 16, 192));
    let lines: Vec<&str> = ACCELERATOR.lines().collect();
    let fields = lines.iter().filter_map(|line| line.split_once(" ="));
    let mut count = 0;
    for (field, _) in fields {
        let without: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with(field)).collect();
        let error = Accelerator::parse(&without.join("\n")).unwrap_err();
        assert!(error.message().contains(&format!("missing field `{field}`")), "{error}");
        assert!(!error.message().contains('\n'));
        count += 1;
    }
    assert_eq!(count, 18);
    let wrong = [
        ("rows = 16", "rows = 0", "rows is 0"),
        ("low_bits = 2", "low_bits = 9", "low_bits is 9"),
        ("dram = 15.0", "dram = -1.0", "energy.dram is -1"),
        ("rows = 16", "rows = \"many\"", "line 4"),
        ("rows = 16", "rows = 16\nlanes = 3", "lanes"),
    ];
    for (good, bad, word) in wrong {
        let error = Accelerator::parse(&ACCELERATOR.replace(good, bad)).unwrap_err();
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn a_network_is_read_with_padding_groups_rows_and_bits() {
    let text = r#"
        name = "small"
        [[layer]]
        name = "stem"
        kind = "convolution"
        inputs = 3
        outputs = 8
        size = [32, 16]
        kernel = 3
        stride = 2
        [[layer]]
        name = "mix"
        kind = "depthwise"
        inputs = 8
        size = [16, 8]
        kernel = 3
        padding = 0
        bits = "w4a8"
        [[layer]]
        name = "project"
        kind = "linear"
        inputs = 8
        outputs = 4
        rows = 10
        [[layer]]
        name = "scores"
        kind = "product"
        inputs = 64
        outputs = 10
        rows = 10
        count = 2
        [[layer]]
        name = "steps"
        kind = "recurrent"
        inputs = 4
        outputs = 16
        steps = 7
    "#;
    let network = read_network(text, 5, Bits::both(8)).unwrap();
    let shapes: Vec<LayerShape> = network.layers.iter().map(|layer| layer.shape).collect();
    assert_eq!(network.name.as_deref(), Some("small"));
    assert!(shapes[0].is_first);
    assert_eq!((shapes[0].batch, shapes[0].output_size), (5, [16, 8]));
    assert_eq!(
        (shapes[1].kind, shapes[1].groups, shapes[1].output_size),
        (LayerKind::Depthwise, 8, [14, 6])
    );
    assert_eq!(
        network.layers[1].bits,
        Bits {
            weights: 4,
            activations: 8
        }
    );
    assert_eq!(shapes[2], LayerShape::linear(50, 8, 4));
    assert_eq!(shapes[3], LayerShape::product(10, 64, 10, 10));
    assert_eq!(shapes[4], LayerShape::recurrent(5, 4, 16, 7));
    assert_eq!((shapes[4].weights(), shapes[4].macs()), (64, 5 * 64 * 7));

    let wrong = [
        ("outputs = 4", "", "layer project: it lacks the field outputs"),
        ("steps = 7", "", "layer steps: it lacks the field steps"),
        (
            "rows = 10\n        [[layer]]",
            "kernel = 3\n        [[layer]]",
            "a linear layer has no kernel",
        ),
        ("kind = \"depthwise\"", "kind = \"pooling\"", "pooling"),
        ("name = \"mix\"", "name = \"stem\"", "another layer has its name"),
        (
            "kernel = 3\n        padding = 0",
            "kernel = 99\n        padding = 0",
            "kernel of 99",
        ),
        ("inputs = 64", "inputs = 0", "layer scores: its inputs is 0"),
        ("bits = \"w4a8\"", "bits = \"four\"", "'four' is no number of bits"),
        ("kind = \"linear\"", "knd = \"linear\"", "knd"),
    ];
    for (good, bad, word) in wrong {
        assert!(text.contains(good), "{good}");
        let error = read_network(&text.replace(good, bad), 5, Bits::both(8)).unwrap_err();
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn bits_are_read_and_given_to_layers_by_name() {
    assert_eq!(Bits::parse("8").unwrap(), Bits::both(8));
    assert_eq!(Bits::parse("w2a4").unwrap().to_string(), "w2a4");
    assert_eq!(Bits::parse("w4a4").unwrap().to_string(), "4");
    for wrong in ["", "a8", "w4", "8.0", "-1", "w4a"] {
        assert!(Bits::parse(wrong).is_err(), "{wrong}");
    }
    let text = "[[layer]]\nname = \"a\"\nkind = \"linear\"\ninputs = 4\noutputs = 4\n";
    let mut layers = read_network(text, 1, Bits::both(8)).unwrap().layers;
    let bits = BitsByLayer::parse("default = 4\n[layers]\na = \"w2a8\"\n").unwrap();
    bits.apply(&mut layers).unwrap();
    assert_eq!(
        layers[0].bits,
        Bits {
            weights: 2,
            activations: 8
        }
    );
    let error = BitsByLayer::parse("default = 4\n[layers]\nb = 2\n")
        .unwrap()
        .apply(&mut layers)
        .unwrap_err();
    assert!(
        error.message().contains("no layer called b") && error.message().contains("are a,"),
        "{error}"
    );
    assert!(
        BitsByLayer::parse("[layers]\na = 2\n")
            .unwrap_err()
            .message()
            .contains("missing field `default`")
    );
}

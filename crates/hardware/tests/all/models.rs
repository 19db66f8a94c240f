//! Bits, utilisation, the roofline and the bit-serial model.

use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{BitSerial, Bits, CostModel, Layer, LayerShape, Roofline, network_cost, networks};

fn bf_e() -> BitFusion {
    BitFusion::new(Accelerator::named("bf_e").unwrap(), GroupMapping::default())
}

#[test]
fn fewer_bits_are_faster_by_whole_factors_alone() {
    let model = bf_e();
    let shape = LayerShape::convolution(16, [256, 256], 1, 16, [3, 1]);
    let cycles = |w, a| {
        let bits = Bits {
            weights: w,
            activations: a,
        };
        model.layer(&shape, bits).unwrap().compute_cycles
    };
    let full = cycles(8, 8);
    for bits in [5, 6, 7] {
        assert_eq!(cycles(bits, bits), full, "{bits} bits take as long as 8");
    }
    assert_eq!(cycles(4, 8) * 2, full);
    assert_eq!(cycles(4, 4) * 4, full);
    assert_eq!(cycles(3, 8) * 2, full, "the array has factors of 2, 4 and 8 bits");
    assert_eq!(cycles(2, 2) * 16, full);
    assert_eq!(cycles(1, 1), cycles(2, 2), "one bit is computed as two");
}

#[test]
fn bits_that_the_accelerator_does_not_have_are_named() {
    let shape = LayerShape::linear(16, 64, 64);
    let wrong = [(0, 8), (9, 8), (8, 16), (33, 33)];
    let roofline = Roofline::new("cpu", 1e9, 1e9).unwrap();
    for (weights, activations) in wrong {
        let bits = Bits { weights, activations };
        let error = bf_e().layer(&shape, bits).unwrap_err();
        let named = if (1..=8).contains(&weights) {
            activations
        } else {
            weights
        };
        let sentence = error.message();
        assert!(
            sentence.contains(&format!("of {named} bits")) && sentence.contains("bf_e"),
            "{sentence}"
        );
        let error = BitSerial::haq().layer(&shape, bits).unwrap_err();
        assert!(error.message().contains(&format!("of {named} bits")), "{error}");
    }
    assert!(roofline.layer(&shape, Bits::both(33)).is_err());
    let layers = [Layer::new("head", shape, Bits::both(9))];
    let error = network_cost(&bf_e(), &layers).unwrap_err();
    assert!(error.message().starts_with("layer head: "), "{error}");
    assert!(network_cost(&bf_e(), &[]).unwrap_err().message().contains("no layers"));
}

#[test]
fn layers_with_wrong_extents_are_refused_and_huge_ones_are_too() {
    let good = LayerShape::convolution(16, [8, 8], 1, 8, [3, 1]);
    let bad = [
        (LayerShape { batch: 0, ..good }, "batch is 0"),
        (LayerShape { stride: [1, 0], ..good }, "stride is 0"),
        (LayerShape { groups: 3, ..good }, "3 groups"),
        (
            LayerShape {
                batch: u64::MAX,
                ..good
            },
            "too large",
        ),
        (
            LayerShape {
                inputs: 1 << 40,
                outputs: 1 << 40,
                ..good
            },
            "too large",
        ),
        (
            LayerShape {
                stride: [1 << 60, 1],
                ..good
            },
            "too large",
        ),
    ];
    let roofline = Roofline::new("cpu", 1e9, 1e9).unwrap();
    for (shape, word) in bad {
        let models: [&dyn CostModel; 3] = [&bf_e(), &BitSerial::haq(), &roofline];
        for model in models {
            let error = model.layer(&shape, Bits::both(8)).unwrap_err();
            assert!(error.message().contains(word), "{error}");
        }
    }
    // A layer that can be counted, but whose traffic cannot.
    let wide = LayerShape::linear(1 << 20, 1 << 16, 1 << 16);
    if let Err(error) = bf_e().layer(&wide, Bits::both(8)) {
        assert!(error.message().contains("too large"), "{error}");
    }
}

#[test]
fn the_units_are_never_used_more_than_wholly() {
    for network in networks::NETWORKS {
        for bits in [8, 4, 2] {
            let layers = network.layers(4, Bits::both(bits)).unwrap();
            let cost = network_cost(&bf_e(), &layers).unwrap();
            for (layer, cost) in layers.iter().zip(&cost.layers) {
                assert!(
                    (0.0..=1.0).contains(&cost.utilisation),
                    "{} {}",
                    network.name,
                    layer.name
                );
                assert_eq!(cost.compute_cycles + cost.stall_cycles, cost.cycles);
            }
            let sum: u64 = cost.layers.iter().map(|layer| layer.cycles).sum();
            assert_eq!(sum, cost.total.cycles);
        }
    }
}

#[test]
fn the_bit_serial_model_has_the_totals_of_the_public_table() {
    let model = BitSerial::haq();
    let layers = networks::mobilenet_v2(16, 224, 1000, Bits::both(8));
    let table = model.table(&layers).unwrap();
    assert_eq!((table.len(), table[0].len(), table[0][0].len()), (53, 8, 8));
    let total = |w: usize, a: usize| -> u64 { table.iter().map(|layer| layer[w - 1][a - 1]).sum() };
    for (bits, expected) in [(8, 39_624_933u64), (4, 15_716_150), (2, 7_063_425)] {
        let found = total(bits, bits);
        assert!(found.abs_diff(expected) <= 53, "{bits} bits: {found}, not {expected}");
    }
    // Computing takes time in proportion to the product of the bits.
    let cost = |w, a| {
        let bits = Bits {
            weights: w,
            activations: a,
        };
        model.layer(&layers[3].shape, bits).unwrap().compute_cycles as f64
    };
    assert!((cost(8, 4) / cost(4, 2) - 4.0).abs() < 1e-3);
    assert!(model.layer(&layers[0].shape, Bits::both(8)).unwrap().energy.is_none());
}

#[test]
fn a_roofline_takes_the_longer_of_computing_and_memory() {
    let roofline = Roofline::new("cpu", 2e9, 1e9).unwrap();
    // 1000 x 1000 x 1000 products take a second; 6 MB take 6 ms.
    let square = roofline
        .layer(&LayerShape::linear(1000, 1000, 1000), Bits::both(8))
        .unwrap();
    assert!((square.milliseconds - 1000.0).abs() < 1e-6 && square.stall_cycles == 0 && square.utilisation == 1.0);
    // One row is limited by its weights: 1 MB of 8 bits, 4 MB of 32.
    let row = LayerShape::linear(1, 1000, 1000);
    let ms = |bits| roofline.layer(&row, Bits::both(bits)).unwrap().milliseconds;
    assert!((ms(8) - 1.005).abs() < 1e-9, "{}", ms(8));
    assert!((ms(32) - 4.008).abs() < 1e-9, "{}", ms(32));
    assert!(Roofline::new("cpu", 0.0, 1.0).is_err() && Roofline::new("cpu", 1.0, f64::NAN).is_err());
}

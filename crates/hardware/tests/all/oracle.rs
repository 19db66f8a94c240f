//! The published results of BitFusion's simulator, layer by layer.

use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{Bits, CostModel, Layer, LayerShape, network_cost};
use std::collections::BTreeMap;

/// The layers of the published networks, of batches of 16, by network.
fn networks() -> BTreeMap<&'static str, Vec<Layer>> {
    let mut found: BTreeMap<_, Vec<Layer>> = BTreeMap::new();
    for line in include_str!("../data/networks.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (kernel, stride, size, inputs, outputs) = (number(3), number(4), number(6), number(7), number(8));
        let shape = match words[2] {
            "rows" => LayerShape::linear(16, inputs, outputs),
            _ => LayerShape::convolution(16, [inputs, outputs], 1, size, [kernel, stride]),
        };
        let shape = if words[5] == "valid" { shape.unpadded() } else { shape };
        let shape = if words.len() > 10 { shape.first() } else { shape };
        let bits = Bits::parse(words[9]).expect("bits");
        found
            .entry(words[0])
            .or_default()
            .push(Layer::new(words[1], shape, bits));
    }
    found
}

/// A row of the published sweep.
struct Row {
    numbers: BTreeMap<&'static str, f64>,
    network: &'static str,
    layer: &'static str,
}

fn sweep() -> Vec<Row> {
    let mut lines = include_str!("../data/sweep.csv").lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let numbers = names
            .iter()
            .zip(&cells)
            .filter_map(|(&name, cell)| Some((name, cell.parse().ok()?)));
        Row {
            numbers: numbers.collect(),
            network: cells[1],
            layer: cells[2],
        }
    };
    lines.map(row).collect()
}

/// The accelerator of a row.
fn accelerator(row: &Row) -> Accelerator {
    let number = |name: &str| row.numbers[name] as u64;
    let buffers = ["weight_buffer", "activation_buffer", "output_buffer"].map(|name| number(name) >> 10);
    Accelerator::published(
        "swept",
        500_000_000,
        [16, number("columns")],
        buffers,
        number("memory_bits"),
    )
}

#[test]
fn every_layer_of_the_published_sweep_has_its_cycles_and_its_energy() {
    let networks = networks();
    let rows = sweep();
    assert_eq!(rows.len(), 305);
    for row in &rows {
        let accelerator = accelerator(row);
        let energy = accelerator.energy;
        let model = BitFusion::new(accelerator, GroupMapping::default());
        let layer = networks[row.network]
            .iter()
            .find(|layer| layer.name == row.layer)
            .expect("a layer");
        let cost = model.layer(&layer.shape, layer.bits).expect("a cost");
        let number = |name: &str| row.numbers[name];
        let place = format!("{} {} of {:?}", row.network, row.layer, row.numbers);
        assert_eq!(cost.cycles as f64, number("cycles"), "{place}");
        assert_eq!(cost.stall_cycles as f64, number("stalls"), "{place}");
        let parts = [
            (number("cycles") - number("stalls")) * energy.core_cycle,
            number("weight_read") * energy.weight_read + number("weight_write") * energy.weight_write,
            number("activation_read") * energy.activation_read + number("activation_write") * energy.activation_write,
            number("output_read") * energy.output_read + number("output_write") * energy.output_write,
            (number("dram_read") + number("dram_write")) * energy.dram,
        ];
        let found = cost.energy.expect("an energy");
        for ((part, found), expected) in found.parts().into_iter().zip(parts) {
            assert!(
                (found - expected * 1e-3).abs() <= 1e-9 * found,
                "{part} of {place}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn networks_have_their_published_cycles_time_and_energy() {
    // Cycles of a batch of 16, and mJ of an image.
    let published = [
        ("AlexNet", 37_666_491, 8.2466),
        ("RESNET-18", 49_079_982, 10.604),
        ("SVHN", 1_317_523, 0.2638),
        ("LeNet-5", 410_352, 0.0713),
        ("VGG-7", 2_822_491, 0.5781),
        ("RNN", 394_583, 0.0786),
        ("LSTM", 337_175, 0.0675),
    ];
    let networks = networks();
    let accelerator = Accelerator::named("bf_e").expect("bf_e");
    let model = BitFusion::new(accelerator, GroupMapping::default());
    for (network, cycles, millijoules) in published {
        let total = network_cost(&model, &networks[network]).expect("a cost").total;
        assert_eq!(total.cycles, cycles, "{network}");
        let found = total.energy.expect("an energy").total() * 1e-6 / 16.0;
        assert!(
            (found / millijoules - 1.0).abs() < 0.005,
            "{network}: {found} mJ, not {millijoules}"
        );
    }
    let alexnet = network_cost(&model, &networks["AlexNet"]).expect("a cost").total;
    assert!((alexnet.milliseconds / 16.0 - 4.708311).abs() < 1e-6);
}

#[test]
fn energies_of_the_small_configuration_are_the_published_ones() {
    let energy = Accelerator::named("bf_e").expect("bf_e").energy;
    let expected = [
        (energy.core_cycle, 235.104),
        (energy.weight_read, 0.02137),
        (energy.weight_write, 0.02892),
        (energy.activation_read, 0.05947),
        (energy.activation_write, 0.11370),
        (energy.output_read, 0.03316),
        (energy.output_write, 0.07308),
        (energy.dram, 15.0),
    ];
    for (found, expected) in expected {
        assert!(
            (found - expected).abs() < 6e-6 * expected.max(1.0),
            "{found}, not {expected}"
        );
    }
}

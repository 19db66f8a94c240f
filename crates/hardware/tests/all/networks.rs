//! Published networks: their sizes, and the time that it takes to model them.

use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::networks::{NETWORKS, PublishedNetwork, mobilenet_v2};
use lessen_hardware::{Bits, network_cost};
use std::time::Instant;

#[test]
fn published_networks_have_their_layers_weights_and_products() {
    // Layers, millions of weights (without norms and biases), and products of an image in billions.
    let published = [
        ("mobilenet-v1", 28, 4.21, 0.569),
        ("mobilenet-v2", 53, 3.47, 0.301),
        ("mobilenet-v2-cifar", 53, 2.32, 0.088),
        ("vgg-16", 16, 138.34, 15.470),
        ("resnet-50", 54, 25.50, 4.089),
        ("densenet-bc-190", 190, 25.56, 9.302),
    ];
    assert_eq!(NETWORKS.len(), published.len());
    for (name, layers, weights, macs) in published {
        let network = PublishedNetwork::named(name).unwrap();
        let found = network.layers(1, Bits::both(8)).unwrap();
        assert_eq!(found.len(), layers, "{name}");
        let all: u64 = found.iter().map(|layer| layer.shape.weights()).sum();
        assert!((all as f64 * 1e-6 - weights).abs() < 0.006, "{name}: {all} weights");
        let all: u64 = found.iter().map(|layer| layer.shape.macs()).sum();
        assert!((all as f64 * 1e-9 - macs).abs() < 0.0006, "{name}: {all} products");
        assert!(found[0].shape.is_first && found[1..].iter().all(|layer| !layer.shape.is_first));
        for layer in &found {
            layer.shape.check().unwrap();
        }
    }
    assert!(
        PublishedNetwork::named("vgg-16")
            .unwrap()
            .layers(0, Bits::both(8))
            .is_err()
    );
}

#[test]
fn modelling_mobilenet_v2_takes_at_most_100_ms() {
    let layers = mobilenet_v2(16, 224, 1000, Bits::both(8));
    for groups in GroupMapping::ALL {
        let model = BitFusion::new(Accelerator::named("bf_e").unwrap(), groups);
        let took = (0..3).map(|_| {
            let start = Instant::now();
            network_cost(&model, &layers).unwrap();
            start.elapsed().as_secs_f64()
        });
        let best = took.fold(f64::INFINITY, f64::min);
        assert!(best <= 0.1, "{groups:?}: {best} s");
    }
}

//! What `lessen bench activation` times: whole models that differ in the activation alone.

use lessen::bench::activation::{NETWORKS, Network, network};
use lessen_nn::Activation;

/// Names of the operations of a network's program for one example.
fn operations(network: &Network, activation: Activation) -> Vec<&'static str> {
    let batch = network.batches(1, &[4])[0];
    let (graph, _) = network.program(activation, batch).unwrap();
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn programs_differ_in_the_activation_alone() {
    for (network, layers) in NETWORKS.iter().zip([12, 12, 12, 12, 49]) {
        let with_gelu = operations(network, Activation::Gelu);
        let with_helu = operations(network, Activation::Helu(0.05));
        let activations = with_gelu.iter().filter(|name| **name == "gelu").count();
        assert_eq!(activations, layers, "{}", network.title);
        let replaced: Vec<&str> = with_gelu
            .iter()
            .map(|&name| if name == "gelu" { "helu" } else { name })
            .collect();
        assert_eq!(replaced, with_helu, "{}", network.title);
    }
}

#[test]
fn lengths_are_those_of_texts() {
    let sizes = |name: &str| {
        let batches = Network::of(name).unwrap().batches(3, &[16, 64]);
        batches.iter().map(|batch| batch.tokens()).collect::<Vec<_>>()
    };
    assert_eq!(sizes("bert"), [[3, 16], [3, 64]]);
    assert_eq!(sizes("resnet50"), [[3, 224 * 224]]);
    let bert = Network::of("bert").unwrap();
    let too_long = bert
        .program(Activation::Relu, bert.batches(1, &[513])[0])
        .err()
        .unwrap();
    assert!(too_long.to_string().contains("512"), "{too_long}");
}

#[test]
fn every_activation_of_a_network_is_timed() {
    let vit = Network::of("vit").unwrap();
    let activations = [Activation::Relu, Activation::Elu(1.0)];
    let times = network(vit, &activations, vit.batches(1, &[])[0], 2).unwrap();
    assert_eq!(times.len(), 2);
    for times in times {
        let (least, most) = times.range_ms();
        assert!(0.0 < least && least <= times.median_ms() && times.median_ms() <= most);
    }
}

#[test]
fn an_unknown_network_is_named_with_those_that_exist() {
    let refused = Network::of("alexnet").err().unwrap().to_string();
    assert!(
        refused.contains("`alexnet`") && refused.contains("resnet50"),
        "{refused}"
    );
}

//! Convolutions with groups under each mapping.

use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{Bits, CostModel, LayerCost, LayerShape};

fn cost(shape: LayerShape, groups: GroupMapping) -> LayerCost {
    let accelerator = Accelerator::named("bf_e").unwrap();
    BitFusion::new(accelerator, groups)
        .layer(&shape, Bits::both(8))
        .unwrap()
}

fn nanojoules(cost: &LayerCost) -> f64 {
    cost.energy.unwrap().total()
}

#[test]
fn each_mapping_of_a_depthwise_convolution_is_the_convolution_that_it_says() {
    let depthwise = LayerShape::convolution(16, [96, 96], 96, 28, [3, 1]);
    let plain = |inputs, outputs| {
        cost(
            LayerShape::convolution(16, [inputs, outputs], 1, 28, [3, 1]),
            GroupMapping::PerGroup,
        )
    };
    let one = plain(1, 1);
    let per_group = cost(depthwise, GroupMapping::PerGroup);
    assert_eq!(per_group.cycles, 96 * one.cycles);
    assert_eq!(per_group.compute_cycles, 96 * one.compute_cycles);
    assert!((nanojoules(&per_group) / (96.0 * nanojoules(&one)) - 1.0).abs() < 1e-12);
    assert_eq!(cost(depthwise, GroupMapping::Dense).cycles, plain(96, 96).cycles);
    assert_eq!(cost(depthwise, GroupMapping::OneGroup).cycles, plain(1, 96).cycles);
    let left_out = cost(depthwise, GroupMapping::LeftOut);
    assert_eq!(
        (left_out.cycles, left_out.utilisation, nanojoules(&left_out)),
        (0, 0.0, 0.0)
    );

    // Whatever the mapping, the layer has its own products and weights.
    for mapping in GroupMapping::ALL {
        let found = cost(depthwise, mapping);
        assert_eq!(found.macs, 16 * 28 * 28 * 9 * 96, "{mapping:?}");
        assert_eq!(found.weight_bytes, 9 * 96, "{mapping:?}");
    }
}

#[test]
fn groups_on_columns_take_the_time_of_one_group_and_the_traffic_of_all() {
    let depthwise = LayerShape::convolution(16, [96, 96], 96, 28, [3, 1]);
    let columns = cost(depthwise, GroupMapping::Columns);
    let one_group = cost(depthwise, GroupMapping::OneGroup);
    let taps = cost(depthwise, GroupMapping::Taps);
    // 3 tiles of 32 columns; 9 taps one after another, or all of them on the 16 rows.
    assert_eq!(columns.compute_cycles, 16 * 28 * 28 * 3 * 9);
    assert_eq!(taps.compute_cycles, 16 * 28 * 28 * 3);
    assert_eq!(one_group.compute_cycles, columns.compute_cycles);
    assert!(columns.energy.unwrap().dram > one_group.energy.unwrap().dram);
    // Inputs and outputs pass memory once at least: 8 bits of each input, 32 of each sum that is read and written.
    let least = (16 * 28 * 28 * 96) as f64 * (8.0 + 64.0) * 15.0 * 1e-3;
    assert!(columns.energy.unwrap().dram >= least);
}

#[test]
fn a_convolution_without_groups_does_not_depend_on_the_mapping() {
    let shape = LayerShape::convolution(4, [24, 40], 1, 14, [3, 2]);
    let first = cost(shape, GroupMapping::PerGroup);
    for mapping in GroupMapping::ALL {
        assert_eq!(cost(shape, mapping), first);
    }
}

#[test]
fn words_name_mappings_and_others_are_refused() {
    for mapping in GroupMapping::ALL {
        assert_eq!(GroupMapping::parse(mapping.name()).unwrap(), mapping);
    }
    let error = GroupMapping::parse("rows").unwrap_err();
    assert!(
        error.message().contains("'rows'") && error.message().contains("per-group, columns"),
        "{error}"
    );
}

//! The search of tiles against trying all of them in all orders.

use lessen_hardware::bitfusion::{Accelerator, BitFusion, GroupMapping};
use lessen_hardware::{Bits, CostModel, LayerShape};

const DEPENDS: [[bool; 5]; 3] = [
    [false, false, false, true, true],
    [true, true, true, true, false],
    [true, true, true, false, true],
];

/// All orders of five loops.
fn orders() -> Vec<[usize; 5]> {
    let mut found = Vec::new();
    for code in 0..5usize.pow(5) {
        let order = [0, 1, 2, 3, 4].map(|at| code / 5usize.pow(at) % 5);
        if (0..5).all(|own| order.contains(&own)) {
            found.push(order);
        }
    }
    assert_eq!(found.len(), 120);
    found
}

/// Powers of two up to the first that holds the extent, none larger than the extent.
fn sizes(extent: u64, unit: u64) -> Vec<u64> {
    let steps = (extent.div_ceil(unit) as f64).log2().ceil() as u32;
    (0..=steps).map(|power| (unit << power).min(extent)).collect()
}

/// Least cycles, then the least bits from and to memory, of an ordinary convolution of square images.
fn least(shape: &LayerShape, accelerator: &Accelerator, bits: u64) -> (u64, u64) {
    let depth = accelerator.rows * accelerator.fused(Bits::both(bits as u32)).unwrap();
    let (k, s, width) = (shape.kernel[0], shape.stride[0], accelerator.columns);
    let extents = [
        shape.batch,
        shape.output_size[0],
        shape.output_size[1],
        shape.inputs,
        shape.outputs,
    ];
    let half = [
        accelerator.weight_buffer,
        accelerator.activation_buffer,
        accelerator.output_buffer,
    ]
    .map(|b| b * 4);
    let transfer = |bits: u64| bits.div_ceil(accelerator.memory_bits);
    let mut best = (u64::MAX, u64::MAX);
    for b in sizes(extents[0], 1) {
        for o in sizes(extents[1], 1) {
            for ic in sizes(extents[3], 1) {
                for oc in sizes(extents[4], width) {
                    let size = [b, o, o, ic, oc];
                    let count = [0, 1, 2, 3, 4].map(|at| extents[at].div_ceil(size[at]));
                    let tile = [
                        (k * k * ic).div_ceil(depth) * depth * oc * bits,
                        (k + (o - 1) * s).pow(2) * ic * b * bits,
                        o * o * oc.div_ceil(width) * width * b * 32,
                    ];
                    if tile.iter().zip(half).any(|(&tile, half)| tile > half) {
                        continue;
                    }
                    let compute =
                        count.iter().product::<u64>() * b * oc.div_ceil(width) * o * o * k * k * ic.div_ceil(depth);
                    for order in orders() {
                        let (mut total, mut largest, mut fits) = (tile, tile, [true; 3]);
                        for at in order {
                            for buffer in 0..3 {
                                if !fits[buffer] {
                                    total[buffer] *= count[at];
                                } else if DEPENDS[buffer][at] {
                                    total[buffer] *= count[at];
                                    fits[buffer] = total[buffer] <= half[buffer];
                                    if fits[buffer] {
                                        largest[buffer] = total[buffer];
                                    }
                                }
                            }
                        }
                        let moved = total.iter().sum::<u64>() + total[2];
                        let (first, last) = (largest.iter().sum::<u64>(), largest[2]);
                        let between = transfer(moved - first - last);
                        let cycles = compute.max(between) + transfer(first) + transfer(last);
                        best = best.min((cycles, moved));
                    }
                }
            }
        }
    }
    best
}

#[test]
fn the_search_finds_the_least_cycles_of_all_tiles_and_orders() {
    let accelerator = Accelerator::named("bf_e").unwrap();
    let model = BitFusion::new(accelerator.clone(), GroupMapping::default());
    let shapes = [
        LayerShape::convolution(3, [24, 100], 1, 14, [3, 1]),
        LayerShape::convolution(5, [130, 33], 1, 9, [1, 1]),
        LayerShape::convolution(2, [17, 64], 1, 27, [5, 2]),
        LayerShape::linear(7, 700, 300),
    ];
    for shape in shapes {
        for bits in [8, 4] {
            let cost = model.layer(&shape, Bits::both(bits)).unwrap();
            let (cycles, moved) = least(&shape, &accelerator, bits.into());
            assert_eq!(cost.cycles, cycles, "{shape:?} {bits}");
            let found = cost.energy.unwrap().dram / (accelerator.energy.dram * 1e-3);
            assert!(
                found >= moved as f64 * (1.0 - 1e-12),
                "{shape:?}: {found} bits, {moved} are the least"
            );
        }
    }
}

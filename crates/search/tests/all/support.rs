//! Spaces, images and hardware of the tests.

use lessen_base::{Error, Result, SplitMix64};
use lessen_cpu::CpuBackend;
use lessen_data::images::LabelledImages;
use lessen_device::{Backend, SharedDevice};
use lessen_hardware::{Bits, CostModel, Energy, LayerCost, LayerShape};
use lessen_search::{CostKind, Costs, Space};

/// Classes of all images here.
pub const CLASSES: usize = 3;

/// Height, width and channels of all images here.
pub const SHAPE: [usize; 3] = [8, 8, 3];

/// Hardware of whose cost it is easy to say what it must be: a nJ for each product of two bits, and for each bit of a
/// weight. It has no 6 bits.
pub struct Simple;

impl CostModel for Simple {
    fn name(&self) -> &str {
        "simple"
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn layer(&self, shape: &LayerShape, bits: Bits) -> Result<LayerCost> {
        shape.check()?;
        if bits.weights == 6 || bits.activations == 6 {
            return Err(Error::user("simple has no 6 bits; choose 2, 4 or 8"));
        }
        let cycles = shape.macs() * u64::from(bits.weights * bits.activations);
        Ok(LayerCost {
            cycles,
            compute_cycles: cycles,
            stall_cycles: 0,
            macs: shape.macs(),
            utilisation: 1.0,
            energy: Some(Energy {
                core: cycles as f64,
                dram: (shape.weights() * u64::from(bits.weights)) as f64,
                ..Energy::default()
            }),
            milliseconds: cycles as f64 * 1e-6,
            weight_bytes: (shape.weights() * u64::from(bits.weights)).div_ceil(8),
        })
    }
}

/// The costs of that hardware.
pub fn costs(kind: CostKind) -> Costs<'static> {
    Costs {
        model: &Simple,
        kind,
        batch: 4,
        image: SHAPE,
        classes: CLASSES,
    }
}

/// A space of two blocks, of which the second may be left out.
pub fn small_space() -> Space {
    let mut space = Space::of_rows([4, 1], &[(4, 2, 2)], 8);
    for block in &mut space.blocks {
        block.kernels = vec![3, 5];
        block.expansions = vec![1, 2];
        block.bits = [vec![2, 4, 8], vec![2, 8]];
    }
    space
}

/// A space of 64 networks: three choices of two possibilities in each of two blocks.
pub fn space_of_64() -> Space {
    let mut space = Space::of_rows([4, 1], &[(8, 2, 1), (12, 1, 1)], 8);
    for block in &mut space.blocks {
        block.kernels = vec![3, 5];
        block.expansions = vec![1, 3];
        block.bits = [vec![4, 8], vec![4]];
    }
    space
}

/// A CPU with this many threads.
pub fn device(threads: usize) -> SharedDevice {
    let backend: Box<dyn Backend> = Box::new(CpuBackend::new(threads).expect("threads"));
    backend.into()
}

/// `per_class` images of each class: noise around a pattern of the class.
pub fn images(per_class: usize) -> LabelledImages {
    let size: usize = SHAPE.iter().product();
    let mut random = SplitMix64::new(3);
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for class in 0..CLASSES {
        let mut pattern = SplitMix64::keyed(7, class as u64);
        let pattern: Vec<f64> = (0..size).map(|_| pattern.unit() * 2.0 - 1.0).collect();
        for _ in 0..per_class {
            pixels.extend(pattern.iter().map(|x| (x + random.unit() - 0.5) as f32));
            labels.push(class as u32);
        }
    }
    LabelledImages::new(SHAPE, CLASSES, pixels, labels).expect("the images are well formed")
}

/// Hardware on which everything takes a ms, whatever its bits.
pub struct Free;

impl CostModel for Free {
    fn name(&self) -> &str {
        "free"
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn layer(&self, shape: &LayerShape, _: Bits) -> Result<LayerCost> {
        Ok(LayerCost {
            cycles: 1,
            compute_cycles: 1,
            stall_cycles: 0,
            macs: shape.macs(),
            utilisation: 1.0,
            energy: None,
            milliseconds: 1.0,
            weight_bytes: shape.weights(),
        })
    }
}

//! What is searched: blocks of MobileNetV2 with a kernel, an expansion and bits each (table 2.10).

use lessen_base::{Error, Result};
use lessen_nn::models::vision::{MixedArchitecture, MixedBlock};

/// What a block may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockSpace {
    /// Channels of the result.
    pub out: usize,
    /// Stride.
    pub stride: usize,
    /// Kernels of the depthwise layer, odd and rising.
    pub kernels: Vec<usize>,
    /// Factors of the channels between, rising.
    pub expansions: Vec<usize>,
    /// Bits of the 1 x 1 layers (`b1`) and of the depthwise layer (`b2`), rising.
    pub bits: [Vec<u32>; 2],
    /// Whether it may be left out. It has the same channels before and after it then, and stride 1.
    pub can_skip: bool,
}

/// All networks that are searched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// Channels of the first convolution, 3 x 3.
    pub stem: usize,
    /// Its stride.
    pub stem_stride: usize,
    /// The blocks.
    pub blocks: Vec<BlockSpace>,
    /// Channels of the last convolution, 1 x 1.
    pub last: usize,
    /// Bits of the first and last layers.
    pub bits: u32,
}

lessen_base::words! {
    /// What is chosen of a block, in the order of a choice.
    #[derive(PartialOrd, Ord)]
    pub enum Aspect {
        /// 0 to have the block, 1 to leave it out.
        Skip = "skip",
        /// The factor of the channels between.
        Expansion = "expansion",
        /// The kernel of the depthwise layer.
        Kernel = "kernel",
        /// Bits of the 1 x 1 layers.
        PointwiseBits = "b1",
        /// Bits of the depthwise layer.
        DepthwiseBits = "b2",
    }
}

impl Aspect {
    /// All of them.
    pub const ALL: [Aspect; 5] = [
        Aspect::Skip,
        Aspect::Expansion,
        Aspect::Kernel,
        Aspect::PointwiseBits,
        Aspect::DepthwiseBits,
    ];

    /// Its word in curves and reports.
    pub fn word(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }
}

/// A choice of a block: the place of each aspect in its list, in the order of [`Aspect::ALL`].
pub type Choice = [usize; 5];

/// Rows of a macro-architecture: channels, stride of the first block, blocks.
pub type Rows<'a> = &'a [(usize, usize, usize)];

/// The rows of table 2.10.
const TABLE: [(usize, usize, usize); 7] = [
    (16, 2, 1),
    (24, 1, 2),
    (32, 2, 4),
    (64, 2, 4),
    (128, 1, 4),
    (160, 2, 5),
    (256, 1, 2),
];

impl BlockSpace {
    /// Possibilities of an aspect.
    pub fn count(&self, aspect: Aspect) -> usize {
        match aspect {
            Aspect::Skip => 1 + usize::from(self.can_skip),
            Aspect::Expansion => self.expansions.len(),
            Aspect::Kernel => self.kernels.len(),
            Aspect::PointwiseBits => self.bits[0].len(),
            Aspect::DepthwiseBits => self.bits[1].len(),
        }
    }

    /// The possibility of this number of an aspect, in words.
    pub fn word(&self, aspect: Aspect, place: usize) -> String {
        match aspect {
            Aspect::Skip => ["no", "yes"][place].to_string(),
            Aspect::Expansion => self.expansions[place].to_string(),
            Aspect::Kernel => self.kernels[place].to_string(),
            Aspect::PointwiseBits => self.bits[0][place].to_string(),
            Aspect::DepthwiseBits => self.bits[1][place].to_string(),
        }
    }

    /// Number of choices. Those that leave the block out are the same network, and count as often.
    pub fn choices(&self) -> usize {
        Aspect::ALL.iter().map(|aspect| self.count(*aspect)).product()
    }

    /// The choice of this number.
    pub fn choice(&self, mut number: usize) -> Choice {
        let mut choice = [0; 5];
        for (place, aspect) in choice.iter_mut().zip(Aspect::ALL).rev() {
            *place = number % self.count(aspect);
            number /= self.count(aspect);
        }
        choice
    }

    /// The number of a choice.
    pub fn number(&self, choice: Choice) -> usize {
        let places = choice.into_iter().zip(Aspect::ALL);
        places.fold(0, |number, (place, aspect)| number * self.count(aspect) + place)
    }

    /// The block of a choice; none where it is left out.
    pub fn block(&self, choice: Choice) -> Option<MixedBlock> {
        let [skip, expansion, kernel, pointwise, depthwise] = choice;
        (skip == 0).then(|| MixedBlock {
            out: self.out,
            stride: self.stride,
            expansion: self.expansions[expansion],
            kernel: self.kernels[kernel],
            bits: [self.bits[0][pointwise], self.bits[1][depthwise]],
        })
    }
}

impl Space {
    /// The space of table 2.10, for images of 224 pixels, or of CIFAR: the first two convolutions of stride 2 have no
    /// stride there.
    pub fn published(is_small: bool) -> Space {
        let mut rows = TABLE;
        if is_small {
            rows[0].1 = 1;
        }
        Space::of_rows(if is_small { [32, 1] } else { [32, 2] }, &rows, 1280)
    }

    /// The space of other rows, with the kernels, expansions and bits of the table; `stem` has channels and stride of
    /// the first convolution.
    pub fn of_rows(stem: [usize; 2], rows: Rows<'_>, last: usize) -> Space {
        let (mut blocks, mut inputs) = (Vec::new(), stem[0]);
        for &(out, first_stride, count) in rows {
            for number in 0..count {
                let stride = if number == 0 { first_stride } else { 1 };
                blocks.push(BlockSpace {
                    out,
                    stride,
                    kernels: vec![3, 5, 7],
                    expansions: vec![1, 3, 6],
                    bits: [vec![2, 4, 6, 8], vec![2, 4, 6, 8]],
                    can_skip: stride == 1 && inputs == out,
                });
                inputs = out;
            }
        }
        Space {
            stem: stem[0],
            stem_stride: stem[1],
            blocks,
            last,
            bits: 8,
        }
    }

    /// The same space with its channels times a factor, each at least 4 and a multiple of 4, and with this many blocks
    /// of a row at most.
    pub fn scaled(is_small: bool, width: f64, depth: usize) -> Space {
        let channels = |own: usize| (((own as f64 * width) / 4.0).round().max(1.0) * 4.0) as usize;
        let mut rows = TABLE;
        if is_small {
            rows[0].1 = 1;
        }
        for (out, _, count) in &mut rows {
            *out = channels(*out);
            *count = (*count).min(depth);
        }
        Space::of_rows([channels(32), if is_small { 1 } else { 2 }], &rows, channels(1280))
    }

    /// The space of a network whose bits alone are open.
    pub fn of_bits(architecture: &MixedArchitecture, bits: &[u32]) -> Space {
        let block = |block: &MixedBlock| BlockSpace {
            out: block.out,
            stride: block.stride,
            kernels: vec![block.kernel],
            expansions: vec![block.expansion],
            bits: [bits.to_vec(), bits.to_vec()],
            can_skip: false,
        };
        Space {
            stem: architecture.stem,
            stem_stride: architecture.stem_stride,
            blocks: architecture.blocks.iter().map(block).collect(),
            last: architecture.last,
            bits: architecture.bits,
        }
    }

    /// The same space with these bits in place of all others.
    pub fn with_bits(mut self, bits: &[u32]) -> Space {
        for block in &mut self.blocks {
            block.bits = [bits.to_vec(), bits.to_vec()];
        }
        self
    }

    /// Channels that a block reads.
    pub fn inputs(&self, block: usize) -> usize {
        match block.checked_sub(1) {
            None => self.stem,
            Some(before) => self.blocks[before].out,
        }
    }

    /// The architecture of a choice of each block.
    pub fn architecture(&self, choices: &[Choice]) -> MixedArchitecture {
        let chosen = self.blocks.iter().zip(choices);
        MixedArchitecture {
            stem: self.stem,
            stem_stride: self.stem_stride,
            blocks: chosen.filter_map(|(block, choice)| block.block(*choice)).collect(),
            last: self.last,
            bits: self.bits,
        }
    }

    /// Number of networks that differ, as far as `f64` counts.
    pub fn networks(&self) -> f64 {
        let of_block = |block: &BlockSpace| {
            let skips = block.count(Aspect::Skip);
            (block.choices() / skips + skips - 1) as f64
        };
        self.blocks.iter().map(of_block).product()
    }

    /// Refuses a space without a network.
    ///
    /// # Errors
    /// No block, a list without an entry or not rising, a size of 0, an even kernel, bits other than 2 to 8 and 32, a
    /// block to be left out whose input is not like its result.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::user(format!("the space has {what}")));
        if self.blocks.is_empty() {
            return wrong("no block; give at least one".to_string());
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let rises = |list: &[usize]| !list.is_empty() && list.windows(2).all(|two| two[0] < two[1]);
            let bits = block
                .bits
                .each_ref()
                .map(|bits| bits.iter().map(|bits| *bits as usize).collect::<Vec<_>>());
            let lists = [&block.kernels, &block.expansions, &bits[0], &bits[1]];
            if !lists.iter().all(|list| rises(list)) {
                return wrong(format!(
                    "in block {number} a list of kernels, expansions or bits that is empty or does not rise; sort it, each \
                     number once"
                ));
            }
            if block.expansions[0] == 0 && block.expansions.len() > 1 {
                return wrong(format!("in block {number} the expansion 0 beside others; leave it out"));
            }
            if block.can_skip && (block.stride != 1 || self.inputs(number) != block.out) {
                return wrong(format!(
                    "block {number} to be left out, whose result is not like its input; let it stay"
                ));
            }
        }
        let first: Vec<Choice> = vec![[0; 5]; self.blocks.len()];
        let last: Vec<Choice> = (self.blocks.iter())
            .map(|block| {
                Aspect::ALL.map(|aspect| {
                    if aspect == Aspect::Skip {
                        0
                    } else {
                        block.count(aspect) - 1
                    }
                })
            })
            .collect();
        [first, last]
            .iter()
            .try_for_each(|choices| self.architecture(choices).check())
    }
}

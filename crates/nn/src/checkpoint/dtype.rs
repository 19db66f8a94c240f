//! The dtypes in which weights are stored; in memory they are `f32`.

use std::io::{self, Write};

use half::{bf16, f16};
use safetensors::Dtype;

use lessen_base::Error;

/// Elements that are converted at once.
const BLOCK: usize = 1 << 14;

lessen_base::words! {
    /// The dtype in which a checkpoint stores weights. Rounding is to nearest, ties to even.
    #[derive(Default)]
    pub enum WeightDtype {
        /// As they are trained.
        #[default]
        F32 = "f32",
        /// The exponents of `f32`, with 7 bits of mantissa.
        Bf16 = "bf16",
        /// IEEE 754 half precision: numbers up to 65504, with 10 bits of mantissa.
        F16 = "f16",
    }
}

impl WeightDtype {
    /// All of them.
    pub const ALL: [WeightDtype; 3] = [WeightDtype::F32, WeightDtype::Bf16, WeightDtype::F16];

    /// The name, such as `bf16`.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// The dtype of a [`WeightDtype::name`].
    pub fn from_name(name: &str) -> Option<WeightDtype> {
        lessen_base::word::Word::from_word(name)
    }

    /// The name in the field `dtype` of `config.json`.
    pub(super) fn transformers_name(self) -> &'static str {
        match self {
            WeightDtype::F32 => "float32",
            WeightDtype::Bf16 => "bfloat16",
            WeightDtype::F16 => "float16",
        }
    }

    /// The name in safetensors.
    pub(super) fn stored(self) -> Dtype {
        match self {
            WeightDtype::F32 => Dtype::F32,
            WeightDtype::Bf16 => Dtype::BF16,
            WeightDtype::F16 => Dtype::F16,
        }
    }

    /// Writes elements of the tensor `name`, little-endian.
    ///
    /// # Errors
    /// A finite number that the dtype does not reach, and the errors of `out`.
    pub(super) fn write(self, name: &str, elements: &[f32], out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        for block in elements.chunks(BLOCK) {
            bytes.clear();
            match self {
                WeightDtype::F32 => bytes.extend(block.iter().flat_map(|x| x.to_le_bytes())),
                WeightDtype::Bf16 => bytes.extend(block.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes())),
                WeightDtype::F16 => bytes.extend(block.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes())),
            }
            self.check_reaches(name, block)?;
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Refuses finite numbers that would become infinite.
    fn check_reaches(self, name: &str, elements: &[f32]) -> io::Result<()> {
        let rounded = |x: f32| match self {
            WeightDtype::F32 => x,
            WeightDtype::Bf16 => bf16::from_f32(x).to_f32(),
            WeightDtype::F16 => f16::from_f32(x).to_f32(),
        };
        let beyond = elements.iter().find(|x| x.is_finite() && rounded(**x).is_infinite());
        beyond.map_or(Ok(()), |x| {
            let what = format!(
                "the tensor `{name}` has the number {x:e}, which {} does not reach; store it as f32",
                self.name()
            );
            Err(io::Error::other(Error::user(what)))
        })
    }
}

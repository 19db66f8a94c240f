//! Compares a file with the model that it was written from.

use super::function::Function;
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::Host;
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

/// How far outputs of a file and its model differ.
pub(super) struct Difference {
    output: String,
    greatest: f64,
    sizes: Vec<usize>,
}

impl Difference {
    /// The greatest difference, divided by the output's largest element where that is above 1.
    pub(super) fn greatest(&self) -> f64 {
        self.greatest
    }

    /// Whether it is at most a bound. A difference that is NaN is not.
    pub(super) fn is_within(&self, bound: f64) -> bool {
        self.greatest <= bound
    }

    /// The difference in words.
    pub(super) fn sentence(&self) -> String {
        let Difference {
            output,
            greatest,
            sizes,
        } = self;
        format!("the output `{output}` of a file for sizes of {sizes:?} differs by {greatest:.1e}")
    }
}

/// The arrays of random inputs.
struct Random {
    ids: Vec<i32>,
    types: Vec<i32>,
    mask: Vec<u8>,
    images: Vec<f32>,
}

/// Random inputs, and what the model computes for them.
pub(super) struct Case {
    pub(super) sizes: Vec<usize>,
    /// The inputs of the file.
    pub(super) inputs: Vec<(String, HostValue)>,
    pub(super) expected: Vec<(String, Vec<f32>)>,
}

/// Random inputs of two sizes that the file was not traced at, for a file with these inputs.
///
/// # Errors
/// A device that fails.
pub(super) fn cases(function: &mut Function, model: &Model) -> Result<Vec<Case>> {
    let all = match function.longest()? {
        None => vec![vec![1], vec![4]],
        Some(longest) => vec![vec![1, longest.min(9)], vec![4, longest.min(23)]],
    };
    let mut random = SplitMix64::new(11);
    let case = |sizes: Vec<usize>| {
        let inputs = Random::new(function, &sizes, &mut random);
        Ok(Case {
            expected: inputs.run(function, &sizes)?,
            inputs: inputs.of_file(function, model, &sizes)?,
            sizes,
        })
    };
    all.into_iter().map(case).collect()
}

/// The greatest difference between a file and these cases.
///
/// # Errors
/// A file that cannot be run.
pub(super) fn difference(session: &Session, cases: Vec<Case>) -> Result<Difference> {
    let mut greatest: Option<Difference> = None;
    for case in cases {
        let found = session.run(case.inputs)?;
        for (name, expected) in &case.expected {
            let output = found.iter().find(|(own, _)| own == name);
            let Some(Data::F32(found)) = output.and_then(|(_, value)| data(value)) else {
                return Err(Error::internal(format!("the file has no output `{name}` of f32")));
            };
            let own = between(found, expected);
            if greatest
                .as_ref()
                .is_none_or(|before| own.is_nan() || own > before.greatest)
            {
                greatest = Some(Difference {
                    output: name.clone(),
                    greatest: own,
                    sizes: case.sizes.clone(),
                });
            }
        }
    }
    greatest.ok_or_else(|| Error::internal("a function without outputs"))
}

fn data(value: &HostValue) -> Option<&Data> {
    match value {
        HostValue::Tensor(tensor) => Some(tensor.data()),
        HostValue::Sequence(_) | HostValue::Absent => None,
    }
}

/// The greatest difference of two outputs, NaN where one is, divided by the largest element where that is above 1.
fn between(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    // Numbers that stand for nothing, such as those of places outside of a text, do not say how large the others are.
    let said = |x: f32| if x.abs() < 1e8 { f64::from(x).abs() } else { 0.0 };
    let largest = expected.iter().fold(1.0, |largest: f64, x| largest.max(said(*x)));
    let differences = found.iter().zip(expected).map(|(a, b)| {
        let difference = (f64::from(*a) - f64::from(*b)).abs();
        if said(*b) == 0.0 && b.abs() >= 1e8 {
            difference / f64::from(b.abs())
        } else {
            difference / largest
        }
    });
    differences.fold(
        0.0,
        |greatest: f64, own| if own.is_nan() { own } else { greatest.max(own) },
    )
}

impl Random {
    /// Random tokens with padding after all texts but the first, or random images.
    fn new(function: &Function, sizes: &[usize], random: &mut SplitMix64) -> Random {
        if let Some(image) = function.model().image() {
            let count = sizes[0] * image.iter().product::<usize>();
            return Random {
                ids: Vec::new(),
                types: Vec::new(),
                mask: Vec::new(),
                images: (0..count).map(|_| (2.0 * random.unit() - 1.0) as f32).collect(),
            };
        }
        let (batch, length) = (sizes[0], sizes[1]);
        let vocab = function.model().vocab_size().max(1) as u64;
        let mut inputs = Random {
            ids: (0..batch * length).map(|_| random.below(vocab) as i32).collect(),
            types: (0..batch * length).map(|_| random.below(2) as i32).collect(),
            mask: Vec::with_capacity(batch * length),
            images: Vec::new(),
        };
        for text in 0..batch {
            let real = if text == 0 {
                length
            } else {
                1 + random.below(length as u64) as usize
            };
            inputs.mask.extend((0..length).map(|place| u8::from(place < real)));
        }
        inputs
    }

    /// The outputs of the model.
    fn run(&self, function: &mut Function, sizes: &[usize]) -> Result<Vec<(String, Vec<f32>)>> {
        if function.model().image().is_some() {
            return function.run(sizes, &[("images", Host::F32(&self.images))]);
        }
        let all = [
            ("tokens", Host::I32(&self.ids)),
            ("types", Host::I32(&self.types)),
            ("mask", Host::Bool(&self.mask)),
        ];
        let reads = function.reads()?;
        let own: Vec<(&str, Host<'_>)> = all
            .into_iter()
            .filter(|(name, _)| reads.iter().any(|own| own == name))
            .collect();
        function.run(sizes, &own)
    }

    /// The inputs of the file.
    fn of_file(&self, function: &Function, model: &Model, sizes: &[usize]) -> Result<Vec<(String, HostValue)>> {
        let mut inputs = Vec::new();
        for input in &model.inputs {
            let whole = |numbers: Vec<i64>| HostTensor::new(&sizes[..2], numbers);
            let wide = |numbers: &[i32]| numbers.iter().map(|number| i64::from(*number)).collect();
            let tensor = match (input.name.as_str(), function.model().image()) {
                ("input_ids", None) => whole(wide(&self.ids))?,
                ("token_type_ids", None) => whole(wide(&self.types))?,
                ("attention_mask", None) => whole(self.mask.iter().map(|real| i64::from(*real)).collect())?,
                ("pixel_values", Some(image)) => self.channels_first(sizes[0], image)?,
                (name, _) => return Err(Error::internal(format!("the file has an input `{name}`"))),
            };
            inputs.push((input.name.clone(), tensor.into()));
        }
        Ok(inputs)
    }

    /// The images `[N, H, W, C]` as `[N, C, H, W]`.
    fn channels_first(&self, count: usize, [height, width, channels]: [usize; 3]) -> Result<HostTensor> {
        let pixels = height * width;
        let mut moved = Vec::with_capacity(self.images.len());
        for image in self.images.chunks_exact((pixels * channels).max(1)) {
            for channel in 0..channels {
                moved.extend(image.iter().skip(channel).step_by(channels).copied());
            }
        }
        HostTensor::new(&[count, channels, height, width], moved)
    }
}

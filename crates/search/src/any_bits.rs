//! A network whose bits are inputs: trained once, it is asked with any bits without being compiled anew.

use crate::batches::Batches;
use crate::gates::Gates;
use crate::rounding::largest_code;
use crate::searcher::{largest, parameters};
use crate::settings::Settings;
use crate::space::Space;
use crate::steps::{CLASS_LOGITS, IMAGES, LOSS, TARGETS, WEIGHT_RATE, add_descent, momentum_of, soft_cross_entropy};
use lessen_base::{Error, Result, SplitMix64};
use lessen_condense::ImageSource;
use lessen_data::images::Mixing;
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_graph::{DType, Tensor};
use lessen_nn::models::vision::MixedArchitecture;
use lessen_nn::{Context, ParamSpec, Weights};
use lessen_train::{Function, FunctionOptions, Session};

/// Data input with the largest code of each block's 1 x 1 layers and of its depthwise layer, `f32[blocks, 2]`.
const CODES: &str = "search.codes";

/// Bits of each block: of its 1 x 1 layers, and of its depthwise layer.
pub type BlockBits = Vec<[u32; 2]>;

/// A network whose bits are inputs. Norms have the statistics of the batch, in answers too: other bits have other
/// ones.
pub struct AnyBits<'a> {
    space: Space,
    source: &'a dyn ImageSource,
    settings: Settings,
    params: Vec<ParamSpec>,
    session: Session,
    step: Function,
    question: Function,
    /// Steps done, which decide the random numbers of the next one.
    done: u64,
}

impl<'a> AnyBits<'a> {
    /// The network of an architecture, whose bits do not count, with the initial values of the settings' seed. It is
    /// trained as the weights of a search are: rate, momentum, decay, clipping, batch and how images are changed.
    ///
    /// # Errors
    /// Settings out of range, fewer images than a batch has, a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        architecture: &MixedArchitecture,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<AnyBits<'a>> {
        settings.check()?;
        let space = Space::of_bits(architecture, &[8]);
        space.check()?;
        if source.labels().len() < settings.batch {
            return Err(Error::user(format!(
                "there are {} images, and a batch has {}; give more images or choose a smaller batch",
                source.labels().len(),
                settings.batch
            )));
        }
        let params = parameters(&space, source)?;
        let mut session = Session::zeros(device, params.clone())?;
        session.set_precision(settings.precision);
        let options = FunctionOptions {
            training: true,
            budget: settings.budget,
            tightest: settings.tightest,
            ..FunctionOptions::default()
        };
        let of_images = (source.shape(), source.classes());
        let step = session.function_with(options, |cx| add_step(cx, &space, &params, &settings, of_images))?;
        let question = session.function_with(options, |cx| answer(cx, &space, &settings, of_images).to_vec())?;
        session.draw(|_| true, settings.seed)?;
        Ok(AnyBits {
            space,
            source,
            settings,
            params,
            session,
            step,
            question,
            done: 0,
        })
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Allocates the memory of runs; without this call, the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn reserve(&mut self) -> Result<()> {
        self.session.reserve()
    }

    /// Its weights.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&self) -> Result<Weights> {
        self.session.weights()
    }

    /// Gives it these weights, and forgets all momentum.
    ///
    /// # Errors
    /// Weights of another network.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.session.set_weights(weights)?;
        for param in &self.params {
            let zeros = vec![0.0; param.shape.iter().product()];
            let name = momentum_of(&param.name);
            self.session.set_state(&name, &HostArray::F32(zeros))?;
        }
        Ok(())
    }

    /// Trains for some epochs with these bits, at a learning rate that falls from `rate` to 0 by a cosine; `progress`
    /// hears of the mean loss of each.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, a loss that is not finite, an error of `progress`.
    pub fn train(
        &mut self,
        bits: &[[u32; 2]],
        (epochs, rate): (usize, f64),
        progress: &mut dyn FnMut(usize, f64) -> Result<()>,
    ) -> Result<()> {
        let codes = self.codes(bits)?;
        let batches = Batches {
            augment: self.settings.augment,
            smoothing: self.settings.label_smoothing,
            mixing: Mixing {
                mixup: Some(self.settings.mixup).filter(|mixup| *mixup > 0.0),
                cutmix: None,
            },
        };
        let mut order: Vec<usize> = (0..self.source.labels().len()).collect();
        let steps = order.len() / self.settings.batch;
        for epoch in 0..epochs {
            let mut random = SplitMix64::keyed(self.settings.seed, self.done);
            random.shuffle(&mut order);
            let mut sum = 0.0;
            for (step, chosen) in order.chunks_exact(self.settings.batch).enumerate() {
                let (images, targets) = batches.of(self.source, chosen, &mut random)?;
                let part = (epoch * steps + step) as f64 / (epochs * steps) as f64;
                let rate = [(0.5 * rate * (1.0 + (std::f64::consts::PI * part).cos())) as f32];
                let inputs = [
                    (IMAGES, Host::F32(&images)),
                    (TARGETS, Host::F32(&targets)),
                    (CODES, Host::F32(&codes)),
                    (WEIGHT_RATE, Host::F32(&rate)),
                ];
                let loss = self.session.run(self.step, &inputs)?.scalar(LOSS)?;
                if !loss.is_finite() {
                    return Err(Error::user(format!(
                        "the loss is not finite in epoch {} of a training; choose a smaller learning rate of the weights",
                        epoch + 1
                    )));
                }
                sum += loss;
                self.done += 1;
            }
            progress(epoch, sum / steps as f64)?;
        }
        Ok(())
    }

    /// The mean loss and the accuracy on these images of a source with these bits; images that fill no batch are left
    /// out.
    ///
    /// # Errors
    /// Fewer images than a batch has, an image that cannot be read, a device that fails.
    pub fn test(&mut self, source: &dyn ImageSource, images: &[usize], bits: &[[u32; 2]]) -> Result<[f64; 2]> {
        let codes = self.codes(bits)?;
        let (batch, classes) = (self.settings.batch, source.classes());
        if images.len() < batch {
            return Err(Error::user(format!(
                "there are {} images to test on, and a batch has {batch}; give more images or choose a smaller batch",
                images.len()
            )));
        }
        let (mut loss, mut right) = (0.0, 0);
        // Norms have the statistics of the batch, so images of all classes are in each.
        let mut random = SplitMix64::named(self.settings.seed, "search.test");
        let mut images = images.to_vec();
        random.shuffle(&mut images);
        for chosen in images.chunks_exact(batch) {
            let (pixels, targets) = Batches::PLAIN.of(source, chosen, &mut random)?;
            let inputs = [
                (IMAGES, Host::F32(&pixels)),
                (TARGETS, Host::F32(&targets)),
                (CODES, Host::F32(&codes)),
            ];
            let results = self.session.run(self.question, &inputs)?;
            loss += results.scalar(LOSS)?;
            let answers = results.f32(CLASS_LOGITS)?.chunks_exact(classes).zip(chosen);
            right += answers
                .filter(|(answer, image)| largest(answer) == source.labels()[**image] as usize)
                .count();
        }
        let batches = images.len() / batch;
        Ok([loss / batches as f64, right as f64 / (batches * batch) as f64])
    }

    /// By how much the loss on these images rises over that of 8 bits, where the 1 x 1 layers of one block, or its
    /// depthwise layer, have other bits: by block, layers, and place of the bits.
    ///
    /// # Errors
    /// As [`AnyBits::test`].
    pub fn sensitivities(
        &mut self,
        source: &dyn ImageSource,
        images: &[usize],
        bits: &[u32],
    ) -> Result<Vec<[Vec<f64>; 2]>> {
        let blocks = self.space.blocks.len();
        let all = vec![[8; 2]; blocks];
        let [before, _] = self.test(source, images, &all)?;
        let mut found = vec![[Vec::new(), Vec::new()]; blocks];
        for (block, own) in found.iter_mut().enumerate() {
            for (which, rises) in own.iter_mut().enumerate() {
                for other in bits {
                    let mut changed = all.clone();
                    changed[block][which] = *other;
                    rises.push(self.test(source, images, &changed)?[0] - before);
                }
            }
        }
        Ok(found)
    }

    fn codes(&self, bits: &[[u32; 2]]) -> Result<Vec<f32>> {
        if bits.len() != self.space.blocks.len() {
            return Err(Error::user(format!(
                "bits of {} blocks are given for a network of {}; give as many",
                bits.len(),
                self.space.blocks.len()
            )));
        }
        match bits.iter().flatten().find(|bits| !(2..=8).contains(*bits)) {
            Some(wrong) => Err(Error::user(format!("{wrong} bits are given; give 2 to 8"))),
            None => Ok(bits.iter().flatten().map(|bits| largest_code(*bits) as f32).collect()),
        }
    }
}

/// The loss and the logits of a batch.
fn answer<'g>(
    cx: &Context<'g>,
    space: &Space,
    settings: &Settings,
    (shape, classes): ([usize; 3], usize),
) -> [(String, Tensor<'g>); 2] {
    let batch = settings.batch;
    let images = cx.input(IMAGES, DType::F32, &[&[batch][..], &shape].concat());
    let targets = cx.input(TARGETS, DType::F32, &[batch, classes]);
    let gates = Gates::of_codes(cx.input(CODES, DType::F32, &[space.blocks.len(), 2]));
    let logits = space.supernet(cx, images, (classes, settings.spread), &gates);
    let loss = soft_cross_entropy(logits, targets);
    [(LOSS.to_string(), loss), (CLASS_LOGITS.to_string(), logits)]
}

/// Adds a step by SGD.
fn add_step<'g>(
    cx: &Context<'g>,
    space: &Space,
    params: &[ParamSpec],
    settings: &Settings,
    of_images: ([usize; 3], usize),
) -> Vec<(String, Tensor<'g>)> {
    let results = answer(cx, space, settings, of_images);
    add_descent(cx, params, results[0].1, settings);
    results.to_vec()
}

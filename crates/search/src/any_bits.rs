//! A network whose bits are inputs: trained once, it is asked with any bits without being compiled anew.

use crate::batches::{Batches, largest};
use crate::gates::Gates;
use crate::kept::{of_params, read, restore};
use crate::rounding::{FLOAT, code_of};
use crate::settings::Settings;
use crate::space::Space;
use crate::steps::{CLASS_LOGITS, IMAGES, LOSS, TARGETS, WEIGHT_RATE, add_descent, momentum_of, soft_cross_entropy};
use crate::supernet::parameters;
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::ImageSource;
use lessen_device::{Host, SharedDevice};
use lessen_graph::{DType, Tensor};
use lessen_nn::models::vision::MixedArchitecture;
use lessen_nn::{Cx, ParamSpec, Weights};
use lessen_train::{Function, FunctionOptions, Session, forget_momentum};

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
    /// Whether a layer may be without rounding.
    has_floats: bool,
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
        AnyBits::among(device, (architecture, &[8]), source, settings)
    }

    /// As [`AnyBits::new`], for a network that is asked with no other bits than 8 and these; 32 stands for no rounding.
    ///
    /// # Errors
    /// As [`AnyBits::new`]; bits other than 2 to 8 and 32.
    pub fn among(
        device: impl Into<SharedDevice>,
        (architecture, bits): (&MixedArchitecture, &[u32]),
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<AnyBits<'a>> {
        settings.check()?;
        Space::of_bits(architecture, bits).check()?;
        let (space, has_floats) = (Space::of_bits(architecture, &[8]), bits.contains(&FLOAT));
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
        let asked = Asked {
            space: &space,
            settings: &settings,
            of_images: (source.shape(), source.classes()),
            has_floats,
        };
        let step = session.function_with(options, |cx| add_step(cx, &params, asked))?;
        let question = session.function_with(options, |cx| asked.answer(cx).to_vec())?;
        session.draw(|_| true, settings.seed)?;
        Ok(AnyBits {
            space,
            source,
            settings,
            params,
            session,
            step,
            question,
            has_floats,
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

    /// Steps of an epoch.
    pub fn steps(&self) -> usize {
        self.source.labels().len() / self.settings.batch
    }

    /// Its weights and their momentum, by name.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&self) -> Result<Weights> {
        read(&self.session, of_params(&self.params))
    }

    /// Continues after `steps` steps from the [`AnyBits::state`] after them.
    ///
    /// # Errors
    /// A state of another network; nothing has changed then.
    pub fn resume(&mut self, steps: u64, state: &Weights) -> Result<()> {
        restore(&mut self.session, of_params(&self.params), state)?;
        self.done = steps;
        Ok(())
    }

    /// As [`AnyBits::resume`] with the weights of a state, but without their momentum.
    ///
    /// # Errors
    /// A state of another network; nothing has changed then.
    pub fn begin_from(&mut self, steps: u64, state: &Weights) -> Result<()> {
        let own = self
            .params
            .iter()
            .map(|param| (param.name.clone(), param.shape.clone()));
        restore(&mut self.session, own, state)?;
        forget_momentum(&mut self.session, &self.params, momentum_of)?;
        self.done = steps;
        Ok(())
    }

    /// Trains for an epoch with these bits: the one numbered `epoch`, from 0, of `epochs`, over which the learning rate
    /// falls from `rate` to 0 by a cosine. `progress` hears of the number of each step and its loss. Returns the mean
    /// loss.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, a loss that is not finite, an error of `progress`.
    pub fn epoch(
        &mut self,
        bits: &[[u32; 2]],
        (epoch, epochs, rate): (usize, usize, f64),
        progress: &mut dyn FnMut(usize, f64) -> Result<()>,
    ) -> Result<f64> {
        let codes = self.codes(bits)?;
        let batches = Batches::training(&self.settings);
        let mut order: Vec<usize> = (0..self.source.labels().len()).collect();
        let mut random = SplitMix64::keyed(self.settings.seed, self.done);
        random.shuffle(&mut order);
        let (steps, mut sum) = (self.steps(), 0.0);
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
            progress(step, loss)?;
        }
        Ok(sum / steps as f64)
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

    /// The bits that tests of sensitivity have: 8 everywhere, but for the 1 x 1 layers of one block, or its depthwise
    /// layer, with one of these bits.
    pub fn tests(&self, bits: &[u32]) -> Vec<BlockBits> {
        let all = vec![[8; 2]; self.space.blocks.len()];
        let places = (0..all.len()).flat_map(|block| [(block, 0), (block, 1)]);
        let changed = places.flat_map(|(block, which)| {
            let all = &all;
            bits.iter().map(move |other| {
                let mut changed = all.clone();
                changed[block][which] = *other;
                changed
            })
        });
        changed.filter(|changed| *changed != all).collect()
    }

    /// By how much losses rise over `before`, that of 8 bits: by block, layers, and place of the bits. `losses` are
    /// those of [`AnyBits::tests`] of these bits, in their order.
    pub fn rises(&self, bits: &[u32], before: f64, losses: &[f64]) -> Vec<[Vec<f64>; 2]> {
        let mut losses = losses.iter();
        let mut rise = |bits: &u32| match bits {
            8 => 0.0,
            _ => losses.next().map_or(f64::NAN, |loss| loss - before),
        };
        let mut of_layers = || bits.iter().map(&mut rise).collect();
        (self.space.blocks.iter()).map(|_| [of_layers(), of_layers()]).collect()
    }

    /// By how much the loss on these images rises over `before` in all [`AnyBits::tests`]; see [`AnyBits::rises`].
    /// Losses that were measured before are `known`, in this order; `progress` hears of every other one.
    ///
    /// # Errors
    /// As [`AnyBits::test`], and an error of `progress`.
    pub fn sensitivities(
        &mut self,
        (source, images): (&dyn ImageSource, &[usize]),
        bits: &[u32],
        (before, known): (f64, &[f64]),
        progress: &mut dyn FnMut(f64) -> Result<()>,
    ) -> Result<Vec<[Vec<f64>; 2]>> {
        let mut losses = known.to_vec();
        for changed in self.tests(bits).iter().skip(known.len()) {
            let [loss, _] = self.test(source, images, changed)?;
            progress(loss)?;
            losses.push(loss);
        }
        Ok(self.rises(bits, before, &losses))
    }

    fn codes(&self, bits: &[[u32; 2]]) -> Result<Vec<f32>> {
        if bits.len() != self.space.blocks.len() {
            return Err(Error::user(format!(
                "bits of {} blocks are given for a network of {}; give as many",
                bits.len(),
                self.space.blocks.len()
            )));
        }
        let is_known = |bits: &u32| (2..=8).contains(bits) || (self.has_floats && *bits == FLOAT);
        match bits.iter().flatten().find(|bits| !is_known(bits)) {
            Some(wrong) => Err(Error::user(format!("{wrong} bits are given; give 2 to 8"))),
            None => Ok(bits.iter().flatten().map(|bits| code_of(*bits)).collect()),
        }
    }
}

/// A network that is asked with batches of images.
#[derive(Clone, Copy)]
struct Asked<'a> {
    space: &'a Space,
    settings: &'a Settings,
    /// Height, width and channels of an image, and the number of classes.
    of_images: ([usize; 3], usize),
    /// Whether a layer may be without rounding.
    has_floats: bool,
}

impl Asked<'_> {
    /// The loss and the logits of a batch.
    fn answer(self, cx: Cx) -> [(String, Tensor); 2] {
        let (batch, (shape, classes)) = (self.settings.batch, self.of_images);
        let images = cx.input(IMAGES, DType::F32, &[&[batch][..], &shape].concat());
        let targets = cx.input(TARGETS, DType::F32, &[batch, classes]);
        let codes = cx.input(CODES, DType::F32, &[self.space.blocks.len(), 2]);
        let gates = Gates::of_codes(codes, self.has_floats);
        let logits = self.space.supernet(cx, images, (classes, self.settings.spread), &gates);
        let loss = soft_cross_entropy(logits, targets);
        [(LOSS.to_string(), loss), (CLASS_LOGITS.to_string(), logits)]
    }
}

/// Adds a step by SGD.
fn add_step(cx: Cx, params: &[ParamSpec], asked: Asked<'_>) -> Vec<(String, Tensor)> {
    let results = asked.answer(cx);
    add_descent(cx, params, results[0].1, asked.settings);
    results.to_vec()
}

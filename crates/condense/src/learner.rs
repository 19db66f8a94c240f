//! A network on a device that is trained on one set of images and asked about others.

use crate::divergence::Divergence;
use crate::functions::{parts, plans};
use crate::learner_graph::{BATCH, CLASSES, LOGITS, LOSS, PREFIX, Question, RATE, StepShape, TARGETS};
use crate::learner_graph::{add_step, momentum_of};
use crate::network::{Described, Network, described};
use crate::training::TrainingSettings;
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_data::images::ImageSource;
use lessen_device::{Host, SharedDevice};
use lessen_nn::names::KEY;
use lessen_nn::{ParamSpec, Weights};
use lessen_train::{Function, FunctionOptions, Session, forget_momentum};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Images of a batch in which a trained network is asked; the last batch is filled up.
const ASKED: usize = 256;

/// A batch on which a network has been trained.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// Number of the epoch, from 0.
    pub epoch: usize,
    /// Numbers of the images in their set.
    pub images: &'a [usize],
    /// The class that the network gave each of them, before this step.
    pub predicted: &'a [u32],
    /// The mean loss.
    pub loss: f64,
}

/// A network that learns from images. All that it needs on the device is compiled once, for any number of trainings.
pub struct Learner<'a> {
    network: &'a dyn Network,
    shape: [usize; 3],
    classes: usize,
    settings: TrainingSettings,
    params: Vec<ParamSpec>,
    session: Session,
    steps: BTreeMap<StepShape, Function>,
    questions: BTreeMap<(Question, usize), Function>,
    /// Width of the features, if the network tells any.
    features: Option<usize>,
    /// How functions are planned.
    options: FunctionOptions,
    seed: u64,
}

impl<'a> Learner<'a> {
    /// A network for images of this `[H, W, C]` and number of classes, with the initial values of the settings' seed.
    ///
    /// # Errors
    /// Settings out of range, images that the network cannot read, parameters that the device's memory cannot hold.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        (shape, classes): ([usize; 3], usize),
        settings: TrainingSettings,
    ) -> Result<Learner<'a>> {
        let options = FunctionOptions {
            budget: settings.budget,
            ..FunctionOptions::default()
        };
        Learner::planned(device, network, (shape, classes), settings, options)
    }

    /// A learner whose functions for trainings on these sets and for tests on `test` are compiled, so that its session
    /// tells the memory that they take. With `tightest`, their plans take the least memory.
    ///
    /// # Errors
    /// As [`Learner::new`], sets of other images, a budget below the floor.
    pub fn of_sets(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
        settings: &TrainingSettings,
        tightest: bool,
    ) -> Result<Learner<'a>> {
        let options = FunctionOptions {
            budget: settings.budget,
            tightest,
            ..FunctionOptions::default()
        };
        let of_images = (test.shape(), test.classes());
        let mut learner = Learner::planned(device, network, of_images, settings.clone(), options)?;
        for set in sets {
            learner.compile_for(*set, &[])?;
        }
        learner.compile_for_test(test)?;
        Ok(learner)
    }

    /// Compiles what a test needs.
    fn compile_for_test(&mut self, test: &dyn ImageSource) -> Result<()> {
        self.check(test)?;
        self.question_of(Question::Logits, ASKED.min(test.labels().len()))?;
        Ok(())
    }

    /// Bytes of the arrays that a training on a set of this number of images and a test on `tested` images make.
    pub fn array_bytes(&self, images: usize, tested: usize) -> usize {
        let image = 4 * self.shape.iter().product::<usize>();
        let (batch, asked) = (self.settings.batch.min(images), ASKED.min(tested));
        // Augmentation has a copy of the batch, and of an image as numbers of other types.
        let training = (2 * batch + 4) * image + size_of::<usize>() * images;
        let answers = tested * (4 * self.classes + 4 + size_of::<usize>());
        training.max(asked * image + answers)
    }

    /// [`Learner::new`], with plans as these options say.
    pub(crate) fn planned(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        (shape, classes): ([usize; 3], usize),
        settings: TrainingSettings,
        options: FunctionOptions,
    ) -> Result<Learner<'a>> {
        settings.check()?;
        let Described {
            params,
            classes: logits,
            features,
        } = described(network, shape)?;
        if logits != classes {
            return Err(Error::user(format!(
                "the network has {logits} classes, and the images have {classes}; give the network as many"
            )));
        }
        if let Some(param) = params.iter().find(|param| param.name.starts_with(PREFIX)) {
            return Err(Error::user(format!(
                "the network has a parameter `{}`; names that begin with `{PREFIX}` belong to its training",
                param.name
            )));
        }
        let mut session = Session::zeros(device, params.clone())?;
        session.set_precision(settings.precision);
        let seed = settings.seed;
        let mut learner = Learner {
            network,
            shape,
            classes,
            settings,
            params,
            session,
            steps: BTreeMap::new(),
            questions: BTreeMap::new(),
            features,
            options,
            seed,
        };
        learner.restart(seed)?;
        Ok(learner)
    }

    /// The settings.
    pub fn settings(&self) -> &TrainingSettings {
        &self.settings
    }

    /// The session with the parameters.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Forgets all that was learnt: the network has the initial values of this seed, which also decides the order of
    /// images and their augmentation.
    ///
    /// # Errors
    /// A device that fails.
    pub fn restart(&mut self, seed: u64) -> Result<()> {
        self.seed = seed;
        self.session.draw(|_| true, seed)?;
        if self.steps.is_empty() {
            return Ok(());
        }
        forget_momentum(&mut self.session, &self.params, momentum_of)
    }

    /// Gives parameters and buffers these values; one that `weights` lacks keeps its value.
    ///
    /// # Errors
    /// A name that the network does not have, a wrong shape or number of elements.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.session.set_weights(weights)
    }

    /// Trains for all epochs, from the present values on. `seen` hears of every batch.
    ///
    /// All random numbers depend on the seed and the number of the epoch alone.
    ///
    /// # Errors
    /// Images of another size, a class that the network does not have, an image that cannot be read; a loss that is
    /// infinite or NaN; an error of `seen`.
    pub fn train(&mut self, set: &dyn ImageSource, seen: &mut dyn FnMut(&Presented<'_>) -> Result<()>) -> Result<()> {
        match self.train_while_finite(set, seen)? {
            None => Ok(()),
            Some(divergence) => Err(divergence.refusal()),
        }
    }

    /// Trains as [`train`](Learner::train) does, and ends at a loss that is infinite or NaN, which it returns.
    pub(crate) fn train_while_finite(
        &mut self,
        set: &dyn ImageSource,
        seen: &mut dyn FnMut(&Presented<'_>) -> Result<()>,
    ) -> Result<Option<Divergence>> {
        self.check(set)?;
        let count = set.labels().len();
        let batch = self.settings.batch.min(count);
        for epoch in 0..self.settings.epochs() {
            let mut random = SplitMix64::keyed(self.seed, epoch as u64);
            let mut order: Vec<usize> = (0..count).collect();
            random.shuffle(&mut order);
            for images in order.chunks(batch) {
                let (loss, predicted) = self.step(set, images, epoch, &mut random)?;
                if !loss.is_finite() {
                    let rate = self.settings.rate_of(0, set.learned_rate())?;
                    return Ok(Some(Divergence { epoch, loss, rate }));
                }
                seen(&Presented {
                    epoch,
                    images,
                    predicted: &predicted,
                    loss,
                })?;
            }
        }
        Ok(None)
    }

    /// A step on these images; returns the loss and the predicted classes.
    fn step(
        &mut self,
        set: &dyn ImageSource,
        images: &[usize],
        epoch: usize,
        random: &mut SplitMix64,
    ) -> Result<(f64, Vec<u32>)> {
        let mut pixels = set.gather(images)?;
        self.settings.augmentation.apply(&mut pixels, self.shape, random);
        let key = [random.next_u64(), random.next_u64()].map(|word| word as u32);
        let rate = [self.settings.rate_of(epoch, set.learned_rate())? as f32];
        let soft = set.soft_labels();
        let step = self.step_of(StepShape {
            batch: images.len(),
            is_soft: soft.is_some(),
        })?;
        let labels: Vec<i32> = images.iter().map(|&image| set.labels()[image] as i32).collect();
        let targets: Vec<f32> = match soft {
            Some(soft) => {
                let rows = images
                    .iter()
                    .flat_map(|&image| &soft[image * self.classes..][..self.classes]);
                rows.copied().collect()
            }
            None => Vec::new(),
        };
        let results = self.session.run(
            step,
            &[
                (BATCH, Host::F32(&pixels)),
                (CLASSES, Host::I32(&labels)),
                (TARGETS, Host::F32(&targets)),
                (RATE, Host::F32(&rate)),
                (KEY, Host::U32(&key)),
            ],
        )?;
        Ok((results.scalar(LOSS)?, largest(results.f32(LOGITS)?, self.classes)))
    }

    /// The step of a batch, which is compiled when it first comes.
    fn step_of(&mut self, shape: StepShape) -> Result<Function> {
        if let Some(step) = self.steps.get(&shape) {
            return Ok(*step);
        }
        let options = FunctionOptions {
            training: true,
            ..self.options
        };
        let (network, params, of_images) = (self.network, &self.params, (self.shape, &self.settings));
        let step = self
            .session
            .function_with(options, |cx| add_step(cx, network, params, shape, of_images))?;
        self.steps.insert(shape, step);
        Ok(step)
    }

    /// Refuses images of another size and classes that the network does not have.
    fn check(&self, source: &dyn ImageSource) -> Result<()> {
        if source.labels().is_empty() {
            return Err(Error::user("there is no image; give at least one"));
        }
        if source.shape() != self.shape || source.classes() != self.classes {
            return Err(Error::user(format!(
                "images of {:?} with {} classes are not those of the network, {:?} with {}; give images of one dataset",
                source.shape(),
                source.classes(),
                self.shape,
                self.classes
            )));
        }
        Ok(())
    }

    /// The function of a question about batches of this size, which is compiled when it is first asked.
    fn question_of(&mut self, question: Question, batch: usize) -> Result<Function> {
        if let Some(function) = self.questions.get(&(question, batch)) {
            return Ok(*function);
        }
        let (network, shape) = (self.network, self.shape);
        let function = self
            .session
            .function_with(self.options, |cx| question.add(cx, network, (batch, shape)))?;
        self.questions.insert((question, batch), function);
        Ok(function)
    }

    /// Compiles all that a training on a set and questions about it need, so that the plans tell the memory.
    pub(crate) fn compile_for(&mut self, set: &dyn ImageSource, questions: &[Question]) -> Result<()> {
        self.check(set)?;
        let count = set.labels().len();
        for batch in parts(count, self.settings.batch) {
            self.step_of(StepShape {
                batch,
                is_soft: set.soft_labels().is_some(),
            })?;
        }
        for question in questions {
            self.question_of(*question, ASKED.min(count))?;
        }
        Ok(())
    }

    /// The plans of all functions: `step 256`, a step on that many images; `features 256`, their features; `logits
    /// 256`, their logits.
    pub(crate) fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        let steps = self.steps.iter();
        let steps = steps.map(|(shape, step)| (format!("step {}", shape.batch), *step));
        let questions = self.questions.iter();
        let questions =
            questions.map(|((question, batch), function)| (format!("{} {batch}", question.result()), *function));
        plans(&self.session, steps.chain(questions).collect())
    }

    /// Allocates the memory of runs.
    ///
    /// # Errors
    /// A device that cannot hold it.
    pub fn reserve(&mut self) -> Result<()> {
        self.session.reserve()
    }

    /// The answers about these images, one after another.
    fn ask(&mut self, question: Question, source: &dyn ImageSource, images: &[usize]) -> Result<Vec<f32>> {
        self.check(source)?;
        let batch = ASKED.min(source.labels().len());
        let function = self.question_of(question, batch)?;
        let mut answers = Vec::new();
        for part in images.chunks(batch) {
            let mut pixels = source.gather(part)?;
            pixels.resize(batch * source.size(), 0.0);
            let results = self.session.run(function, &[(BATCH, Host::F32(&pixels))])?;
            let answer = results.f32(question.result())?;
            if answers.is_empty() {
                answers.reserve_exact(answer.len() / batch * images.len());
            }
            answers.extend_from_slice(&answer[..answer.len() / batch * part.len()]);
        }
        Ok(answers)
    }

    /// The class that the network gives each of these images.
    ///
    /// # Errors
    /// Images of another size, an image that cannot be read.
    pub fn predict(&mut self, source: &dyn ImageSource, images: &[usize]) -> Result<Vec<u32>> {
        let classes = self.classes;
        Ok(largest(&self.ask(Question::Logits, source, images)?, classes))
    }

    /// The share of the images whose class the network finds.
    ///
    /// # Errors
    /// As [`Learner::predict`].
    pub fn accuracy(&mut self, source: &dyn ImageSource) -> Result<f64> {
        let all: Vec<usize> = (0..source.labels().len()).collect();
        let predicted = self.predict(source, &all)?;
        let right = predicted.iter().zip(source.labels()).filter(|(a, b)| a == b).count();
        Ok(right as f64 / all.len() as f64)
    }

    /// What the last layer reads of these images, `[images, width]`.
    ///
    /// # Errors
    /// As [`Learner::predict`], and a network that tells no features.
    pub fn features(&mut self, source: &dyn ImageSource, images: &[usize]) -> Result<Vec<f32>> {
        self.check_features()?;
        self.ask(Question::Features, source, images)
    }

    /// The width of the features; 0 if the network tells none.
    pub(crate) fn feature_width(&self) -> usize {
        self.features.unwrap_or(0)
    }

    /// Refuses a network that tells no features.
    pub(crate) fn check_features(&self) -> Result<()> {
        if self.features.is_some() {
            return Ok(());
        }
        Err(Error::user(
            "the network tells no features; return `Outputs` with the features that its last layer reads",
        ))
    }
}

/// The first of the largest elements of each row.
fn largest(logits: &[f32], classes: usize) -> Vec<u32> {
    let of_row = |row: &[f32]| {
        let mut best = 0;
        for (class, logit) in row.iter().enumerate() {
            if *logit > row[best] {
                best = class;
            }
        }
        best as u32
    };
    logits.chunks_exact(classes).map(of_row).collect()
}

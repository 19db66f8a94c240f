//! Trajectory matching (Cazenavette et al. 2022): a student that is trained on the synthetic images for some steps
//! comes near an expert that was trained on the real images for some epochs.

use crate::condensation::{Condensation, ImageUpdate, Preparation, of_common};
use crate::experts::Experts;
use crate::functions::{named, of_size, parts, plans};
use crate::network::Network;
use crate::network_update::{self, LOSS, NETWORK_MOMENTUM_RATE, NETWORK_RATE, SEEN};
use crate::objective::{Objective, Trajectories};
use crate::second_derivative::check_second_derivative;
use crate::settings::Settings;
use crate::siamese_graph::ChangeArrays;
use crate::student::{CHOSEN, CLASSES, DISTANCE, Student, TARGET, trained};
use crate::synthetic::Synthetic;
use crate::synthetic_set::STUDENT_RATE;
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_nn::names::KEY;
use lessen_train::{Function, FunctionOptions};
use std::path::Path;
use std::sync::Arc;

/// A condensation by trajectory matching.
pub struct TrajectoryMatcher<'a> {
    layers: [String; 1],
    common: Synthetic<'a>,
    trajectories: Trajectories,
    experts: Experts,
    student: Student,
    /// Steps of an expert by the size of the batch.
    steps: Vec<(usize, Function)>,
    /// The training of a student and the update of the images.
    update: Function,
}

impl<'a> TrajectoryMatcher<'a> {
    /// Prepares a condensation: graphs are compiled and memory is allocated. Experts are kept in a folder of `work`, or
    /// in memory without it; [`Condensation::prepare`] trains them.
    ///
    /// # Errors
    /// Settings out of range; a class with fewer real images than synthetic ones; images that the network cannot read;
    /// an operation without a second derivative, by its name; a budget below the floor; a folder with experts that were
    /// trained in another way.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
        work: Option<&Path>,
    ) -> Result<TrajectoryMatcher<'a>> {
        let Objective::Trajectories(trajectories) = settings.objective else {
            return Err(settings.is_of_another_objective("trajectory matching"));
        };
        let mut common = Synthetic::new(device, network, source, settings)?;
        check_second_derivative(network, source.shape())?;
        let (set, options) = (common.set(), common.options());
        let student = Student {
            set,
            augment: common.settings.augment,
            steps: trajectories.steps,
            batch: trajectories.batch.unwrap_or(usize::MAX).min(set.count()),
        };
        let Synthetic {
            session,
            params,
            settings,
            ..
        } = &mut common;
        let update = session.function_with(options, |cx| student.add(cx, network, params))?;
        let training = FunctionOptions {
            training: true,
            ..options
        };
        let steps = parts(source.labels().len(), settings.network_batch).into_iter();
        let steps = steps.map(|batch| {
            let function = session.function_with(training, |cx| {
                network_update::add_real_step(cx, network, params, (batch, set.shape), settings.augment)
            });
            function.map(|function| (batch, function))
        });
        let steps = steps.collect::<Result<_>>()?;
        let said = described(&common, &trajectories);
        let experts = Experts::open(work, &said, &common.params, trajectories.expert_epochs)?;
        common.start()?;
        Ok(TrajectoryMatcher {
            layers: ["trajectory".to_string()],
            common,
            trajectories,
            experts,
            student,
            steps,
            update,
        })
    }

    /// Trains an expert; `seen` hears of the mean loss of each epoch.
    fn train_expert(&mut self, expert: usize, seen: &mut dyn FnMut(f32) -> Result<()>) -> Result<()> {
        let seed = SplitMix64::named(self.common.settings.seed, &format!("condensed.expert.{expert}")).next_u64();
        self.common.draw_network(seed)?;
        self.experts.keep(expert, 0, self.common.network_weights()?)?;
        let mut has_moved = false;
        for epoch in 1..=self.trajectories.expert_epochs {
            let mut random = SplitMix64::keyed(seed, epoch as u64);
            let loss = self.train_epoch(&mut has_moved, &mut random)?;
            if !loss.is_finite() {
                return Err(Error::user(format!(
                    "the loss of an expert is {loss} in epoch {epoch}; choose a network_rate below {}",
                    self.common.settings.network_rate
                )));
            }
            self.experts.keep(expert, epoch, self.common.network_weights()?)?;
            seen(loss)?;
        }
        Ok(())
    }

    /// Trains the network for an epoch on the real images; returns the mean loss.
    fn train_epoch(&mut self, has_moved: &mut bool, random: &mut SplitMix64) -> Result<f32> {
        let source = self.common.source;
        let mut order: Vec<usize> = (0..source.labels().len()).collect();
        random.shuffle(&mut order);
        let (mut sum, batch) = (0.0, self.common.settings.network_batch);
        for chosen in order.chunks(batch) {
            let pixels = source.gather(chosen)?;
            let classes: Vec<i32> = chosen.iter().map(|image| source.labels()[*image] as i32).collect();
            let rates = self.common.network_rates(*has_moved);
            let key = [random.next_u64(), random.next_u64()].map(|word| word as u32);
            let changes = self.common.draw_changes_of_each(chosen.len(), random);
            let mut inputs = vec![
                (SEEN, Host::F32(&pixels)),
                (CLASSES, Host::I32(&classes)),
                (NETWORK_RATE, Host::F32(&rates[0])),
                (NETWORK_MOMENTUM_RATE, Host::F32(&rates[1])),
                (KEY, Host::U32(&key)),
            ];
            inputs.extend(changes.iter().flat_map(ChangeArrays::inputs));
            let step = of_size(&self.steps, chosen.len())?;
            let loss = self.common.session.run(step, &inputs)?.scalar(LOSS)?;
            sum += loss * chosen.len() as f64;
            *has_moved = true;
        }
        Ok((sum / order.len() as f64) as f32)
    }

    /// Updates the images once; returns the distance of the student from its target.
    fn update_images(&mut self, random: &mut SplitMix64) -> Result<f32> {
        let Trajectories {
            experts,
            start_epochs,
            target_epochs,
            ..
        } = self.trajectories;
        let expert = random.below(experts as u64) as usize;
        let start = random.below(start_epochs as u64) as usize;
        self.common.session.set_weights(&self.experts.after(expert, start)?)?;
        let target = self.experts.after(expert, start + target_epochs)?;
        let target = trained(&self.common.params).flat_map(|param| &target[&param.name].data);
        let target = HostArray::F32(target.copied().collect());
        self.common.session.set_state(TARGET, &target)?;
        let (chosen, labels) = (self.draw_chosen(random), self.common.labels());
        let classes: Vec<i32> = chosen.iter().map(|image| labels[*image as usize] as i32).collect();
        let (batch, mut changes) = (self.student.batch, Vec::new());
        if let Some(strategy) = self.common.settings.augment {
            let shape = self.common.source.shape();
            let of_step = |_| strategy.draw(shape, batch, random);
            let all: Vec<_> = (0..self.student.steps).flat_map(of_step).collect();
            changes.push(ChangeArrays::of_images(&all, shape, batch));
        }
        let rates = self.common.rates();
        let mut inputs = vec![(CHOSEN, Host::I32(&chosen)), (CLASSES, Host::I32(&classes))];
        inputs.extend(rates.iter().map(|(name, rate)| (*name, Host::F32(rate))));
        inputs.extend(changes.iter().flat_map(ChangeArrays::inputs));
        let results = self.common.session.run(self.update, &inputs)?;
        Ok(results.scalar(DISTANCE)? as f32)
    }

    /// The images of all steps of a student: all of them in a random order, as many whole batches as they have, and so
    /// on.
    fn draw_chosen(&self, random: &mut SplitMix64) -> Vec<i32> {
        let (count, batch) = (self.student.set.count(), self.student.batch);
        let mut chosen = Vec::with_capacity(self.student.steps * batch);
        let mut order: Vec<i32> = Vec::new();
        for _ in 0..self.student.steps {
            if order.len() < batch {
                order = (0..count as i32).collect();
                random.shuffle(&mut order);
            }
            chosen.extend(order.drain(..batch));
        }
        chosen
    }
}

/// How experts are trained, in lines.
fn described(common: &Synthetic<'_>, trajectories: &Trajectories) -> String {
    let (settings, source) = (&common.settings, common.source);
    let augment = settings
        .augment
        .map_or("none".to_string(), |strategy| strategy.to_string());
    let mut lines = vec![
        format!("images = {}", source.labels().len()),
        format!("shape = {:?}", source.shape()),
        format!("classes = {}", source.classes()),
        format!("epochs = {}", trajectories.expert_epochs),
        format!("rate = {}", settings.network_rate),
        format!("momentum = {}", settings.network_momentum),
        format!("batch = {}", settings.network_batch),
        format!("augment = {augment}"),
        format!("seed = {}", settings.seed),
        format!("precision = {:?}", settings.precision),
    ];
    let param = |param: &lessen_nn::ParamSpec| format!("{} = {:?}", param.name, param.shape);
    lines.extend(common.params.iter().map(param));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

impl Condensation for TrajectoryMatcher<'_> {
    of_common!();

    /// `trajectory`: the squared distance of the student from its target, as a part of that of its beginning.
    fn layers(&self) -> &[String] {
        &self.layers
    }

    /// Trains the experts; a part is an epoch of one.
    fn prepare(&mut self, progress: &mut dyn FnMut(&Preparation) -> Result<()>) -> Result<()> {
        let epochs = self.trajectories.expert_epochs;
        let parts = self.trajectories.experts * epochs;
        for expert in 0..self.trajectories.experts {
            if self.experts.has(expert) {
                continue;
            }
            let mut done = expert * epochs;
            self.train_expert(expert, &mut |loss| {
                done += 1;
                progress(&Preparation { done, parts, loss })
            })?;
        }
        Ok(())
    }

    /// One outer iteration: as many updates of the images as the settings say, each with a student of its own. Experts
    /// that are not trained yet are trained first.
    fn iterate(&mut self, progress: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()> {
        self.prepare(&mut |_| Ok(()))?;
        let mut random = self.common.random();
        for update in 0..self.common.settings.updates {
            let distance = self.update_images(&mut random)?;
            progress(&ImageUpdate {
                iteration: self.common.done,
                update,
                distances: vec![distance],
                epochs: 0,
            })?;
        }
        self.common.done += 1;
        Ok(())
    }

    fn images(&self) -> Result<LabelledImages> {
        let images = self.common.images()?;
        Ok(match self.learned_rate()? {
            Some(rate) => images.with_learned_rate(rate),
            None => images,
        })
    }

    fn learned_rate(&self) -> Result<Option<f32>> {
        Ok(self.common.elements(STUDENT_RATE)?.first().copied())
    }

    /// `update`, the training of a student and the update of the images; `expert 256`, a step of an expert on that many
    /// real images.
    fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        let update = ("update".to_string(), self.update);
        let all = [update].into_iter().chain(named("expert", &self.steps));
        plans(&self.common.session, all.collect())
    }
}

//! Distribution matching (Zhao and Bilen 2023): the mean features of the synthetic images of a class come near those
//! of real images, in one new network after another. No network is trained.

use crate::condensation::{Condensation, ImageUpdate, of_common};
use crate::functions::{named, of_size, parts, plans};
use crate::network::{Network, described};
use crate::objective::Objective;
use crate::real_gradients::CHUNK;
use crate::settings::Settings;
use crate::siamese::Strategy;
use crate::siamese_graph::{ChangeArrays, Changes};
use crate::synthetic::{Synthetic, drawn};
use crate::synthetic_set::SyntheticSet;
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::{Host, SharedDevice};
use lessen_graph::{DType, Phase, Tensor};
use lessen_nn::Cx;
use lessen_train::Function;
use std::sync::Arc;

/// Data input with the number of the class, `i32[1]`.
const CLASS: &str = "condensed.class";

/// Data input with the real images of a chunk, `[chunk, H, W, C]`, of one class.
const REAL: &str = "condensed.real";

/// Data input with the share of an image in the mean of the features of its class, `f32[]`.
const SHARE: &str = "condensed.share";

/// Data input that is 0 for the first chunk of a class and 1 for others, `f32[]`.
const KEEP: &str = "condensed.keep";

/// State with the mean of the features of the real images of a class, `f32[width]`.
const MEAN: &str = "condensed.real_features";

/// Result with the squared distance of the means, `f32[]`.
const DISTANCE: &str = "distance";

/// A condensation by distribution matching.
pub struct DistributionMatcher<'a> {
    layers: [String; 1],
    common: Synthetic<'a>,
    /// Features of a chunk of real images, by the size of the chunk.
    real: Vec<(usize, Function)>,
    /// The update of the images of a class.
    update: Function,
}

impl<'a> DistributionMatcher<'a> {
    /// Prepares a condensation: graphs are compiled and memory is allocated.
    ///
    /// # Errors
    /// Settings out of range; a class with fewer real images than synthetic ones; images that the network cannot read;
    /// a network that tells no features; a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<DistributionMatcher<'a>> {
        settings.check_is(Objective::Distribution)?;
        let mut common = Synthetic::new(device, network, source, settings)?;
        if described(network, source.shape())?.features.is_none() {
            return Err(Error::user(
                "distribution matching needs the features of a network, and this one tells none; return `Outputs` with \
                 the features that its last layer reads",
            ));
        }
        let (options, augment, set) = (common.options(), common.settings.augment, common.set());
        let real = parts(common.real_batch(), CHUNK).into_iter().map(|chunk| {
            let function = common
                .session
                .function_with(options, |cx| add_real(cx, network, (set, augment), chunk));
            function.map(|function| (chunk, function))
        });
        let real = real.collect::<Result<_>>()?;
        let update = common
            .session
            .function_with(options, |cx| add_update(cx, network, (set, augment)))?;
        common.compile_statistics(network)?;
        common.start()?;
        Ok(DistributionMatcher {
            layers: ["features".to_string()],
            common,
            real,
            update,
        })
    }

    /// Updates the images of a class; returns the squared distance.
    fn update_class(&mut self, class: usize, changes: Option<&ChangeArrays>, random: &mut SplitMix64) -> Result<f32> {
        let real_batch = self.common.real_batch();
        let chosen: Vec<usize> = drawn(&self.common.by_class[class], real_batch, random).collect();
        let share = [1.0 / real_batch as f32];
        for (number, chunk) in chosen.chunks(CHUNK).enumerate() {
            let real = self.common.source.gather(chunk)?;
            let keep = [if number == 0 { 0.0 } else { 1.0 }];
            let mut inputs = vec![
                (REAL, Host::F32(&real)),
                (SHARE, Host::F32(&share)),
                (KEEP, Host::F32(&keep)),
            ];
            inputs.extend(changes.into_iter().flat_map(ChangeArrays::inputs));
            let function = of_size(&self.real, chunk.len())?;
            self.common.session.run(function, &inputs)?;
        }
        let (number, rates) = ([class as i32], self.common.rates());
        let mut inputs = vec![(CLASS, Host::I32(&number))];
        inputs.extend(rates.iter().map(|(name, rate)| (*name, Host::F32(rate))));
        inputs.extend(changes.into_iter().flat_map(ChangeArrays::inputs));
        let results = self.common.session.run(self.update, &inputs)?;
        Ok(results.scalar(DISTANCE)? as f32)
    }
}

/// The sum of the features of images of a class, `[width]`.
fn features(cx: Cx, network: &dyn Network, (set, augment): (SyntheticSet, Option<Strategy>), images: Tensor) -> Tensor {
    let seen = augment.map_or(images, |strategy| {
        Changes::declare(cx, strategy, 1, set.shape).of_batch(images, 0)
    });
    match network.forward(cx, seen).features {
        Some(features) => features.sum_axes(&[0]),
        None => cx.trace().fail("the network tells no features"),
    }
}

/// Adds the features of a chunk of real images to the mean of their class.
fn add_real(
    cx: Cx,
    network: &dyn Network,
    of: (SyntheticSet, Option<Strategy>),
    chunk: usize,
) -> Vec<(String, Tensor)> {
    let real = cx.input(REAL, DType::F32, &of.0.images(chunk));
    let part = features(cx, network, of, real) * cx.input(SHARE, DType::F32, &[]);
    cx.trace().in_phase(Phase::Update, || {
        let mean = cx.trace().state(MEAN, DType::F32, &part.shape());
        cx.trace().assign(mean, mean * cx.input(KEEP, DType::F32, &[]) + part);
    });
    Vec::new()
}

/// Adds the update of the images of a class.
fn add_update(cx: Cx, network: &dyn Network, of: (SyntheticSet, Option<Strategy>)) -> Vec<(String, Tensor)> {
    let class = cx.input(CLASS, DType::I32, &[1]);
    let part = of.0.of_class(cx, class);
    let synthetic = features(cx, network, of, part.images) * (1.0 / of.0.per_class as f64);
    let difference = synthetic - cx.trace().state(MEAN, DType::F32, &synthetic.shape());
    let distance = (difference * difference).sum();
    of.0.update_class(cx, (class, part), distance);
    vec![(DISTANCE.to_string(), distance)]
}

impl Condensation for DistributionMatcher<'_> {
    of_common!();

    /// `features`: the squared distances of the means of all classes, summed.
    fn layers(&self) -> &[String] {
        &self.layers
    }

    /// One outer iteration: a new network, and as many updates of the images as the settings say.
    fn iterate(&mut self, progress: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()> {
        let mut random = self.common.random();
        self.common.draw_network(random.next_u64())?;
        for update in 0..self.common.settings.updates {
            self.common.set_statistics(&mut random)?;
            let changes = self.common.draw_changes_alike(&mut random);
            let mut distance = 0.0;
            for class in 0..self.common.by_class.len() {
                distance += self.update_class(class, changes.get(class), &mut random)?;
            }
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
        self.common.images()
    }

    /// `real 16`, the features of that many real images; `update`, the update of the images of a class.
    fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        let update = ("update".to_string(), self.update);
        plans(
            &self.common.session,
            named("real", &self.real).chain([update]).collect(),
        )
    }
}

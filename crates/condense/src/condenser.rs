//! Condensation by gradient matching, one outer iteration after another (algorithm 1).

use crate::images::{ImageSource, LabelledImages};
use crate::matching::{DISTANCES, IMAGE_MOMENTUM, IMAGE_MOMENTUM_RATE, IMAGE_RATE, IMAGES, Matching, REAL};
use crate::network::{Network, matched, parameters};
use crate::network_update::{self, CHOSEN, CLASSES, LOSS, NETWORK_MOMENTUM_RATE, NETWORK_RATE, SEEN};
use crate::schedule::InnerEpochs;
use crate::settings::{Level, Settings, Start};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_nn::{Init, ParamSpec};
use lessen_train::{Function, FunctionOptions, Session};

/// Images of a class by which the statistics of batch normalization are set before images are updated.
const STATISTICS_PER_CLASS: usize = 16;

/// Real images whose loss tells that a network overfits.
const VALIDATION: usize = 256;

/// What an update of the images found.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageUpdate {
    /// Number of the outer iteration, from 0.
    pub iteration: usize,
    /// Number of the update in it, from 0.
    pub update: usize,
    /// The distance of the gradients of each matched parameter, in the order of [`Condenser::layers`].
    pub distances: Vec<f32>,
    /// Epochs of the network after it.
    pub epochs: usize,
}

/// Functions of a condensation.
struct Functions {
    /// Updates of the images, one after another in turn.
    matchings: Vec<Function>,
    /// Steps of the network by batch size.
    steps: Vec<(usize, Function)>,
    /// The loss of the fixed batch of real images.
    validation: Option<Function>,
    /// Sets the statistics of batch normalization.
    statistics: Option<Function>,
}

/// A condensation: synthetic images, and the network of the present outer iteration.
pub struct Condenser<'a> {
    network: &'a dyn Network,
    source: &'a dyn ImageSource,
    settings: Settings,
    params: Vec<ParamSpec>,
    layers: Vec<String>,
    by_class: Vec<Vec<usize>>,
    real_batch: usize,
    session: Session,
    functions: Functions,
    done: usize,
}

impl<'a> Condenser<'a> {
    /// Prepares a condensation: graphs are compiled and memory is allocated.
    ///
    /// # Errors
    /// Settings out of range; a class with fewer real images than synthetic ones; images that the network cannot read;
    /// an operation without a second derivative, by its name; a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<Condenser<'a>> {
        settings.check()?;
        let by_class = source.by_class();
        check_classes(&by_class, settings.per_class)?;
        let (classes, shape) = (source.classes(), source.shape());
        let params = parameters(network, shape)?;
        if let Some(param) = params.iter().find(|param| param.name.starts_with("condensed.")) {
            return Err(Error::user(format!(
                "the network has a parameter `{}`; names that begin with `condensed.` belong to the condensation",
                param.name
            )));
        }
        let layers: Vec<String> = matched(&params).map(|param| param.name.clone()).collect();
        if layers.is_empty() {
            return Err(Error::user(
                "the network has no matrix and no kernel whose gradient could be matched; give it a linear layer or a \
                 convolution",
            ));
        }
        let count = classes
            .checked_mul(settings.per_class)
            .ok_or_else(|| Error::user("there are more synthetic images than can be counted; ask for fewer"))?;
        let images = ParamSpec {
            name: IMAGES.to_string(),
            shape: [&[count][..], &shape].concat(),
            init: Init::Normal { std: 1.0 },
            ..params[0].clone()
        };
        let least = by_class.iter().map(Vec::len).min().unwrap_or(0);
        let real_batch = settings.real_batch.min(least);
        let mut session = Session::zeros(device, params.iter().cloned().chain([images]).collect())?;
        session.set_precision(settings.precision);
        let functions = compiled(&mut session, network, &params, (count, real_batch), (source, &settings))?;
        session.reserve()?;
        let mut condenser = Condenser {
            network,
            source,
            settings,
            params,
            layers,
            by_class,
            real_batch,
            session,
            functions,
            done: 0,
        };
        condenser.start()?;
        Ok(condenser)
    }

    /// Gives the images their first values.
    fn start(&mut self) -> Result<()> {
        match self.settings.start {
            Start::Noise => self.session.draw(|name| name == IMAGES, self.settings.seed),
            Start::Real => {
                let mut random = SplitMix64::named(self.settings.seed, "condensed.start");
                let per_class = self.settings.per_class;
                let mut chosen = Vec::new();
                for class in &self.by_class {
                    let mut own = class.clone();
                    random.shuffle(&mut own);
                    chosen.extend_from_slice(&own[..per_class]);
                }
                let pixels = self.source.gather(&chosen)?;
                self.session.set_part(IMAGES, 0, &pixels)
            }
        }
    }

    /// The network that is matched.
    pub fn network(&self) -> &'a dyn Network {
        self.network
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Names of the parameters whose gradients are matched, in order.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }

    /// Outer iterations done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Real images of a class in an update: the setting, or the number of images of the smallest class.
    pub fn real_batch(&self) -> usize {
        self.real_batch
    }

    /// The session with all states.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The synthetic images, class by class.
    ///
    /// # Errors
    /// A device that fails; images that have become infinite or NaN.
    pub fn images(&self) -> Result<LabelledImages> {
        let mut weights = self.session.weights()?;
        let pixels = weights.remove(IMAGES).map_or(Vec::new(), |weight| weight.data);
        LabelledImages::new(self.source.shape(), self.source.classes(), pixels, self.labels())
    }

    /// The class of each synthetic image.
    fn labels(&self) -> Vec<u32> {
        let classes = 0..self.source.classes() as u32;
        classes
            .flat_map(|class| std::iter::repeat_n(class, self.settings.per_class))
            .collect()
    }

    /// One outer iteration: a new network, and as many updates of the images as the settings say. `progress` hears of
    /// each update, after the epochs of the network that follow it.
    ///
    /// All random numbers depend on the seed and the number of the iteration alone.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, an error of `progress`.
    pub fn iterate(&mut self, progress: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()> {
        let mut random = SplitMix64::keyed(self.settings.seed, self.done as u64);
        let seed = random.next_u64();
        self.session.draw(|name| name != IMAGES, seed)?;
        let validation = match self.functions.validation {
            Some(_) => Some(self.validation_batch(&mut random)?),
            None => None,
        };
        let mut is_first = true;
        for update in 0..self.settings.updates {
            self.set_statistics(&mut random)?;
            let distances = self.update_images(update, &mut random)?;
            let mut epochs = 0;
            if update + 1 < self.settings.updates {
                epochs = self.train(update, &mut is_first, validation.as_ref(), &mut random)?;
            }
            progress(&ImageUpdate {
                iteration: self.done,
                update,
                distances,
                epochs,
            })?;
        }
        self.done += 1;
        Ok(())
    }

    /// Real images of all classes, as many of each, without repetition.
    fn draw_real(&self, count: usize, random: &mut SplitMix64) -> Result<Vec<f32>> {
        let mut chosen = Vec::with_capacity(count * self.by_class.len());
        for class in &self.by_class {
            chosen.extend(drawn(class, count, random));
        }
        self.source.gather(&chosen)
    }

    fn set_statistics(&mut self, random: &mut SplitMix64) -> Result<()> {
        let Some(function) = self.functions.statistics else {
            return Ok(());
        };
        let count = STATISTICS_PER_CLASS.min(self.smallest_class());
        let seen = self.draw_real(count, random)?;
        let labels = vec![0; count * self.by_class.len()];
        self.session
            .run(function, &[(SEEN, Host::F32(&seen)), (CLASSES, Host::I32(&labels))])?;
        Ok(())
    }

    fn smallest_class(&self) -> usize {
        self.by_class.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Updates the images once; returns the distances.
    fn update_images(&mut self, update: usize, random: &mut SplitMix64) -> Result<Vec<f32>> {
        let real = self.draw_real(self.real_batch, random)?;
        let number = self.done * self.settings.updates + update;
        let function = self.functions.matchings[number % self.functions.matchings.len()];
        let [rate, momentum] = [self.settings.image_rate, self.settings.image_momentum].map(|rate| [rate as f32]);
        let results = self.session.run(
            function,
            &[
                (REAL, Host::F32(&real)),
                (IMAGE_RATE, Host::F32(&rate)),
                (IMAGE_MOMENTUM_RATE, Host::F32(&momentum)),
            ],
        )?;
        Ok(results.f32(DISTANCES)?.to_vec())
    }

    /// Trains the network after update number `update`; returns the epochs.
    fn train(
        &mut self,
        update: usize,
        is_first: &mut bool,
        validation: Option<&(Vec<f32>, Vec<i32>)>,
        random: &mut SplitMix64,
    ) -> Result<usize> {
        let labels = self.labels();
        let mut best = f64::INFINITY;
        for epoch in 0..self.settings.epochs.most(update) {
            let mut order: Vec<i32> = (0..labels.len() as i32).collect();
            random.shuffle(&mut order);
            for chosen in order.chunks(self.settings.network_batch) {
                let classes: Vec<i32> = chosen.iter().map(|image| labels[*image as usize] as i32).collect();
                let momentum = if *is_first { 0.0 } else { self.settings.network_momentum };
                let rates = [self.settings.network_rate, momentum].map(|rate| [rate as f32]);
                let step = self.functions.steps.iter().find(|(batch, _)| *batch == chosen.len());
                let Some(&(_, step)) = step else {
                    return Err(Error::internal("a batch of a size without a step"));
                };
                self.session.run(
                    step,
                    &[
                        (CHOSEN, Host::I32(chosen)),
                        (CLASSES, Host::I32(&classes)),
                        (NETWORK_RATE, Host::F32(&rates[0])),
                        (NETWORK_MOMENTUM_RATE, Host::F32(&rates[1])),
                    ],
                )?;
                *is_first = false;
            }
            if let (Some(function), Some((seen, classes))) = (self.functions.validation, validation) {
                let inputs = [(SEEN, Host::F32(seen)), (CLASSES, Host::I32(classes))];
                let loss = self.session.run(function, &inputs)?.scalar(LOSS)?;
                if loss > best {
                    return Ok(epoch + 1);
                }
                best = loss;
            }
        }
        Ok(self.settings.epochs.most(update))
    }

    /// The fixed batch of real images of all classes by which overfitting is told.
    fn validation_batch(&self, random: &mut SplitMix64) -> Result<(Vec<f32>, Vec<i32>)> {
        let all: Vec<usize> = (0..self.source.labels().len()).collect();
        let chosen: Vec<usize> = drawn(&all, VALIDATION.min(all.len()), random).collect();
        let classes = chosen.iter().map(|image| self.source.labels()[*image] as i32).collect();
        Ok((self.source.gather(&chosen)?, classes))
    }

    /// The images and their momentum: all that the next outer iteration depends on beside its number.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&self) -> Result<[Vec<f32>; 2]> {
        let images = self.images()?.pixels().to_vec();
        let momentum = self.session.state(IMAGE_MOMENTUM)?;
        let momentum = momentum.host().as_f32().map(<[f32]>::to_vec);
        Ok([
            images,
            momentum.ok_or_else(|| Error::internal("the momentum is not f32"))?,
        ])
    }

    /// Continues after `done` outer iterations from the [`Condenser::state`] after them.
    ///
    /// # Errors
    /// Arrays of other sizes.
    pub fn resume(&mut self, done: usize, [images, momentum]: &[Vec<f32>; 2]) -> Result<()> {
        let count = self.labels().len() * self.source.size();
        if images.len() != count || momentum.len() != count {
            return Err(Error::user(format!(
                "the saved images have {} elements, and the settings ask for {count}; resume with the data and settings of \
                 the first command",
                images.len()
            )));
        }
        self.session.set_part(IMAGES, 0, images)?;
        self.session
            .set_state(IMAGE_MOMENTUM, &HostArray::F32(momentum.clone()))?;
        self.done = done;
        Ok(())
    }

    /// The parameters of the network.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }
}

/// The first `count` of the elements of a shuffled copy, drawn without repetition.
fn drawn(all: &[usize], count: usize, random: &mut SplitMix64) -> impl Iterator<Item = usize> {
    let mut own = all.to_vec();
    for place in 0..count {
        let other = place + random.below((own.len() - place) as u64) as usize;
        own.swap(place, other);
    }
    own.into_iter().take(count)
}

/// Refuses classes with fewer real images than synthetic ones.
fn check_classes(by_class: &[Vec<usize>], per_class: usize) -> Result<()> {
    match by_class.iter().enumerate().find(|(_, images)| images.len() < per_class) {
        None => Ok(()),
        Some((class, images)) if images.is_empty() => Err(Error::user(format!(
            "there is no image of class {class}; give images of every class"
        ))),
        Some((class, images)) => Err(Error::user(format!(
            "class {class} has {} images, and {per_class} are to be made of them; ask for fewer",
            images.len()
        ))),
    }
}

/// Compiles the functions of a condensation.
fn compiled(
    session: &mut Session,
    network: &dyn Network,
    params: &[ParamSpec],
    (count, real_batch): (usize, usize),
    (source, settings): (&dyn ImageSource, &Settings),
) -> Result<Functions> {
    let (classes, shape) = (source.classes(), source.shape());
    let options = FunctionOptions {
        budget: settings.budget,
        ..FunctionOptions::default()
    };
    let training = FunctionOptions {
        training: true,
        ..options
    };
    let matching = |intra: Option<f64>, inter: Option<f64>| Matching {
        classes,
        per_class: settings.per_class,
        real_batch,
        shape,
        distance: settings.distance,
        intra,
        inter,
    };
    let lambda = settings.lambda.unwrap_or(classes as f64);
    let matchings = match settings.level {
        Level::Intra => vec![matching(Some(1.0), None)],
        Level::Inter => vec![matching(None, Some(lambda))],
        Level::Interleaved => vec![matching(Some(1.0), None), matching(None, Some(lambda))],
        Level::Multi => vec![matching(Some(1.0), Some(lambda))],
    };
    let matchings = matchings
        .into_iter()
        .map(|matching| session.function_with(options, |cx| matching.add(cx, network, params)));
    let matchings = matchings.collect::<Result<Vec<_>>>()?;
    let mut sizes = Vec::new();
    if settings.epochs_of_iteration() > 0 {
        let batch = settings.network_batch.min(count);
        sizes.push(batch);
        sizes.extend(Some(count % batch).filter(|rest| *rest > 0));
    }
    let steps = sizes.into_iter().map(|batch| {
        let add = session.function_with(training, |cx| {
            network_update::add_step(cx, network, params, (batch, count, shape))
        });
        add.map(|function| (batch, function))
    });
    let steps = steps.collect::<Result<Vec<_>>>()?;
    let loss = |session: &mut Session, options: FunctionOptions, batch: usize| {
        session.function_with(options, |cx| network_update::add_loss(cx, network, (batch, shape)))
    };
    let validation = match settings.epochs {
        InnerEpochs::UntilOverfit(_) => Some(loss(session, options, VALIDATION.min(source.labels().len()))?),
        _ => None,
    };
    let has_buffers = params.iter().any(|param| param.is_buffer);
    let statistics = if has_buffers {
        let least = source.by_class().iter().map(Vec::len).min().unwrap_or(0);
        Some(loss(session, training, STATISTICS_PER_CLASS.min(least) * classes)?)
    } else {
        None
    };
    Ok(Functions {
        matchings,
        steps,
        validation,
        statistics,
    })
}

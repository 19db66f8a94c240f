//! What all condensations share: the synthetic images in a session, the real ones by class, and the state.

use crate::network::{Network, parameters};
use crate::network_update::{CLASSES, SEEN, add_loss, dropout_key};
use crate::objective::Objective;
use crate::settings::{Settings, Start};
use crate::sgd::momentum_of;
use crate::siamese_graph::ChangeArrays;
use crate::synthetic_set::{IMAGE_MOMENTUM_RATE, IMAGE_RATE, IMAGES, LABEL_RATE, LABELS, STUDENT_RATE, SyntheticSet};
use crate::synthetic_set::{STUDENT_RATE_RATE, first_labels, probabilities};
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_nn::names::KEY;
use lessen_nn::{Init, ParamSpec, Weight, Weights};
use lessen_train::{Function, FunctionOptions, Session};

/// Images of a class by which the statistics of batch normalization are set before images are updated.
const STATISTICS_PER_CLASS: usize = 16;

/// First part of the names of parameters that are no network's.
const OWN: &str = "condensed.";

/// Synthetic images, and the network whose turn it is, in one session.
pub(crate) struct Synthetic<'a> {
    pub source: &'a dyn ImageSource,
    pub settings: Settings,
    /// Parameters and buffers of the network.
    pub params: Vec<ParamSpec>,
    /// What is learned: the images; labels and the learning rate of students, if the settings say so.
    learned: Vec<ParamSpec>,
    /// Numbers of the real images of each class.
    pub by_class: Vec<Vec<usize>>,
    pub session: Session,
    /// Sets the statistics of batch normalization.
    statistics: Option<Function>,
    /// Iterations done.
    pub done: usize,
}

impl<'a> Synthetic<'a> {
    /// Checks settings, images and network, and allocates the parameters.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<Synthetic<'a>> {
        settings.check()?;
        let by_class = source.by_class();
        check_classes(&by_class, settings.per_class)?;
        let shape = source.shape();
        let params = parameters(network, shape)?;
        let Some(first) = params.first() else {
            return Err(Error::user("the network has no parameter that could be trained"));
        };
        if let Some(param) = params.iter().find(|param| param.name.starts_with(OWN)) {
            return Err(Error::user(format!(
                "the network has a parameter `{}`; names that begin with `{OWN}` belong to the condensation",
                param.name
            )));
        }
        let set = set_of(source, &settings);
        let mut extents = [set.classes, set.per_class].into_iter().chain(shape);
        if extents.try_fold(1usize, usize::checked_mul).is_none() {
            return Err(Error::user(
                "there are more synthetic images than can be counted; ask for fewer",
            ));
        }
        let spec = |(name, shape): (&str, Vec<usize>)| ParamSpec {
            name: name.to_string(),
            shape,
            init: Init::Normal { std: 1.0 },
            is_turned: false,
            is_buffer: false,
            ..first.clone()
        };
        let learned: Vec<ParamSpec> = set.learned().into_iter().map(spec).collect();
        let mut session = Session::zeros(device, params.iter().chain(&learned).cloned().collect())?;
        session.set_precision(settings.precision);
        Ok(Synthetic {
            source,
            settings,
            params,
            learned,
            by_class,
            session,
            statistics: None,
            done: 0,
        })
    }

    /// Compiles what sets the statistics of batch normalization, if the network has such statistics.
    pub fn compile_statistics(&mut self, network: &dyn Network) -> Result<()> {
        if self.params.iter().any(|param| param.is_buffer) {
            let training = FunctionOptions {
                training: true,
                ..self.options()
            };
            let batch = self.statistics_per_class() * self.by_class.len();
            let shape = self.source.shape();
            let function = self
                .session
                .function_with(training, |cx| add_loss(cx, network, (batch, shape)));
            self.statistics = Some(function?);
        }
        Ok(())
    }

    /// Options of functions.
    pub fn options(&self) -> FunctionOptions {
        FunctionOptions {
            budget: self.settings.budget,
            tightest: self.settings.tightest,
            ..FunctionOptions::default()
        }
    }

    /// The set in a graph.
    pub fn set(&self) -> SyntheticSet {
        set_of(self.source, &self.settings)
    }

    /// Learning rates and momentum of what is learned, as inputs.
    pub fn rates(&self) -> [(&'static str, [f32; 1]); 4] {
        let settings = &self.settings;
        let rate_of_rate = match settings.objective {
            Objective::Trajectories(trajectories) => trajectories.student_rate_rate,
            _ => 0.0,
        };
        [
            (IMAGE_RATE, settings.image_rate),
            (IMAGE_MOMENTUM_RATE, settings.image_momentum),
            (LABEL_RATE, settings.soft_labels.unwrap_or(0.0)),
            (STUDENT_RATE_RATE, rate_of_rate),
        ]
        .map(|(name, rate)| (name, [rate as f32]))
    }

    /// Learning rate and momentum of the network, which counts once it `has_moved` since it was drawn.
    pub fn network_rates(&self, has_moved: bool) -> [[f32; 1]; 2] {
        let momentum = if has_moved { self.settings.network_momentum } else { 0.0 };
        [self.settings.network_rate, momentum].map(|rate| [rate as f32])
    }

    /// Gives what is learned its first values.
    pub fn start(&mut self) -> Result<()> {
        if self.settings.soft_labels.is_some() {
            let logits = first_labels(&self.labels(), self.source.classes());
            self.session.set_part(LABELS, 0, &logits)?;
        }
        if let Objective::Trajectories(trajectories) = self.settings.objective {
            let rate = [trajectories.student_rate as f32];
            self.session.set_part(STUDENT_RATE, 0, &rate)?;
        }
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

    /// Random numbers of the present iteration.
    pub fn random(&self) -> SplitMix64 {
        SplitMix64::keyed(self.settings.seed, self.done as u64)
    }

    /// Gives the network new initial values.
    pub fn draw_network(&mut self, seed: u64) -> Result<()> {
        self.session.draw(|name| !name.starts_with(OWN), seed)
    }

    /// Parameters and buffers of the network.
    pub fn network_weights(&self) -> Result<Weights> {
        let weight = |param: &ParamSpec| {
            let (shape, data) = (param.shape.clone(), self.elements(&param.name)?);
            Ok((param.name.clone(), Weight { shape, data }))
        };
        self.params.iter().map(weight).collect()
    }

    /// The class of each synthetic image.
    pub fn labels(&self) -> Vec<u32> {
        let classes = 0..self.source.classes() as u32;
        classes
            .flat_map(|class| std::iter::repeat_n(class, self.settings.per_class))
            .collect()
    }

    /// Real images of a class in an update: the setting, or the number of images of the smallest class.
    pub fn real_batch(&self) -> usize {
        self.settings.real_batch.min(self.smallest_class())
    }

    fn statistics_per_class(&self) -> usize {
        STATISTICS_PER_CLASS.min(self.smallest_class())
    }

    fn smallest_class(&self) -> usize {
        self.by_class.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Real images of all classes, as many of each, without repetition.
    pub fn draw_real(&self, count: usize, random: &mut SplitMix64) -> Result<Vec<f32>> {
        let mut chosen = Vec::with_capacity(count * self.by_class.len());
        for class in &self.by_class {
            chosen.extend(drawn(class, count, random));
        }
        self.source.gather(&chosen)
    }

    /// For each class the change that its real and synthetic images share; nothing without augmentation.
    pub fn draw_changes_alike(&self, random: &mut SplitMix64) -> Vec<ChangeArrays> {
        let Some(strategy) = self.settings.augment else {
            return Vec::new();
        };
        let shape = self.source.shape();
        let of_class = |_| ChangeArrays::of_batches(&strategy.draw(shape, 1, random), shape);
        (0..self.source.classes()).map(of_class).collect()
    }

    /// A change by one operation for each image of a batch; none without augmentation.
    pub fn draw_changes_of_each(&self, batch: usize, random: &mut SplitMix64) -> Option<ChangeArrays> {
        let (strategy, shape) = (self.settings.augment?, self.source.shape());
        let changes = strategy.draw(shape, batch, random);
        Some(ChangeArrays::of_images(&changes, shape, batch))
    }

    /// Sets the statistics of batch normalization by real images.
    pub fn set_statistics(&mut self, random: &mut SplitMix64) -> Result<()> {
        let Some(function) = self.statistics else {
            return Ok(());
        };
        let count = self.statistics_per_class();
        let seen = self.draw_real(count, random)?;
        let labels = vec![0; count * self.by_class.len()];
        let key = dropout_key(random);
        let inputs = [
            (KEY, Host::U32(&key)),
            (SEEN, Host::F32(&seen)),
            (CLASSES, Host::I32(&labels)),
        ];
        self.session.run(function, &inputs)?;
        Ok(())
    }

    /// The synthetic images, class by class, with their soft labels if these are learned.
    pub fn images(&self) -> Result<LabelledImages> {
        let (pixels, classes) = (self.elements(IMAGES)?, self.source.classes());
        let images = LabelledImages::new(self.source.shape(), classes, pixels, self.labels())?;
        match self.settings.soft_labels {
            Some(_) => images.with_soft_labels(probabilities(&self.elements(LABELS)?, classes)),
            None => Ok(images),
        }
    }

    /// The elements of a state.
    pub fn elements(&self, name: &str) -> Result<Vec<f32>> {
        let state = self.session.state(name)?;
        let elements = state.host().as_f32().map(<[f32]>::to_vec);
        elements.ok_or_else(|| Error::internal(format!("the state `{name}` is not f32")))
    }

    /// The states that are kept from one iteration to the next, with their shapes.
    fn kept(&self) -> impl Iterator<Item = (String, &[usize])> {
        let names = |param: &ParamSpec| [param.name.clone(), momentum_of(&param.name)];
        let named = move |param| std::iter::zip(names(param), [&param.shape[..]; 2]);
        self.learned.iter().flat_map(named)
    }

    /// What is learned, and its momentum.
    pub fn state(&self) -> Result<Weights> {
        let weight = |(name, shape): (String, &[usize])| {
            let (shape, data) = (shape.to_vec(), self.elements(&name)?);
            Ok((name, Weight { shape, data }))
        };
        self.kept().map(weight).collect()
    }

    /// Continues after `done` iterations.
    pub fn resume(&mut self, done: usize, state: &Weights) -> Result<()> {
        let mut arrays = Vec::new();
        for (name, shape) in self.kept() {
            let saved = state.get(&name);
            let fits =
                saved.filter(|saved| saved.shape == shape && saved.data.len() == shape.iter().product::<usize>());
            let Some(saved) = fits else {
                let found = saved.map_or("none".to_string(), |saved| format!("{:?}", saved.shape));
                return Err(Error::user(format!(
                    "the saved `{name}` has the shape {found}, and the settings ask for {shape:?}; resume with the data and \
                     settings of the first command"
                )));
            };
            arrays.push((name, HostArray::F32(saved.data.clone())));
        }
        for (name, array) in arrays {
            self.session.set_state(&name, &array)?;
        }
        self.done = done;
        Ok(())
    }
}

/// The set that these settings ask for.
fn set_of(source: &dyn ImageSource, settings: &Settings) -> SyntheticSet {
    SyntheticSet {
        classes: source.classes(),
        per_class: settings.per_class,
        shape: source.shape(),
        has_soft_labels: settings.soft_labels.is_some(),
        has_rate: matches!(settings.objective, Objective::Trajectories(_)),
    }
}

/// The first `count` of the elements of a shuffled copy, drawn without repetition.
pub(crate) fn drawn(all: &[usize], count: usize, random: &mut SplitMix64) -> impl Iterator<Item = usize> {
    let mut own = all.to_vec();
    for place in 0..count {
        let other = place + random.below((own.len() - place) as u64) as usize;
        own.swap(place, other);
    }
    own.into_iter().take(count)
}

/// Refuses classes with fewer real images than synthetic ones.
pub(crate) fn check_classes(by_class: &[Vec<usize>], per_class: usize) -> Result<()> {
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

//! The functions of a condensation by gradient matching.

use crate::functions::{named, parts};
use crate::matching::Matching;
use crate::network::Network;
use crate::network_update::{add_loss, add_step};
use crate::real_gradients::CHUNK;
use crate::schedule::InnerEpochs;
use crate::settings::Level;
use crate::synthetic::Synthetic;
use lessen_base::Result;
use lessen_train::{Function, FunctionOptions};

/// Real images whose loss tells that a network overfits.
pub(crate) const VALIDATION: usize = 256;

/// Functions of a condensation by gradient matching.
pub(crate) struct Functions {
    /// Updates of the images, one after another in turn.
    pub matchings: Vec<MatchingFunctions>,
    /// Steps of the network by batch size.
    pub steps: Vec<(usize, Function)>,
    /// The loss of the fixed batch of real images.
    pub validation: Option<Function>,
}

/// Functions of an update of the images, each for one class.
pub(crate) struct MatchingFunctions {
    /// Gradients of a chunk of real images, by the size of the chunk.
    pub real: Vec<(usize, Function)>,
    /// The mean of the gradients of synthetic images, where those of all classes together are matched.
    pub mean: Option<Function>,
    /// The update of the images of a class.
    pub update: Function,
}

impl Functions {
    /// All of them with their names.
    pub fn named(&self) -> Vec<(String, Function)> {
        let mut all = Vec::new();
        for matching in &self.matchings {
            all.extend(named("real", &matching.real));
            all.extend(matching.mean.map(|mean| ("mean".to_string(), mean)));
            all.push(("update".to_string(), matching.update));
        }
        all.extend(named("step", &self.steps));
        all.extend(self.validation.map(|validation| ("validation".to_string(), validation)));
        all
    }

    /// Compiles them all.
    pub fn compile(common: &mut Synthetic<'_>, network: &dyn Network) -> Result<Functions> {
        let (options, real_batch, set) = (common.options(), common.real_batch(), common.set());
        let Synthetic {
            source,
            settings,
            params,
            session,
            ..
        } = common;
        let training = FunctionOptions {
            training: true,
            ..options
        };
        let matching = |intra: Option<f64>, inter: Option<f64>| Matching {
            set,
            augment: settings.augment,
            distance: settings.distance,
            intra,
            inter,
        };
        let lambda = settings.lambda.unwrap_or(set.classes as f64);
        let matchings = match settings.level {
            Level::Intra => vec![matching(Some(1.0), None)],
            Level::Inter => vec![matching(None, Some(lambda))],
            Level::Interleaved => vec![matching(Some(1.0), None), matching(None, Some(lambda))],
            Level::Multi => vec![matching(Some(1.0), Some(lambda))],
        };
        let matchings = matchings.into_iter().map(|matching| {
            let real = parts(real_batch, CHUNK).into_iter().map(|chunk| {
                let add = session.function_with(options, |cx| matching.add_real(cx, network, params, chunk));
                add.map(|function| (chunk, function))
            });
            let real = real.collect::<Result<_>>()?;
            let mean = match matching.inter {
                Some(_) => Some(session.function_with(options, |cx| matching.add_mean(cx, network, params))?),
                None => None,
            };
            let update = session.function_with(options, |cx| matching.add(cx, network, params))?;
            Ok(MatchingFunctions { real, mean, update })
        });
        let matchings = matchings.collect::<Result<Vec<_>>>()?;
        let sizes = match settings.epochs_of_iteration() {
            0 => Vec::new(),
            _ => parts(set.count(), settings.network_batch),
        };
        let steps = sizes.into_iter().map(|batch| {
            let add = session.function_with(training, |cx| {
                add_step(cx, network, params, (set, batch), settings.augment)
            });
            add.map(|function| (batch, function))
        });
        let steps = steps.collect::<Result<Vec<_>>>()?;
        let validation = match settings.epochs {
            InnerEpochs::UntilOverfit(_) => {
                let batch = VALIDATION.min(source.labels().len());
                let add = session.function_with(options, |cx| add_loss(cx, network, (batch, set.shape)));
                Some(add?)
            }
            _ => None,
        };
        Ok(Functions {
            matchings,
            steps,
            validation,
        })
    }
}

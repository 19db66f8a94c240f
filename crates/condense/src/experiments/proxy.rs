//! A condensed set as a proxy for the whole one: are networks in the same order on both?

use super::cross_architecture::NamedNetwork;
use super::rank_correlation::rank_correlation;
use crate::evaluation::{Accuracy, Evaluated, evaluate};
use crate::training::TrainingSettings;
use lessen_base::Result;
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;
use lessen_nn::Activation;
use lessen_nn::models::vision::{ConvNet, Norm, Pooling, VisionModel};
use std::time::Instant;

/// A network among which is chosen, trained on a condensed set and on the whole one.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its accuracy after the condensed set.
    pub condensed: Accuracy,
    /// Its accuracy after the whole set.
    pub whole: Accuracy,
    /// Seconds of training and testing with the condensed set, and with the whole one.
    pub seconds: [f64; 2],
}

/// What a condensed set says about networks.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// The networks, in the order given.
    pub candidates: Vec<Candidate>,
}

impl Proxy {
    /// Spearman's correlation of the mean accuracies on the condensed and on the whole set; `None` where all networks
    /// of a side are equally good.
    pub fn rank_correlation(&self) -> Option<f64> {
        let means = |of: fn(&Candidate) -> &Accuracy| -> Vec<f64> {
            self.candidates.iter().map(|candidate| of(candidate).mean()).collect()
        };
        rank_correlation(
            &means(|candidate| &candidate.condensed),
            &means(|candidate| &candidate.whole),
        )
    }

    /// Seconds of all networks with the condensed set, and with the whole one.
    pub fn seconds(&self) -> [f64; 2] {
        let of = |side: usize| self.candidates.iter().map(|candidate| candidate.seconds[side]).sum();
        [of(0), of(1)]
    }
}

/// Ten small ConvNets that differ from the first, of width 32 and depth 3, in width, depth, norm, activation or
/// pooling, each with its name.
pub fn small_convnets(classes: usize) -> Vec<(&'static str, VisionModel)> {
    let base = || ConvNet {
        width: 32,
        ..ConvNet::new(classes)
    };
    let nets = [
        ("width-32", base()),
        ("width-8", ConvNet { width: 8, ..base() }),
        ("width-64", ConvNet { width: 64, ..base() }),
        ("depth-1", ConvNet { depth: 1, ..base() }),
        ("depth-2", ConvNet { depth: 2, ..base() }),
        (
            "no-norm",
            ConvNet {
                norm: Norm::None,
                ..base()
            },
        ),
        (
            "group-norm",
            ConvNet {
                norm: Norm::Group(4),
                ..base()
            },
        ),
        (
            "layer-norm",
            ConvNet {
                norm: Norm::Layer,
                ..base()
            },
        ),
        (
            "tanh",
            ConvNet {
                activation: Activation::Tanh,
                ..base()
            },
        ),
        (
            "max-pooling",
            ConvNet {
                pooling: Pooling::Max,
                ..base()
            },
        ),
    ];
    nets.map(|(name, net)| (name, net.into())).to_vec()
}

/// Trains `networks` networks of each candidate on the condensed set and on the whole one, each as its settings say.
/// `progress` hears of each candidate.
///
/// # Errors
/// The errors of [`evaluate`]; an error of `progress`.
pub fn proxy(
    device: &SharedDevice,
    candidates: &[NamedNetwork<'_>],
    (sets, test): ([(&dyn ImageSource, &TrainingSettings); 2], &dyn ImageSource),
    networks: usize,
    progress: &mut dyn FnMut(&Candidate) -> Result<()>,
) -> Result<Proxy> {
    let mut done = Vec::with_capacity(candidates.len());
    for (name, network) in candidates {
        let timed = |(set, settings): (&dyn ImageSource, &TrainingSettings)| {
            let start = Instant::now();
            let ignored = &mut |_: Evaluated| Ok(());
            let accuracy = evaluate(device.clone(), *network, (&[set], test), (settings, networks), ignored)?;
            Ok((accuracy, start.elapsed().as_secs_f64()))
        };
        let (condensed, whole) = (timed(sets[0])?, timed(sets[1])?);
        let candidate = Candidate {
            name: name.to_string(),
            seconds: [condensed.1, whole.1],
            condensed: condensed.0,
            whole: whole.0,
        };
        progress(&candidate)?;
        done.push(candidate);
    }
    Ok(Proxy { candidates: done })
}

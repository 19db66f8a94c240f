//! What processes that share a training send each other.

use super::time::show_ms;
use lessen_base::show_size;
use lessen_comm::{Network, bytes_for_sum};
use lessen_train::{StepPlans, TrainerOptions};
use serde_json::{Value, json};

/// Messages that a step waits for one after another beside its exchange: weights of batches, whether they are right,
/// losses, numbers of examples, and the wish to stop.
const ROUNDS: f64 = 5.0;

/// The processes that are to share a training.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// How many.
    pub processes: usize,
    /// The network between them; without one, no time of the exchange is told.
    pub network: Option<Network>,
}

/// What the busiest process does in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    processes: usize,
    ranks: usize,
    groups: usize,
    sent: usize,
    /// Estimated milliseconds of the exchange, a part of which passes while the process computes.
    exchange: Option<f64>,
    /// Estimated milliseconds of messages beside the exchange.
    beside: Option<f64>,
}

impl Shared {
    /// The share of the process that has these options.
    pub(super) fn of(sharing: Sharing, options: &TrainerOptions, plans: &StepPlans) -> Shared {
        let bytes = |rank| bytes_for_sum(options.ranks, sharing.processes, rank, plans.gradient_bytes());
        let most = (0..sharing.processes).map(bytes).max().unwrap_or(0);
        let ms = |network: Network| 1e3 * most as f64 / network.rate;
        let beside = |network: Network| 1e3 * ROUNDS * network.latency.as_secs_f64();
        Shared {
            processes: sharing.processes,
            ranks: options.ranks,
            groups: options.own_groups().len(),
            sent: most,
            exchange: sharing.network.map(ms),
            beside: sharing.network.map(beside),
        }
    }

    /// Keys of JSON; `compute` has the milliseconds of a step, in which the process waits for the exchange where it has
    /// nothing to compute.
    pub(super) fn to_json(self, compute: Option<f64>) -> Value {
        json!({
            "processes": self.processes,
            "ranks": self.ranks,
            "groups_of_a_process": self.groups,
            "sent_bytes_per_step": self.sent,
            "estimated_exchange_ms": self.exchange,
            "estimated_step_ms": self.beside.zip(compute).map(|(beside, compute)| beside + compute),
        })
    }

    /// Lines of text; `compute` is as in [`Shared::to_json`].
    pub(super) fn to_text(self, compute: Option<f64>) -> String {
        let mut text = format!(
            "shared by     {:>10} processes, each with up to {} of {} groups; memory and time are those of the busiest\n",
            self.processes, self.groups, self.ranks
        );
        text += &format!("sent          {:>10} by a process in a step\n", show_size(self.sent));
        match self.exchange.zip(self.beside).zip(compute) {
            Some(((exchange, beside), compute)) => {
                let all = show_ms(beside + compute);
                text += &format!(
                    "exchange      {:>10} on the network, in part while others compute: a step takes {all}\n",
                    show_ms(exchange)
                );
            }
            None => text += "exchange         unknown: name the network with --network RATE,LATENCY\n",
        }
        text
    }
}

//! Profiling: the time of a run, split into products and all kernels and by nodes, and tiles that ReLU attention skips.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lessen_compile::Plan;
use lessen_graph::NodeId;

use crate::tile_counts::TileCounts;

/// The profile of a run; times are in seconds, summed over all threads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Profile {
    /// In matrix products, attention's included.
    pub products: f64,
    /// In all kernels.
    pub kernels: f64,
    /// Of all forward passes of ReLU attention.
    pub tiles: TileCounts,
}

/// The node whose kernels are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) node: NodeId,
    pub(crate) product: bool,
}

impl Timed {
    /// A node of a plan.
    pub(crate) fn of(plan: &Plan, node: NodeId) -> Timed {
        let product = plan.graph().nodes[node.index()].op.is_contraction();
        Timed { node, product }
    }
}

/// Nanoseconds that all threads spent, collected while profiling.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) on: bool,
    pub(crate) products: AtomicU64,
    pub(crate) kernels: AtomicU64,
    /// In the kernels of each node of the plan's graph.
    pub(crate) nodes: Vec<AtomicU64>,
    pub(crate) tiles: Mutex<TileCounts>,
    /// Seconds of each step, in order, all runs together.
    pub(crate) steps: Mutex<Vec<f64>>,
}

impl Clock {
    /// A clock that is on, for the nodes of a plan.
    pub(crate) fn started(plan: &Plan) -> Clock {
        Clock {
            on: true,
            nodes: plan.graph().nodes.iter().map(|_| AtomicU64::new(0)).collect(),
            ..Clock::default()
        }
    }

    /// Runs a kernel of a node and adds its time to the profile.
    #[inline]
    pub(crate) fn time(&self, timed: Timed, f: impl FnOnce()) {
        if !self.on {
            return f();
        }
        let start = Instant::now();
        f();
        let nanos = start.elapsed().as_nanos() as u64;
        self.kernels.fetch_add(nanos, Ordering::Relaxed);
        self.nodes[timed.node.index()].fetch_add(nanos, Ordering::Relaxed);
        if timed.product {
            self.products.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Runs step number `step` and adds the time from its begin to its end.
    #[inline]
    pub(crate) fn time_step(&self, step: usize, f: impl FnOnce()) {
        if !self.on {
            return f();
        }
        let start = Instant::now();
        f();
        let seconds = start.elapsed().as_secs_f64();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() <= step {
            steps.resize(step + 1, 0.0);
        }
        steps[step] += seconds;
    }

    /// Adds the counts of a task of ReLU attention.
    pub(crate) fn count(&self, tiles: &TileCounts) {
        if self.on {
            let mut all = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
            *all = all.plus(tiles);
        }
    }

    /// Returns the profile so far.
    pub(crate) fn profile(&self) -> Profile {
        Profile {
            products: seconds(&self.products),
            kernels: seconds(&self.kernels),
            tiles: *self.tiles.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
    /// Seconds in the kernels of each node so far.
    pub(crate) fn node_seconds(&self) -> Vec<f64> {
        self.nodes.iter().map(seconds).collect()
    }
}

fn seconds(nanos: &AtomicU64) -> f64 {
    nanos.load(Ordering::Relaxed) as f64 * 1e-9
}

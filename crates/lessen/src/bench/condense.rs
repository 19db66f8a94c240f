//! The benchmark of dataset condensation: an update of the images, an epoch of the network, whole outer iterations, and
//! memory, on random images. `bench/condensation.py` runs the same in PyTorch beside it.

use std::collections::BTreeMap;
use std::time::Instant;

use lessen_base::process::peak_resident;
use lessen_base::{Result, SplitMix64};
use lessen_compile::{Plan, Precision};
use lessen_condense::{Condensation, Condenser, InnerEpochs, LabelledImages, Method, Settings, published};
use lessen_cpu::{CpuBackend, Device, Executable, Store, peak_flops};
use lessen_device::{Backend, Host, SharedDevice};
use lessen_graph::{DType, InputKind, Type};
use lessen_jobs::training::median;
use lessen_nn::models::vision::VisionModel;
use lessen_train::memory::ResidentGrowth;
use serde_json::{Map, Value, json};

use super::step::{Filled, Scheduled};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Condensing {
    /// Name of the network.
    pub network: String,
    /// Number of classes.
    pub classes: usize,
    /// Synthetic images of a class.
    pub per_class: usize,
    /// Real images of a class.
    pub real: usize,
    /// Height and width of the images, which have three channels.
    pub side: usize,
    /// The paper's settings.
    pub method: Method,
    /// Dtype of the operands of products and convolutions.
    pub precision: Precision,
    /// Most bytes of all that the session takes.
    pub budget: Option<usize>,
    /// Timed updates of the images.
    pub updates: usize,
    /// Timed epochs of the network.
    pub epochs: usize,
    /// Schedules of timed outer iterations.
    pub outer: Vec<InnerEpochs>,
    /// Whether the operations of all functions are timed, too.
    pub operations: bool,
}

/// The measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the network to kernels, all functions.
    pub compile_ms: f64,
    /// Times of the updates of the images, ascending.
    pub update_ms: Vec<f64>,
    /// Times of the epochs of the network, ascending.
    pub epoch_ms: Vec<f64>,
    /// Seconds of outer iterations, in the order of the schedules.
    pub outer_seconds: Vec<f64>,
    /// What runs in an update and an epoch.
    pub functions: Vec<Planned>,
    /// Bytes of states, constants and results of all functions and of the largest arena, as planned.
    pub planned_peak: usize,
    /// Bytes that the device has allocated for all functions.
    pub measured_peak: usize,
    /// The highest resident size of the process; none where the system does not tell.
    pub resident: Option<usize>,
    /// The same over what was resident before the images were made.
    pub resident_growth: Option<usize>,
    /// The distances of the last update.
    pub distances: Vec<f32>,
}

/// A function of the condensation: the real gradients of a class, for example.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it is for; see [`Condenser::plans`].
    pub name: String,
    /// Nodes of its graph.
    pub nodes: usize,
    /// Floating-point operations of products in a run.
    pub flops: f64,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Time of a run by the costs that the plan was made with, in milliseconds.
    pub estimated_ms: f64,
    /// The steps of the plan, if they are timed.
    pub schedule: Vec<Scheduled>,
}

impl Planned {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "nodes": self.nodes,
            "gflop": self.flops / 1e9,
            "arena_bytes": self.arena_bytes,
            "estimated_ms": self.estimated_ms,
            "schedule": self.schedule.iter().map(Scheduled::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Condensing {
    /// As many random images of each class as an update reads.
    fn source(&self) -> Result<LabelledImages> {
        let shape = [self.side, self.side, 3];
        let count = self.classes * self.real;
        let mut random = SplitMix64::new(42);
        let pixels = (0..count * shape.iter().product::<usize>()).map(|_| random.below(256) as f32 / 64.0 - 2.0);
        let labels = (0..count).map(|image| (image / self.real) as u32);
        LabelledImages::new(shape, self.classes, pixels.collect(), labels.collect())
    }

    /// Two updates and epochs to warm up, then the timed ones, then outer iterations.
    ///
    /// # Errors
    /// An unknown network, images that do not fit it, settings out of range, a budget below the floor.
    pub fn measure(&self) -> Result<Measured> {
        let growth = ResidentGrowth::watch();
        let source = self.source()?;
        let network = VisionModel::preset(&self.network, self.classes)?;
        let (updates, _) = published(self.per_class)?;
        let settings = Settings {
            // With two updates an outer iteration has epochs, even for one image of a class.
            updates: updates.max(2),
            epochs: InnerEpochs::Fixed(1),
            real_batch: self.real,
            precision: self.precision,
            budget: self.budget,
            ..Settings::published(self.method, self.per_class)?
        };
        let backend: Box<dyn Backend> = Box::new(CpuBackend::from_env()?);
        let begin = Instant::now();
        let mut condenser = Condenser::new(SharedDevice::from(backend), &network, &source, settings)?;
        let compile_ms = begin.elapsed().as_secs_f64() * 1e3;

        let mut random = SplitMix64::new(1);
        condenser.draw_network(1)?;
        let (mut update_ms, mut epoch_ms, mut distances) = (Vec::new(), Vec::new(), Vec::new());
        let warm_up = 2;
        for _ in 0..warm_up + self.updates {
            let begin = Instant::now();
            distances = condenser.update_images(0, &mut random)?;
            update_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        for _ in 0..warm_up + self.epochs {
            let begin = Instant::now();
            condenser.epoch(&mut random)?;
            epoch_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let outer = self.outer.iter().map(|&epochs| outer(&mut condenser, updates, epochs));
        let outer_seconds = outer.collect::<Result<Vec<f64>>>()?;
        for times in [&mut update_ms, &mut epoch_ms] {
            times.drain(..warm_up);
            times.sort_by(f64::total_cmp);
        }
        let plans = condenser.plans()?;
        let memory = condenser.session().memory().used;
        let (resident, resident_growth) = (peak_resident(), growth.and_then(|growth| growth.peak()));
        drop(condenser);
        let functions = plans.iter().map(|(name, plan)| {
            Ok(Planned {
                name: name.clone(),
                nodes: plan.graph().nodes.len(),
                flops: plan.flops().0,
                arena_bytes: plan.arena_bytes(),
                estimated_ms: 1e3 * plan.estimated_seconds(),
                schedule: if self.operations { schedule(plan)? } else { Vec::new() },
            })
        });
        Ok(Measured {
            compile_ms,
            update_ms,
            epoch_ms,
            outer_seconds,
            functions: functions.collect::<Result<_>>()?,
            planned_peak: planned_peak(plans.iter().map(|(_, plan)| &**plan)),
            measured_peak: memory.total(),
            resident,
            resident_growth,
            distances,
        })
    }

    /// Measures, and returns what `--json` prints.
    ///
    /// # Errors
    /// As [`Condensing::measure`].
    pub fn run(&self) -> Result<(Measured, Value)> {
        let device = Device::from_env()?;
        let (peak, threads) = (peak_flops(&device), device.threads());
        drop(device);
        let m = self.measure()?;
        let outer = self.outer.iter().map(InnerEpochs::to_string);
        let outer: Map<String, Value> = outer
            .zip(m.outer_seconds.iter().map(|&seconds| json!(seconds)))
            .collect();
        let last = |times: &[f64]| times[times.len() - 1];
        let json = json!({
            "peak_gflops": peak / 1e9,
            "threads": threads,
            "compile_ms": m.compile_ms,
            "update_ms": median(m.update_ms.clone()),
            "update_ms_min": m.update_ms[0],
            "update_ms_max": last(&m.update_ms),
            "epoch_ms": median(m.epoch_ms.clone()),
            "epoch_ms_min": m.epoch_ms[0],
            "epoch_ms_max": last(&m.epoch_ms),
            "outer_s": outer,
            "planned_peak_bytes": m.planned_peak,
            "measured_peak_bytes": m.measured_peak,
            "peak_bytes": m.resident,
            "peak_growth_bytes": m.resident_growth,
            "distances": m.distances,
            "functions": m.functions.iter().map(Planned::to_json).collect::<Vec<_>>(),
        });
        Ok((m, json))
    }
}

/// Bytes of all that these plans take together: states that several read are counted once, and so is the arena.
fn planned_peak<'p>(plans: impl Iterator<Item = &'p Plan>) -> usize {
    let (mut states, mut others, mut arena) = (BTreeMap::new(), 0, 0);
    for plan in plans {
        let graph = plan.graph();
        let own = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
        states.extend(own.map(|input| (input.name.clone(), graph.ty(input.value).bytes())));
        others += plan.constant_bytes() + plan.result_bytes();
        arena = arena.max(plan.arena_bytes());
    }
    states.values().sum::<usize>() + others + arena
}

/// Seconds of an outer iteration.
fn outer(condenser: &mut Condenser<'_>, updates: usize, epochs: InnerEpochs) -> Result<f64> {
    let mut random = SplitMix64::new(2);
    let begin = Instant::now();
    condenser.draw_network(2)?;
    for update in 0..updates {
        condenser.update_images(update, &mut random)?;
        let after = if update + 1 < updates { epochs.most(update) } else { 0 };
        for _ in 0..after {
            condenser.epoch(&mut random)?;
        }
    }
    Ok(begin.elapsed().as_secs_f64())
}

/// The steps of a plan with their times, on random states and inputs: the mean of two runs after one.
fn schedule(plan: &Plan) -> Result<Vec<Scheduled>> {
    let mut device = Device::from_env()?;
    let mut store = Store::new();
    let mut random = SplitMix64::new(3);
    let mut numbers = |ty: &Type| -> Vec<f32> { (0..ty.numel()).map(|_| random.unit() as f32 - 0.5).collect() };
    let mut data = Vec::new();
    for input in &plan.graph().inputs {
        let ty = plan.graph().ty(input.value);
        match (input.kind, ty.dtype) {
            (InputKind::State, _) => store.insert_f32(&input.name, &ty.shape, &numbers(ty)),
            (InputKind::Data, DType::I32) => data.push((&input.name, Filled::I32(vec![0; ty.numel()]))),
            (InputKind::Data, _) => data.push((&input.name, Filled::F32(numbers(ty)))),
        }
    }
    let data: Vec<(&str, Host<'_>)> = data.iter().map(|(name, data)| (name.as_str(), data.host())).collect();
    let mut function = Executable::load(plan.clone());
    function.run(&mut device, &mut store, &data)?;
    function.set_profiling(true);
    let runs = 2;
    for _ in 0..runs {
        function.run(&mut device, &mut store, &data)?;
    }
    Ok(Scheduled::of(&function, runs))
}

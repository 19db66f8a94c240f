//! Scans: the body is a plan of its own, whose steps run turn after turn on the whole pool. Its inputs are read where
//! they lie, and its arena is a part of the arena of the plan around it.

use lessen_base::Result;
use lessen_compile::{KernelKind, Lowering, Options, Plan, Scratch, aligned, compile};
use lessen_graph::InputKind;
use lessen_graph::ops::Scan;

use crate::clock::{Clock, Timed};
use crate::constants::Constants;
use crate::device::CpuTarget;
use crate::group::Context;
use crate::operand::{Bases, Location};
use crate::pool::Pool;
use crate::results::Source;

/// Sets of buffers for carries: one is read in a turn, the other is written.
const SETS: usize = 2;

/// A step of a body that is bound to kernels.
pub(crate) trait BodyStep: Send + Sync {
    /// Runs the step.
    fn run(&self, pool: &Pool, context: &Context<'_>);

    /// Greatest number of tasks into which its work is cut for `threads` threads; none where it has no work.
    fn tasks(&self, threads: usize) -> Option<usize>;
}

/// The body of a scan as a plan with its constants.
pub(crate) struct Body {
    scan: Scan,
    pub(crate) plan: Plan,
    pub(crate) constants: Constants,
}

/// A scan bound to the kernels of its body.
pub(crate) struct BoundScan {
    body: Body,
    steps: Vec<Box<dyn BodyStep>>,
    /// Where the body's outputs lie.
    results: Vec<Source>,
    /// For each carry, the byte of its buffer in a set.
    buffers: Vec<usize>,
    /// Bytes of a set.
    set: usize,
    /// Bytes of each of the body's inputs.
    bytes: Vec<usize>,
    inputs: Vec<Location>,
    outputs: Vec<Location>,
    timed: Timed,
}

/// How a scan runs.
pub(crate) fn lowering(scan: &Scan, workers: usize) -> Lowering {
    let inputs = scan.body().inputs.len();
    match plan(scan, workers) {
        Ok(plan) => Lowering {
            scratch: scratch(scan, &plan),
            ..Lowering::dense(KernelKind::Whole, inputs)
        },
        Err(_) => Lowering::dense(KernelKind::Reference, inputs),
    }
}

/// The plan of the body, which reads its inputs as states.
fn plan(scan: &Scan, workers: usize) -> Result<Plan> {
    let mut body = scan.body().clone();
    body.inputs.iter_mut().for_each(|input| input.kind = InputKind::State);
    compile(&body, &Options::default(), &CpuTarget { threads: workers })
}

/// The byte of each carry's buffer in a set, and the bytes of a set.
fn buffers(scan: &Scan) -> (Vec<usize>, usize) {
    let body = scan.body();
    let mut end = 0usize;
    let places = body.inputs[..scan.carries()].iter().map(|input| {
        let place = end;
        end = end.saturating_add(aligned(body.ty(input.value).bytes()));
        place
    });
    (places.collect(), end)
}

/// Both sets of buffers, and the arena of the body.
fn scratch(scan: &Scan, plan: &Plan) -> Scratch {
    let buffers = buffers(scan).1.saturating_mul(SETS);
    Scratch {
        worker: 0,
        shared: buffers.saturating_add(aligned(plan.arena_bytes())),
    }
}

impl Body {
    /// Compiles the body of a scan for this number of workers.
    ///
    /// # Errors
    /// A body whose arrays or constants the memory cannot hold.
    pub(crate) fn new(scan: &Scan, workers: usize) -> Result<Body> {
        let plan = plan(scan, workers)?;
        Ok(Body {
            scan: scan.clone(),
            constants: Constants::of(&plan)?,
            plan,
        })
    }

    /// The memory that the scan needs while it runs.
    pub(crate) fn scratch(&self) -> Scratch {
        scratch(&self.scan, &self.plan)
    }
}

impl BoundScan {
    /// A scan whose body has these steps; `inputs` and `outputs` are where those of the scan lie.
    pub(crate) fn new(
        body: Body,
        steps: Vec<Box<dyn BodyStep>>,
        inputs: Vec<Location>,
        outputs: Vec<Location>,
        timed: Timed,
    ) -> BoundScan {
        let (buffers, set) = buffers(&body.scan);
        let graph = body.plan.graph();
        let source = |output| Source::of(&body.plan, &body.constants.offsets, output);
        BoundScan {
            results: graph.outputs.iter().map(source).collect(),
            bytes: graph.inputs.iter().map(|input| graph.ty(input.value).bytes()).collect(),
            body,
            steps,
            buffers,
            set,
            inputs,
            outputs,
            timed,
        }
    }

    /// See [`BodyStep::tasks`].
    pub(crate) fn tasks(&self, threads: usize) -> Option<usize> {
        self.steps.iter().filter_map(|step| step.tasks(threads)).max()
    }

    /// Runs all turns, up to one that finds a wrong index. `shared` has the bytes of [`Body::scratch`].
    pub(crate) fn run(&self, pool: &Pool, context: &Context<'_>, shared: *mut u8) {
        context.clock.time(self.timed, || self.turns(pool, context, shared));
    }

    fn turns(&self, pool: &Pool, context: &Context<'_>, shared: *mut u8) {
        let at = |location: &Location| context.bases.at(*location, std::ptr::null_mut());
        let outputs: Vec<*mut u8> = self.outputs.iter().map(at).collect();
        let inputs: Vec<*mut u8> = self.inputs.iter().map(at).collect();
        let (carries, results) = (self.body.scan.carries(), self.results.len());
        let slices = carries..carries + self.body.scan.slices();
        let last = self.body.scan.options().turns - 1;
        let buffer = |turn: usize, carry: usize| shared.wrapping_add(turn % SETS * self.set + self.buffers[carry]);
        let mut bases = Bases {
            arena: shared.wrapping_add(SETS * self.set),
            constants: self.body.constants.memory.ptr(),
            states: inputs.clone(),
        };
        // The times of the body's nodes are those of the scan.
        let clock = Clock::default();
        for (turn, number) in self.body.scan.order().enumerate() {
            for i in slices.clone() {
                bases.states[i] = inputs[i].wrapping_add(number * self.bytes[i]);
            }
            for (kept, i) in outputs[results..].iter().zip(0..carries) {
                let to = kept.wrapping_add(number * self.bytes[i]);
                // SAFETY: the output has a slice of the carry's type for each turn, and overlaps no input or buffer.
                unsafe { to.copy_from_nonoverlapping(bases.states[i], self.bytes[i]) };
            }
            let inner = Context {
                bases: &bases,
                index_errors: context.index_errors,
                clock: &clock,
            };
            for step in &self.steps {
                step.run(pool, &inner);
                if context.index_errors.any() {
                    return;
                }
            }
            for (i, result) in self.results.iter().enumerate() {
                let to = match i < carries {
                    true if turn == last => outputs[i],
                    true => buffer(turn, i),
                    false => outputs[i].wrapping_add(number * result.ty.bytes()),
                };
                // SAFETY: the plan keeps results until the end of the turn. Outputs and buffers have room for their
                // types, and overlap no memory that the turn reads: its own carries are in the other set.
                unsafe { result.copy(&bases, to) };
            }
            for i in (0..carries).filter(|_| turn < last) {
                bases.states[i] = buffer(turn, i);
            }
        }
    }
}

//! Devices that are wrong on purpose: the suite catches each of them.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::Result;
use lessen_compile::{Plan, Target};
use lessen_device::suite::{self, BUDGETS, Check, DETERMINISM, KERNELS, MODELS, PROGRAMS, SAFETY, VIEWS};
use lessen_device::{Backend, DeviceMemory, Host, HostArray, ModelId, ProgramId, ReferenceBackend};
use lessen_graph::Type;

/// A mistake of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Nothing.
    Nothing,
    /// It keeps 12 bits of the mantissa of each result.
    RoundsResults,
    /// It shows the results of the first run of a program after every run.
    StaleResults,
    /// It loses the updates of every third run: the states keep their values from before the run.
    LosesUpdates,
    /// The last bit of states that a run updates depends on how many runs there have been, as the last bit of sums
    /// depends on the order in which threads add to them.
    RacingUpdates,
    /// All models share one namespace.
    SharesModels,
    /// A run that fails leaves zeros in the states.
    FailsHalfway,
    /// It announces fewer bytes of states than it allocates.
    HidesMemory,
}

/// The reference device with a fault.
struct Wrong {
    fault: Fault,
    inner: ReferenceBackend,
    runs: Cell<usize>,
    models: HashMap<ProgramId, ModelId>,
    first: HashMap<(ProgramId, String), Arc<HostArray>>,
    shared: Option<ModelId>,
}

impl Wrong {
    fn new(fault: Fault) -> Wrong {
        Wrong {
            fault,
            inner: ReferenceBackend::default(),
            runs: Cell::new(0),
            models: HashMap::new(),
            first: HashMap::new(),
            shared: None,
        }
    }

    /// Names and values of the states that a program updates.
    fn updated(&self, program: ProgramId) -> Vec<(String, HostArray)> {
        let plan = self.inner.plan(program);
        let graph = plan.graph();
        let targets = graph.assigns.iter().filter_map(|assign| graph.input(assign.target));
        let state = |name: &str| {
            let mut found = None;
            let read = |host: Host<'_>| found = Some(HostArray::from(host));
            self.inner
                .download(self.models[&program], name, &mut { read })
                .ok()
                .and(found)
        };
        targets
            .filter_map(|input| Some((input.name.clone(), state(&input.name)?)))
            .collect()
    }

    fn set(&mut self, program: ProgramId, states: &[(String, HostArray)]) {
        for (name, array) in states {
            self.inner.upload(self.models[&program], name, array.host()).unwrap();
        }
    }
}

/// An array with other bits in its `f32` elements.
fn with_bits(array: &HostArray, change: impl Fn(u32) -> u32) -> HostArray {
    match array {
        HostArray::F32(values) => HostArray::F32(values.iter().map(|x| f32::from_bits(change(x.to_bits()))).collect()),
        other => other.clone(),
    }
}

impl Backend for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn target(&self) -> &dyn Target {
        self.inner.target()
    }

    fn add_model(&mut self) -> ModelId {
        match self.shared {
            Some(model) if self.fault == Fault::SharesModels => model,
            _ => {
                let model = self.inner.add_model();
                self.shared = Some(model);
                model
            }
        }
    }

    fn remove_model(&mut self, model: ModelId) {
        self.inner.remove_model(model);
        self.shared = None;
    }

    fn load(&mut self, model: ModelId, plan: Plan) -> Result<ProgramId> {
        let program = self.inner.load(model, plan)?;
        self.models.insert(program, model);
        Ok(program)
    }

    fn unload(&mut self, program: ProgramId) {
        self.inner.unload(program);
    }

    fn plan(&self, program: ProgramId) -> Arc<Plan> {
        self.inner.plan(program)
    }

    fn allocate(&mut self, model: ModelId, state: &str, ty: &Type) -> Result<()> {
        self.inner.allocate(model, state, ty)
    }

    fn free(&mut self, model: ModelId, state: &str) {
        self.inner.free(model, state);
    }

    fn state_type(&self, model: ModelId, state: &str) -> Option<&Type> {
        self.inner.state_type(model, state)
    }

    fn upload(&mut self, model: ModelId, state: &str, data: Host<'_>) -> Result<()> {
        self.inner.upload(model, state, data)
    }

    fn upload_part(&mut self, model: ModelId, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        self.inner.upload_part(model, state, first, data)
    }

    fn download(&self, model: ModelId, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        self.inner.download(model, state, visit)
    }

    fn reserve(&mut self, arena: usize) -> Result<()> {
        self.inner.reserve(arena)
    }

    fn submit(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        if self.inner.wait(program).is_err() {
            return self.inner.submit(program, data);
        }
        self.runs.set(self.runs.get() + 1);
        let before = self.updated(program);
        let run = self.inner.submit(program, data);
        if run.is_err() && self.fault == Fault::FailsHalfway {
            let zeros = before
                .iter()
                .map(|(name, array)| (name.clone(), with_bits(array, |_| 0)));
            self.set(program, &zeros.collect::<Vec<_>>());
        }
        run?;
        match self.fault {
            Fault::LosesUpdates if self.runs.get().is_multiple_of(3) => self.set(program, &before),
            Fault::RacingUpdates => {
                let last = (self.runs.get() / 2 % 2) as u32;
                let after = self.updated(program).into_iter();
                let after: Vec<_> = after
                    .map(|(name, array)| (name, with_bits(&array, |x| x & !1 | last)))
                    .collect();
                self.set(program, &after);
            }
            Fault::StaleResults => {
                for output in &self.inner.plan(program).graph().outputs {
                    let array = self.inner.output(program, &output.name).unwrap();
                    self.first.entry((program, output.name.clone())).or_insert(array);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn wait(&mut self, program: ProgramId) -> Result<()> {
        self.inner.wait(program)
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        let array = self.inner.output(program, name)?;
        match self.fault {
            Fault::RoundsResults => Some(Arc::new(with_bits(&array, |x| x & !0xfff))),
            Fault::StaleResults => self.first.get(&(program, name.to_string())).cloned(),
            _ => Some(array),
        }
    }

    fn memory(&self) -> DeviceMemory {
        let mut memory = self.inner.memory();
        if self.fault == Fault::HidesMemory {
            memory.used.states /= 2;
        }
        memory
    }
}

/// Checks that a group of checks finds a fault.
fn assert_caught(fault: Fault, checks: &[Check]) {
    let new = |_: usize| -> Box<dyn Backend> { Box::new(Wrong::new(fault)) };
    let failures = suite::failures(checks.iter().copied(), &new);
    assert!(!failures.is_empty(), "{fault:?} is not caught");
}

#[test]
fn the_device_without_a_fault_passes() {
    let new = |_: usize| -> Box<dyn Backend> { Box::new(Wrong::new(Fault::Nothing)) };
    assert_eq!(suite::failures(suite::all(), &new), [] as [String; 0]);
}

#[test]
fn wrong_rounding_is_caught() {
    assert_caught(Fault::RoundsResults, KERNELS);
    assert_caught(Fault::RoundsResults, VIEWS);
    assert_caught(Fault::RoundsResults, PROGRAMS);
}

#[test]
fn stale_results_are_caught() {
    assert_caught(Fault::StaleResults, MODELS);
}

#[test]
fn lost_updates_are_caught() {
    assert_caught(Fault::LosesUpdates, DETERMINISM);
}

#[test]
fn racing_updates_are_caught() {
    assert_caught(Fault::RacingUpdates, DETERMINISM);
}

#[test]
fn models_that_share_their_states_are_caught() {
    assert_caught(Fault::SharesModels, MODELS);
}

#[test]
fn a_run_that_fails_halfway_is_caught() {
    assert_caught(Fault::FailsHalfway, SAFETY);
}

#[test]
fn memory_that_is_not_told_is_caught() {
    assert_caught(Fault::HidesMemory, BUDGETS);
}

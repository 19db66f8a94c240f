//! The seam between programs and devices: everything above this crate runs plans through [`Backend`] and knows no
//! device by name.

use std::time::Duration;

use lessen_base::Result;
use lessen_graph::{Graph, InputKind, Type};

use crate::compiler::{compile, floor_bytes};
use crate::host::Host;
use crate::operations::{Operation, operations};
use crate::options::Options;
use crate::plan::Plan;
use crate::target::{KernelKind, Target};

/// A plan that a backend has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProgramId(pub u32);

/// Bytes that a backend has allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceMemory {
    /// All states.
    pub states: usize,
    /// Constants of all loaded plans.
    pub constants: usize,
    /// The arena that all plans share.
    pub arena: usize,
}

/// What measuring operations took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measuring {
    /// Operations that were measured.
    pub measured: usize,
    /// Operations that time or memory did not suffice for.
    pub left: usize,
    /// How long it took.
    pub time: Duration,
}

/// A device that runs plans: it holds loaded plans, named states that live between runs, and one arena.
pub trait Backend: Send {
    /// The name that `--device` takes.
    fn name(&self) -> &'static str;

    /// What the planner must know of the device.
    fn target(&self) -> &dyn Target;

    /// Loads a plan that was compiled for [`Backend::target`].
    ///
    /// # Errors
    /// Constants that the device's memory cannot hold.
    fn load(&mut self, plan: Plan) -> Result<ProgramId>;

    /// Frees a loaded plan, and with the last one the arena.
    fn unload(&mut self, program: ProgramId);

    /// A loaded plan.
    ///
    /// # Panics
    /// If the program is not loaded.
    fn plan(&self, program: ProgramId) -> &Plan;

    /// Allocates a state filled with zeros; a state of the same name is replaced.
    ///
    /// # Errors
    /// A state that the device's memory cannot hold.
    fn allocate(&mut self, state: &str, ty: &Type) -> Result<()>;

    /// Frees a state.
    fn free(&mut self, state: &str);

    /// The type of a state; none where it is not allocated.
    fn state_type(&self, state: &str) -> Option<&Type>;

    /// Copies an array from the host into a state.
    ///
    /// # Errors
    /// A state that is not allocated, or has another dtype or number of elements.
    fn upload(&mut self, state: &str, data: Host<'_>) -> Result<()>;

    /// Copies an array from the host over a state's elements from number `first` on.
    ///
    /// # Errors
    /// A state that is not allocated, has another dtype, or ends sooner.
    fn upload_part(&mut self, state: &str, first: usize, data: Host<'_>) -> Result<()>;

    /// Shows a state's elements to `visit`, without a copy where the device shares the host's memory.
    ///
    /// # Errors
    /// A state that is not allocated.
    fn download(&self, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()>;

    /// Allocates what runs of loaded plans take beside states and constants: an arena of so many bytes, and the
    /// workspace of kernels. Without this the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn reserve(&mut self, arena: usize) -> Result<()>;

    /// Says that the states that a program reads, which are uploaded, do not change any more and that no other program
    /// reads them, so that the device may lay them out as its kernels read them fastest. They can no longer be
    /// downloaded or changed then.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn freeze(&mut self, _program: ProgramId) -> Result<()> {
        Ok(())
    }

    /// Runs a loaded plan on data inputs given by name; it reads and updates the states. `data` may hold more than the
    /// plan's inputs.
    ///
    /// # Errors
    /// An input or state that is missing or of another type, an index out of range. No state has changed then.
    fn run(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()>;

    /// An output of the program's last run, in row-major order; none before the first run or where there is no output
    /// of this name.
    fn output(&self, program: ProgramId, name: &str) -> Option<Host<'_>>;

    /// Measures how long these operations take, those with the largest share first, within a few seconds and `memory`
    /// bytes: [`Target::measured`] tells it from then on. What is known already is not measured again.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn measure(&mut self, _operations: &[Operation], _memory: usize) -> Result<Measuring> {
        Ok(Measuring::default())
    }

    /// What is allocated now.
    fn memory(&self) -> DeviceMemory;
}

impl dyn Backend + '_ {
    /// Compiles a graph for this device.
    ///
    /// # Errors
    /// As [`compile`](crate::compile).
    pub fn compile(&self, graph: &Graph, options: &Options) -> Result<Plan> {
        compile(graph, options, self.target())
    }

    /// The least budget under which a graph can be compiled for this device.
    ///
    /// # Errors
    /// As [`floor_bytes`](crate::floor_bytes).
    pub fn floor_bytes(&self, graph: &Graph, options: &Options) -> Result<usize> {
        floor_bytes(graph, options, self.target())
    }

    /// Measures the operations of these graphs, so that plans from then on are by their times. It takes about
    /// as much memory as the states and the largest operation, and so no more than any plan of the graphs.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn measure_graphs<'a>(
        &mut self,
        graphs: impl IntoIterator<Item = &'a Graph>,
        options: &Options,
    ) -> Result<Measuring> {
        let (mut all, mut memory): (Vec<Operation>, usize) = (Vec::new(), 0);
        for graph in graphs {
            let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
            let states: usize = states.map(|input| graph.ty(input.value).bytes()).sum();
            let found = operations(graph, options, self.target());
            memory = memory.max(states + found.iter().filter_map(|o| self.bytes_of_whole(o)).max().unwrap_or(0));
            all.extend(found);
        }
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        self.measure(&all, memory)
    }

    /// Bytes that an operation takes which runs by itself: a plan has them at the same time.
    fn bytes_of_whole(&self, operation: &Operation) -> Option<usize> {
        let Operation {
            op, inputs, outputs, ..
        } = operation;
        let target = self.target();
        let is_whole = target.kernel(op.as_ref(), inputs, outputs) == KernelKind::Whole;
        let scratch = target.scratch(op.as_ref(), inputs, outputs);
        is_whole.then(|| operation.bytes() + target.workers() * scratch.worker + scratch.shared)
    }
}

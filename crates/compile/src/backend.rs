//! The seam between programs and devices: everything above this crate runs plans through [`Backend`] and knows no
//! device by name.

use lessen_base::Result;
use lessen_graph::{Graph, Type};

use crate::compiler::{compile, floor_bytes};
use crate::host::Host;
use crate::options::Options;
use crate::plan::Plan;
use crate::target::Target;

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

    /// Runs a loaded plan on data inputs given by name; it reads and updates the states. `data` may hold more than the
    /// plan's inputs.
    ///
    /// # Errors
    /// An input or state that is missing or of another type, an index out of range. No state has changed then.
    fn run(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()>;

    /// An output of the program's last run, in row-major order; none before the first run or where there is no output
    /// of this name.
    fn output(&self, program: ProgramId, name: &str) -> Option<Host<'_>>;

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
}

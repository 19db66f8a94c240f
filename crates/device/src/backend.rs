//! The trait that a device implements.

use std::sync::Arc;
use std::time::Duration;

use lessen_base::Result;
use lessen_compile::{Operation, Plan, Target};
use lessen_graph::Type;

use crate::host_array::HostArray;
use crate::memory::DeviceMemory;
use lessen_graph::Host;

/// A model on a device: a namespace of states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ModelId(pub u32);

/// A plan that a device has loaded. Programs of all models have different numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProgramId(pub u32);

/// Numbers of operations that were measured and left out, and the time of the measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measuring {
    /// Number of operations that were measured.
    pub measured: usize,
    /// Number of operations for which time or memory did not suffice.
    pub left: usize,
    /// Time of the measurement.
    pub time: Duration,
    /// Whether other processes kept the machine busy meanwhile; the times are then not kept for the next process.
    pub is_disturbed: bool,
}

/// A device that runs plans. It holds models with their named states, which live between runs; loaded plans; and one
/// arena, which all runs share.
///
/// Runs take effect in the order in which they are submitted. A call that reads or changes a state, a result or the
/// memory waits for the runs before it.
pub trait Backend: Send {
    /// Name that `--device` takes.
    fn name(&self) -> &'static str;

    /// The target: the part of the device that plans depend on.
    fn target(&self) -> &dyn Target;

    /// Whether products of `bf16` are widened to `f32`, and so take longer than products of `f32`. Plans do not depend
    /// on it.
    fn widens_bf16(&self) -> bool {
        false
    }

    /// The instructions that it computes by, in a few words; empty where it has none to choose from.
    fn instructions(&self) -> String {
        String::new()
    }

    /// Adds a model without states.
    fn add_model(&mut self) -> ModelId;

    /// Removes a model: frees its states and unloads its programs.
    fn remove_model(&mut self, model: ModelId);

    /// Loads a plan that was compiled for [`Backend::target`]. The program finds its states in the model `model`.
    ///
    /// # Errors
    /// Constants and results that the device's memory cannot hold; a plan of another device.
    fn load(&mut self, model: ModelId, plan: Plan) -> Result<ProgramId>;

    /// Unloads a program, and with the last one frees the arena. Unloading a program that is not loaded changes
    /// nothing.
    fn unload(&mut self, program: ProgramId);

    /// Plan of a loaded program.
    ///
    /// # Panics
    /// If the program is not loaded.
    fn plan(&self, program: ProgramId) -> Arc<Plan>;

    /// Allocates a state filled with zeros; a state of the same name in the model is replaced.
    ///
    /// # Errors
    /// A state that the device's memory cannot hold.
    fn allocate(&mut self, model: ModelId, state: &str, ty: &Type) -> Result<()>;

    /// Frees a state.
    fn free(&mut self, model: ModelId, state: &str);

    /// Type of a state; none where it is not allocated.
    fn state_type(&self, model: ModelId, state: &str) -> Option<&Type>;

    /// Copies an array from the host into a state.
    ///
    /// # Errors
    /// A state that is not allocated, or has another dtype or number of elements.
    fn upload(&mut self, model: ModelId, state: &str, data: Host<'_>) -> Result<()>;

    /// Copies an array from the host over a state's elements from number `first` on.
    ///
    /// # Errors
    /// A state that is not allocated, has another dtype, or ends sooner.
    fn upload_part(&mut self, model: ModelId, state: &str, first: usize, data: Host<'_>) -> Result<()>;

    /// Shows a state's elements to `visit`, without a copy where the device shares the host's memory.
    ///
    /// # Errors
    /// A state that is not allocated.
    fn download(&self, model: ModelId, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()>;

    /// Allocates the memory that runs of loaded programs take beside states, constants and results: an arena of `arena`
    /// bytes, and the workspace of kernels. Without this call the first run allocates it.
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

    /// Starts a run of a program on data inputs by name; the run reads and updates the states of the program's model.
    /// `data` may hold more than the plan's inputs, and is read before the call returns. A device may also run the
    /// program to its end here.
    ///
    /// # Errors
    /// An input or state that is missing or of another type, an index out of range. No state has changed then.
    fn submit(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()>;

    /// Waits until the last run of a program that was submitted has ended.
    ///
    /// # Errors
    /// A mistake that the run found after [`Backend::submit`] had returned, such as a computed index out of range. No
    /// state has changed then. The error is told once.
    fn wait(&mut self, program: ProgramId) -> Result<()>;

    /// Runs a program to its end.
    ///
    /// # Errors
    /// The errors of [`Backend::submit`] and [`Backend::wait`].
    fn run(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        self.submit(program, data)?;
        self.wait(program)
    }

    /// A result of the program's last run that has ended, in row-major order; none before the first run or where there
    /// is no output called `name`. The array stays as it is when the program runs again.
    fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>>;

    /// Measures how long the operations `operations` take, in the order of their shares, largest first, within a few
    /// seconds and `memory` bytes. The target's answers follow the measured times from then on. Operations whose time
    /// is known already are not measured again.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn measure(&mut self, _operations: &[Operation], _memory: usize) -> Result<Measuring> {
        Ok(Measuring::default())
    }

    /// Bytes that are allocated now, and bytes that can still be allocated.
    fn memory(&self) -> DeviceMemory;
}

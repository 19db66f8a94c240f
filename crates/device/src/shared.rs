//! Handles: a device with several owners, and one model on it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lessen_base::Result;
use lessen_compile::Plan;
use lessen_graph::Type;

use crate::backend::{Backend, ModelId, ProgramId};
use crate::host_array::HostArray;
use crate::memory::DeviceMemory;
use lessen_graph::Host;

/// A device that several owners hold. Clones are handles of the same device.
#[derive(Clone)]
pub struct SharedDevice {
    backend: Arc<Mutex<Box<dyn Backend>>>,
}

/// The device for its holder alone, until this is dropped.
pub struct DeviceGuard<'a> {
    backend: MutexGuard<'a, Box<dyn Backend>>,
}

impl SharedDevice {
    /// A handle of a device.
    pub fn new(backend: Box<dyn Backend>) -> SharedDevice {
        SharedDevice {
            backend: Arc::new(Mutex::new(backend)),
        }
    }

    /// The device for the caller alone, until the guard is dropped. Waits for other threads; a second guard in one
    /// thread waits for ever. All methods of [`DeviceModel`] take a guard while they run.
    pub fn lock(&self) -> DeviceGuard<'_> {
        // A device is consistent between the calls of its methods, and a run that panics counts as one that failed.
        let backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        DeviceGuard { backend }
    }

    /// Adds a model, which is removed when the handle of it is dropped.
    pub fn add_model(&self) -> DeviceModel {
        let id = self.lock().add_model();
        DeviceModel {
            device: self.clone(),
            id,
        }
    }

    /// Bytes that are allocated now, and bytes that can still be allocated.
    pub fn memory(&self) -> DeviceMemory {
        self.lock().memory()
    }
}

impl From<Box<dyn Backend>> for SharedDevice {
    fn from(backend: Box<dyn Backend>) -> SharedDevice {
        SharedDevice::new(backend)
    }
}

impl<B: Backend + 'static> From<Box<B>> for SharedDevice {
    fn from(backend: Box<B>) -> SharedDevice {
        SharedDevice::new(backend)
    }
}

impl From<&SharedDevice> for SharedDevice {
    fn from(device: &SharedDevice) -> SharedDevice {
        device.clone()
    }
}

impl fmt::Debug for SharedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedDevice").field(&self.lock().name()).finish()
    }
}

impl Deref for DeviceGuard<'_> {
    type Target = dyn Backend;

    fn deref(&self) -> &(dyn Backend + 'static) {
        self.backend.as_ref()
    }
}

impl DerefMut for DeviceGuard<'_> {
    fn deref_mut(&mut self) -> &mut (dyn Backend + 'static) {
        self.backend.as_mut()
    }
}

/// A model on a shared device: states by name, and programs over them. Dropping it removes the model. Each method is
/// that of [`Backend`] for this model.
#[derive(Debug)]
pub struct DeviceModel {
    device: SharedDevice,
    id: ModelId,
}

impl DeviceModel {
    /// The device.
    pub fn device(&self) -> &SharedDevice {
        &self.device
    }

    /// Number of the model on its device.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// Loads a plan; see [`Backend::load`].
    ///
    /// # Errors
    /// The errors of [`Backend::load`].
    pub fn load(&self, plan: Plan) -> Result<ProgramId> {
        self.device.lock().load(self.id, plan)
    }

    /// Unloads a program; see [`Backend::unload`].
    pub fn unload(&self, program: ProgramId) {
        self.device.lock().unload(program);
    }

    /// Plan of a program; see [`Backend::plan`].
    ///
    /// # Panics
    /// If the program is not loaded.
    pub fn plan(&self, program: ProgramId) -> Arc<Plan> {
        self.device.lock().plan(program)
    }

    /// Allocates a state of zeros; see [`Backend::allocate`].
    ///
    /// # Errors
    /// The errors of [`Backend::allocate`].
    pub fn allocate(&self, state: &str, ty: &Type) -> Result<()> {
        self.device.lock().allocate(self.id, state, ty)
    }

    /// Frees a state.
    pub fn free(&self, state: &str) {
        self.device.lock().free(self.id, state);
    }

    /// Type of a state; none where it is not allocated.
    pub fn state_type(&self, state: &str) -> Option<Type> {
        self.device.lock().state_type(self.id, state).cloned()
    }

    /// Copies an array into a state; see [`Backend::upload`].
    ///
    /// # Errors
    /// The errors of [`Backend::upload`].
    pub fn upload(&self, state: &str, data: Host<'_>) -> Result<()> {
        self.device.lock().upload(self.id, state, data)
    }

    /// Copies an array into a part of a state; see [`Backend::upload_part`].
    ///
    /// # Errors
    /// The errors of [`Backend::upload_part`].
    pub fn upload_part(&self, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        self.device.lock().upload_part(self.id, state, first, data)
    }

    /// Shows a state's elements to `visit`, which must not use the device; see [`Backend::download`].
    ///
    /// # Errors
    /// The errors of [`Backend::download`].
    pub fn download(&self, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        self.device.lock().download(self.id, state, visit)
    }

    /// Says that the states of a program do not change any more; see [`Backend::freeze`].
    ///
    /// # Errors
    /// The errors of [`Backend::freeze`].
    pub fn freeze(&self, program: ProgramId) -> Result<()> {
        self.device.lock().freeze(program)
    }

    /// Starts a run; see [`Backend::submit`].
    ///
    /// # Errors
    /// The errors of [`Backend::submit`].
    pub fn submit(&self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        self.device.lock().submit(program, data)
    }

    /// Waits for the last run of a program; see [`Backend::wait`].
    ///
    /// # Errors
    /// The errors of [`Backend::wait`].
    pub fn wait(&self, program: ProgramId) -> Result<()> {
        self.device.lock().wait(program)
    }

    /// Runs a program to its end; see [`Backend::run`].
    ///
    /// # Errors
    /// The errors of [`Backend::run`].
    pub fn run(&self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        self.device.lock().run(program, data)
    }

    /// A result of a program's last run; see [`Backend::output`].
    pub fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        self.device.lock().output(program, name)
    }

    /// All results of a program's last run with their names; empty before the first run.
    ///
    /// # Panics
    /// If the program is not loaded.
    pub fn outputs(&self, program: ProgramId) -> Vec<(String, Arc<HostArray>)> {
        let device = self.device.lock();
        let plan = device.plan(program);
        let outputs = plan.graph().outputs.iter();
        outputs
            .filter_map(|output| Some((output.name.clone(), device.output(program, &output.name)?)))
            .collect()
    }
}

impl Drop for DeviceModel {
    fn drop(&mut self) {
        self.device.lock().remove_model(self.id);
    }
}

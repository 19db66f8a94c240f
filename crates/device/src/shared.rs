//! Handles: a device with several owners, and one model on it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_graph::Type;

use crate::backend::{Backend, ModelId, ProgramId};
use crate::host_array::HostArray;
use crate::memory::DeviceMemory;
use lessen_graph::Host;

/// A device that several owners hold. Clones are handles of the same device.
#[derive(Clone)]
pub struct SharedDevice {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Mutex<Box<dyn Backend>>,
    /// The thread that has a guard, and the place where it took it.
    holder: Mutex<Option<(ThreadId, &'static Location<'static>)>>,
    /// Models whose handles were dropped by a thread with a guard. They are removed when the guard is dropped.
    dropped: Mutex<Vec<ModelId>>,
}

/// The device for its holder alone, until this is dropped.
pub struct DeviceGuard<'a> {
    backend: MutexGuard<'a, Box<dyn Backend>>,
    shared: &'a Shared,
}

impl SharedDevice {
    /// A handle of a device.
    pub fn new(backend: Box<dyn Backend>) -> SharedDevice {
        SharedDevice {
            shared: Arc::new(Shared {
                backend: Mutex::new(backend),
                holder: Mutex::default(),
                dropped: Mutex::default(),
            }),
        }
    }

    /// The device for the caller alone, until the guard is dropped. Waits for other threads. All methods of
    /// [`DeviceModel`] take a guard while they run.
    ///
    /// # Panics
    /// If this thread has a guard already, for which it would wait for ever; [`SharedDevice::hold`] is an error then.
    #[track_caller]
    pub fn lock(&self) -> DeviceGuard<'_> {
        self.hold().unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`SharedDevice::lock`].
    ///
    /// # Errors
    /// A thread that has a guard already, with the line where it took it.
    #[track_caller]
    pub fn hold(&self) -> Result<DeviceGuard<'_>> {
        let thread = thread::current().id();
        let holder = *unpoisoned(&self.shared.holder);
        if let Some((_, place)) = holder.filter(|(holder, _)| *holder == thread) {
            return Err(Error::user(format!(
                "this thread has locked the device at {place} and still holds the guard; end the guard first, by \
                 `drop` or by a `let` of its own before `match`, `if let` or `while let`"
            )));
        }
        let backend = unpoisoned(&self.shared.backend);
        *unpoisoned(&self.shared.holder) = Some((thread, Location::caller()));
        Ok(DeviceGuard {
            backend,
            shared: &self.shared,
        })
    }

    /// Adds a model, which is removed when the handle of it is dropped.
    ///
    /// # Errors
    /// As [`SharedDevice::hold`].
    pub fn add_model(&self) -> Result<DeviceModel> {
        let id = self.hold()?.add_model();
        Ok(DeviceModel {
            device: self.clone(),
            id,
        })
    }

    /// Bytes that are allocated now, and bytes that can still be allocated.
    ///
    /// # Panics
    /// As [`SharedDevice::lock`].
    #[track_caller]
    pub fn memory(&self) -> DeviceMemory {
        self.lock().memory()
    }
}

/// The value of a mutex. A device is consistent between the calls of its methods, and a run that panics counts as one
/// that failed.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let name = self.hold().map_or("locked by this thread", |device| device.name());
        f.debug_tuple("SharedDevice").field(&name).finish()
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

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        for model in std::mem::take(&mut *unpoisoned(&self.shared.dropped)) {
            self.backend.remove_model(model);
        }
        *unpoisoned(&self.shared.holder) = None;
    }
}

/// A model on a shared device: states by name, and programs over them. Dropping it removes the model. Each method is
/// that of [`Backend`] for this model, and takes a guard of the device while it runs: a thread that has one already
/// gets the error of [`SharedDevice::hold`], or its panic where the method returns no error.
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
        self.device.hold()?.load(self.id, plan)
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
        self.device.hold()?.allocate(self.id, state, ty)
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
        self.device.hold()?.upload(self.id, state, data)
    }

    /// Copies an array into a part of a state; see [`Backend::upload_part`].
    ///
    /// # Errors
    /// The errors of [`Backend::upload_part`].
    pub fn upload_part(&self, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        self.device.hold()?.upload_part(self.id, state, first, data)
    }

    /// Shows a state's elements to `visit`, which must not use the device; see [`Backend::download`].
    ///
    /// # Errors
    /// The errors of [`Backend::download`].
    pub fn download(&self, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        self.device.hold()?.download(self.id, state, visit)
    }

    /// Says that the states of a program do not change any more; see [`Backend::freeze`].
    ///
    /// # Errors
    /// The errors of [`Backend::freeze`].
    pub fn freeze(&self, program: ProgramId) -> Result<()> {
        self.device.hold()?.freeze(program)
    }

    /// Starts a run; see [`Backend::submit`].
    ///
    /// # Errors
    /// The errors of [`Backend::submit`].
    pub fn submit(&self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        self.device.hold()?.submit(program, data)
    }

    /// Waits for the last run of a program; see [`Backend::wait`].
    ///
    /// # Errors
    /// The errors of [`Backend::wait`].
    pub fn wait(&self, program: ProgramId) -> Result<()> {
        self.device.hold()?.wait(program)
    }

    /// Runs a program to its end and returns all results with their names, so that no run of another thread comes
    /// between; see [`Backend::run`].
    ///
    /// # Errors
    /// The errors of [`Backend::run`].
    pub fn run(&self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<Vec<(String, Arc<HostArray>)>> {
        let mut device = self.device.hold()?;
        device.run(program, data)?;
        let plan = device.plan(program);
        let outputs = plan.graph().outputs.iter();
        let results = outputs.filter_map(|output| Some((output.name.clone(), device.output(program, &output.name)?)));
        Ok(results.collect())
    }

    /// A result of a program's last run; see [`Backend::output`].
    pub fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        self.device.lock().output(program, name)
    }
}

impl Drop for DeviceModel {
    fn drop(&mut self) {
        match self.device.hold() {
            Ok(mut device) => device.remove_model(self.id),
            Err(_) => unpoisoned(&self.device.shared.dropped).push(self.id),
        }
    }
}

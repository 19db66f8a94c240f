//! A CPU that counts the programs that it loads.

use lessen_base::Result;
use lessen_compile::{Plan, Target};
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, DeviceMemory, Host, HostArray, ModelId, ProgramId};
use lessen_graph::Type;
use lessen_task::device::NewBackend;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The programs that devices have loaded.
#[derive(Clone, Default)]
pub struct Loads(Arc<AtomicUsize>);

impl Loads {
    /// A device that counts here.
    pub fn device(&self) -> NewBackend {
        let loads = self.clone();
        NewBackend::new(move || {
            Ok(Box::new(Counting {
                inner: CpuBackend::new(1)?,
                loads: loads.clone(),
            }))
        })
    }

    /// How many programs were loaded since this was called last.
    pub fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

struct Counting {
    inner: CpuBackend,
    loads: Loads,
}

impl Backend for Counting {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn target(&self) -> &dyn Target {
        self.inner.target()
    }

    fn add_model(&mut self) -> ModelId {
        self.inner.add_model()
    }

    fn remove_model(&mut self, model: ModelId) {
        self.inner.remove_model(model);
    }

    fn load(&mut self, model: ModelId, plan: Plan) -> Result<ProgramId> {
        self.loads.0.fetch_add(1, Ordering::Relaxed);
        self.inner.load(model, plan)
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
        self.inner.submit(program, data)
    }

    fn wait(&mut self, program: ProgramId) -> Result<()> {
        self.inner.wait(program)
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        self.inner.output(program, name)
    }

    fn memory(&self) -> DeviceMemory {
        self.inner.memory()
    }
}

//! The CPU as a [`Backend`].

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use lessen_base::load::ProcessorTime;
use lessen_base::{Error, Result, machine};
use lessen_compile::{Operation, Plan, Target};
use lessen_device::checks::{check_upload, check_whole_upload};
use lessen_device::{Backend, DeviceMemory, Host, HostArray, Measuring, MemoryUse, ModelId, ProgramId, times_folder};
use lessen_graph::Type;

use crate::device::Device;
use crate::exec::Executable;
use crate::host_arrays::{host_array, host_ptr};
use crate::probe::peak_flops;
use crate::simd::{CpuSet, Feature};
use crate::store::{State, Store};
use crate::target::TimedTarget;
use crate::times::Times;

/// A CPU with its threads, its arena, models and loaded plans.
pub struct CpuBackend {
    device: Device,
    target: TimedTarget,
    /// Where times of operations are kept; nowhere where there is no such folder.
    times_folder: Option<PathBuf>,
    /// What tells how long processors have worked.
    processor_time: fn() -> Option<ProcessorTime>,
    /// Bytes that the device may take; none where the machine's memory alone limits it.
    memory_limit: Option<usize>,
    models: BTreeMap<ModelId, Store>,
    programs: HashMap<ProgramId, Program>,
    /// Models and programs that there have been.
    counts: (u32, u32),
}

/// A loaded plan, and the model whose states it reads.
struct Program {
    model: ModelId,
    executable: Executable,
}

impl CpuBackend {
    /// A CPU with this number of threads.
    ///
    /// # Errors
    /// Threads that the system does not give.
    pub fn new(threads: usize) -> Result<CpuBackend> {
        Ok(CpuBackend::from(Device::new(threads)?))
    }

    /// A CPU with `LESSEN_THREADS` threads, or as many as there are cores.
    ///
    /// # Errors
    /// A value of the variable that is no positive number.
    pub fn from_env() -> Result<CpuBackend> {
        Ok(CpuBackend::from(Device::from_env()?))
    }

    /// Keeps the times of operations in `folder`, instead of `lessen` in the user's cache folder.
    pub fn with_times_in(self, folder: PathBuf) -> CpuBackend {
        CpuBackend {
            times_folder: Some(folder),
            ..self
        }
    }

    /// Asks `processor_time`, instead of the system, whether other processes keep the machine busy while operations are
    /// measured.
    pub fn with_processor_time(self, processor_time: fn() -> Option<ProcessorTime>) -> CpuBackend {
        CpuBackend { processor_time, ..self }
    }

    /// Limits the memory that this backend announces to `bytes` bytes.
    pub fn with_memory_limit(self, bytes: usize) -> CpuBackend {
        CpuBackend {
            memory_limit: Some(bytes),
            ..self
        }
    }

    /// Starts or stops collecting where the time of a loaded plan goes, as [`Executable::set_profiling`].
    ///
    /// # Panics
    /// If the program is not loaded.
    pub fn set_profiling(&mut self, program: ProgramId, on: bool) {
        let program = self.programs.get_mut(&program).expect("the program is loaded");
        program.executable.set_profiling(on);
    }

    /// Where the time of a loaded plan went, in seconds for each node of its graph, as [`Executable::node_seconds`].
    ///
    /// # Panics
    /// If the program is not loaded.
    pub fn node_seconds(&self, program: ProgramId) -> Vec<f64> {
        self.program(program).node_seconds()
    }

    /// The most floating-point operations per second of the device, as [`peak_flops`].
    pub fn peak_flops(&self) -> f64 {
        peak_flops(&self.device)
    }

    /// Threads of the device.
    pub fn threads(&self) -> usize {
        self.device.threads()
    }

    fn program(&self, program: ProgramId) -> &Executable {
        &self.programs.get(&program).expect("the program is loaded").executable
    }

    /// Frees the arena where no program is loaded.
    fn free_unused_arena(&mut self) {
        if self.programs.is_empty() {
            self.device.free_arena();
        }
    }

    fn state(&self, model: ModelId, name: &str) -> Result<&State> {
        let state = self.models.get(&model).and_then(|store| store.state(name));
        state.ok_or_else(|| missing(name))
    }

    /// A program with the states of its model, to run it on the device.
    fn parts(&mut self, program: ProgramId) -> Result<(&mut Executable, &mut Store, &mut Device)> {
        let Program { model, executable } = self.programs.get_mut(&program).ok_or_else(not_loaded)?;
        let store = self.models.get_mut(model).ok_or_else(not_loaded)?;
        Ok((executable, store, &mut self.device))
    }
}

impl From<Device> for CpuBackend {
    fn from(device: Device) -> CpuBackend {
        CpuBackend {
            target: TimedTarget {
                cpu: device.target(),
                times: None,
            },
            times_folder: times_folder(),
            processor_time: ProcessorTime::now,
            memory_limit: None,
            device,
            models: BTreeMap::new(),
            programs: HashMap::new(),
            counts: (0, 0),
        }
    }
}

fn missing(state: &str) -> Error {
    Error::internal(format!("the state `{state}` is not allocated"))
}

fn not_loaded() -> Error {
    Error::internal("the program is not loaded")
}

fn packed(state: &str) -> Error {
    Error::internal(format!("the state `{state}` is packed for a program"))
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn widens_bf16(&self) -> bool {
        !Feature::Bf16.is_used()
    }

    fn instructions(&self) -> String {
        CpuSet::current().to_string()
    }

    fn add_model(&mut self) -> ModelId {
        let model = ModelId(self.counts.0);
        self.counts.0 += 1;
        self.models.insert(model, Store::new());
        model
    }

    fn remove_model(&mut self, model: ModelId) {
        self.models.remove(&model);
        self.programs.retain(|_, program| program.model != model);
        self.free_unused_arena();
    }

    fn load(&mut self, model: ModelId, plan: Plan) -> Result<ProgramId> {
        if !self.models.contains_key(&model) {
            return Err(Error::internal("the model of a program is not on the device"));
        }
        let executable = Executable::new(plan)?;
        let program = ProgramId(self.counts.1);
        self.counts.1 += 1;
        self.programs.insert(program, Program { model, executable });
        Ok(program)
    }

    fn unload(&mut self, program: ProgramId) {
        self.programs.remove(&program);
        self.free_unused_arena();
    }

    fn plan(&self, program: ProgramId) -> Arc<Plan> {
        self.program(program).plan.clone()
    }

    fn allocate(&mut self, model: ModelId, state: &str, ty: &Type) -> Result<()> {
        let store = self.models.get_mut(&model);
        let store = store.ok_or_else(|| Error::internal("the model of a state is not on the device"))?;
        store.insert_zeros(state, ty)
    }

    fn free(&mut self, model: ModelId, state: &str) {
        if let Some(store) = self.models.get_mut(&model) {
            store.remove(state);
        }
    }

    fn state_type(&self, model: ModelId, state: &str) -> Option<&Type> {
        self.models.get(&model)?.ty(state)
    }

    fn upload(&mut self, model: ModelId, state: &str, data: Host<'_>) -> Result<()> {
        check_whole_upload(state, &self.state(model, state)?.ty, &data)?;
        self.upload_part(model, state, 0, data)
    }

    fn upload_part(&mut self, model: ModelId, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        let to = self.state(model, state)?;
        if to.packed_for.is_some() {
            return Err(packed(state));
        }
        check_upload(state, &to.ty, first, &data)?;
        let size = to.ty.dtype.bytes();
        // SAFETY: the state's memory holds the elements of its type, the uploaded elements are some of them, and the
        // store is borrowed mutably.
        unsafe {
            let to = to.memory.ptr().add(first * size);
            to.copy_from_nonoverlapping(host_ptr(&data), data.len() * size);
        }
        Ok(())
    }

    fn download(&self, model: ModelId, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        let from = self.state(model, state)?;
        if from.packed_for.is_some() {
            return Err(packed(state));
        }
        // SAFETY: the state's memory holds the elements of its type, aligned to a page, and is borrowed with the store.
        visit(unsafe { host_array(&from.ty, from.memory.ptr()) });
        Ok(())
    }

    fn reserve(&mut self, arena: usize) -> Result<()> {
        self.device.reserve(arena)
    }

    fn freeze(&mut self, program: ProgramId) -> Result<()> {
        let (executable, store, device) = self.parts(program)?;
        executable.freeze(program, device, store)
    }

    fn submit(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        let (executable, store, device) = self.parts(program)?;
        executable.run(device, store, data)
    }

    fn wait(&mut self, program: ProgramId) -> Result<()> {
        if self.programs.contains_key(&program) {
            Ok(())
        } else {
            Err(not_loaded())
        }
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        self.programs.get(&program)?.executable.shared_output(name)
    }

    fn measure(&mut self, operations: &[Operation], memory: usize) -> Result<Measuring> {
        let (folder, threads) = (self.times_folder.as_deref(), self.device.threads());
        let mut times = self
            .target
            .times
            .take()
            .unwrap_or_else(|| Times::in_folder(folder, threads));
        let measuring = times.measure(&mut self.device, operations, memory, (folder, self.processor_time));
        self.free_unused_arena();
        self.target.times = Some(times);
        measuring
    }

    fn memory(&self) -> DeviceMemory {
        let executables = || self.programs.values().map(|program| &program.executable);
        let used = MemoryUse {
            states: self.models.values().map(Store::bytes).sum(),
            constants: executables().map(Executable::constant_bytes).sum(),
            arena: self.device.arena_bytes(),
            results: executables().map(Executable::result_bytes).sum(),
        };
        let within_limit = self.memory_limit.map(|limit| limit.saturating_sub(used.total()));
        let available = machine::available_bytes().into_iter().chain(within_limit).min();
        DeviceMemory { used, available }
    }
}

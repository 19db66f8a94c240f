//! The CPU as a [`Backend`].

use std::collections::HashMap;
use std::path::PathBuf;

use lessen_base::{Error, Result};
use lessen_compile::{Backend, DeviceMemory, Host, Measuring, Operation, Plan, ProgramId, Target};
use lessen_graph::Type;

use crate::device::Device;
use crate::exec::Executable;
use crate::host_arrays::{host_array, host_ptr};
use crate::probe::peak_flops;
use crate::store::Store;
use crate::target::TimedTarget;
use crate::times::{self, Times};

/// A CPU with its threads, its arena, loaded plans and states.
pub struct CpuBackend {
    device: Device,
    target: TimedTarget,
    /// Where times of operations are kept; nowhere where there is no such folder.
    times_folder: Option<PathBuf>,
    store: Store,
    programs: HashMap<ProgramId, Executable>,
    next: u32,
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

    /// The same with the times of operations in this folder, instead of `lessen` in the user's cache folder.
    pub fn with_times_in(self, folder: PathBuf) -> CpuBackend {
        CpuBackend {
            times_folder: Some(folder),
            ..self
        }
    }

    /// Starts or stops collecting where the time of a loaded plan goes, as [`Executable::set_profiling`].
    ///
    /// # Panics
    /// If the program is not loaded.
    pub fn set_profiling(&mut self, program: ProgramId, on: bool) {
        let program = self.programs.get_mut(&program).expect("the program is loaded");
        program.set_profiling(on);
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
        self.programs.get(&program).expect("the program is loaded")
    }
}

impl From<Device> for CpuBackend {
    fn from(device: Device) -> CpuBackend {
        CpuBackend {
            target: TimedTarget {
                cpu: device.target(),
                times: None,
            },
            times_folder: times::folder(),
            device,
            store: Store::new(),
            programs: HashMap::new(),
            next: 0,
        }
    }
}

fn missing(state: &str) -> Error {
    Error::internal(format!("the state `{state}` is not allocated"))
}

fn packed(state: &str) -> Error {
    Error::internal(format!("the state `{state}` is packed for a program"))
}

fn unfit(state: &str, ty: &Type, data: &Host<'_>) -> Error {
    let (has, n) = (data.dtype().name(), data.len());
    Error::user(format!("the state `{state}` takes {ty}, not {n} elements of {has}"))
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn load(&mut self, plan: Plan) -> Result<ProgramId> {
        let executable = Executable::new(plan)?;
        let program = ProgramId(self.next);
        self.next += 1;
        self.programs.insert(program, executable);
        Ok(program)
    }

    fn unload(&mut self, program: ProgramId) {
        self.programs.remove(&program);
        if self.programs.is_empty() {
            self.device.free_arena();
        }
    }

    fn plan(&self, program: ProgramId) -> &Plan {
        self.program(program).plan()
    }

    fn allocate(&mut self, state: &str, ty: &Type) -> Result<()> {
        self.store.insert_zeros(state, ty)
    }

    fn free(&mut self, state: &str) {
        self.store.remove(state);
    }

    fn state_type(&self, state: &str) -> Option<&Type> {
        self.store.ty(state)
    }

    fn upload(&mut self, state: &str, data: Host<'_>) -> Result<()> {
        let to = self.store.ty(state).ok_or_else(|| missing(state))?;
        if data.len() != to.numel() {
            return Err(unfit(state, to, &data));
        }
        self.upload_part(state, 0, data)
    }

    fn upload_part(&mut self, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        let to = self.store.state(state).ok_or_else(|| missing(state))?;
        let end = first.checked_add(data.len());
        if to.packed_for.is_some() {
            return Err(packed(state));
        }
        if data.dtype() != to.ty.dtype || end.is_none_or(|end| end > to.ty.numel()) {
            return Err(unfit(state, &to.ty, &data));
        }
        let size = to.ty.dtype.bytes();
        // SAFETY: the state's memory holds the elements of its type, of which these are some, and the store is borrowed
        // mutably.
        unsafe {
            let to = to.memory.ptr().add(first * size);
            to.copy_from_nonoverlapping(host_ptr(&data), data.len() * size);
        }
        Ok(())
    }

    fn download(&self, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        let from = self.store.state(state).ok_or_else(|| missing(state))?;
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
        let executable = self.programs.get_mut(&program);
        let executable = executable.ok_or_else(|| Error::internal("the program is not loaded"))?;
        executable.freeze(program, &self.device, &mut self.store)
    }

    fn run(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        let executable = self.programs.get_mut(&program);
        let executable = executable.ok_or_else(|| Error::internal("the program is not loaded"))?;
        executable.run(&mut self.device, &mut self.store, data)
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Host<'_>> {
        self.programs.get(&program)?.output(name)
    }

    fn measure(&mut self, operations: &[Operation], memory: usize) -> Result<Measuring> {
        let (folder, threads) = (self.times_folder.as_deref(), self.device.threads());
        let mut times = self
            .target
            .times
            .take()
            .unwrap_or_else(|| Times::in_folder(folder, threads));
        let measuring = times.measure(&mut self.device, operations, memory, folder);
        if self.programs.is_empty() {
            self.device.free_arena();
        }
        self.target.times = Some(times);
        measuring
    }

    fn memory(&self) -> DeviceMemory {
        DeviceMemory {
            states: self.store.bytes(),
            constants: self.programs.values().map(Executable::constant_bytes).sum(),
            arena: self.device.arena_bytes(),
        }
    }
}

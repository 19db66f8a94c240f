//! The executable: a plan bound to kernels, run step after step.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_compile::{ALIGNMENT, Host, Plan, Storage};
use lessen_graph::{DType, InputKind, Type, ValueId};

use crate::arena::Arena;
use crate::bind::{Bound, bind};
use crate::clock::{Clock, Profile};
use crate::device::Device;
use crate::fallback;
use crate::faults::Faults;
use crate::operand::{Bases, Location, location};
use crate::store::Store;

/// A result: its type, where it lies, and the copy of it that outlives the run.
struct Returned {
    name: String,
    ty: Type,
    strides: Vec<usize>,
    location: Location,
    /// Words, so that elements of every dtype are aligned.
    buffer: Vec<u64>,
}

/// A plan bound to kernels.
pub struct Executable {
    plan: Plan,
    bound: Vec<Bound>,
    constants: Arena,
    data: HashMap<String, (Type, Location)>,
    results: Vec<Returned>,
    /// Assignments that copy at the end: to a state, from a place.
    copies: Vec<(usize, usize, Location)>,
    faults: Faults,
    clock: Clock,
    arena_reached: usize,
}

impl Executable {
    /// Binds a plan to kernels and evaluates its constants.
    ///
    /// # Panics
    /// If there is no memory for the constants, or a plan reaches beyond the arena that it asks for.
    pub fn load(plan: Plan) -> Executable {
        let mut offsets = Vec::with_capacity(plan.constants().len());
        let mut total = 0;
        for &value in plan.constants() {
            offsets.push(total);
            total += plan.graph().ty(value).bytes().div_ceil(ALIGNMENT) * ALIGNMENT;
        }
        let constants = Arena::new(total).unwrap_or_else(|sentence| panic!("{sentence}"));
        for (&value, &offset) in plan.constants().iter().zip(&offsets) {
            let node = &plan.graph().nodes[plan.graph().producer(value).expect("a constant's node").index()];
            let k = node.outputs.iter().position(|&v| v == value).expect("its output");
            let types = plan.graph().output_types(node);
            let array = &fallback::evaluated(node.op.as_ref(), &[], &types)[k];
            let bytes: Vec<u8> = array
                .data
                .iter()
                .flat_map(|&x| fallback::encode(x, array.ty.dtype))
                .collect();
            // SAFETY: the constants' memory has room for each at its offset; the array has been checked to be of the
            // value's type.
            unsafe {
                constants
                    .ptr()
                    .add(offset)
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
        }
        let bound = bind(&plan, &offsets);
        let data = plan
            .graph()
            .inputs
            .iter()
            .filter(|i| i.kind == InputKind::Data)
            .map(|i| {
                (
                    i.name.clone(),
                    (
                        plan.graph().ty(i.value).clone(),
                        location(&plan, &offsets, i.value),
                    ),
                )
            })
            .collect();
        let results = plan
            .graph()
            .outputs
            .iter()
            .map(|o| {
                let ty = plan.graph().ty(o.value).clone();
                Returned {
                    name: o.name.clone(),
                    strides: plan.place(o.value).layout.strides.clone(),
                    location: location(&plan, &offsets, o.value),
                    buffer: vec![0; ty.bytes().div_ceil(8)],
                    ty,
                }
            })
            .collect();
        let copies = plan
            .copies()
            .iter()
            .map(|a| {
                let Storage::State(target) = plan.storage(a.target) else {
                    unreachable!("assignments target states")
                };
                (
                    target,
                    plan.graph().ty(a.target).bytes(),
                    location(&plan, &offsets, a.value),
                )
            })
            .collect();
        let arena_reached = bound
            .iter()
            .map(|b| b.reach)
            .max()
            .unwrap_or(0)
            .max(reach_of_data(&plan));
        assert!(
            arena_reached <= plan.arena_bytes(),
            "the plan must be as it was compiled"
        );
        Executable {
            plan,
            bound,
            constants,
            data,
            results,
            copies,
            faults: Faults::default(),
            clock: Clock::default(),
            arena_reached,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Names and types of the data inputs.
    pub fn data_inputs(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.data.iter().map(|(name, (ty, _))| (name.as_str(), ty))
    }

    /// Bytes allocated for constants.
    pub fn constant_bytes(&self) -> usize {
        self.constants.len()
    }

    /// Bytes in use at the peak of a run: the memory of its states and constants, and the arena up to the last byte
    /// that a step of this executable was handed.
    pub fn measured_peak_bytes(&self, store: &Store) -> usize {
        let states = self
            .plan
            .graph()
            .inputs
            .iter()
            .filter(|i| i.kind == InputKind::State);
        let state_bytes: usize = states.filter_map(|i| store.ty(&i.name)).map(Type::bytes).sum();
        state_bytes + self.constants.len() + self.arena_reached
    }

    /// Runs the plan: reads and updates the states of `store`, given the data inputs by name.
    ///
    /// # Errors
    /// A sentence when an input or a state is missing or of another type, or data holds an index out of range; then
    /// states may have been updated in part.
    pub fn run(&mut self, device: &mut Device, store: &mut Store, data: &[(&str, Host<'_>)]) -> Result<()> {
        if device.threads() > self.plan.workers() {
            let (has, plan) = (device.threads(), self.plan.workers());
            return Err(Error::user(format!(
                "the plan is for {plan} threads, the device has {has}; compile for it"
            )));
        }
        device.arena.grow(self.plan.arena_bytes())?;
        let mut states = vec![std::ptr::null_mut(); self.plan.graph().inputs.len()];
        for (i, input) in self.plan.graph().inputs.iter().enumerate() {
            if input.kind == InputKind::State {
                let ty = self.plan.graph().ty(input.value);
                match store.state(&input.name) {
                    Some(state) if state.ty == *ty => states[i] = state.memory.ptr(),
                    Some(state) => {
                        let (name, is) = (&input.name, &state.ty);
                        return Err(Error::user(format!(
                            "the state `{name}` must have type {ty}, not {is}"
                        )));
                    }
                    None => return Err(Error::user(format!("the store has no state `{}`", input.name))),
                }
            }
        }
        let bases = Bases {
            arena: device.arena.ptr(),
            constants: self.constants.ptr(),
            states,
        };
        self.upload(&bases, data)?;
        for bound in &self.bound {
            bound.run(&device.pool, &bases, &self.faults, &self.clock);
        }
        if let Some(sentence) = self.faults.take() {
            return Err(Error::user(sentence));
        }
        for result in &mut self.results {
            let from = bases.of(result.location.region, std::ptr::null_mut());
            download(result, from);
        }
        for &(target, bytes, from) in &self.copies {
            let source = bases
                .of(from.region, std::ptr::null_mut())
                .wrapping_add(from.byte);
            // SAFETY: the plan keeps the value until the end of the run, with the state's type, densely, and not in
            // the state itself.
            unsafe { bases.states[target].copy_from_nonoverlapping(source, bytes) };
        }
        Ok(())
    }

    fn upload(&self, bases: &Bases, data: &[(&str, Host<'_>)]) -> Result<()> {
        for (name, (ty, to)) in &self.data {
            let Some((_, host)) = data.iter().find(|(n, _)| n == name) else {
                return Err(Error::user(format!("no data is given for the input `{name}`")));
            };
            if host.dtype() != ty.dtype || host.len() != ty.numel() {
                let (has, n) = (host.dtype().name(), host.len());
                return Err(Error::user(format!(
                    "the input `{name}` takes {ty}, not {n} elements of {has}"
                )));
            }
            let to = bases.of(to.region, std::ptr::null_mut()).wrapping_add(to.byte);
            // SAFETY: the plan gives the input memory of its type, which the data has been checked to fill exactly.
            unsafe { to.copy_from_nonoverlapping(host_ptr(host), ty.bytes()) };
        }
        Ok(())
    }

    /// A result of the last run, in row-major order.
    pub fn output_f32(&self, name: &str) -> Option<&[f32]> {
        self.output(name)?.as_f32()
    }

    /// A result of the last run, in row-major order.
    pub fn output(&self, name: &str) -> Option<Host<'_>> {
        let result = self.results.iter().find(|r| r.name == name)?;
        // SAFETY: the buffer belongs to the result and holds its elements, all of them valid values of its dtype.
        Some(unsafe { host_array(&result.ty, result.buffer.as_ptr().cast()) })
    }

    /// The type of a result.
    pub fn output_type(&self, name: &str) -> Option<&Type> {
        self.results.iter().find(|r| r.name == name).map(|r| &r.ty)
    }

    /// Starts or stops collecting where the time goes; starting forgets what was collected.
    pub fn set_profiling(&mut self, on: bool) {
        self.clock = Clock {
            on,
            ..Clock::default()
        };
    }

    /// Where the time went since profiling was started.
    pub fn profile(&self) -> Profile {
        self.clock.profile()
    }
}

fn reach_of_data(plan: &Plan) -> usize {
    let end = |v: ValueId| match plan.storage(v) {
        Storage::Arena(byte) => byte + plan.graph().ty(v).bytes().div_ceil(ALIGNMENT) * ALIGNMENT,
        _ => 0,
    };
    plan.graph()
        .inputs
        .iter()
        .map(|i| end(i.value))
        .max()
        .unwrap_or(0)
}

/// The dense elements of a type in memory.
///
/// # Safety
/// `ptr` is readable for the type's bytes for the lifetime `'a`, aligned to the element's size, and holds valid elements.
pub(crate) unsafe fn host_array<'a>(ty: &Type, ptr: *const u8) -> Host<'a> {
    let n = ty.numel();
    // SAFETY: the caller's promise.
    unsafe {
        match ty.dtype {
            DType::F32 => Host::F32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::F64 => Host::F64(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::BF16 => Host::BF16(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::I32 => Host::I32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::U32 => Host::U32(std::slice::from_raw_parts(ptr.cast(), n)),
            DType::Bool => Host::Bool(std::slice::from_raw_parts(ptr, n)),
        }
    }
}

/// The address of an array's elements.
pub(crate) fn host_ptr(host: &Host<'_>) -> *const u8 {
    match host {
        Host::F32(x) => x.as_ptr().cast(),
        Host::F64(x) => x.as_ptr().cast(),
        Host::BF16(x) => x.as_ptr().cast(),
        Host::I32(x) => x.as_ptr().cast(),
        Host::U32(x) => x.as_ptr().cast(),
        Host::Bool(x) => x.as_ptr(),
    }
}

fn download(result: &mut Returned, base: *mut u8) {
    let size = result.location.size;
    let from = base.wrapping_add(result.location.byte);
    let to = result.buffer.as_mut_ptr().cast::<u8>();
    let shape = &result.ty.shape;
    let dense = lessen_graph::Layout {
        offset: 0,
        strides: result.strides.clone(),
    }
    .is_dense(shape);
    if dense {
        // SAFETY: the plan keeps results until the end of the run.
        unsafe { to.copy_from_nonoverlapping(from, result.ty.bytes()) };
        return;
    }
    let mut index = vec![0; shape.len()];
    for i in 0..result.ty.numel() {
        let at: usize = index.iter().zip(&result.strides).map(|(i, s)| i * s).sum();
        // SAFETY: as above; the view's strides stay within its base.
        unsafe {
            to.add(i * size)
                .copy_from_nonoverlapping(from.add(at * size), size)
        };
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

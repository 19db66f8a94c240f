//! A device made of the reference evaluator, which computes in `f64` and rounds only what it keeps.

use lessen_base::{Error, Result};
use lessen_compile::{Backend, DeviceMemory, Host, KernelKind, Plan, ProgramId, RowBlocks, RowGroup, Scratch, Target};
use lessen_graph::{Array, InputKind, Layout, Op, Type, evaluate};
use lessen_train::HostArray;
use std::collections::HashMap;

/// A plan and the outputs of its last run.
struct Program {
    plan: Plan,
    outputs: HashMap<String, HostArray>,
}

/// The reference evaluator as a device.
#[derive(Default)]
pub struct ReferenceBackend {
    target: ReferenceTarget,
    states: HashMap<String, (Type, HostArray)>,
    programs: HashMap<ProgramId, Program>,
    loaded: u32,
}

/// An array in the dtype of its type.
fn rounded(array: &Array) -> HostArray {
    let elements = array.data.iter();
    match array.ty.dtype {
        lessen_graph::DType::F32 => HostArray::F32(elements.map(|&x| x as f32).collect()),
        lessen_graph::DType::F64 => HostArray::F64(array.data.clone()),
        lessen_graph::DType::BF16 => HostArray::BF16(elements.map(|&x| lessen_graph::bf16_bits(x as f32)).collect()),
        lessen_graph::DType::I32 => HostArray::I32(elements.map(|&x| x as i32).collect()),
        lessen_graph::DType::U32 => HostArray::U32(elements.map(|&x| x as u32).collect()),
        lessen_graph::DType::U8 => HostArray::U8(elements.map(|&x| x as u8).collect()),
        lessen_graph::DType::Bool => HostArray::Bool(elements.map(|&x| x as u8).collect()),
    }
}

fn array(ty: &Type, host: Host<'_>) -> Result<Array> {
    if host.dtype() != ty.dtype || host.len() != ty.numel() {
        return Err(Error::user(format!("{} elements are no {ty}", host.len())));
    }
    Ok(Array::new(ty.clone(), host.elements().collect()))
}

fn missing(what: &str, name: &str) -> Error {
    Error::user(format!("there is no {what} `{name}`"))
}

impl Backend for ReferenceBackend {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn load(&mut self, plan: Plan) -> Result<ProgramId> {
        let program = ProgramId(self.loaded);
        self.loaded += 1;
        let outputs = HashMap::new();
        self.programs.insert(program, Program { plan, outputs });
        Ok(program)
    }

    fn unload(&mut self, program: ProgramId) {
        self.programs.remove(&program);
    }

    fn plan(&self, program: ProgramId) -> &Plan {
        &self.programs[&program].plan
    }

    fn allocate(&mut self, state: &str, ty: &Type) -> Result<()> {
        let zeros = rounded(&Array::full(ty.clone(), 0.0));
        self.states.insert(state.to_string(), (ty.clone(), zeros));
        Ok(())
    }

    fn free(&mut self, state: &str) {
        self.states.remove(state);
    }

    fn state_type(&self, state: &str) -> Option<&Type> {
        self.states.get(state).map(|(ty, _)| ty)
    }

    fn upload(&mut self, state: &str, data: Host<'_>) -> Result<()> {
        let (ty, held) = self.states.get_mut(state).ok_or_else(|| missing("state", state))?;
        *held = rounded(&array(ty, data)?);
        Ok(())
    }

    fn upload_part(&mut self, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        let (ty, held) = self.states.get_mut(state).ok_or_else(|| missing("state", state))?;
        let mut whole = array(ty, held.host())?;
        let to = whole.data.iter_mut().skip(first);
        to.zip(data.elements()).for_each(|(to, from)| *to = from);
        *held = rounded(&whole);
        Ok(())
    }

    fn download(&self, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        let (_, held) = self.states.get(state).ok_or_else(|| missing("state", state))?;
        visit(held.host());
        Ok(())
    }

    fn reserve(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        let program = self
            .programs
            .get_mut(&program)
            .ok_or_else(|| missing("program", "of this number"))?;
        let graph = program.plan.graph();
        let mut inputs = HashMap::new();
        for input in &graph.inputs {
            let name = &input.name;
            let host = match input.kind {
                InputKind::State => self.states.get(name).map(|(_, held)| held.host()),
                InputKind::Data => data.iter().find(|(given, _)| given == name).map(|(_, host)| *host),
            };
            let host = host.ok_or_else(|| missing("input", name))?;
            inputs.insert(name.clone(), array(graph.ty(input.value), host)?);
        }
        let results = evaluate(graph, &inputs)?;
        for assign in &graph.assigns {
            let name = &graph
                .inputs
                .iter()
                .find(|input| input.value == assign.target)
                .unwrap()
                .name;
            let (_, held) = self.states.get_mut(name).ok_or_else(|| missing("state", name))?;
            *held = rounded(&results[name]);
        }
        let outputs = graph.outputs.iter();
        program.outputs = outputs
            .map(|output| (output.name.clone(), rounded(&results[&output.name])))
            .collect();
        Ok(())
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Host<'_>> {
        Some(self.programs.get(&program)?.outputs.get(name)?.host())
    }

    fn memory(&self) -> DeviceMemory {
        DeviceMemory {
            states: self.states.values().map(|(ty, _)| ty.bytes()).sum(),
            ..DeviceMemory::default()
        }
    }
}

/// A device with one worker, on which every operation runs by itself and reads dense operands.
#[derive(Default)]
struct ReferenceTarget;

impl Target for ReferenceTarget {
    fn workers(&self) -> usize {
        1
    }

    fn supports(&self, _: &dyn Op) -> bool {
        true
    }

    fn kernel(&self, _: &dyn Op, _: &[Type], _: &[Type]) -> KernelKind {
        KernelKind::Whole
    }

    fn accepts(&self, _: &dyn Op, _: &[Type], _: &[Type], _: usize, _: &Layout) -> bool {
        false
    }

    fn block_rows(&self, group: &RowGroup) -> RowBlocks {
        RowBlocks {
            block: group.rows,
            tile: group.rows,
        }
    }

    fn widest_row(&self) -> usize {
        usize::MAX
    }

    fn scratch(&self, _: &dyn Op, _: &[Type], _: &[Type]) -> Scratch {
        Scratch::default()
    }
}

//! A device made of the reference evaluator, which computes in `f64` and rounds what it keeps.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_compile::{CostModel, KernelKind, Limits, Lowering, Plan, Rates, RowBlocks, RowGroup, Target};
use lessen_graph::{Array, Graph, InputKind, Op, Type, ValueId};

use crate::backend::{Backend, ModelId, ProgramId};
use crate::checks::{
    check_evaluation, check_state, check_upload, check_whole_upload, checked_bytes, evaluator_array, given_input,
    rounded_array,
};
use crate::computed_indices::index_error_of_node;
use crate::evaluation::{check_constant_indices, evaluated};
use crate::host_array::HostArray;
use crate::index_checks::index_checks;
use crate::memory::{DeviceMemory, MemoryUse};
use lessen_graph::Host;

/// A state: its type and its elements.
struct State {
    ty: Type,
    array: HostArray,
}

/// States of a model by name.
type Model = BTreeMap<String, State>;

/// A plan, the model whose states it reads, and the results of its last run.
struct Program {
    model: ModelId,
    plan: Arc<Plan>,
    results: HashMap<String, Arc<HostArray>>,
}

/// The reference evaluator as a device: it runs the graph of any plan, node by node, in the host's memory.
#[derive(Default)]
pub struct ReferenceBackend {
    target: ReferenceTarget,
    models: BTreeMap<ModelId, Model>,
    programs: HashMap<ProgramId, Program>,
    /// Models and programs that there have been.
    counts: (u32, u32),
}

fn not_loaded() -> Error {
    Error::internal("the program is not loaded")
}

fn missing(state: &str) -> Error {
    Error::internal(format!("the state `{state}` is not allocated"))
}

impl ReferenceBackend {
    fn state(&self, model: ModelId, name: &str) -> Result<&State> {
        let state = self.models.get(&model).and_then(|model| model.get(name));
        state.ok_or_else(|| missing(name))
    }
}

/// The value of every input of a graph, in their order.
fn inputs(graph: &Graph, model: &Model, data: &[(&str, Host<'_>)]) -> Result<Vec<Array>> {
    let inputs = graph.inputs.iter().map(|input| {
        let (name, ty) = (&input.name, graph.ty(input.value));
        let host = match input.kind {
            InputKind::State => {
                let state = model.get(name);
                check_state(name, ty, state.map(|state| &state.ty))?;
                state.ok_or_else(|| missing(name))?.array.host()
            }
            InputKind::Data => given_input(name, ty, data)?,
        };
        Ok(evaluator_array(ty, host))
    });
    inputs.collect()
}

/// Evaluates the graph of a plan on values of its inputs, step after step; the values that are outputs or assigned.
///
/// # Errors
/// A computed index that is not valid.
fn evaluate(plan: &Plan, inputs: Vec<Array>) -> Result<HashMap<ValueId, Array>> {
    let graph = plan.graph();
    let mut values: HashMap<ValueId, Array> = HashMap::new();
    values.extend(graph.inputs.iter().map(|input| input.value).zip(inputs));
    for node in &graph.nodes {
        let types = graph.output_types(node);
        let operands: Vec<&Array> = node.inputs.iter().map(|value| &values[value]).collect();
        if let Some(index) = graph.ask(node, &graph.input_types(node), &types).index_input() {
            let mut given = operands[index.input].data.iter();
            if let Some(wrong) = given.find(|x| !index.admits(**x as i64)) {
                return Err(index_error_of_node(graph, node, *wrong as i64, index.limit));
            }
        }
        let mut results = evaluated(node.op.as_ref(), &operands, &types);
        for array in &mut results {
            let dtype = array.ty.dtype;
            array.data.iter_mut().for_each(|x| *x = dtype.round(*x));
        }
        values.extend(node.outputs.iter().copied().zip(results));
    }
    let results = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().map(|assign| assign.value);
    let kept: HashSet<ValueId> = results.chain(assigned).collect();
    values.retain(|value, _| kept.contains(value));
    Ok(values)
}

impl Backend for ReferenceBackend {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn add_model(&mut self) -> ModelId {
        let model = ModelId(self.counts.0);
        self.counts.0 += 1;
        self.models.insert(model, Model::new());
        model
    }

    fn remove_model(&mut self, model: ModelId) {
        self.models.remove(&model);
        self.programs.retain(|_, program| program.model != model);
    }

    fn load(&mut self, model: ModelId, plan: Plan) -> Result<ProgramId> {
        if !self.models.contains_key(&model) {
            return Err(Error::internal("the model of a program is not on the device"));
        }
        check_evaluation(plan.graph().values.iter().map(|value| &value.ty))?;
        let program = ProgramId(self.counts.1);
        self.counts.1 += 1;
        let (plan, results) = (Arc::new(plan), HashMap::new());
        self.programs.insert(program, Program { model, plan, results });
        Ok(program)
    }

    fn unload(&mut self, program: ProgramId) {
        self.programs.remove(&program);
    }

    fn plan(&self, program: ProgramId) -> Arc<Plan> {
        self.programs[&program].plan.clone()
    }

    fn allocate(&mut self, model: ModelId, state: &str, ty: &Type) -> Result<()> {
        let states = self.models.get_mut(&model);
        let states = states.ok_or_else(|| Error::internal("the model of a state is not on the device"))?;
        checked_bytes(&format!("the state `{state}`"), ty)?;
        let array = HostArray::zeros(ty.dtype, ty.numel())
            .ok_or_else(|| Error::user(format!("the memory does not hold the state `{state}` of type {ty}")))?;
        states.insert(state.to_string(), State { ty: ty.clone(), array });
        Ok(())
    }

    fn free(&mut self, model: ModelId, state: &str) {
        if let Some(states) = self.models.get_mut(&model) {
            states.remove(state);
        }
    }

    fn state_type(&self, model: ModelId, state: &str) -> Option<&Type> {
        Some(&self.models.get(&model)?.get(state)?.ty)
    }

    fn upload(&mut self, model: ModelId, state: &str, data: Host<'_>) -> Result<()> {
        check_whole_upload(state, &self.state(model, state)?.ty, &data)?;
        self.upload_part(model, state, 0, data)
    }

    fn upload_part(&mut self, model: ModelId, state: &str, first: usize, data: Host<'_>) -> Result<()> {
        check_upload(state, &self.state(model, state)?.ty, first, &data)?;
        if let Some(state) = self.models.get_mut(&model).and_then(|states| states.get_mut(state)) {
            state.array.write(first, data);
        }
        Ok(())
    }

    fn download(&self, model: ModelId, state: &str, visit: &mut dyn FnMut(Host<'_>)) -> Result<()> {
        visit(self.state(model, state)?.array.host());
        Ok(())
    }

    fn reserve(&mut self, _arena: usize) -> Result<()> {
        Ok(())
    }

    fn submit(&mut self, program: ProgramId, data: &[(&str, Host<'_>)]) -> Result<()> {
        let program = self.programs.get_mut(&program).ok_or_else(not_loaded)?;
        let model = self.models.get_mut(&program.model).ok_or_else(not_loaded)?;
        let graph = program.plan.graph();
        check_constant_indices(&program.plan)?;
        let inputs = inputs(graph, model, data)?;
        for check in index_checks(&program.plan) {
            check.check(rounded_array(&inputs[check.input]).host())?;
        }
        let values = evaluate(&program.plan, inputs)?;
        for assign in &graph.assigns {
            let input = graph.input(assign.target).ok_or_else(not_loaded)?;
            if let Some(state) = model.get_mut(&input.name) {
                state.array = rounded_array(&values[&assign.value]);
            }
        }
        let results = graph.outputs.iter();
        let results = results.map(|output| (output.name.clone(), Arc::new(rounded_array(&values[&output.value]))));
        program.results = results.collect();
        Ok(())
    }

    fn wait(&mut self, program: ProgramId) -> Result<()> {
        if self.programs.contains_key(&program) {
            Ok(())
        } else {
            Err(not_loaded())
        }
    }

    fn output(&self, program: ProgramId, name: &str) -> Option<Arc<HostArray>> {
        self.programs.get(&program)?.results.get(name).cloned()
    }

    fn memory(&self) -> DeviceMemory {
        let states = self.models.values().flat_map(BTreeMap::values);
        let results = self.programs.values().flat_map(|program| program.results.values());
        let used = MemoryUse {
            results: results.map(|array| array.len() * array.dtype().bytes()).sum(),
            states: states.map(|state| state.ty.bytes()).sum(),
            ..MemoryUse::default()
        };
        DeviceMemory { used, available: None }
    }
}

/// A device with one worker, on which every operation runs by itself and reads dense operands.
#[derive(Default)]
struct ReferenceTarget {
    rates: Rates,
}

impl Target for ReferenceTarget {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn supports(&self, op: &dyn Op) -> bool {
        op.is_standard()
    }

    fn lower(&self, _: &dyn Op, inputs: &[Type], _: &[Type]) -> Arc<Lowering> {
        Arc::new(Lowering::dense(KernelKind::Whole, inputs.len()))
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        RowBlocks {
            block: group.rows,
            tile: group.rows,
        }
    }

    fn costs(&self) -> &dyn CostModel {
        &self.rates
    }
}

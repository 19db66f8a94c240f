//! Work of any device with graphs: compiling them, and measuring their operations.

use lessen_base::Result;
use lessen_compile::{KernelKind, Operation, Options, Plan, compile, floor_bytes, operations};
use lessen_graph::{Graph, InputKind};

use crate::backend::{Backend, Measuring};

impl dyn Backend + '_ {
    /// Compiles a graph for this device.
    ///
    /// # Errors
    /// The errors of [`compile`](lessen_compile::compile).
    pub fn compile(&self, graph: &Graph, options: &Options) -> Result<Plan> {
        compile(graph, options, self.target())
    }

    /// Least budget under which a graph can be compiled for this device.
    ///
    /// # Errors
    /// The errors of [`floor_bytes`](lessen_compile::floor_bytes).
    pub fn floor_bytes(&self, graph: &Graph, options: &Options) -> Result<usize> {
        floor_bytes(graph, options, self.target())
    }

    /// Measures the operations of the graphs `graphs`, so that later plans follow the measured times. Measuring takes
    /// about as much memory as the states and the largest operation, and so no more than any plan of the graphs.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn measure_graphs<'a>(
        &mut self,
        graphs: impl IntoIterator<Item = &'a Graph>,
        options: &Options,
    ) -> Result<Measuring> {
        let (mut all, mut memory): (Vec<Operation>, usize) = (Vec::new(), 0);
        for graph in graphs {
            let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
            let states: usize = states.map(|input| graph.ty(input.value).bytes()).sum();
            let found = operations(graph, options, self.target());
            memory = memory.max(states + found.iter().filter_map(|o| self.bytes_of_whole(o)).max().unwrap_or(0));
            all.extend(found);
        }
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        self.measure(&all, memory)
    }

    /// Bytes of an operation that runs by itself: a plan has them at the same time.
    fn bytes_of_whole(&self, operation: &Operation) -> Option<usize> {
        let Operation {
            op, inputs, outputs, ..
        } = operation;
        let lowering = self.target().lower(op.as_ref(), inputs, outputs);
        let (scratch, workers) = (lowering.scratch, self.target().limits().workers);
        (lowering.kind == KernelKind::Whole).then(|| operation.bytes() + workers * scratch.worker + scratch.shared)
    }
}

//! What operations say of themselves is checked by types: an answer that does not fit counts as none, and the graph
//! says which operation and which hook it was. No standard operation gives such an answer.

use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::ops::{Identity, MatMul, Relu};
use lessen_graph::{
    Along, AlongQuery, Array, Contraction, Cost, DType, Filling, Fold, FromOutput, Graph, IndexInput, InputKind,
    Inverse, Layout, OnRows, OnSlices, Op, Operand, OutRole, Phase, Role, RowWise, Tensor, Type, Vjp, WhenCentred,
    evaluate, verify,
};

use crate::cases::cases;

/// An answer that fits no types.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    FoldsToAnotherType,
    FoldsToNoInput,
    FoldsToANumberThatTheTypeLacks,
    RowsThatAreNone,
    RolesOfOthers,
    Elementwise,
    ViewBeyond,
    ViewOfAnotherCount,
    InPlaceOfAnotherType,
    CopiesOfAnotherType,
    Cast,
    Sum,
    Bf16,
    IndicesBeyond,
    IndicesOfFloats,
    SparseRows,
    OnRows,
    Slices,
    Accumulating,
    FillingsBeyond,
    FillingsOfAnotherType,
    FromOutput,
    Inverse,
    InverseOfItself,
    AlongBeyond,
    AlongAnotherExtent,
    Contraction,
    WhenCentred,
    Cost,
    Decomposition,
    Mistake,
}

/// An operation of `x: f32[4, 6]` and `n: i32[3]` that gives `f32[6, 4]`, and lies about itself.
#[derive(PartialEq, Debug)]
struct Lying(Lie);

impl Lying {
    fn is(&self, lie: Lie) -> bool {
        self.0 == lie
    }

    fn other(&self, lie: Lie) -> Option<Arc<dyn Op>> {
        self.is(lie).then(|| Arc::new(Relu) as Arc<dyn Op>)
    }
}

impl Op for Lying {
    fn name(&self) -> &'static str {
        "test.lying"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let [rows, columns] = [inputs[0].shape[0], inputs[0].shape[1]];
        Ok(vec![Type::f32(&[columns, rows])])
    }

    fn eval(&self, _: &[&Array], outputs: &[Type]) -> Vec<Array> {
        vec![Array::full(outputs[0].clone(), 1.0)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0], None]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        match self.0 {
            Lie::Decomposition => Some(vec![inputs[0] * 2.0]),
            Lie::Mistake => Some(vec![inputs[0].matmul(inputs[0])]),
            _ => None,
        }
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        match self.0 {
            Lie::FoldsToAnotherType => Fold::Input(0),
            Lie::FoldsToNoInput => Fold::Input(2),
            Lie::FoldsToANumberThatTheTypeLacks => Fold::Splat(0.1),
            _ => Fold::No,
        }
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        match self.0 {
            Lie::RowsThatAreNone => RowWise::by_rows(5, &[Role::Rows, Role::Whole], &[OutRole::Rows]),
            Lie::RolesOfOthers => RowWise::by_rows(4, &[Role::Rows], &[OutRole::Rows]),
            Lie::Elementwise => RowWise::Elementwise,
            _ => RowWise::No,
        }
    }

    fn view(&self, input: &Layout, _: &[Type], outputs: &[Type]) -> Option<Vec<Layout>> {
        let beyond = Layout {
            offset: input.offset + 1,
            ..Layout::dense(&outputs[0].shape)
        };
        match self.0 {
            Lie::ViewBeyond => Some(vec![beyond]),
            Lie::ViewOfAnotherCount => Some(Vec::new()),
            _ => None,
        }
    }

    fn in_place(&self, _: usize, _: usize, _: &[Type], _: &[Type]) -> bool {
        self.is(Lie::InPlaceOfAnotherType)
    }

    fn is_cast(&self) -> bool {
        self.is(Lie::Cast)
    }

    fn is_sum(&self) -> bool {
        self.is(Lie::Sum)
    }

    fn copies(&self) -> Option<usize> {
        self.is(Lie::CopiesOfAnotherType).then_some(1)
    }

    fn of_bf16(&self, _: &[Type], _: &[bool]) -> Option<Arc<dyn Op>> {
        self.other(Lie::Bf16)
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        let input = match self.0 {
            Lie::IndicesBeyond => 2,
            Lie::IndicesOfFloats => 0,
            _ => return None,
        };
        Some(IndexInput {
            input,
            limit: 3,
            ignored: None,
        })
    }

    fn sparse_rows(&self) -> Option<Arc<dyn Op>> {
        self.other(Lie::SparseRows)
    }

    fn on_rows(&self, _: &[bool], _: &[Type]) -> OnRows {
        self.other(Lie::OnRows).map_or(OnRows::No, OnRows::By)
    }

    fn on_slices(&self, _: (usize, usize), _: &[Type], _: &[Type]) -> OnSlices {
        let roles = |op| OnSlices::Roles(op, vec![Role::Rows], vec![OutRole::Rows]);
        self.other(Lie::Slices).map_or(OnSlices::No, roles)
    }

    fn accumulating(&self, _: &[Type]) -> Option<Arc<dyn Op>> {
        self.other(Lie::Accumulating)
    }

    fn fillings(&self, _: &[Type], _: usize) -> Vec<Filling> {
        let filling = |input| Filling {
            input,
            axis: 0,
            count: 1,
            value: 0.0,
        };
        match self.0 {
            Lie::FillingsBeyond => vec![filling(2)],
            Lie::FillingsOfAnotherType => vec![filling(0)],
            _ => Vec::new(),
        }
    }

    fn from_output(&self, _: &[Type]) -> Option<FromOutput> {
        self.other(Lie::FromOutput).map(|op| FromOutput {
            input: 0,
            forward: op.clone(),
            same: vec![(7, Operand::ForwardInput(0))],
            side: None,
            op,
            operands: Vec::new(),
            error: 0.0,
            condition: None,
        })
    }

    fn inverse(&self, input: usize, _: &[Type]) -> Option<Inverse> {
        let operand = match self.0 {
            Lie::Inverse => Operand::ForwardOutput(0),
            Lie::InverseOfItself => Operand::ForwardInput(input),
            _ => return None,
        };
        Some(Inverse {
            op: Arc::new(Identity),
            operands: vec![operand],
            error: 0.0,
            condition: None,
        })
    }

    fn along(&self, _: AlongQuery<'_>) -> Along {
        match self.0 {
            Lie::AlongBeyond => Along::Linear(vec![(0, 2)]),
            Lie::AlongAnotherExtent => Along::Linear(vec![(1, 0)]),
            _ => Along::Unknown,
        }
    }

    fn contraction(&self, _: usize, _: &[Type]) -> Option<Contraction> {
        self.is(Lie::Contraction).then_some(Contraction {
            axis: 1,
            other: (1, 0),
            results: 0,
        })
    }

    fn when_centred(&self) -> Option<WhenCentred> {
        self.other(Lie::WhenCentred).map(|norm| WhenCentred {
            compressed: norm.clone(),
            norm,
            scale: 1,
            shift: 1,
        })
    }

    fn cost(&self, _: &[Type], _: &[Type]) -> Cost {
        Cost {
            bytes: if self.is(Lie::Cost) { f64::NAN } else { 1.0 },
            ..Cost::default()
        }
    }
}

/// A graph of one operation, its result called `y`.
fn graph_of(op: Arc<dyn Op>, inputs: &[Type]) -> Graph {
    let mut graph = Graph::default();
    let all: Vec<_> = (inputs.iter().enumerate())
        .map(|(n, ty)| graph.add_input(&format!("x{n}"), InputKind::Data, ty.clone()).unwrap())
        .collect();
    let outputs = graph.add_node(op, &all, Phase::Forward, Arc::from("")).unwrap();
    let value = outputs[0];
    graph.outputs.push(lessen_graph::Output {
        name: "y".to_string(),
        value,
    });
    graph
}

fn types(arrays: &[Array]) -> Vec<Type> {
    arrays.iter().map(|array| array.ty.clone()).collect()
}

/// Asks all hooks of the only node of a graph.
fn ask_all(graph: &Graph) {
    let node = &graph.nodes[0];
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    let asked = graph.ask(node, &inputs, &outputs);
    let nothing = vec![None; inputs.len()];
    asked.fold(&nothing);
    asked.fold(&vec![Some(1.0); inputs.len()]);
    asked.row_wise();
    if let Some(first) = inputs.first() {
        asked.view(&Layout::dense(&first.shape), first.numel());
    }
    for input in 0..inputs.len() {
        for output in 0..outputs.len() {
            let _ = asked.in_place(input, output);
        }
        asked.inverse(input);
        asked.contraction(input);
        let sparse: Vec<bool> = (0..inputs.len()).map(|other| other == input).collect();
        asked.on_rows(&sparse);
    }
    for (output, ty) in outputs.iter().enumerate() {
        (0..ty.rank()).for_each(|axis| drop(asked.along(output, axis, (&vec![false; inputs.len()], &nothing))));
    }
    asked.is_cast();
    asked.is_sum();
    asked.copies();
    asked.of_bf16(&vec![false; inputs.len()]);
    asked.index_input();
    asked.sparse_rows();
    asked.on_slices((0, 2));
    asked.accumulating();
    asked.fillings(4);
    asked.from_output();
    asked.when_centred();
    asked.cost();
}

#[test]
fn every_hook_that_lies_is_named() {
    let lies = [
        (Lie::FoldsToAnotherType, "fold"),
        (Lie::FoldsToNoInput, "fold"),
        (Lie::FoldsToANumberThatTheTypeLacks, "fold"),
        (Lie::RowsThatAreNone, "row_wise"),
        (Lie::RolesOfOthers, "row_wise"),
        (Lie::Elementwise, "row_wise"),
        (Lie::ViewBeyond, "view"),
        (Lie::ViewOfAnotherCount, "view"),
        (Lie::InPlaceOfAnotherType, "in_place"),
        (Lie::CopiesOfAnotherType, "copies"),
        (Lie::Cast, "is_cast"),
        (Lie::Sum, "is_sum"),
        (Lie::Bf16, "of_bf16"),
        (Lie::IndicesBeyond, "index_input"),
        (Lie::IndicesOfFloats, "index_input"),
        (Lie::SparseRows, "sparse_rows"),
        (Lie::OnRows, "on_rows"),
        (Lie::Slices, "on_slices"),
        (Lie::Accumulating, "accumulating"),
        (Lie::FillingsBeyond, "fillings"),
        (Lie::FillingsOfAnotherType, "fillings"),
        (Lie::FromOutput, "from_output"),
        (Lie::Inverse, "inverse"),
        (Lie::InverseOfItself, "inverse"),
        (Lie::AlongBeyond, "along"),
        (Lie::AlongAnotherExtent, "along"),
        (Lie::Contraction, "contraction"),
        (Lie::WhenCentred, "when_centred"),
        (Lie::Cost, "cost"),
    ];
    for (lie, hook) in lies {
        let graph = graph_of(Arc::new(Lying(lie)), &[Type::f32(&[4, 6]), Type::new(DType::I32, &[3])]);
        verify(&graph).unwrap();
        ask_all(&graph);
        let error = verify(&graph).expect_err(hook);
        assert_eq!(error.exit_code(), 2);
        let begin = format!("the operation `test.lying` breaks the contract of `{hook}`: ");
        assert!(error.message().starts_with(&begin), "{lie:?}: {error}");
    }
}

#[test]
fn a_decomposition_or_a_derivative_of_another_type_is_an_error_that_names_the_operation() {
    for lie in [Lie::Decomposition, Lie::Mistake] {
        let inputs = [Type::f32(&[4, 6]), Type::new(DType::I32, &[3])];
        let graph = graph_of(Arc::new(Lying(lie)), &inputs);
        let values = inputs
            .iter()
            .enumerate()
            .map(|(n, ty)| (format!("x{n}"), Array::full(ty.clone(), 1.0)));
        let error = evaluate(&graph, &values.collect()).unwrap_err();
        assert!(
            error
                .message()
                .contains("`test.lying` breaks the contract of `decompose`"),
            "{lie:?}: {error}"
        );
    }
    let mut builder = lessen_graph::GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[4, 6]).unwrap();
    let n = builder.input("n", DType::I32, &[3]).unwrap();
    let y = builder.push(Arc::new(Lying(Lie::Cost)), &[x, n]).unwrap()[0];
    let product = builder.push(Arc::new(MatMul::default()), &[x, y]).unwrap()[0];
    let loss = builder.push(
        Arc::new(lessen_graph::ops::Reduce {
            kind: lessen_graph::ops::ReduceKind::Sum,
            axes: vec![0, 1],
        }),
        &[product],
    );
    let error = builder.grad(loss.unwrap()[0], &[x]).unwrap_err();
    assert!(
        error
            .message()
            .contains("the derivative of `test.lying` gives a cotangent f32[6,4]"),
        "{error}"
    );
}

#[test]
fn no_standard_operation_breaks_a_contract() {
    let mut checked = 0;
    for case in cases(57) {
        let graph = graph_of(case.op.clone(), &types(&case.inputs));
        ask_all(&graph);
        assert_eq!(
            graph.check_answers(),
            Ok(()),
            "{:?} of {:?}",
            case.op,
            types(&case.inputs)
        );
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}

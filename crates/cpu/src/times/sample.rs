//! Samples: a graph of one operation, on as few rows as tell how long it takes on many.

use std::sync::Arc;

use lessen_base::Result;
use lessen_compile::{Measured, Operands, natural_rows};
use lessen_device::Time;
use lessen_graph::{Graph, InputKind, Layout, Op, OutRole, Output, Phase, Role, RowWise, Type, ValueId};

use crate::kernels::kernel::{Kernel, Types};
use crate::kernels::table::kernel;
use crate::tiles::is_one_tile;

/// Bytes of a sample for each worker, so that it stays in the cache of present server cores.
const SAMPLE_BYTES: usize = 1 << 19;

/// Rows of a sample that is cut into tiles.
const TILED_ROWS: usize = 2048;

/// Columns of a sample of elements; and its least rows, so that it is cut into blocks of rows.
const COLUMNS: usize = 64;
const LEAST_ROWS: usize = 1024;

/// Properties on which the time of an operation depends, besides its attributes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Class {
    /// The types.
    Whole,
    /// The types; in a group of few rows.
    FewRows,
    /// The number of elements.
    Elements(usize),
    /// The number of rows.
    Rows {
        rows: usize,
        inputs: Vec<Role>,
        outputs: Vec<OutRole>,
        /// Whether something is computed once for all rows, or rows are computed together.
        tiled: bool,
    },
}

impl Class {
    /// The class of an operation on these types.
    pub(super) fn of(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Class {
        let types = Types { inputs, outputs };
        let kernel = match kernel(op, &types) {
            Some(Kernel::Rows(kernel)) if !types.any_empty() => kernel,
            _ => return Class::Whole,
        };
        match op.row_wise(inputs, outputs) {
            RowWise::No => Class::Whole,
            RowWise::Elementwise => Class::Elements(outputs[0].numel()),
            RowWise::Rows { rows, .. } if is_one_tile(rows) => Class::FewRows,
            RowWise::Rows { rows, inputs, outputs } => Class::Rows {
                rows,
                tiled: kernel.tiled || kernel.prepare.is_some() || outputs.contains(&OutRole::Sum),
                inputs,
                outputs,
            },
        }
    }

    /// A name that tells operations apart whose times differ, the same in every process. Rows and elements are left out
    /// where the time is in proportion to them.
    pub(super) fn name(&self, op: &dyn Op, operands: &Operands<'_>) -> String {
        let Operands { inputs, outputs, .. } = *operands;
        let whole = |ty: &Type| ty.to_string();
        let in_layout = |(ty, layout): (&Type, &&Layout)| {
            if layout.is_dense(&ty.shape) {
                ty.to_string()
            } else {
                format!("{ty} at {:?}", layout.strides)
            }
        };
        let element = |ty: &Type| match ty.rank() {
            0 => ty.to_string(),
            _ => format!("{}[..]", ty.dtype.name()),
        };
        let row = |ty: &Type, rows: usize| format!("{}[.., {}]", ty.dtype.name(), ty.numel() / rows);
        let (inputs, outputs): (Vec<String>, Vec<String>) = match self {
            Class::Whole | Class::FewRows => {
                let inputs = inputs.iter().zip(&operands.layouts).map(in_layout);
                (inputs.collect(), outputs.iter().map(whole).collect())
            }
            Class::Elements(_) => (
                inputs.iter().map(element).collect(),
                outputs.iter().map(element).collect(),
            ),
            Class::Rows {
                rows,
                inputs: roles,
                outputs: out_roles,
                ..
            } => {
                let inputs = inputs.iter().zip(roles).map(|(ty, role)| match role {
                    Role::Rows => row(ty, *rows),
                    Role::Whole => whole(ty),
                });
                let outputs = outputs.iter().zip(out_roles).map(|(ty, role)| match role {
                    OutRole::Rows => row(ty, *rows),
                    OutRole::Sum => whole(ty),
                });
                (inputs.collect(), outputs.collect())
            }
        };
        let without_stream = op.without_stream();
        let like = without_stream.as_deref().unwrap_or(op);
        format!(
            "{} {like:?} ({}) -> ({})",
            op.name(),
            inputs.join(", "),
            outputs.join(", ")
        )
    }

    /// The measured seconds of an operation of this class, by `time`.
    pub(super) fn measured(&self, time: &Time) -> Measured {
        match self {
            Class::Whole => Measured::Whole(time.fixed),
            Class::FewRows => Measured::InCache(time.fixed),
            Class::Elements(count) | Class::Rows { rows: count, .. } => {
                Measured::InCache(time.fixed + time.each * *count as f64)
            }
        }
    }

    /// Rows or elements that the time is in proportion to; 1 where it is measured as a whole.
    pub(super) fn count(&self) -> usize {
        match self {
            Class::Whole | Class::FewRows => 1,
            Class::Elements(count) | Class::Rows { rows: count, .. } => *count,
        }
    }

    /// The numbers of rows or elements to measure, ascending; none where all there is has to be.
    pub(super) fn counts(&self, inputs: &[Type], outputs: &[Type], workers: usize) -> Vec<usize> {
        let bytes: usize = inputs.iter().chain(outputs).map(Type::bytes).sum();
        match self {
            Class::Whole | Class::FewRows => Vec::new(),
            Class::Elements(count) => {
                let rows = workers * SAMPLE_BYTES * count / bytes.max(1) / COLUMNS;
                vec![rows.max(LEAST_ROWS) * COLUMNS]
            }
            Class::Rows { rows, tiled: true, .. } => {
                let most = (*rows).min(TILED_ROWS);
                if is_one_tile(most / 2) {
                    vec![most]
                } else {
                    vec![most / 2, most]
                }
            }
            Class::Rows {
                rows,
                inputs: roles,
                outputs: out_roles,
                ..
            } => {
                let read = inputs.iter().zip(roles).filter(|(_, role)| **role == Role::Rows);
                let written = outputs
                    .iter()
                    .zip(out_roles)
                    .filter(|(_, role)| **role == OutRole::Rows);
                let bytes: usize =
                    read.map(|(ty, _)| ty.bytes()).sum::<usize>() + written.map(|(ty, _)| ty.bytes()).sum::<usize>();
                let fitting = workers * SAMPLE_BYTES * rows / bytes.max(1);
                vec![fitting.clamp((4 * workers).min(*rows), *rows)]
            }
        }
    }

    /// The types of the inputs of a sample of `count` rows or elements; none where the inputs cannot be cut.
    pub(super) fn cut(&self, op: &dyn Op, (inputs, outputs): (&[Type], &[Type]), count: usize) -> Option<Vec<Type>> {
        let cut: Vec<Type> = match self {
            Class::Whole | Class::FewRows => return None,
            Class::Elements(_) => {
                let shape = [count / COLUMNS, COLUMNS];
                let of = |ty: &Type| {
                    if ty.rank() == 0 {
                        ty.clone()
                    } else {
                        Type::new(ty.dtype, &shape)
                    }
                };
                inputs.iter().map(of).collect()
            }
            Class::Rows {
                rows, inputs: roles, ..
            } => {
                let of = |(ty, role): (&Type, &Role)| match role {
                    Role::Rows => with_rows(ty, *rows, count),
                    Role::Whole => Some(ty.clone()),
                };
                inputs.iter().zip(roles).map(of).collect::<Option<_>>()?
            }
        };
        let made = op.infer(&cut).ok()?;
        let same_rows = match (self, op.row_wise(&cut, &made)) {
            (Class::Elements(_), RowWise::Elementwise) => natural_rows(&made[0]) == count / COLUMNS,
            (Class::Rows { .. }, RowWise::Rows { rows, .. }) => rows == count,
            _ => false,
        };
        let same_dtypes = made.iter().map(|ty| ty.dtype).eq(outputs.iter().map(|ty| ty.dtype));
        (same_rows && same_dtypes).then_some(cut)
    }
}

/// A type with another number of rows, where its leading axes are the rows.
fn with_rows(ty: &Type, rows: usize, count: usize) -> Option<Type> {
    let (mut shape, mut product, mut axis) = (ty.shape.to_vec(), 1, 0);
    while product < rows {
        product *= shape.get(axis)?;
        axis += 1;
    }
    if product != rows || axis == 0 {
        return None;
    }
    shape[..axis].fill(1);
    shape[axis - 1] = count;
    Some(Type::new(ty.dtype, &shape))
}

/// The graph of an operation on dense inputs of these types.
pub(super) fn on_dense(op: &Arc<dyn Op>, inputs: &[Type]) -> Result<Graph> {
    let mut graph = Graph::default();
    let values = (inputs.iter().enumerate())
        .map(|(i, ty)| graph.add_input(&format!("input {i}"), InputKind::Data, ty.clone()))
        .collect::<Result<Vec<ValueId>>>()?;
    graph.add_node(op.clone(), &values, Phase::Forward, Arc::from(""))?;
    Ok(graph)
}

/// The graph with its inputs and the outputs of its last node as results, so that nothing is written in place.
pub(super) fn with_results(mut graph: Graph) -> Graph {
    let inputs = graph.inputs.iter().map(|input| input.value);
    let made = graph
        .nodes
        .last()
        .into_iter()
        .flat_map(|node| node.outputs.iter().copied());
    let results = inputs.chain(made).enumerate();
    graph.outputs = results
        .map(|(i, value)| Output {
            name: i.to_string(),
            value,
        })
        .collect();
    graph
}

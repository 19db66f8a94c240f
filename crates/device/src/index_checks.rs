//! Checks of indices that are there before a run begins: the run checks them first, so that a wrong one changes
//! nothing.

use lessen_base::{Error, Result};
use lessen_compile::{IndexSource, IndexUse, Plan};
use lessen_graph::{Layout, numel};

use lessen_graph::Host;

/// The check of indices in an input of the graph.
pub struct IndexCheck {
    /// Position of the input among the graph's inputs.
    pub input: usize,
    name: String,
    /// The input's shape.
    of: Vec<usize>,
    index: IndexUse,
}

/// The checks of a plan's inputs, data and states.
pub fn index_checks(plan: &Plan) -> Vec<IndexCheck> {
    let checks = plan.indices().iter().filter_map(|index| match index.source {
        IndexSource::Input(input) => Some((input, index)),
        _ => None,
    });
    checks
        .map(|(input, index)| {
            let declared = &plan.graph().inputs[input];
            IndexCheck {
                input,
                name: format!("the input `{}`", declared.name),
                of: plan.graph().ty(declared.value).shape.to_vec(),
                index: index.clone(),
            }
        })
        .collect()
}

impl IndexCheck {
    /// Checks the indices in the input's elements.
    ///
    /// # Errors
    /// An index that is not valid.
    pub fn check(&self, elements: Host<'_>) -> Result<()> {
        check_indices(&self.name, &self.of, &self.index, elements)
    }
}

/// Checks indices among the elements of an array, which is called `name` and has the shape `of`.
///
/// # Errors
/// An index that is not valid.
pub fn check_indices(name: &str, of: &[usize], index: &IndexUse, elements: Host<'_>) -> Result<()> {
    // An operation from outside may call floats indices; one that is no integer is not valid.
    let whole = |x: f64| if x.fract() == 0.0 { x as i64 } else { -1 };
    let get = |at: usize| match elements {
        Host::I32(x) => i64::from(x[at]),
        Host::U32(x) => i64::from(x[at]),
        Host::U8(x) | Host::Bool(x) => i64::from(x[at]),
        Host::F32(x) => whole(f64::from(x[at])),
        Host::F64(x) => whole(x[at]),
        Host::BF16(x) => whole(f64::from(f32::from_bits(u32::from(x[at]) << 16))),
    };
    let (limit, ignored) = (index.limit as i64, index.ignored);
    let wrong = |&(_, i): &(usize, i64)| !(0..limit).contains(&i) && Some(i) != ignored;
    let n = numel(&index.shape);
    let found = if index.layout.is_dense(&index.shape) {
        let first = index.layout.offset;
        (first..first + n).map(|at| (at, get(at))).find(wrong)
    } else {
        let at = |i| position(i, &index.shape, &index.layout);
        (0..n).map(|i| (at(i), get(at(i)))).find(wrong)
    };
    let Some((at, value)) = found else {
        return Ok(());
    };
    let place: Vec<String> = coordinates(at, of).iter().map(usize::to_string).collect();
    let or = ignored.map_or(String::new(), |label| format!(", or {label} for none"));
    Err(Error::user(format!(
        "{name} holds the index {value} at [{}], but indices there must be at least 0 and below {limit}{or}",
        place.join(", ")
    )))
}

/// Position of element `i` of a view in its base.
fn position(i: usize, shape: &[usize], layout: &Layout) -> usize {
    let steps = coordinates(i, shape);
    let steps = steps.iter().zip(&layout.strides);
    layout.offset + steps.map(|(i, stride)| i * stride).sum::<usize>()
}

/// The coordinates of element `i` of a dense array.
fn coordinates(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut coordinates = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        coordinates[axis] = i % shape[axis].max(1);
        i /= shape[axis].max(1);
    }
    coordinates
}

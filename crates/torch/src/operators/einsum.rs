//! Einstein sums, as products of matrices of two operands at a time.

use lessen_base::{Error, Result};
use lessen_graph::{Tensor, numel};

use crate::call::{Call, Operators, one};
use crate::value::Value;

pub const OPERATORS: Operators = &[("einsum", einsum), ("tensordot", tensordot)];

/// A tensor with a letter for each axis.
#[derive(Clone)]
struct Labelled {
    tensor: Tensor,
    labels: Vec<char>,
}

/// The letters of axes that `...` stands for, the last one first.
const ELLIPSIS: [char; 8] = ['0', '1', '2', '3', '4', '5', '6', '7'];

impl Labelled {
    /// An operand by its part of the equation.
    fn of(tensor: Tensor, part: &str) -> Result<Labelled> {
        let named = part.replace("...", "").chars().count();
        let more = tensor.rank().checked_sub(named).filter(|more| *more <= ELLIPSIS.len());
        let Some(more) = more.filter(|more| *more == 0 || part.contains("...")) else {
            return Err(Error::user(format!("{part} of an einsum does not fit {}", tensor.ty())));
        };
        let labels: Vec<char> = expanded(part, more);
        let is_diagonal = (1..labels.len()).any(|i| labels[..i].contains(&labels[i]));
        if is_diagonal {
            return Err(Error::user(format!(
                "Lessen does not have diagonals in an einsum, as in {part}; take the diagonal first"
            )));
        }
        Ok(Labelled { tensor, labels })
    }

    fn extent(&self, label: char) -> usize {
        let axis = self.labels.iter().position(|own| *own == label);
        axis.map_or(1, |axis| self.tensor.shape()[axis])
    }

    /// Sums over axes that nothing else has.
    fn summed(self, is_kept: impl Fn(char) -> bool) -> Labelled {
        let axes: Vec<usize> = (0..self.labels.len())
            .filter(|axis| !is_kept(self.labels[*axis]))
            .collect();
        if axes.is_empty() {
            return self;
        }
        Labelled {
            tensor: self.tensor.sum_axes(&axes),
            labels: self.labels.into_iter().filter(|label| is_kept(*label)).collect(),
        }
    }

    /// The axes in the order of `groups`, each group merged into one; a group's label that is missing has extent 1.
    fn grouped(&self, groups: [&[char]; 3]) -> Tensor {
        let place = |label: &char| self.labels.iter().position(|own| own == label);
        let order: Vec<usize> = groups.iter().flat_map(|group| group.iter().filter_map(place)).collect();
        let merged = groups.map(|group| group.iter().map(|label| self.extent(*label)).product());
        self.tensor.permute(&order).reshape(&merged)
    }
}

fn expanded(part: &str, more: usize) -> Vec<char> {
    let all: String = ELLIPSIS[..more].iter().rev().collect();
    part.replace("...", &all).chars().collect()
}

fn einsum(call: &mut Call<'_, '_>) -> Result<Value> {
    let equation = call.text("equation").unwrap_or_default().replace(' ', "");
    let tensors = call.tensors("tensors")?;
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&equation[..], None),
    };
    let parts = inputs
        .split(',')
        .zip(tensors)
        .map(|(part, tensor)| Labelled::of(tensor, part));
    let mut left: Vec<Labelled> = parts.collect::<Result<_>>()?;
    let wanted = match output {
        Some(output) => {
            let more = left
                .iter()
                .flat_map(|own| &own.labels)
                .filter(|label| label.is_ascii_digit());
            expanded(output, more.max().map_or(0, |most| *most as usize - '0' as usize + 1))
        }
        None => implied(&left),
    };
    left.reverse();
    let Some(mut result) = left.pop() else {
        return call.lacks("an einsum of nothing");
    };
    while let Some(next) = left.pop() {
        let others: Vec<char> = left
            .iter()
            .flat_map(|own| own.labels.clone())
            .chain(wanted.clone())
            .collect();
        result = contracted(result, next, &others);
    }
    let result = result.summed(|label| wanted.contains(&label));
    let order: Vec<usize> = wanted
        .iter()
        .filter_map(|label| result.labels.iter().position(|own| own == label))
        .collect();
    if order.len() != wanted.len() {
        return call.lacks(&format!("the einsum {equation}"));
    }
    one(result.tensor.permute(&order))
}

/// The labels of a result that an equation does not say: those that occur once, in order.
fn implied(operands: &[Labelled]) -> Vec<char> {
    let all: Vec<char> = operands.iter().flat_map(|own| own.labels.clone()).collect();
    let once = |label: &&char| label.is_ascii_digit() || all.iter().filter(|own| own == label).count() == 1;
    let mut wanted: Vec<char> = all.iter().filter(once).copied().collect();
    wanted.sort_unstable_by_key(|label| (!label.is_ascii_digit(), *label));
    wanted.dedup();
    let digits = wanted.iter().filter(|label| label.is_ascii_digit()).count();
    wanted[..digits].reverse();
    wanted
}

/// The product of two operands, summed over labels that only both of them have.
fn contracted(a: Labelled, b: Labelled, others: &[char]) -> Labelled {
    let (of_a, of_b) = (a.labels.clone(), b.labels.clone());
    let a = a.summed(|label| of_b.contains(&label) || others.contains(&label));
    let b = b.summed(|label| of_a.contains(&label) || others.contains(&label));
    let shared = |label: &&char| b.labels.contains(label);
    let kept = |label: &&char| others.contains(label);
    let batch: Vec<char> = a.labels.iter().filter(shared).filter(kept).copied().collect();
    let inner: Vec<char> = a
        .labels
        .iter()
        .filter(shared)
        .filter(|label| !kept(label))
        .copied()
        .collect();
    let rows: Vec<char> = a.labels.iter().filter(|label| !shared(label)).copied().collect();
    let columns: Vec<char> = b
        .labels
        .iter()
        .filter(|label| !a.labels.contains(label))
        .copied()
        .collect();
    let labels = [&batch[..], &rows, &columns].concat();
    let extents: Vec<usize> = labels
        .iter()
        .map(|label| a.extent(*label).max(b.extent(*label)))
        .collect();
    let (x, y) = (
        a.grouped([&batch, &rows, &inner]),
        b.grouped([&batch, &columns, &inner]),
    );
    let tensor = x.matmul_t(y);
    let broadcasts = numel(&extents) != tensor.ty().numel();
    if !broadcasts {
        return Labelled {
            tensor: tensor.reshape(&extents),
            labels,
        };
    }
    // An axis of extent 1 of one operand is as wide as the other's.
    let spread = |own: &Labelled| {
        let order: Vec<usize> = labels
            .iter()
            .chain(&inner)
            .filter_map(|label| own.labels.iter().position(|own| own == label))
            .collect();
        let shape: Vec<usize> = labels.iter().chain(&inner).map(|label| own.extent(*label)).collect();
        own.tensor.permute(&order).reshape(&shape)
    };
    let product = spread(&a) * spread(&b);
    let axes: Vec<usize> = (labels.len()..labels.len() + inner.len()).collect();
    let tensor = if axes.is_empty() {
        product
    } else {
        product.sum_axes(&axes)
    };
    Labelled { tensor, labels }
}

/// A product over pairs of axes.
fn tensordot(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = (call.x()?, call.tensor("other")?);
    let (of_a, of_b) = (
        call.ints("dims_self")?.unwrap_or_default(),
        call.ints("dims_other")?.unwrap_or_default(),
    );
    let letters: Vec<char> = ('a'..='z').collect();
    let of = |tensor: Tensor, first: usize| Labelled {
        tensor,
        labels: letters[first..first + tensor.rank()].to_vec(),
    };
    let (a, mut b) = (of(a, 0), of(b, a.rank()));
    for (x, y) in of_a.iter().zip(&of_b) {
        let (x, y) = (call.axis_of(*x, a.labels.len())?, call.axis_of(*y, b.labels.len())?);
        b.labels[y] = a.labels[x];
    }
    let wanted = |label: &&char| a.labels.contains(label) != b.labels.contains(label);
    let wanted: Vec<char> = a.labels.iter().chain(&b.labels).filter(wanted).copied().collect();
    one(contracted(a, b, &wanted).tensor)
}

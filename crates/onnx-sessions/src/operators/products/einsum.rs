//! Sums of products by Einstein's convention.

use std::collections::HashMap;

use lessen_base::{Error, Result};

use super::integers::{integer_of, wide, wrapped};
use super::kernel::add_product;
use super::sizes::{check_work, room};
use crate::operators::real::{Real, float_of, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, Number, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Einsum", einsum)];

/// Most axes of an ellipsis.
const MOST_AXES: usize = 64;

/// An index of an equation: a letter, or an axis of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Index {
    Letter(char),
    Ellipsis(usize),
}

/// What an equation says of operands of some extents.
struct Equation {
    /// Indices of each operand's axes.
    terms: Vec<Vec<Index>>,
    /// Indices of the result's axes.
    result: Vec<Index>,
    /// The extent of each index.
    extents: HashMap<Index, usize>,
}

impl Equation {
    fn of(text: &str, shapes: &[&[usize]]) -> Result<Equation> {
        let wrong = |why: &str| Err(Error::user(format!("its equation `{text}` {why}")));
        let bare: String = text.chars().filter(|c| *c != ' ').collect();
        let (left, right) = match bare.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (bare.as_str(), None),
        };
        let parts: Vec<&str> = left.split(',').collect();
        if parts.len() != shapes.len() {
            return wrong(&format!("has {} terms for {} inputs", parts.len(), shapes.len()));
        }
        let (mut terms, mut widest) = (Vec::new(), 0);
        for (part, shape) in parts.iter().zip(shapes) {
            let letters = part.chars().filter(|c| *c != '.').count();
            let width = match (part.contains('.'), shape.len().checked_sub(letters)) {
                (true, Some(width)) => width,
                (false, Some(0)) => 0,
                _ => return wrong(&format!("does not fit an input of {} axes", shape.len())),
            };
            if width > MOST_AXES {
                return wrong("has too many axes");
            }
            widest = widest.max(width);
            terms.push(indices(part, width)?);
        }
        let mut extents = HashMap::new();
        for (index, extent) in terms.iter().flatten().zip(shapes.iter().copied().flatten()) {
            let known = extents.entry(*index).or_insert(*extent);
            match (*known, *extent) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *known = b,
                (a, b) => return wrong(&format!("gives an index the extents {a} and {b}")),
            }
        }
        let result = match right {
            Some(right) => {
                let has = right.contains('.');
                if !has && widest > 0 {
                    return wrong("sums over its ellipsis, which is not known");
                }
                indices(right, if has { widest } else { 0 })?
            }
            None => implicit(&terms, widest),
        };
        for (at, index) in result.iter().enumerate() {
            if !extents.contains_key(index) {
                return wrong("has an index on its right that is not on its left");
            }
            if result[..at].contains(index) {
                return wrong("has an index twice on its right");
            }
        }
        Ok(Equation { terms, result, extents })
    }

    fn extents(&self, indices: &[Index]) -> Vec<usize> {
        indices.iter().map(|index| self.extents[index]).collect()
    }
}

/// The indices of a term, whose ellipsis stands for some axes.
fn indices(term: &str, width: usize) -> Result<Vec<Index>> {
    let mut all = Vec::new();
    let mut rest = term;
    let mut had_ellipsis = false;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphabetic() {
            all.push(Index::Letter(c));
            rest = &rest[1..];
        } else if let Some(after) = rest.strip_prefix("...").filter(|_| !had_ellipsis) {
            all.extend((0..width).rev().map(Index::Ellipsis));
            had_ellipsis = true;
            rest = after;
        } else {
            return Err(Error::user(format!(
                "its equation has the term `{term}`, which is not known"
            )));
        }
    }
    Ok(all)
}

/// The result of an equation without a right side: the ellipsis and all letters that occur once, in their order.
fn implicit(terms: &[Vec<Index>], widest: usize) -> Vec<Index> {
    let mut letters: Vec<char> = terms
        .iter()
        .flatten()
        .filter_map(|index| match index {
            Index::Letter(letter) => Some(*letter),
            Index::Ellipsis(_) => None,
        })
        .collect();
    letters.sort_unstable();
    let once = letters.chunk_by(|a, b| a == b).filter(|same| same.len() == 1);
    let once = once.map(|same| Index::Letter(same[0]));
    (0..widest).rev().map(Index::Ellipsis).chain(once).collect()
}

/// An array whose axes have indices, each once.
struct Operand<T> {
    indices: Vec<Index>,
    extents: Vec<usize>,
    elements: Vec<T>,
}

impl<T: Number> Operand<T> {
    /// An input, of repeated indices only the diagonal. An axis that broadcasts is left out.
    fn of(equation: &Equation, term: &[Index], shape: &[usize], elements: &[T]) -> Result<Operand<T>> {
        let mut axes: Vec<(Index, usize)> = Vec::new();
        let mut stride = 1usize;
        for (index, extent) in term.iter().zip(shape).rev() {
            if equation.extents[index] == *extent {
                match axes.iter_mut().find(|(known, _)| known == index) {
                    Some((_, known)) => *known = known.wrapping_add(stride),
                    None => axes.push((*index, stride)),
                }
            }
            stride = stride.wrapping_mul(*extent);
        }
        axes.reverse();
        let indices: Vec<Index> = axes.iter().map(|(index, _)| *index).collect();
        let extents = equation.extents(&indices);
        let strides: Vec<usize> = axes.iter().map(|(_, stride)| *stride).collect();
        let elements = gathered(elements, &extents, &strides)?;
        Ok(Operand {
            indices,
            extents,
            elements,
        })
    }

    /// The same array with its axes in another order.
    fn ordered(&self, order: &[Index]) -> Result<Vec<T>> {
        if order == self.indices {
            return Ok(self.elements.clone());
        }
        let mut strides = vec![1usize; self.extents.len()];
        for i in (1..strides.len()).rev() {
            strides[i - 1] = strides[i].wrapping_mul(self.extents[i]);
        }
        let axes = order
            .iter()
            .filter_map(|index| self.indices.iter().position(|known| known == index));
        let (extents, strides): (Vec<usize>, Vec<usize>) = axes.map(|axis| (self.extents[axis], strides[axis])).unzip();
        gathered(&self.elements, &extents, &strides)
    }

    /// The array summed over all indices but some.
    fn summed(self, equation: &Equation, keep: impl Fn(&Index) -> bool) -> Result<Operand<T>> {
        let (kept, gone): (Vec<Index>, Vec<Index>) = self.indices.iter().partition(|index| keep(index));
        if gone.is_empty() {
            return Ok(self);
        }
        let order: Vec<Index> = kept.iter().chain(&gone).copied().collect();
        let all = self.ordered(&order)?;
        let extents = equation.extents(&kept);
        let count = room(&extents)?;
        let elements = if all.is_empty() {
            vec![T::ZERO; count]
        } else {
            let lines = all.chunks_exact(all.len() / count);
            lines
                .map(|line| line.iter().fold(T::ZERO, |sum, x| sum.plus(*x)))
                .collect()
        };
        Ok(Operand {
            indices: kept,
            extents,
            elements,
        })
    }

    /// The product with another array, summed over all indices but some.
    fn times(self, other: Operand<T>, equation: &Equation, keep: impl Fn(&Index) -> bool) -> Result<Operand<T>> {
        let is_needed = |index: &Index, other: &Operand<T>| keep(index) || other.indices.contains(index);
        let a = self.summed(equation, |index| is_needed(index, &other))?;
        let b = other.summed(equation, |index| is_needed(index, &a))?;
        let (shared, rows): (Vec<Index>, Vec<Index>) = a.indices.iter().partition(|index| b.indices.contains(index));
        let (stack, common): (Vec<Index>, Vec<Index>) = shared.into_iter().partition(|index| keep(index));
        let columns: Vec<Index> = b
            .indices
            .iter()
            .copied()
            .filter(|index| !a.indices.contains(index))
            .collect();
        let left = a.ordered(&[&stack[..], &rows, &common].concat())?;
        let right = b.ordered(&[&stack[..], &common, &columns].concat())?;
        let indices = [stack.clone(), rows.clone(), columns.clone()].concat();
        let extents = equation.extents(&indices);
        let mut elements = vec![T::ZERO; room(&extents)?];
        if !left.is_empty() && !right.is_empty() {
            let count = |indices: &[Index]| equation.extents(indices).iter().product::<usize>();
            let [m, k, n] = [count(&rows), count(&common), count(&columns)];
            check_work(&[count(&stack), m, k, n])?;
            let factors = left.chunks_exact(m * k).zip(right.chunks_exact(k * n));
            for (out, (left, right)) in elements.chunks_exact_mut(m * n).zip(factors) {
                add_product(left, right, out, [m, k, n]);
            }
        }
        Ok(Operand {
            indices,
            extents,
            elements,
        })
    }
}

/// The elements at all indices of some extents, whose steps are strides.
fn gathered<T: Copy>(elements: &[T], extents: &[usize], strides: &[usize]) -> Result<Vec<T>> {
    if room(extents)? == 0 || elements.is_empty() {
        return Ok(Vec::new());
    }
    let mut places = vec![0];
    for (extent, stride) in extents.iter().zip(strides) {
        let mut next = Vec::with_capacity(places.len() * extent);
        for place in places {
            next.extend((0..*extent).map(|i| place + i * stride));
        }
        places = next;
    }
    Ok(places.into_iter().map(|place| elements[place]).collect())
}

fn evaluated<T: Number>(equation: &Equation, inputs: &[(&[usize], &[T])]) -> Result<Vec<T>> {
    let mut all = equation
        .terms
        .iter()
        .zip(inputs)
        .map(|(term, (shape, elements))| Operand::of(equation, term, shape, elements));
    let Some(first) = all.next() else {
        return Err(Error::user("it has no inputs"));
    };
    let mut sum = first?;
    for (at, operand) in all.enumerate() {
        let later = equation.terms.get(at + 2..).unwrap_or_default();
        let keep = |index: &Index| equation.result.contains(index) || later.iter().flatten().any(|x| x == index);
        sum = sum.times(operand?, equation, keep)?;
    }
    sum.summed(equation, |index| equation.result.contains(index))?
        .ordered(&equation.result)
}

fn einsum(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensors = (0..call.inputs.len())
        .map(|i| call.tensor(i))
        .collect::<Result<Vec<_>>>()?;
    let Some(first) = tensors.first() else {
        return call.refused("it has no inputs");
    };
    if tensors.iter().any(|tensor| tensor.element() != first.element()) {
        return call.refused("its inputs have different types");
    }
    let shapes: Vec<&[usize]> = tensors.iter().map(|tensor| tensor.shape()).collect();
    let equation = Equation::of(&call.text("equation").unwrap_or_default(), &shapes)?;
    let shape = equation.extents(&equation.result);
    fn floats<R: Real>(equation: &Equation, tensors: &[&std::sync::Arc<HostTensor>]) -> Result<Vec<R>> {
        let elements = tensors
            .iter()
            .map(|tensor| R::read(tensor))
            .collect::<Result<Vec<_>>>()?;
        let inputs = tensors
            .iter()
            .zip(&elements)
            .map(|(tensor, all)| (tensor.shape(), &all[..]));
        evaluated(equation, &inputs.collect::<Vec<_>>())
    }
    one(match first.element() {
        Some(Element::F64) => HostTensor::new(&shape, floats::<f64>(&equation, &tensors)?)?,
        Some(element) if element.is_float() => rounded(&shape, floats::<f32>(&equation, &tensors)?, float_of(first)?)?,
        _ => {
            let element = integer_of(first)?;
            let elements: Vec<_> = tensors.iter().map(|tensor| wide(tensor)).collect();
            let inputs = tensors
                .iter()
                .zip(&elements)
                .map(|(tensor, all)| (tensor.shape(), &all[..]));
            wrapped(&shape, evaluated(&equation, &inputs.collect::<Vec<_>>())?, element)?
        }
    })
}

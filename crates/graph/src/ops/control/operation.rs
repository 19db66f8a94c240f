//! A scan as an operation: its type rule, evaluation, decomposition and cost.

use std::collections::HashMap;

use lessen_base::{Error, Result};

use super::derivative;
use super::scan::Scan;
use crate::array::Array;
use crate::eval::evaluate_exactly;
use crate::op::{Cost, Op, Vjp};
use crate::tensor::Tensor;
use crate::types::Type;

impl Op for Scan {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let taken = self.taken();
        if inputs.len() != taken.len() {
            return Err(Error::user(format!(
                "the body takes {} inputs, {} are given",
                taken.len(),
                inputs.len()
            )));
        }
        for (number, (given, taken)) in inputs.iter().zip(&taken).enumerate() {
            let is_slice = (self.carries()..self.carries() + self.slices()).contains(&number);
            let wanted = if is_slice { self.stacked(taken) } else { taken.clone() };
            if *given != wanted {
                return Err(Error::user(format!("input {number} is {given}, but must be {wanted}")));
            }
        }
        let given = self.given();
        let kept = taken[..self.carries()].iter().filter(|_| self.options().keeps_carries);
        let stacked = given[self.carries()..].iter().chain(kept).map(|ty| self.stacked(ty));
        Ok(given[..self.carries()].iter().cloned().chain(stacked).collect())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut results: Vec<Array> = outputs
            .iter()
            .map(|ty| Array::new(ty.clone(), vec![0.0; ty.numel()]))
            .collect();
        let mut carries: Vec<Array> = inputs[..self.carries()].iter().map(|x| (*x).clone()).collect();
        let taken = self.taken();
        for turn in self.order() {
            let place = |ty: &Type| turn * ty.numel()..(turn + 1) * ty.numel();
            let mut given = HashMap::new();
            for (number, (input, ty)) in self.body().inputs.iter().zip(&taken).enumerate() {
                let array = match number.checked_sub(self.carries()) {
                    None => carries[number].clone(),
                    Some(slice) if slice < self.slices() => {
                        Array::new(ty.clone(), inputs[number].data[place(ty)].to_vec())
                    }
                    Some(_) => inputs[number].clone(),
                };
                given.insert(input.name.clone(), array);
            }
            let mut found = match evaluate_exactly(self.body(), &given) {
                Ok(found) => found,
                Err(error) => panic!("the body of a scan cannot be evaluated: {error}"),
            };
            let mut of_body = self
                .body()
                .outputs
                .iter()
                .filter_map(|output| found.remove(&output.name));
            let next: Vec<Array> = of_body.by_ref().take(self.carries()).collect();
            let before = std::mem::replace(&mut carries, next);
            for (result, array) in results[self.carries()..].iter_mut().zip(of_body.chain(before)) {
                result.data[place(&array.ty)].copy_from_slice(&array.data);
            }
        }
        for (result, carry) in results.iter_mut().zip(carries) {
            *result = carry;
        }
        results
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        derivative::vjp(self, cx)
    }

    /// All turns, one after another.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let trace = inputs.first()?.trace();
        let mut carries = inputs[..self.carries()].to_vec();
        let constants = &inputs[self.carries() + self.slices()..];
        let results = self.body().outputs.len() - self.carries();
        let kept = if self.options().keeps_carries {
            self.carries()
        } else {
            0
        };
        let mut stacks: Vec<Vec<Tensor>> = vec![Vec::new(); results + kept];
        for turn in self.order() {
            let slices = &inputs[self.carries()..self.carries() + self.slices()];
            let slices = slices.iter().map(|x| x.slice(0, turn, 1).reshape(&x.shape()[1..]));
            let given: Vec<Tensor> = carries
                .iter()
                .copied()
                .chain(slices)
                .chain(constants.to_vec())
                .collect();
            let found = self.inline(trace, &given);
            let of_turn = found[self.carries()..].iter().chain(&carries);
            stacks.iter_mut().zip(of_turn).for_each(|(stack, y)| stack.push(*y));
            carries = found[..self.carries()].to_vec();
        }
        for mut stack in stacks {
            if self.options().reverse {
                stack.reverse();
            }
            carries.push(crate::ops::shape::stack::stack(&stack, 0));
        }
        Some(carries)
    }

    fn cost(&self, _: &[Type], _: &[Type]) -> Cost {
        let turns = self.options().turns as f64;
        self.body().nodes.iter().fold(Cost::default(), |sum, node| {
            let (inputs, outputs) = (self.body().input_types(node), self.body().output_types(node));
            let cost = node.op.cost(&inputs, &outputs);
            Cost {
                product_flops: sum.product_flops + turns * cost.product_flops,
                vector_flops: sum.vector_flops + turns * cost.vector_flops,
                bytes: sum.bytes + turns * cost.bytes,
            }
        })
    }
}

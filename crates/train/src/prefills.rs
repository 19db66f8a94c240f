//! Functions that read prompts: a few serve prompts of all lengths.

use crate::session::Function;
use lessen_base::{Result, prompt_bucket};
use std::collections::BTreeMap;

/// Functions that read prompts into a cache, by the lengths to which prompts are padded.
#[derive(Default)]
pub(crate) struct Prefills {
    functions: BTreeMap<usize, Function>,
}

impl Prefills {
    /// The function for prompts of `length` tokens in a cache with room for `capacity`, and the length that it reads. A
    /// new one, which `compile` makes for a length, is for all lengths of a bucket; the first of all, after which there
    /// may be no other prompt, is for this length alone.
    ///
    /// # Errors
    /// The errors of `compile`.
    pub(crate) fn at(
        &mut self,
        length: usize,
        capacity: usize,
        compile: impl FnOnce(usize) -> Result<Function>,
    ) -> Result<(Function, usize)> {
        let bucket = prompt_bucket(length).min(capacity);
        if let Some((length, function)) = self.functions.range(length..=bucket).next() {
            return Ok((*function, *length));
        }
        let length = if self.functions.is_empty() { length } else { bucket };
        let function = compile(length)?;
        self.functions.insert(length, function);
        Ok((function, length))
    }

    /// Takes all functions out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Function> + use<> {
        std::mem::take(&mut self.functions).into_values()
    }
}

/// The lengths to which prompts in a cache with room for `capacity` tokens are padded.
pub(crate) fn padded_lengths(capacity: usize) -> impl Iterator<Item = usize> {
    let next = move |length: &usize| (*length < capacity).then(|| prompt_bucket(length + 1).min(capacity));
    std::iter::successors(Some(prompt_bucket(1).min(capacity)), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_lengths_rise_to_the_capacity() {
        for capacity in [1, 16, 100, 2048] {
            let all: Vec<usize> = padded_lengths(capacity).collect();
            assert!(all.is_sorted_by(|one, next| one < next));
            assert_eq!(all.last(), Some(&capacity));
            let of = |length| prompt_bucket(length).min(capacity);
            assert!((1..=capacity).all(|length| all.contains(&of(length))));
        }
    }
}

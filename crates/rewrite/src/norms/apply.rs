//! Applies the transformation of a parameter to its elements.

use lessen_base::Result;
use lessen_graph::ValueId;

use super::parameters::ParameterStep;

/// A float that a parameter is stored as. Sums over its elements are in `f64`.
pub trait Number: Copy {
    /// The number.
    fn wide(self) -> f64;

    /// The nearest number of this type.
    fn nearest(number: f64) -> Self;
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn nearest(number: f64) -> f64 {
        number
    }
}

impl Number for f32 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(number: f64) -> f32 {
        number as f32
    }
}

/// A parameter: its shape, and its elements in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter<T> {
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Vec<T>,
}

impl<T: Number> Parameter<T> {
    /// Applies the steps of [`ParameterChanges::of`](super::ParameterChanges::of), in place. `read` gives the original
    /// values of other parameters.
    ///
    /// # Errors
    /// Those of `read`.
    ///
    /// # Panics
    /// If the parameter, or one that `read` gives, has not the shape of the state.
    pub fn apply(
        &mut self,
        steps: &[ParameterStep],
        read: &mut dyn FnMut(ValueId) -> Result<Parameter<T>>,
    ) -> Result<()> {
        for step in steps {
            match *step {
                ParameterStep::AddProduct { weight, inner, vector } => {
                    self.add_product(&read(weight)?, inner, &read(vector)?.data);
                }
                ParameterStep::Scale { axis, by } => {
                    let factors = read(by)?.data;
                    self.for_each_run(axis, |i, x| T::nearest(x.wide() * factors[i].wide()));
                }
                ParameterStep::Centre { axis } => self.centre(axis),
                ParameterStep::LessLast { axis } => {
                    self.without_last(axis, |x, last| T::nearest(x.wide() - last.wide()))
                }
                ParameterStep::DropLast { axis } => self.without_last(axis, |x, _| x),
            }
        }
        Ok(())
    }

    /// The products of the extents before and after an axis, and its own.
    fn around(&self, axis: usize) -> (usize, usize, usize) {
        let before = self.shape[..axis].iter().product();
        let after = self.shape[axis + 1..].iter().product();
        (before, self.shape[axis], after)
    }

    /// Replaces each element by a function of its position along an axis and of itself.
    fn for_each_run(&mut self, axis: usize, f: impl Fn(usize, T) -> T) {
        let (_, extent, after) = self.around(axis);
        for (block, elements) in self.data.chunks_mut(after.max(1)).enumerate() {
            let position = block % extent;
            elements.iter_mut().for_each(|x| *x = f(position, *x));
        }
    }

    fn centre(&mut self, axis: usize) {
        let (_, extent, after) = self.around(axis);
        let mut sums = vec![0.0; after];
        for block in self.data.chunks_mut((extent * after).max(1)) {
            sums.fill(0.0);
            for row in block.chunks(after) {
                row.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x.wide());
            }
            for row in block.chunks_mut(after) {
                let pairs = row.iter_mut().zip(&sums);
                pairs.for_each(|(x, sum)| *x = T::nearest(x.wide() - sum / extent as f64));
            }
        }
    }

    /// Leaves out the last position of an axis; `f` gives what is left from an element and the one that was last.
    fn without_last(&mut self, axis: usize, f: impl Fn(T, T) -> T) {
        let (before, extent, after) = self.around(axis);
        let kept = (extent - 1) * after;
        for block in 0..before {
            let (from, to) = (block * extent * after, block * kept);
            for i in 0..kept {
                let last = self.data[from + kept + i % after];
                self.data[to + i] = f(self.data[from + i], last);
            }
        }
        self.data.truncate(before * kept);
        self.shape[axis] -= 1;
    }

    /// Adds the product of a matrix, whose axis `inner` is added up, and a vector.
    fn add_product(&mut self, weight: &Parameter<T>, inner: usize, vector: &[T]) {
        let (before, extent, after) = weight.around(inner);
        let mut sums = vec![0.0; before * after];
        for (block, row) in weight.data.chunks(after.max(1)).enumerate() {
            let factor = vector[block % extent].wide();
            let at = block / extent * after;
            row.iter()
                .zip(&mut sums[at..])
                .for_each(|(w, sum)| *sum += w.wide() * factor);
        }
        let pairs = self.data.iter_mut().zip(sums);
        pairs.for_each(|(b, sum)| *b = T::nearest(b.wide() + sum));
    }
}

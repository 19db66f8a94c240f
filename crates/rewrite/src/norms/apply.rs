//! Applies the steps of a parameter to its elements.

use lessen_base::Result;
use lessen_graph::ValueId;

use super::parameters::ParameterStep;

/// A float type that parameters are stored in. Sums over their elements are in `f64`.
pub trait StoredFloat: Copy {
    /// The number as `f64`.
    fn to_f64(self) -> f64;

    /// The nearest number of this type.
    fn from_f64(number: f64) -> Self;
}

impl StoredFloat for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(number: f64) -> f64 {
        number
    }
}

impl StoredFloat for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(number: f64) -> f32 {
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

impl<T: StoredFloat> Parameter<T> {
    /// Applies the steps of [`ParameterChanges::of`](super::ParameterChanges::of), in place. `read` gives the original
    /// values of other parameters.
    ///
    /// # Errors
    /// The errors of `read`.
    ///
    /// # Panics
    /// If the parameter, or a parameter that `read` gives, does not have the shape of its state.
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
                    self.map_lines(axis, |i, x| T::from_f64(x.to_f64() * factors[i].to_f64()));
                }
                ParameterStep::Centre { axis } => self.centre(axis),
                ParameterStep::LessLast { axis } => {
                    self.without_last(axis, |x, last| T::from_f64(x.to_f64() - last.to_f64()))
                }
                ParameterStep::DropLast { axis } => self.without_last(axis, |x, _| x),
            }
        }
        Ok(())
    }

    /// The product of the extents before an axis, the axis's extent, and the product of the extents after it.
    fn around(&self, axis: usize) -> (usize, usize, usize) {
        let before = self.shape[..axis].iter().product();
        let after = self.shape[axis + 1..].iter().product();
        (before, self.shape[axis], after)
    }

    /// Replaces each element by a function of its position along an axis and of itself.
    fn map_lines(&mut self, axis: usize, f: impl Fn(usize, T) -> T) {
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
                row.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x.to_f64());
            }
            for row in block.chunks_mut(after) {
                let pairs = row.iter_mut().zip(&sums);
                pairs.for_each(|(x, sum)| *x = T::from_f64(x.to_f64() - sum / extent as f64));
            }
        }
    }

    /// Leaves out the last position of an axis; `f` computes each remaining element from itself and the last one of its
    /// line.
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

    /// Adds the product of a matrix, summed over its axis `inner`, and a vector.
    fn add_product(&mut self, weight: &Parameter<T>, inner: usize, vector: &[T]) {
        let (before, extent, after) = weight.around(inner);
        let mut sums = vec![0.0; before * after];
        for (block, row) in weight.data.chunks(after.max(1)).enumerate() {
            let factor = vector[block % extent].to_f64();
            let at = block / extent * after;
            row.iter()
                .zip(&mut sums[at..])
                .for_each(|(w, sum)| *sum += w.to_f64() * factor);
        }
        let pairs = self.data.iter_mut().zip(sums);
        pairs.for_each(|(b, sum)| *b = T::from_f64(b.to_f64() + sum));
    }
}

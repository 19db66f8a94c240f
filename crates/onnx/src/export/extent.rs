//! Sizes and numbers as polynomials of the named dimensions, fitted to traces of several sizes.

/// A number that depends on the dimensions: for each set of dimensions (bit `d` of the index stands for dimension `d`)
/// the factor of their product.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Polynomial {
    factors: Vec<f64>,
}

impl Polynomial {
    /// Fits a number to its values at [`points`]; none where it is no such polynomial.
    pub(super) fn fit(values: &[f64], points: &[Vec<usize>]) -> Option<Polynomial> {
        let dimensions = points.first()?.len();
        let grid = 1 << dimensions;
        let mut factors = values.get(..grid)?.to_vec();
        if values.iter().all(|value| *value == factors[0]) {
            factors[1..].fill(0.0);
            return Some(Polynomial { factors });
        }
        let ends = points.first()?.iter().zip(points.get(grid - 1)?);
        for (dimension, (low, high)) in ends.enumerate() {
            let (low, high) = (*low as f64, *high as f64);
            for index in (0..grid).filter(|index| index & (1 << dimension) == 0) {
                let above = index | (1 << dimension);
                let slope = (factors[above] - factors[index]) / (high - low);
                factors[index] -= slope * low;
                factors[above] = slope;
            }
        }
        let fitted = Polynomial { factors };
        let holds = |(point, value): (&Vec<usize>, &f64)| {
            let error = (fitted.at(point) - value).abs();
            error <= 1e-9 * value.abs().max(1.0)
        };
        points.iter().zip(values).all(holds).then_some(fitted)
    }

    /// The number at these sizes.
    fn at(&self, sizes: &[usize]) -> f64 {
        let monomial = |index: usize| -> f64 {
            let own = (0..sizes.len()).filter(|dimension| index & (1 << dimension) != 0);
            own.map(|dimension| sizes[dimension] as f64).product()
        };
        self.factors
            .iter()
            .enumerate()
            .map(|(index, factor)| factor * monomial(index))
            .sum()
    }

    /// The number, where it is always the same.
    pub(super) fn constant(&self) -> Option<f64> {
        self.factors[1..]
            .iter()
            .all(|factor| *factor == 0.0)
            .then_some(self.factors[0])
    }

    /// The number as a whole one with whole factors.
    pub(super) fn whole(&self) -> Option<Extent> {
        let round = |factor: &f64| {
            let rounded = factor.round();
            ((rounded - factor).abs() < 1e-6 && rounded.abs() < 9e15).then_some(rounded as i64)
        };
        let factors: Option<Vec<i64>> = self.factors.iter().map(round).collect();
        Some(Extent { factors: factors? })
    }
}

/// A size that depends on the dimensions, as [`Polynomial`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Extent {
    factors: Vec<i64>,
}

impl Extent {
    /// A size that is always the same.
    pub(super) fn of(size: i64, dimensions: usize) -> Extent {
        let mut factors = vec![0; 1 << dimensions];
        factors[0] = size;
        Extent { factors }
    }

    /// The size, where it is always the same.
    pub(super) fn constant(&self) -> Option<i64> {
        self.factors[1..]
            .iter()
            .all(|factor| *factor == 0)
            .then_some(self.factors[0])
    }

    /// Whether it is always 1.
    pub(super) fn is_one(&self) -> bool {
        self.constant() == Some(1)
    }

    /// The dimension that it is, where it is one.
    pub(super) fn dimension(&self) -> Option<usize> {
        let mut terms = self.terms();
        match (terms.next(), terms.next()) {
            (Some((1, [dimension])), None) => Some(*dimension),
            _ => None,
        }
        .filter(|_| self.factors[0] == 0)
    }

    /// The products of dimensions with their factors; the constant has no dimensions.
    pub(super) fn terms(&self) -> impl Iterator<Item = (i64, &'static [usize])> + '_ {
        const PRODUCTS: [&[usize]; 4] = [&[], &[0], &[1], &[0, 1]];
        let all = self.factors.iter().zip(PRODUCTS);
        all.filter(|(factor, _)| **factor != 0)
            .map(|(factor, dimensions)| (*factor, dimensions))
    }

    /// The sum of two sizes.
    pub(super) fn plus(&self, other: &Extent) -> Extent {
        let factors = self.factors.iter().zip(&other.factors).map(|(a, b)| a + b);
        Extent {
            factors: factors.collect(),
        }
    }
}

/// The sizes at which a function is traced, between the least and the greatest of each dimension, of which there are
/// one or two: two of each dimension in every combination, from which the factors follow, and one to check them by.
pub fn points(bounds: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let chosen: Vec<[usize; 3]> = bounds
        .iter()
        .enumerate()
        .map(|(dimension, (least, greatest))| {
            let wanted = [[2, 3, 5], [5, 7, 6]][dimension.min(1)];
            let fits = wanted.iter().all(|size| (*least..=*greatest).contains(size));
            if fits { wanted } else { [*least, least + 1, *greatest] }
        })
        .collect();
    let combination = |index: usize| {
        let size = |dimension: usize| chosen[dimension][usize::from(index & (1 << dimension) != 0)];
        (0..chosen.len()).map(size).collect()
    };
    let mut points: Vec<Vec<usize>> = (0..1 << chosen.len()).map(combination).collect();
    points.push(chosen.iter().map(|sizes| sizes[2]).collect());
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_from_a_few_and_others_are_no_polynomials() {
        let points = points(&[(1, 1000), (1, 512)]);
        let fit = |of: &dyn Fn(f64, f64) -> f64| {
            let values: Vec<f64> = points.iter().map(|at| of(at[0] as f64, at[1] as f64)).collect();
            Polynomial::fit(&values, &points)
        };
        let whole = |of: &dyn Fn(f64, f64) -> f64| fit(of).and_then(|found| found.whole());
        assert_eq!(whole(&|_, _| 4.0).unwrap().constant(), Some(4));
        assert_eq!(whole(&|batch, _| batch).unwrap().dimension(), Some(0));
        assert_eq!(whole(&|_, length| length).unwrap().dimension(), Some(1));
        let mixed = whole(&|batch, length| 3.0 * batch * length + 2.0 * length - 1.0).unwrap();
        let terms: Vec<(i64, &[usize])> = mixed.terms().collect();
        assert_eq!(terms, [(-1, &[][..]), (2, &[1][..]), (3, &[0, 1][..])]);
        assert_eq!(mixed.dimension(), None);
        assert_eq!(whole(&|_, length| 2.0 * length).unwrap().dimension(), None);
        assert!(fit(&|_, length| length * length).is_none());
        assert!(fit(&|_, length| 1.0 / length).is_none());
        assert_eq!(
            fit(&|_, _| f64::NEG_INFINITY).unwrap().constant(),
            Some(f64::NEG_INFINITY)
        );
    }
}

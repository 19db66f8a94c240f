//! Rows of features, in double precision.

/// Rows of a matrix.
pub(crate) struct Rows<'a> {
    elements: &'a [f32],
    width: usize,
}

impl<'a> Rows<'a> {
    /// Rows of this width.
    pub fn new(elements: &'a [f32], width: usize) -> Rows<'a> {
        Rows { elements, width }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.elements.len().checked_div(self.width).unwrap_or(0)
    }

    /// The elements of a row.
    pub fn row_f64(&self, row: usize) -> impl Iterator<Item = f64> + use<'a> {
        self.elements[row * self.width..][..self.width]
            .iter()
            .map(|x| f64::from(*x))
    }

    /// The product of a row and a vector.
    pub fn product(&self, row: usize, other: impl Iterator<Item = f64>) -> f64 {
        self.row_f64(row).zip(other).map(|(x, y)| x * y).sum()
    }

    /// The square of the distance of a row from a vector.
    pub fn distance(&self, row: usize, other: impl Iterator<Item = f64>) -> f64 {
        self.row_f64(row).zip(other).map(|(x, y)| (x - y) * (x - y)).sum()
    }

    /// The mean of all rows.
    pub fn mean(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.width];
        for row in 0..self.len() {
            sum.iter_mut().zip(self.row_f64(row)).for_each(|(sum, x)| *sum += x);
        }
        sum.iter().map(|sum| sum / self.len() as f64).collect()
    }
}

//! Sizes as values of the file: constants, or computed from the extents of the inputs.

use lessen_base::{Error, Result};
use lessen_graph::DType;

use super::emitter::{DimensionSource, Emitter};
use super::extent::{Extent, Polynomial};
use super::writer::{element, int};

impl Emitter<'_> {
    /// The name of a number without axes.
    ///
    /// # Errors
    /// A dtype that the file cannot hold; a fraction that depends on the sizes.
    pub(super) fn number(&mut self, dtype: DType, number: &Polynomial) -> Result<String> {
        let target = self.element(dtype)?;
        if let Some(number) = number.constant() {
            let name = self.writer.scalar(dtype, number);
            return name.ok_or_else(|| Error::internal("a number without an element type"));
        }
        let Some(whole) = number.whole() else {
            return Err(Error::user(
                "a fraction that depends on the sizes of the inputs cannot be exported",
            ));
        };
        let size = self.scalar_size(&whole);
        Ok(if target == element::INT64 {
            size
        } else {
            self.writer.one("Cast", &[&size], vec![int("to", target.into())])
        })
    }

    /// The name of a size, `int64[1]`.
    pub(super) fn size(&mut self, size: &Extent) -> String {
        if let Some(name) = self.computed_sizes.get(size) {
            return name.clone();
        }
        if let Some(size) = size.constant() {
            return self.writer.ints(&[size]);
        }
        let mut sum: Option<String> = None;
        let terms: Vec<(i64, &[usize])> = size.terms().collect();
        for (factor, dimensions) in terms {
            let mut product = (factor != 1 || dimensions.is_empty()).then(|| self.writer.ints(&[factor]));
            for dimension in dimensions {
                let own = self.dimension(*dimension);
                product = Some(match product {
                    Some(product) => self.writer.one("Mul", &[&product, &own], vec![]),
                    None => own,
                });
            }
            sum = match (sum, product) {
                (Some(sum), Some(product)) => Some(self.writer.one("Add", &[&sum, &product], vec![])),
                (sum, product) => sum.or(product),
            };
        }
        let name = sum.unwrap_or_else(|| self.writer.ints(&[0]));
        self.computed_sizes.insert(size.clone(), name.clone());
        name
    }

    fn dimension(&mut self, dimension: usize) -> String {
        let DimensionSource { input, axis } = &self.dimensions[dimension];
        let (key, axis) = (format!("dimension {dimension}"), *axis as i64);
        if let Some(name) = self.shared.get(&key) {
            return name.clone();
        }
        let attributes = vec![int("start", axis), int("end", axis + 1)];
        let name = self.writer.one("Shape", &[input], attributes);
        self.shared.insert(key, name.clone());
        name
    }

    /// The name of a size without axes, `int64[]`.
    pub(super) fn scalar_size(&mut self, size: &Extent) -> String {
        if let Some(size) = size.constant() {
            let name = self.writer.scalar(DType::I32, size as f64);
            return name.unwrap_or_default();
        }
        let key = format!("scalar {size:?}");
        if let Some(name) = self.shared.get(&key) {
            return name.clone();
        }
        let (size, axes) = (self.size(size), self.writer.ints(&[0]));
        let name = self.writer.one("Squeeze", &[&size, &axes], vec![]);
        self.shared.insert(key, name.clone());
        name
    }

    /// The name of sizes, `int64[R]`.
    pub(super) fn sizes(&mut self, sizes: &[Extent]) -> String {
        let constants: Option<Vec<i64>> = sizes.iter().map(Extent::constant).collect();
        if let Some(constants) = constants {
            return self.writer.ints(&constants);
        }
        let key = format!("sizes {sizes:?}");
        if let Some(name) = self.shared.get(&key) {
            return name.clone();
        }
        let parts: Vec<String> = sizes.iter().map(|size| self.size(size)).collect();
        let name = match &parts[..] {
            [one] => one.clone(),
            parts => {
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                self.writer.one("Concat", &parts, vec![int("axis", 0)])
            }
        };
        self.shared.insert(key, name.clone());
        name
    }

    /// The name of a value of the file in another shape; `from` are its extents, where they are known.
    pub(super) fn reshaped_from(&mut self, name: &str, from: Option<&[Extent]>, to: &[Extent]) -> String {
        let kept = |axis: usize| from.is_some_and(|from| from.get(axis) == Some(&to[axis]));
        let mut target: Vec<Option<i64>> = (0..to.len())
            .map(|axis| to[axis].constant().or(kept(axis).then_some(0)))
            .collect();
        let mut unknown = target.iter_mut().filter(|size| size.is_none());
        if let (Some(size), None) = (unknown.next(), unknown.next()) {
            *size = Some(-1);
        }
        let target: Option<Vec<i64>> = target.into_iter().collect();
        let shape = match target {
            Some(target) => self.writer.ints(&target),
            None => self.sizes(to),
        };
        self.writer.one("Reshape", &[name, &shape], vec![])
    }
}

//! Typed attributes of nodes that are called, in memory and while a model is traced.

/// Methods of a call that read its attributes, from `attribute`, and axes, from `axis`.
macro_rules! attribute_methods {
    () => {
        /// An attribute that is an integer.
        pub fn int(&self, name: &str, default: i64) -> i64 {
            self.attribute(name).map_or(default, |attribute| attribute.i)
        }

        /// An attribute that is a float, as its shortest decimal number.
        pub fn float(&self, name: &str, default: f64) -> f64 {
            let shortest = |x: f32| x.to_string().parse().unwrap_or(f64::from(x));
            self.attribute(name)
                .map_or(default, |attribute| shortest(attribute.f))
        }

        /// An attribute that is a text.
        pub fn text(&self, name: &str) -> Option<String> {
            let attribute = self.attribute(name)?;
            Some(String::from_utf8_lossy(&attribute.s).into_owned())
        }

        /// An attribute that is a list of integers.
        pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
            self.attribute(name).map(|attribute| attribute.ints.clone())
        }

        /// Non-negative axes of a rank, ascending, each once.
        ///
        /// # Errors
        /// An axis that is not there.
        pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
            let axes = axes.iter().map(|axis| self.axis(*axis, rank));
            let mut axes = axes.collect::<Result<Vec<usize>>>()?;
            axes.sort_unstable();
            axes.dedup();
            Ok(axes)
        }
    };
}
pub(crate) use attribute_methods;

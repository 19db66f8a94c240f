//! What takes the values of parameters as a checkpoint is read.

use lessen_base::Result;
use lessen_graph::ops::DequantizeGroups;

use crate::params::ParamSpec;

/// Takes elements of a parameter, some after others, with the number of the first of them.
pub type Take<'a> = dyn FnMut(&ParamSpec, usize, &[f32]) -> Result<()> + 'a;

/// Takes the values of parameters: numbers, or codes of 4 bits as they are in a file.
pub trait Receive {
    /// Takes elements of a parameter, some after others, with the number of the first of them.
    ///
    /// # Errors
    /// Elements that are not taken.
    fn numbers(&mut self, param: &ParamSpec, first: usize, part: &[f32]) -> Result<()>;

    /// How rows of codes of 4 bits of a parameter are taken; none where numbers are wanted.
    fn groups(&self, _param: &ParamSpec) -> Option<DequantizeGroups> {
        None
    }

    /// Takes rows of such codes and their scales, some after others, with the number of the first row.
    ///
    /// # Errors
    /// Codes that are not taken.
    fn codes(&mut self, param: &ParamSpec, row: usize, codes: &[u8], scales: &[f32]) -> Result<()>;
}

/// Takes numbers alone.
pub(super) struct Numbers<'a, 'b>(pub &'a mut Take<'b>);

impl Receive for Numbers<'_, '_> {
    fn numbers(&mut self, param: &ParamSpec, first: usize, part: &[f32]) -> Result<()> {
        (self.0)(param, first, part)
    }

    fn codes(&mut self, param: &ParamSpec, _: usize, _: &[u8], _: &[f32]) -> Result<()> {
        Err(lessen_base::Error::internal(format!(
            "`{}` is taken as numbers",
            param.name
        )))
    }
}

//! Reading the parameters of a model one by one.

use std::path::Path;

use super::dtype::WeightDtype;
use super::found::Found;
use super::unread::check_unread;
use crate::params::ParamSpec;
use crate::weights::Weight;
use lessen_base::Result;

/// A checkpoint that is open and has all parameters of a model; none of them is in memory.
pub struct Reader {
    found: Found,
}

impl Reader {
    /// Opens the checkpoint in a folder, one without adapters, for these parameters.
    ///
    /// # Errors
    /// A missing, truncated or damaged file, a missing parameter, two different tensors that the model ties,
    /// tensors that nothing reads and without which the model answers otherwise.
    pub fn open(folder: &Path, params: &[ParamSpec]) -> Result<Reader> {
        let mut found = Found::of(folder, params, &|_| false)?;
        found.check_tied(params)?;
        check_unread(&found, params, folder.into())?;
        Ok(Reader { found })
    }

    /// The dtype of the parameters; `f32` where they have several, or another one.
    pub fn dtype(&self) -> WeightDtype {
        let dtypes = self.found.dtypes();
        let is_all = |dtype: &WeightDtype| dtypes.iter().all(|own| *own == dtype.stored());
        WeightDtype::ALL.into_iter().find(is_all).unwrap_or_default()
    }

    /// Reads one of the parameters.
    ///
    /// # Errors
    /// A wrong shape, an unknown dtype, a file that cannot be read.
    pub fn read(&mut self, param: &ParamSpec) -> Result<Weight> {
        let mut data = Vec::with_capacity(param.shape.iter().product());
        self.found.visit(param, &mut |_, _, part| {
            data.extend_from_slice(part);
            Ok(())
        })?;
        Ok(Weight {
            shape: param.shape.clone(),
            data,
        })
    }
}

//! The weights of a classifier of images in an ONNX file.

use std::path::Path;

use super::found::Rest;
use super::receive::Take;
use crate::names::is_taken;
use crate::params::ParamSpec;
use lessen_base::{Error, Result};
use lessen_onnx::NetworkFile;

/// Shows the elements of parameters in an ONNX file to `take`, as [`load_with`](super::load_with).
///
/// # Errors
/// A file that cannot be read; a parameter that it does not have, or has in another shape, and may not lack.
pub(super) fn load_onnx(
    path: &Path,
    params: &[ParamSpec],
    may_lack: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<Rest> {
    let file = NetworkFile::open(path, &is_taken)?;
    let has = |param: &&ParamSpec| file.shape(&param.name) == Some(&param.shape[..]);
    let lacking: Vec<&ParamSpec> = params.iter().filter(|param| !has(param)).collect();
    if let Some(param) = lacking.iter().find(|param| !may_lack(&param.name)) {
        let ParamSpec { name, shape, .. } = param;
        return Err(Error::user(format!(
            "{} has no initializer `{name}` of shape {shape:?}, which the model needs; is it of another model?",
            path.display()
        )));
    }
    for param in params.iter().filter(has) {
        let mut first = 0;
        file.visit(&param.name, &mut |part| {
            take(param, first, part)?;
            first += part.len();
            Ok(())
        })?;
    }
    Ok(Rest {
        missing: lacking.into_iter().map(|param| param.name.clone()).collect(),
        ..Rest::default()
    })
}

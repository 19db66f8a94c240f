//! Arrays of the crate `ndarray` as host arrays.

use lessen_base::Error;
use ndarray::{ArrayBase, Data, Dimension};

use crate::host::Host;

/// The elements of an array, view or copy-on-write array, without a copy; of another layout than the row-major one,
/// `as_standard_layout` of `ndarray` makes an array in it.
///
/// # Errors
/// Elements that do not lie one after another in row-major order.
///
/// ```
/// use lessen_graph::Host;
/// use ndarray::array;
///
/// let x = array![[1.0f32, 2.0], [3.0, 4.0]];
/// assert_eq!(Host::try_from(&x)?, Host::F32(&[1.0, 2.0, 3.0, 4.0]));
/// assert!(Host::try_from(&x.t()).is_err());
/// assert_eq!(Host::try_from(&x.t().as_standard_layout())?, Host::F32(&[1.0, 3.0, 2.0, 4.0]));
/// # Ok::<(), lessen_base::Error>(())
/// ```
impl<'a, T, S, D> TryFrom<&'a ArrayBase<S, D>> for Host<'a>
where
    T: 'a,
    S: Data<Elem = T>,
    D: Dimension,
    Host<'a>: From<&'a [T]>,
{
    type Error = Error;

    fn try_from(array: &'a ArrayBase<S, D>) -> Result<Host<'a>, Error> {
        match array.as_slice() {
            Some(elements) => Ok(Host::from(elements)),
            None => Err(Error::user(format!(
                "the elements of an array of shape {:?} do not lie in row-major order; give its as_standard_layout()",
                array.shape()
            ))),
        }
    }
}

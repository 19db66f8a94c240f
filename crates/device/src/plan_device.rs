//! What plans are made for.

use lessen_base::Result;

use crate::backend::Backend;
use crate::shared::SharedDevice;

/// What plans are made for: a device, or a handle of one, which is locked meanwhile.
pub trait PlanDevice {
    /// Calls `plan` with the device, for this thread alone.
    ///
    /// # Errors
    /// The errors of `plan`, and those of [`SharedDevice::hold`].
    fn planned<R>(&self, plan: impl FnOnce(&dyn Backend) -> Result<R>) -> Result<R>;

    /// Calls `measure` with the device, for this thread alone.
    ///
    /// # Errors
    /// The errors of `measure`, and those of [`SharedDevice::hold`].
    fn measured<R>(&mut self, measure: impl FnOnce(&mut dyn Backend) -> Result<R>) -> Result<R>;
}

impl PlanDevice for SharedDevice {
    #[track_caller]
    fn planned<R>(&self, plan: impl FnOnce(&dyn Backend) -> Result<R>) -> Result<R> {
        plan(&*self.hold()?)
    }

    #[track_caller]
    fn measured<R>(&mut self, measure: impl FnOnce(&mut dyn Backend) -> Result<R>) -> Result<R> {
        measure(&mut *self.hold()?)
    }
}

impl PlanDevice for dyn Backend + '_ {
    fn planned<R>(&self, plan: impl FnOnce(&dyn Backend) -> Result<R>) -> Result<R> {
        plan(self)
    }

    fn measured<R>(&mut self, measure: impl FnOnce(&mut dyn Backend) -> Result<R>) -> Result<R> {
        measure(self)
    }
}

impl<B: Backend> PlanDevice for B {
    fn planned<R>(&self, plan: impl FnOnce(&dyn Backend) -> Result<R>) -> Result<R> {
        plan(self)
    }

    fn measured<R>(&mut self, measure: impl FnOnce(&mut dyn Backend) -> Result<R>) -> Result<R> {
        measure(self)
    }
}

//! The flag of the precision of a saved model.

use super::device_args::DeviceArgs;
use crate::tell;
use clap::Args;
use lessen_base::Result;
use lessen_compile::Precision;
use lessen_saved::saved_run::SavedRun;

/// The precision to compute in.
#[derive(Args)]
pub struct PrecisionArgs {
    /// Dtype of the operands of products and of the weights in memory; bf16 takes half the memory, int8 a quarter, with
    /// a scale for each row, int4 less than a sixth, with one for each 32 elements [default: products as in training,
    /// weights in f32]
    #[arg(long, value_name = "DTYPE", value_parser = ["f32", "bf16", "int8", "int4"])]
    precision: Option<String>,
}

impl PrecisionArgs {
    /// The precision, if it is given.
    pub fn given(&self) -> Option<Precision> {
        self.precision.as_deref().map(|precision| match precision {
            "bf16" => Precision::Bf16,
            "int8" => Precision::Int8,
            "int4" => Precision::Int4,
            _ => Precision::F32,
        })
    }

    /// Sets the precision of a model; warns where products of integers take longer than on other devices.
    ///
    /// # Errors
    /// A device that is not known.
    pub fn set(&self, run: &mut SavedRun, device: &DeviceArgs) -> Result<()> {
        if let Some(precision) = self.given() {
            run.set_precision(precision);
        }
        if run.multiplies_integers() {
            device.warn_of_integers()?;
        }
        Ok(())
    }

    /// [`PrecisionArgs::set`] of a model that computes many rows at once; warns where `f32` would be faster than
    /// `bf16`, too.
    ///
    /// # Errors
    /// A device that cannot be opened.
    pub fn set_and_warn(&self, run: &mut SavedRun, device: &DeviceArgs) -> Result<()> {
        self.set(run, device)?;
        if run.widens_bf16()? {
            self.warn();
        }
        Ok(())
    }

    /// Warns of a device on which `f32` would be faster than `bf16`.
    pub fn warn(&self) {
        tell(
            "warning: this device has no instructions for bf16: products widen it, which takes longer than --precision \
             f32",
        );
    }
}

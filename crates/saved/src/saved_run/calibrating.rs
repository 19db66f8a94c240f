//! Fixed ranges of the inputs of a saved model's layers: from data, or as they were trained.

use super::SavedRun;
use super::evaluation::DEV;
use crate::calibration::{Calibrated, EXAMPLES, Method, calibrate};
use lessen_base::{Error, Result};
use lessen_nn::quantization::{INPUT_FACTOR, INPUT_RANGE};
use lessen_nn::{Bits, Ranges};
use lessen_task::recipe::config::Config;
use lessen_train::Session;
use std::collections::BTreeMap;
use std::path::Path;

/// The last code of either sign of 8 bits.
const LAST: f32 = 127.0;

impl SavedRun {
    /// The scales of the inputs of all layers that follow from data: a file as a whole, or the split `dev` of a folder;
    /// and the remarks on the data, a sentence each.
    ///
    /// # Errors
    /// Data that is missing, damaged, or does not fit the model, and inputs that are not finite.
    pub fn calibrate(&self, data: &Path, method: Method) -> Result<(Calibrated, Vec<String>)> {
        let settings = self.settings_for(Some(data))?;
        let config = Config::of(settings, self.config.phase.as_deref())?;
        let config = config.for_evaluation().for_whole_data();
        let task = self.assembled(config)?;
        let source = task.evaluation(DEV)?;
        let mut session = self.session()?;
        let found = calibrate(&mut session, &self.saved.model, source.as_ref(), method, EXAMPLES)
            .map_err(|error| Error::user(format!("{}: {}", data.display(), error.message())))?;
        Ok((found, task.data()?.corpus().remarks().to_vec()))
    }

    /// The scales of the inputs of layers that a training for integers of 8 bits has left; none for a model that has
    /// dynamic ranges, or was not trained for integers.
    ///
    /// # Errors
    /// A layer without a range, as of a run that ended before the first step, or with one that is not finite.
    pub(crate) fn trained_scales(&self) -> Result<Option<BTreeMap<String, f32>>> {
        let model = &self.saved.model;
        let own = model.quantization().filter(|own| own.ranges != Ranges::Dynamic);
        let Some(own) = own else { return Ok(None) };
        let session = self.session()?;
        let number = |session: &Session, layer: &str, name: &str| -> Result<f32> {
            let found = session.weight(&format!("{layer}.{name}"))?;
            Ok(found.first().copied().unwrap_or(f32::NAN))
        };
        let mut scales = BTreeMap::new();
        for layer in model.layers().into_iter().filter(|layer| own.of(layer) != Bits::FLOAT) {
            let range = number(&session, &layer, INPUT_RANGE)?;
            let factor = match own.ranges {
                Ranges::Learned => number(&session, &layer, INPUT_FACTOR)?,
                _ => 1.0,
            };
            let scale = (range * factor).abs() / LAST;
            if !(scale.is_finite() && scale > 0.0) {
                return Err(Error::user(format!(
                    "{} has the range {} for the input of the layer `{layer}`; train it for at least a step, or name data \
                     with --calibrate",
                    self.source().display(),
                    range * factor
                )));
            }
            scales.insert(layer, scale);
        }
        Ok(Some(scales))
    }
}

//! The initializers of a model as arrays in memory, each read when it is asked for first.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use lessen_base::Result;

use lessen_onnx::Model;
use lessen_onnx::Tensor;
use lessen_onnx::host::{HostTensor, HostValue};

/// The initializers of a model.
pub(super) struct Constants {
    model: Arc<Model>,
    /// Names of arrays that are no initializers.
    more: HashSet<String>,
    read: Mutex<HashMap<String, HostValue>>,
}

impl Constants {
    /// The initializers of a model and other arrays by name.
    pub(super) fn new(model: Arc<Model>, more: HashMap<String, HostValue>) -> Constants {
        Constants {
            model,
            more: more.keys().cloned().collect(),
            read: Mutex::new(more),
        }
    }

    /// Whether a name is that of an initializer, or of another array that does not change.
    pub(super) fn has(&self, name: &str) -> bool {
        self.model.initializers.contains_key(name) || self.more.contains(name)
    }

    /// The initializer of this name, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn get(&self, name: &str) -> Result<Option<HostValue>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = read.get(name) {
            return Ok(Some(value.clone()));
        }
        let Some(tensor) = self.model.initializers.get(name) else {
            return Ok(None);
        };
        let bytes = bytes(&self.model, tensor)?;
        let value = HostValue::from(HostTensor::of_bytes(&tensor.shape, tensor.element, &bytes)?);
        read.insert(name.to_string(), value.clone());
        Ok(Some(value))
    }
}

/// The bytes of a tensor's elements.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn bytes(model: &Model, tensor: &Tensor) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    tensor.for_each_block(&model.source, &mut |block| {
        all.extend_from_slice(block);
        Ok(())
    })?;
    Ok(all)
}

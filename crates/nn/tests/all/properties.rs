//! Properties of reading untrusted files, shared by the seeded tests and the fuzz targets.

use std::fs;
use std::path::Path;

use lessen_nn::{Model, ParamSpec, checkpoint};

/// Any `model.safetensors` is refused with one sentence or gives parameters of the right shapes. Returns whether it was
/// read.
pub fn checkpoint_is_read_or_refused(dir: &Path, params: &[ParamSpec], bytes: &[u8]) -> bool {
    fs::write(dir.join("model.safetensors"), bytes).unwrap();
    match checkpoint::load(dir, params, &|_| false) {
        Ok(loaded) => {
            for param in params {
                let weight = &loaded.weights[&param.name];
                assert_eq!(weight.shape, param.shape, "{}", param.name);
                assert_eq!(
                    weight.data.len(),
                    param.shape.iter().product::<usize>(),
                    "{}",
                    param.name
                );
            }
            true
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            false
        }
    }
}

/// Any `config.json` is refused with one sentence or gives a model that can be traced and written back. Returns whether
/// it was read.
pub fn config_is_read_or_refused(dir: &Path, bytes: &[u8]) -> bool {
    fs::write(dir.join("config.json"), bytes).unwrap();
    match Model::from_dir(dir) {
        Ok(model) => {
            assert!(!model.parameters().is_empty());
            let written = serde_json::to_vec(&model.config_json()).unwrap();
            fs::write(dir.join("config.json"), written).unwrap();
            let again = Model::from_dir(dir).unwrap();
            assert_eq!(again.config_json(), model.config_json());
            true
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(!error.to_string().contains('\n'), "{error} is one sentence");
            false
        }
    }
}

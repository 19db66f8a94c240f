//! The precision that the folder of a model says, and sessions in a precision.

use lessen_base::Result;
use lessen_compile::Precision;
use lessen_device::Backend;
use lessen_nn::checkpoint::{ModelFolder, has_integer_products, has_packed_weights};
use lessen_nn::{FloatsBeside, Int4Storage, Int8Storage, PackedStorage, ParamSpec, ParamStorage, checkpoint};
use lessen_train::Session;
use std::path::Path;
use std::sync::Arc;

/// The precision of products, and who said it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chosen {
    /// The folder of the model, which was quantized for it.
    Folder(Precision),
    /// Who asked for the model.
    Asked(Precision),
}

impl Chosen {
    /// The precision that the folder of a model says: products of a model that was quantized take integers.
    pub fn of_folder(dir: &Path) -> Option<Chosen> {
        let own = if has_packed_weights(dir) {
            Some(Precision::Int4)
        } else {
            has_integer_products(dir).then_some(Precision::Int8)
        };
        own.map(Chosen::Folder)
    }

    /// The precision.
    pub fn precision(self) -> Precision {
        match self {
            Chosen::Folder(precision) | Chosen::Asked(precision) => precision,
        }
    }

    /// A session for inference with parameters of a folder, all of which are zeros.
    ///
    /// In 8 bits, matrices that the folder has in floats beside integers are `f32`. In 4 bits, those that it has in
    /// such codes keep them; all others have codes of 8 bits where the folder says the precision, and of 4 bits where
    /// that was asked for.
    ///
    /// # Errors
    /// A file of the folder that is damaged, and memory that the device does not have.
    pub fn session(
        self,
        backend: Box<dyn Backend>,
        parameters: Vec<ParamSpec>,
        folder: ModelFolder<'_>,
    ) -> Result<Session> {
        let codec: Arc<dyn ParamStorage> = match self {
            Chosen::Folder(Precision::Int8) | Chosen::Asked(Precision::Int8) => {
                let floats = checkpoint::stored_floats(folder, &parameters)?;
                let rest = Int8Storage;
                Arc::new(FloatsBeside { floats, rest })
            }
            Chosen::Folder(Precision::Int4) => {
                let groups = checkpoint::stored_groups(folder, &parameters)?;
                let rest = Int8Storage;
                Arc::new(PackedStorage { groups, rest })
            }
            Chosen::Asked(Precision::Int4) => {
                let groups = checkpoint::stored_groups(folder, &parameters)?;
                let rest = Int4Storage::default();
                Arc::new(PackedStorage { groups, rest })
            }
            Chosen::Folder(precision) | Chosen::Asked(precision) => {
                return Session::for_inference(backend, parameters, precision);
            }
        };
        let mut session = Session::stored(backend, parameters, codec)?;
        session.set_precision(self.precision());
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantization::quantize_folder;
    use crate::saved_run::AdapterOptions;
    use lessen_cpu::CpuBackend;
    use lessen_nn::Model;
    use lessen_nn::checkpoint::Integers;
    use lessen_task::device::NewBackend;
    use lessen_task::first_weights;
    use lessen_task::folder::WhichModel;

    /// The parameters of the folder of a model that embeds, in a session of a precision.
    fn weights(dir: &Path, chosen: Chosen) -> Vec<(String, Vec<usize>, Vec<f32>)> {
        let folder = ModelFolder::from(dir);
        let parameters = Model::from_dir_for_states(folder).unwrap().parameters_of_states();
        let backend = Box::new(CpuBackend::new(1).unwrap());
        let mut session = chosen.session(backend, parameters.clone(), folder).unwrap();
        first_weights::read(&mut session, &parameters, folder, &|_| false, None).unwrap();
        let weight = |param: ParamSpec| {
            let data = session.weight(&param.name).unwrap();
            (param.name, param.shape, data)
        };
        parameters.into_iter().map(weight).collect()
    }

    #[test]
    fn matrices_beside_integers_of_8_bits_stay_in_floats() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embeddings/cls");
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("small");
        let how = (Integers::Eight, None);
        let device = NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)));
        let found = quantize_folder(&source, WhichModel::Last, AdapterOptions::default(), how, &out, &device);
        let found = found.unwrap();
        assert!(!found.left.is_empty() && !found.quantized.is_empty());
        let floats = weights(&source, Chosen::Asked(Precision::F32));
        for chosen in [Chosen::Folder(Precision::Int8), Chosen::Asked(Precision::Int8)] {
            for ((name, shape, own), (_, _, expected)) in weights(&out, chosen).iter().zip(&floats) {
                let is_same = own == expected;
                let is_rounded = found.quantized.contains(name);
                assert!(is_same != is_rounded, "{name} {shape:?}: {chosen:?}");
            }
        }
        // Of a folder of floats all matrices are rounded.
        let rounded = weights(&source, Chosen::Asked(Precision::Int8));
        for ((name, shape, own), (_, _, expected)) in rounded.iter().zip(&floats) {
            assert_eq!(own == expected, shape.len() < 2, "{name}");
        }
    }
}

//! Images as a run reads them.

use super::SavedModel;
use crate::folder::manifest::{DataDigest, DataDigests};
use crate::recipe::config::Config;
use lessen_base::Result;
use lessen_data::images::{ImageBatches, ImageData, ImageSet, Options, Preprocessing, read as read_images};
use lessen_data::{Order, Source};
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;
use std::sync::Arc;

/// Labelled images.
pub struct Images {
    data: ImageData,
}

impl Images {
    /// Reads a data set; `classes` are those of the model that it is for, and `saved` is this model where it is saved.
    ///
    /// # Errors
    /// Data that is missing or damaged.
    pub(super) fn read(
        path: &Path,
        config: &Config,
        classes: Option<Vec<String>>,
        saved: Option<&SavedModel>,
    ) -> Result<Images> {
        let data = &config.data;
        let channels = match saved.and_then(|saved| saved.model.image()) {
            Some([.., channels]) => Some(channels),
            None => given_channels(config)?,
        };
        let options = Options {
            channels,
            dev: data.dev.clone(),
            test: data.test.clone(),
            held_out: data.held_out,
            held_out_seed: data.held_out_seed,
            classes,
        };
        let data = read_images(path, &options)?;
        Ok(Images { data })
    }

    /// The names of the classes.
    pub(super) fn names(&self) -> &[String] {
        &self.data.names
    }

    /// What there is to say of how it was read.
    pub(super) fn remarks(&self) -> &[String] {
        &self.data.remarks
    }

    /// The number of each training image's class.
    pub(super) fn labels(&self) -> &[i32] {
        self.data.train.labels()
    }

    /// How images become what a model sees: as the checkpoint to start from has it, where it says so and no key says
    /// otherwise; else with mean and deviation of the training images where none are given.
    ///
    /// # Errors
    /// An image or a file of the checkpoint that cannot be read.
    pub(super) fn preprocessing(&self, config: &Config) -> Result<Preprocessing> {
        let train = &self.data.train;
        if !config.image.is_preprocessing_given()
            && let Some(own) = of_checkpoint(config)?.filter(|own| own.mean.len() == train.channels())
        {
            return Ok(own);
        }
        let preprocessing = config.image.preprocessing(self.data.size, train.channels());
        match config.image.is_normalized_by_data() {
            true => preprocessing.normalized_by(train),
            false => Ok(preprocessing),
        }
    }

    /// What tells the data from other data: of images in files, their names and sizes.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub(super) fn digests(&self) -> Result<DataDigests> {
        let of = |set: &ImageSet| {
            Ok(DataDigest {
                size: set.len() as u64,
                crc: set.checksum()?,
            })
        };
        Ok(DataDigests {
            train: of(&self.data.train)?,
            dev: of(&self.data.dev)?,
        })
    }

    /// The batches of training, augmented.
    ///
    /// # Errors
    /// Fewer images than a batch has.
    pub(super) fn training(
        &self,
        config: &Config,
        preprocessing: &Preprocessing,
        order: Order,
    ) -> Result<Arc<dyn Source>> {
        let augment = config.image.augmentation(config.train.seed);
        Ok(Arc::new(ImageBatches::training(
            Arc::new(self.data.train.clone()),
            preprocessing.clone(),
            augment,
            self.data.names.len(),
            config.train.batch,
            order,
        )?))
    }

    /// The batches of a split in order.
    ///
    /// # Errors
    /// A split that the data does not have.
    pub(super) fn evaluation(
        &self,
        config: &Config,
        preprocessing: &Preprocessing,
        split: &str,
    ) -> Result<Arc<dyn Source>> {
        let set = Arc::new(self.data.split(split)?.clone());
        let batches = ImageBatches::evaluation(set, preprocessing.clone(), config.train.batch)?;
        Ok(Arc::new(batches))
    }
}

/// Channels that settings ask for: as many as mean and deviation are given for, or as the checkpoint to start from has;
/// none where they are those of the data.
fn given_channels(config: &Config) -> Result<Option<usize>> {
    match (config.image.channels, &config.image.mean) {
        (Some(channels), _) => Ok(Some(channels)),
        (None, Some(mean)) => Ok(Some(mean.0.len())),
        (None, None) => Ok(of_checkpoint(config)?.map(|own| own.mean.len())),
    }
}

/// How images become what the checkpoint to start from sees, where it says so.
fn of_checkpoint(config: &Config) -> Result<Option<Preprocessing>> {
    config.init().map_or(Ok(None), preprocessing_of)
}

/// How images become what the model of a folder sees, where it says so, or the model that its adapters belong to.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn preprocessing_of(folder: ModelFolder<'_>) -> Result<Option<Preprocessing>> {
    if let Some(own) = Preprocessing::load(folder.path())? {
        return Ok(Some(own));
    }
    folder.base()?.map_or(Ok(None), |base| Preprocessing::load(&base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;
    use crate::recipe::keys::DataFormat;
    use crate::task::corpus::Corpus;
    use crate::task::goal::Goal;
    use lessen_data::Field;
    use std::fs;

    /// Six images of 1 x 2 bytes in two classes, and two of them for evaluations.
    fn config(dir: &Path) -> Config {
        let idx = |name: &str, shape: &[u8], bytes: &[u8]| {
            let mut file = vec![0, 0, 8, shape.len() as u8];
            file.extend(shape.iter().flat_map(|size| [0, 0, 0, *size]));
            file.extend(bytes);
            fs::write(dir.join(name), file).unwrap();
        };
        idx(
            "train-images-idx3-ubyte",
            &[6, 1, 2],
            &[0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255],
        );
        idx("train-labels-idx1-ubyte", &[6], &[0, 0, 0, 0, 1, 1]);
        idx("t10k-images-idx3-ubyte", &[2, 1, 2], &[0, 255, 255, 0]);
        idx("t10k-labels-idx1-ubyte", &[2], &[1, 0]);
        fs::write(dir.join("classes.txt"), "left\nright\n").unwrap();
        let mut config = Config::new(recipe::load("adder").unwrap()).unwrap();
        config.data.format = DataFormat::Images;
        config.data.path = Some(dir.to_path_buf());
        config.data.held_out = 0.0;
        config.train.batch = 4;
        config
    }

    #[test]
    fn images_are_classes_in_batches_with_the_normalization_of_the_training_data() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let corpus = Corpus::read(&config, None).unwrap();
        let Goal::Classes(names, _) = corpus.goal() else {
            panic!("classes")
        };
        assert_eq!(
            (names, corpus.class_counts(2)),
            (vec!["left".into(), "right".into()], Some(vec![4, 2]))
        );
        let reader = corpus.reader(&config).unwrap();
        assert_eq!(reader.preprocessing().unwrap().mean, [0.5]);
        assert!(reader.tokenizer().err().unwrap().to_string().contains("reads images"));
        let dev = corpus.evaluation(&config, &reader, "dev").unwrap();
        let batch = dev.eval_batch(0).unwrap();
        let images = batch.get("images").unwrap();
        assert_eq!(images.shape(), [4, 1, 2, 1]);
        assert_eq!(images.as_f32().unwrap(), [-1.0, 1.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((batch.examples, dev.eval_batches()), (2, 1));
        let training = corpus.training(&config, &reader).unwrap();
        assert_eq!(training.batches_per_epoch(), 1);
        let sentence = corpus.evaluation(&config, &reader, "valid").err().unwrap().to_string();
        assert!(sentence.contains("no split called valid"), "{sentence}");
        // What a model reads is kept beside it.
        reader.save(dir.path()).unwrap();
        let saved = Preprocessing::load(dir.path()).unwrap();
        assert_eq!(saved.as_ref(), reader.preprocessing().ok());
    }

    #[test]
    fn settings_decide_mixing_and_normalization() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.image.mixup = 1.0;
        config.image.mean = Some("0,0,0".parse().unwrap());
        config.image.std = Some("1,1,1".parse().unwrap());
        let corpus = Corpus::read(&config, None).unwrap();
        assert!(
            corpus.remarks()[0].contains("such images are converted to colour"),
            "{:?}",
            corpus.remarks()
        );
        let reader = corpus.reader(&config).unwrap();
        let batch = corpus.training(&config, &reader).unwrap().batch(0).unwrap();
        assert_eq!(batch.get("images").map(Field::shape), Some(&[4, 1, 2, 3][..]));
        assert_eq!(batch.get("targets").map(Field::shape), Some(&[4, 2][..]));
    }

    #[test]
    fn other_images_have_another_digest() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let digests = || Corpus::read(&config, None).unwrap().digests().unwrap();
        let before = digests();
        assert_eq!((before.train.size, before.dev.size, before), (6, 2, digests()));
        let path = dir.path().join("t10k-labels-idx1-ubyte");
        let mut labels = fs::read(&path).unwrap();
        *labels.last_mut().unwrap() = 1;
        fs::write(&path, labels).unwrap();
        assert_ne!(digests(), before);
    }
}

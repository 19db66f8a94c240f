//! Labelled images: from files to augmented, normalized batches.
//!
//! ```text
//! idx, CIFAR, .npz, .npy ─▶ in memory ┐
//! folder of `lessen condense` ─▶ numbers├▶ ImageSet ─▶ Augmentation ─▶ Preprocessing ─▶ mixing ─▶ Batch
//! folders of PNG and JPEG ─▶ in files ┘  (decoded when asked for)
//! ```
//!
//! - [`read()`] finds format, splits and classes of a path.
//! - [`Preprocessing`] says what a model sees of an image. It is kept beside the model.
//! - [`ImageBatches`] is a [`Source`](crate::Source): images of any step are functions of seed, epoch and example.
//! - [`ImageSource`] gives images with labels one by one to what learns from them; [`LabelledImages`] is one in memory.
//! - [`idx`] and [`npy`] read single arrays.

mod affine;
mod annotated;
mod arrays;
mod augment;
mod batches;
mod cifar;
mod class_folders;
pub mod condensed;
mod crop;
mod decode;
mod files_digest;
pub mod idx;
mod image;
mod in_memory;
mod labelled;
mod mix;
mod normalization;
pub mod npy;
mod parts;
mod preprocessing;
mod rand_augment;
mod read;
mod resize;
mod set;
mod tones;
mod unpack;

pub use self::augment::{Augmentation, NoAugmentation};
pub use self::batches::{Augment, ImageBatches};
pub use self::crop::{mirror, shift};
pub use self::decode::{png, read as read_image};
pub use self::files_digest::FilesDigest;
pub use self::image::Image;
pub use self::in_memory::{ImageLabels, ImagesInMemory};
pub use self::labelled::{ImageSource, LabelledImages};
pub use self::mix::Mixing;
pub use self::normalization::Normalization;
pub use self::preprocessing::{PreparedImages, Preprocessing, Resize};
pub use self::read::{ImageData, Options, read, read_from};
pub use self::resize::Filter;
pub use self::set::ImageSet;

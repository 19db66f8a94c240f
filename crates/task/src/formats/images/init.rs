//! What the model to start from says of images.

use crate::reader::preprocessing_of;
use crate::recipe::config::Config;
use lessen_base::Result;
use lessen_data::images::Preprocessing;
use lessen_nn::names::is_taken;
use lessen_onnx::NetworkFile;

/// Number of channels that settings ask for: the channels for which mean and deviation are given, or the channels of
/// the checkpoint to start from; none where the data decides.
pub(super) fn given_channels(config: &Config) -> Result<Option<usize>> {
    match (config.image.channels, &config.image.mean) {
        (Some(channels), _) => Ok(Some(channels)),
        (None, Some(mean)) => Ok(Some(mean.0.len())),
        (None, None) => match network_of(config)? {
            Some(file) => Ok(Some(file.network().channels())),
            None => Ok(of_checkpoint(config)?.map(|own| own.mean.len())),
        },
    }
}

/// The ONNX file to start from, if it is one.
///
/// # Errors
/// A file that is no classifier of images.
pub fn network_of(config: &Config) -> Result<Option<NetworkFile>> {
    let file = config.init().filter(|init| init.is_onnx_file());
    file.map(|file| NetworkFile::open(file.path(), &is_taken)).transpose()
}

/// How images become what the checkpoint to start from sees, where it says so.
pub(super) fn of_checkpoint(config: &Config) -> Result<Option<Preprocessing>> {
    let folder = config.init().filter(|init| !init.is_onnx_file());
    folder.map_or(Ok(None), preprocessing_of)
}

/// Height and width of the images of the ONNX file to start from, where it is one and says them.
///
/// # Errors
/// As for [`network_of`].
pub(super) fn size_of_network(config: &Config) -> Result<Option<[usize; 2]>> {
    let size = network_of(config)?.map(|file| file.network().size());
    Ok(match size {
        Some([Some(height), Some(width)]) => Some([height, width]),
        _ => None,
    })
}

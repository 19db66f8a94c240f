//! What the programs `mnist` and `mnist_predict` share: the model, and its images.

use lessen::data::images::idx;
use lessen::prelude::*;
use std::path::Path;

/// Pixels of an image.
pub const PIXELS: usize = 28 * 28;

/// Scores of the ten digits for images `f32[rows, 784]` with values from 0 to 1.
pub fn scores(cx: Cx, rows: usize) -> Tensor {
    let init = Init::Normal { std: 0.05 };
    let x = cx.input("images", DType::F32, &[rows, PIXELS]);
    let x = linear(cx, "first", x, 128, init).gelu();
    linear(cx, "digits", cx.dropout(x, 0.1), 10, init)
}

/// The images of a file of the format idx, packed by gzip or not: `f32[images, 784]`, from 0 to 1.
pub fn images(path: &Path) -> Result<Field> {
    let idx::Idx { shape, bytes } = idx::read(path)?;
    match shape[..] {
        [count, 28, 28] => {
            let pixels = bytes.iter().map(|&byte| f32::from(byte) / 255.0);
            Ok(Field::f32([count, PIXELS], pixels.collect()))
        }
        _ => Err(Error::user(format!(
            "{} holds no images of 28 x 28 pixels",
            path.display()
        ))),
    }
}

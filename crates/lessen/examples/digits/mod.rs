//! What the programs `mnist` and `mnist_predict` share: the model, and the files that MNIST comes in.

use lessen::prelude::*;
use std::fs;
use std::path::Path;

/// Pixels of an image.
pub const PIXELS: usize = 28 * 28;

/// Scores of the ten digits for images `f32[rows, 784]` with values from 0 to 1.
pub fn scores<'g>(cx: &Context<'g>, rows: usize) -> Tensor<'g> {
    let init = Init::Normal { std: 0.05 };
    let x = cx.input("images", DType::F32, &[rows, PIXELS]);
    let x = linear(cx, "first", x, 128, init).gelu();
    linear(cx, "digits", cx.dropout(x, 0.1), 10, init)
}

/// The images of a file of the format idx: after a number for the kind of elements, the number of axes and the size of
/// each come bytes. `f32[images, 784]`, from 0 to 1.
pub fn images(path: &Path) -> Result<Field> {
    let (shape, bytes) = idx(path)?;
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

/// Sizes of the axes and elements of a file of the format idx that holds bytes.
pub fn idx(path: &Path) -> Result<(Vec<usize>, Vec<u8>)> {
    let wrong = |what: &str| Error::user(format!("{} {what}", path.display()));
    let mut bytes = fs::read(path).map_err(|error| wrong(&format!("cannot be read ({error})")))?;
    let axes = match bytes[..] {
        [0, 0, 8, axes, ..] => usize::from(axes),
        _ => return Err(wrong("is no idx file of bytes; unpack it if its name ends with .gz")),
    };
    let header = 4 + 4 * axes;
    let size = |axis: usize| Some(u32::from_be_bytes(bytes.get(4 + 4 * axis..8 + 4 * axis)?.try_into().ok()?) as usize);
    let shape: Option<Vec<usize>> = (0..axes).map(size).collect();
    let shape = shape.filter(|shape| header.checked_add(shape.iter().product()) == Some(bytes.len()));
    let shape = shape.ok_or_else(|| wrong("is cut off, or longer than it says"))?;
    Ok((shape, bytes.split_off(header)))
}

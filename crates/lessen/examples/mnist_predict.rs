//! A program of its own that asks a saved model: `cargo run --release --example mnist_predict -- CHECKPOINT IMAGES`
//! prints the digit of each image in a file of the format idx, and how sure the model is. It knows the model function
//! and the checkpoint that `mnist` left, no trainer.

mod digits;

use digits::{PIXELS, images, scores};
use lessen::prelude::*;
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [checkpoint, path] = &arguments[..] else {
        return Err(Error::user("name the folder of a checkpoint and a file with images"));
    };
    let images = images(Path::new(path))?;
    let pixels = images.as_f32().unwrap_or_default();
    // One image at a time; a larger number of rows asks about several at once.
    let (session, ask) = Session::open(device()?, Path::new(checkpoint), |cx| {
        vec![("shares", scores(cx, 1).softmax())]
    })?;
    for image in pixels.chunks(PIXELS) {
        let results = session.run(ask, &[("images", Host::F32(image))])?;
        let shares = results.f32("shares")?;
        let digit = (0..shares.len()).fold(0, |best, at| if shares[at] > shares[best] { at } else { best });
        println!("{digit} {:.3}", shares[digit]);
    }
    Ok(())
}

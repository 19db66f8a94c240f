//! Images in files of the formats PNG and JPEG.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use lessen_base::{Error, Result};

use super::image::Image;
use crate::files::unreadable;

/// Endings of the names of files that are read.
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// Pixels that a byte of a file can stand for at most: of a PNG with a bit for each pixel, 8 in a byte, which deflate
/// packs 1032 times.
const PIXELS_OF_A_BYTE: u64 = 8 * 1032;

/// Whether the name of a file is that of an image.
pub(super) fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    EXTENSIONS.contains(&&extension[..])
}

/// Reads a file, turned as its camera was; without transparency, and with 8 bits for each channel.
///
/// # Errors
/// A file that cannot be read, is of another format, is cut off or damaged, or claims to have more pixels than it can
/// hold.
pub fn read(path: &Path) -> Result<Image> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    from_bytes(&bytes, path)
}

/// Returns the content of a PNG file of an image.
pub fn png(image: &Image) -> Vec<u8> {
    let color = if image.channels() == 1 {
        ColorType::L8
    } else {
        ColorType::Rgb8
    };
    let mut out = Cursor::new(Vec::new());
    let (width, height) = (image.width() as u32, image.height() as u32);
    let written = image::write_buffer_with_format(&mut out, image.bytes(), width, height, color, ImageFormat::Png);
    // Memory takes everything, and the bytes of an image are as many as its sizes say.
    debug_assert!(written.is_ok(), "{written:?}");
    out.into_inner()
}

/// The height, width and channels of the image in a file, from its header alone.
///
/// # Errors
/// As [`read`], but for pixels that are damaged.
pub(super) fn shape(path: &Path) -> Result<[usize; 3]> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let mut decoder = decoder(&bytes, path)?;
    let (width, height) = decoder.dimensions();
    let [height, width] = match orientation(&mut decoder) {
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH => {
            [width, height]
        }
        _ => [height, width],
    };
    Ok([height as usize, width as usize, channels(decoder.color_type())])
}

/// The image in the content of a file of this path.
pub(super) fn from_bytes(bytes: &[u8], path: &Path) -> Result<Image> {
    let mut decoder = decoder(bytes, path)?;
    let orientation = orientation(&mut decoder);
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| damaged(path, &error.to_string()))?;
    image.apply_orientation(orientation);
    let (height, width) = (image.height() as usize, image.width() as usize);
    Ok(match channels(image.color()) {
        1 => Image::new([height, width, 1], image.into_luma8().into_raw()),
        _ => Image::new([height, width, 3], image.into_rgb8().into_raw()),
    })
}

/// What decodes a file, once its header is understood and found to be possible.
fn decoder<'a>(bytes: &'a [u8], path: &Path) -> Result<impl ImageDecoder + use<'a>> {
    let shown = path.display();
    let (format, bytes) = match bytes {
        [0x89, b'P', b'N', b'G', ..] => (ImageFormat::Png, bytes),
        [0xFF, 0xD8, 0xFF, ..] => match end_of_jpeg(bytes) {
            Some(end) => (ImageFormat::Jpeg, &bytes[..end]),
            None => return Err(damaged(path, "it ends within its pixels")),
        },
        _ => {
            return Err(Error::user(format!(
                "{shown} is neither a PNG nor a JPEG file; convert it, or take it away"
            )));
        }
    };
    let most = (bytes.len() as u64).saturating_mul(PIXELS_OF_A_BYTE);
    let mut limits = Limits::default();
    // Up to four channels of 16 bits, and what decoding takes beside them.
    limits.max_alloc = Some(most.saturating_mul(16));
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let decoder = reader
        .into_decoder()
        .map_err(|error| damaged(path, &error.to_string()))?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 || u64::from(width) * u64::from(height) > most {
        return Err(damaged(
            path,
            &format!(
                "it says that it has {height} x {width} pixels, which {} bytes cannot hold",
                bytes.len()
            ),
        ));
    }
    Ok(decoder)
}

/// The end of the first image of a JPEG, after its mark of the end (FF D9); none where it is cut off. What follows,
/// such as the film of a motion photo, is no part of the image.
///
/// A segment says its length, so that marks in it, as those of a small image in EXIF, do not count. Within pixels, FF
/// is followed by 0, by a number of restarts (D0 to D7), or by the next mark.
fn end_of_jpeg(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    let mut has_pixels = false;
    loop {
        // Bytes between segments and FF before a mark are filling.
        at += bytes
            .get(at..)?
            .windows(2)
            .position(|pair| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xFF))?;
        let mark = bytes[at + 1];
        at += 2;
        match mark {
            0xD9 if has_pixels => return Some(at),
            0x01 | 0xD0..=0xD9 => {}
            _ => {
                let length = bytes.get(at..at + 2)?;
                at += usize::from(u16::from_be_bytes([length[0], length[1]]));
                has_pixels |= mark == 0xDA;
            }
        }
    }
}

/// How the camera was held; upright where that is not known.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

fn channels(color: ColorType) -> usize {
    if color.has_color() { 3 } else { 1 }
}

fn damaged(path: &Path, reason: &str) -> Error {
    // Some reasons of decoders have several lines.
    let reason = reason.lines().next().unwrap_or_default().trim_end_matches('.');
    Error::user(format!(
        "{} is no sound image ({reason}); copy or download it again, or take it away",
        path.display()
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The content of a file.
    pub(crate) fn encoded(image: &Image, format: ImageFormat) -> Vec<u8> {
        let color = if image.channels() == 1 {
            ColorType::L8
        } else {
            ColorType::Rgb8
        };
        let mut out = Cursor::new(Vec::new());
        let (width, height) = (image.width() as u32, image.height() as u32);
        image::write_buffer_with_format(&mut out, image.bytes(), width, height, color, format).unwrap();
        out.into_inner()
    }

    /// An image with a slope of brightness in each direction.
    pub(crate) fn sloping([height, width, channels]: [usize; 3]) -> Image {
        let byte = |at: usize| {
            let (row, column) = (at / channels / width, at / channels % width);
            (4 * row + 3 * column + 40 * (at % channels)) as u8
        };
        Image::new(
            [height, width, channels],
            (0..height * width * channels).map(byte).collect(),
        )
    }

    fn refused(bytes: &[u8]) -> String {
        let error = from_bytes(bytes, Path::new("a/x.png")).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn files_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        for shape in [[5, 7, 3], [4, 3, 1]] {
            let image = sloping(shape);
            let path = dir.path().join("x.png");
            fs::write(&path, encoded(&image, ImageFormat::Png)).unwrap();
            assert_eq!(
                (read(&path).unwrap(), super::shape(&path).unwrap()),
                (image.clone(), shape)
            );
            fs::write(&path, encoded(&image, ImageFormat::Jpeg)).unwrap();
            let lossy = read(&path).unwrap();
            assert_eq!((lossy.shape(), super::shape(&path).unwrap()), (shape, shape));
            let pairs = lossy.bytes().iter().zip(image.bytes());
            assert!(pairs.clone().all(|(a, b)| a.abs_diff(*b) < 24), "{pairs:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_refused_wherever_it_ends() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let sound = encoded(&sloping([20, 20, 3]), format);
            // The last bytes of a PNG are a mark without content.
            for end in [0, 1, 4, sound.len() / 2, sound.len() - 20, sound.len() - 13] {
                let sentence = refused(&sound[..end]);
                assert!(sentence.starts_with("a/x.png is "), "{sentence}");
            }
        }
        assert!(refused(b"GIF89a").contains("neither a PNG nor a JPEG file; convert it"));
    }

    #[test]
    fn an_image_ends_at_its_end_whatever_follows() {
        let image = sloping([20, 20, 3]);
        let small = encoded(&sloping([4, 4, 3]), ImageFormat::Jpeg);
        for format in [ImageFormat::Jpeg, ImageFormat::Png] {
            let sound = encoded(&image, format);
            let own = from_bytes(&sound, Path::new("a")).unwrap();
            let film = b"\0\0\0\x18ftypmp42\xFF\xDA\xFF\xD8\xFF".to_vec();
            for more in [
                vec![0],
                vec![0xFF],
                vec![0xFF, 0xDA, 0, 1, 2],
                vec![0xFF, 0xD9, 0xFF, 0xD9],
                small.clone(),
                small[..small.len() / 2].to_vec(),
                film,
                vec![0; 1000],
            ] {
                let bytes = [&sound[..], &more].concat();
                assert_eq!(from_bytes(&bytes, Path::new("a")).unwrap(), own, "{format:?} {more:?}");
            }
        }
    }

    #[test]
    fn a_small_image_within_a_jpeg_is_not_its_end() {
        let (sound, small) = (
            encoded(&sloping([20, 20, 3]), ImageFormat::Jpeg),
            encoded(&sloping([4, 4, 3]), ImageFormat::Jpeg),
        );
        // A segment of an application, with filling before it.
        let length = (small.len() as u16 + 2).to_be_bytes();
        let segment = [&[0xFF, 0xFF, 0xE5][..], &length, &small].concat();
        let with = [&sound[..2], &segment, &sound[2..]].concat();
        let own = from_bytes(&sound, Path::new("a")).unwrap();
        assert_eq!(from_bytes(&with, Path::new("a")).unwrap(), own);
        for end in [segment.len() + 2, with.len() / 2, with.len() - 2] {
            assert!(refused(&with[..end]).contains("it ends within its pixels"), "{end}");
        }
    }

    #[test]
    fn a_header_that_claims_too_much_is_refused_before_memory_is_taken() {
        let mut png = encoded(&sloping([2, 2, 3]), ImageFormat::Png);
        // Width and height follow the eight bytes of the format, and the chunk's length and name.
        png[16..24].copy_from_slice(&[0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF]);
        let mut crc = flate2::Crc::new();
        crc.update(&png[12..29]);
        png[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        let sentence = refused(&png);
        assert!(sentence.contains("65535 x 65535 pixels, which"), "{sentence}");
        let mut jpeg = encoded(&sloping([2, 2, 3]), ImageFormat::Jpeg);
        let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF]);
        assert!(refused(&jpeg).contains("no sound image"));
    }
}

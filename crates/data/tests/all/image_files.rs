//! A short seeded run of the properties that the fuzz target of image files checks for longer.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lessen_base::{SplitMix64, cases};

use crate::properties::{IMAGE_FILES, image_file_is_read_or_refused};

/// Seeds of the mutations of a test, where it runs all of them.
const SEEDS: u64 = 400;

/// Changes, inserts, removes or repeats a few bytes, or cuts the end off; some bytes become those of large sizes.
fn mutated(sound: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=random.below(3) {
        let length = bytes.len() as u64;
        // Half of the changes are in the header.
        let most = if random.below(2) == 0 { length.min(64) } else { length };
        let at = random.below(most.max(1)) as usize;
        let end = (at + 1 + random.below(8) as usize).min(bytes.len());
        match random.below(7) {
            0 | 1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            2 => bytes[at.min(end)..end].fill(0xFF),
            3 => bytes.insert(at, random.next_u64() as u8),
            4 => drop(bytes.drain(at.min(end)..end)),
            5 => bytes.truncate(at),
            _ => bytes.splice(at..at, bytes[at.min(end)..end].to_vec()).for_each(drop),
        }
    }
    bytes
}

/// Reads many mutations of a file of this name, of which some are refused.
fn mutate(sound: &[u8], name: &str) {
    assert!(IMAGE_FILES.contains(&name), "{name}");
    let dir = tempfile::tempdir().unwrap();
    let read = |bytes: &[u8]| image_file_is_read_or_refused(dir.path(), name, bytes);
    assert!(read(sound), "the sound file is read");
    let (mut accepted, seeds) = (0, cases(SEEDS));
    for seed in 0..seeds {
        println!("{name}, seed {seed}");
        accepted += u64::from(read(&mutated(sound, &mut SplitMix64::new(seed))));
    }
    assert!(accepted < seeds, "no mutation was refused");
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// An image whose neighbouring pixels differ.
fn image_file(format: image::ImageFormat, color: image::ColorType) -> Vec<u8> {
    let (side, channels) = (17, usize::from(color.bytes_per_pixel()));
    let bytes: Vec<u8> = (0..side * side * channels).map(|at| (at * at / 7) as u8).collect();
    let mut out = std::io::Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut out, &bytes, side as u32, side as u32, color, format).unwrap();
    out.into_inner()
}

#[test]
fn mutated_idx_files_are_read_or_refused() {
    let mut sound = vec![0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 5];
    sound.extend(0..60);
    mutate(&sound, "images-idx3-ubyte");
    mutate(&packed(&sound), "images-idx3-ubyte");
}

#[test]
fn mutated_arrays_are_read_or_refused() {
    for (descr, width) in [("|u1", 1), ("<i4", 4)] {
        let data: Vec<u8> = (0..6 * width).collect();
        mutate(&npy_of(descr, "(2, 3)", &data), "array.npy");
    }
}

#[test]
fn mutated_archives_are_read_or_refused() {
    // As `numpy.savez_compressed` writes it, of x_train (uint8, 4 x 2 x 2) and y_train (int64, 4).
    mutate(include_bytes!("../fixtures/images.npz"), "set.npz");
}

#[test]
fn mutated_records_are_read_or_refused() {
    let record = |label: u8| [vec![label], (0..3072).map(|at| (at % 251) as u8).collect()].concat();
    mutate(&[record(3), record(9), record(0)].concat(), "set.bin");
}

#[test]
fn mutated_pictures_are_read_or_refused() {
    for color in [image::ColorType::Rgb8, image::ColorType::L8] {
        mutate(&image_file(image::ImageFormat::Png, color), "a.png");
        mutate(&image_file(image::ImageFormat::Jpeg, color), "a.jpg");
    }
}

//! Damaged files cause errors, never a panic.

use lessen_base::SplitMix64;
use lessen_onnx::{Converter, Model, NormOperators, NormTarget, Sizes, size_names};

use crate::builder::transformer;

/// Mutations of a run: as many as `LESSEN_MUTATIONS` says.
fn count() -> u64 {
    std::env::var("LESSEN_MUTATIONS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(2_000)
}

/// A damaged copy: bytes that are changed, left out, repeated or cut off.
fn mutated(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + random.below(40) as usize).min(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4) as usize],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, part);
            }
            4 => bytes[at..end].reverse(),
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

#[test]
fn damaged_files_cause_no_panic() {
    let seed = 11;
    let mut random = SplitMix64::new(seed);
    let exported = ["encoder-dynamo-23", "vit-script-12"].map(|name| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
        std::fs::read(format!("{folder}/{name}.onnx")).unwrap()
    });
    let mut originals = vec![transformer(12).bytes(), transformer(18).bytes()];
    originals.extend(exported);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let (mut read, mut refused) = (0, 0);
    for i in 0..count() {
        let bytes = mutated(&originals[i as usize % originals.len()], &mut random);
        std::fs::write(&path, &bytes).unwrap();
        let target = if i % 3 == 0 { NormTarget::Crms } else { NormTarget::Rms };
        let converted = Model::open(&path).and_then(|model| {
            let sizes: Sizes = size_names(&model).into_iter().map(|name| (name, 2)).collect();
            let converter = Converter::of(&model, &sizes, target, NormOperators::OnnxRuntime)?;
            converter.report();
            converter.write(&folder.path().join("new.onnx"))
        });
        match converted {
            Ok(_) => read += 1,
            Err(error) => {
                assert_eq!(error.exit_code(), 2, "seed {seed}, mutation {i}: {error}");
                refused += 1;
            }
        }
    }
    assert!(read > 0 && refused > 0, "seed {seed}: {read} read, {refused} refused");
}

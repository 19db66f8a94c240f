//! A short seeded run of the properties that the fuzz targets check for longer.

use std::fs;

use lessen_base::{SplitMix64, cases};
use lessen_nn::Model;

use crate::properties::{checkpoint_is_read_or_refused, config_is_read_or_refused};
use crate::support::{Folder, fixture};

/// Seeds of the mutations of a file, where a test runs all of them.
const SEEDS: u64 = 400;

/// Replaces, inserts, removes or repeats a few bytes of `sound[..within]`.
fn mutated(sound: &[u8], within: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(within.min(bytes.len()).max(1) as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            1 if at < bytes.len() => bytes[at] = b"0129.-eE\"{}[],:"[random.below(15) as usize],
            2 => bytes.insert(at, random.next_u64() as u8),
            3 => drop(bytes.drain(at..end)),
            _ => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
        }
    }
    bytes
}

#[test]
fn mutated_safetensors_headers_are_read_or_refused() {
    let params = Model::from_dir(&fixture("bert-tiny-cls")).unwrap().parameters();
    let sound = fs::read(fixture("bert-tiny-cls").join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
    let folder = Folder::new();
    assert!(checkpoint_is_read_or_refused(&folder.0, &params, &sound));
    let (mut read, seeds) = (0, cases(SEEDS));
    for seed in 0..seeds {
        println!("seed {seed}");
        let bytes = mutated(&sound, header, &mut SplitMix64::new(seed));
        read += u64::from(checkpoint_is_read_or_refused(&folder.0, &params, &bytes));
    }
    assert!(read < seeds, "no mutation was refused");
}

#[test]
fn mutated_configs_are_read_or_refused() {
    let folder = Folder::new();
    for name in [
        "bert-tiny-cls",
        "bert-tiny-mlm",
        "gpt2-tiny",
        "gpt-neox-tiny",
        "gptj-tiny",
        "olmo-tiny",
        "mpnet-tiny-mlm",
    ] {
        let sound = fs::read(fixture(name).join("config.json")).unwrap();
        assert!(config_is_read_or_refused(&folder.0, &sound), "{name}");
        let (mut read, seeds) = (0, cases(SEEDS));
        for seed in 0..seeds {
            println!("{name}, seed {seed}");
            let bytes = mutated(&sound, sound.len(), &mut SplitMix64::new(seed));
            read += u64::from(config_is_read_or_refused(&folder.0, &bytes));
        }
        assert!(
            (1..seeds).contains(&read),
            "{read} of {seeds} mutations of {name} were read"
        );
    }
}

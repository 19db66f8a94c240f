//! Damaged files cause errors, never a panic, and take no more time and memory than others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lessen_base::{Result, SplitMix64, allocated, cases};
use lessen_cpu::CpuBackend;
use lessen_device::random_inputs;
use lessen_onnx::{Data, Element, HostTensor, Imported, Model, Sizes, fitting_sizes, size_names};
use lessen_onnx_sessions::{Converter, NormOperators, NormTarget, Session, Work, difference_of_files};

use crate::builder::transformer;
use crate::quantized;

/// Mutations of a run: as many as `LESSEN_MUTATIONS` says.
fn count() -> u64 {
    let asked = std::env::var("LESSEN_MUTATIONS").ok();
    asked.and_then(|count| count.parse().ok()).unwrap_or(cases(2_000))
}

/// A damaged copy: bytes that are changed, left out, repeated or cut off.
fn mutated(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // Half of them have one change, so that many are read.
    let changes = 1 + random.below(2) * random.below(4);
    for _ in 0..changes {
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

/// The most bytes of a plan that is run.
const MOST_PLANNED: usize = 16 << 20;

/// The most work of a model whose converted file is compared with it.
const MOST_COMPARED: Work = Work {
    operations: 1e7,
    elements: 1e5,
};

/// The most bytes that reading, converting and running a file takes: a few constants of the most elements that one can
/// have, whatever the file.
const MOST_ALLOCATED: usize = 320 << 20;

/// The longest that a file takes; all but the worst ones take milliseconds.
const LONGEST: Duration = Duration::from_secs(20);

/// Tells which mutation caused a panic, and keeps its file.
struct Mutation<'a> {
    seed: u64,
    number: u64,
    bytes: &'a [u8],
}

impl Drop for Mutation<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = std::env::temp_dir().join(format!("lessen-mutation-{}-{}.onnx", self.seed, self.number));
            let is_kept = std::fs::write(&kept, self.bytes).is_ok();
            let at = if is_kept {
                kept.display().to_string()
            } else {
                "nowhere".to_string()
            };
            eprintln!("seed {}, mutation {}, kept at {at}", self.seed, self.number);
        }
    }
}

/// Reads and converts a file, and compares both.
fn convert(path: &Path, to: &Path, target: NormTarget) -> Result<()> {
    let model = Model::open(path)?;
    let sizes: Sizes = size_names(&model).into_iter().map(|name| (name, 2)).collect();
    let converter = Converter::of(&model, &sizes, target, NormOperators::OnnxRuntime)?;
    converter.report();
    let compare = |written: &Model| match converter.work().is_within(MOST_COMPARED) {
        true => difference_of_files(&model, written, &sizes, 5).map(drop),
        false => Ok(()),
    };
    converter.write_checked(to, compare).map(drop)
}

/// Runs a file on random inputs, if its plan is small.
fn run(path: &Path) -> Result<()> {
    let model = Arc::new(Model::open_to_run(path)?);
    let names = size_names(&model);
    let sizes: Sizes = names.iter().map(|name| (name.clone(), 2)).collect();
    let sizes = fitting_sizes(&model, &sizes, &names)?;
    let imported = Imported::of(&model, &sizes)?;
    let mut inputs = Vec::new();
    for (name, array) in random_inputs(&imported.graph, 3) {
        let input = model.inputs.iter().find(|input| input.name == name);
        let ty = input.and_then(|input| input.r#type.as_ref()?.tensor_type.as_ref());
        if let Some(element) = ty.and_then(|ty| Element::of(ty.elem_type)) {
            let data = Data::of_f64(element, array.data.iter().copied());
            inputs.push((name, HostTensor::new(&array.ty.shape, data)?.into()));
        }
    }
    let backend = CpuBackend::new(1)?.with_memory_limit(MOST_PLANNED);
    Session::new(model, Box::new(backend))?.run(inputs).map(drop)
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
    originals.extend(quantized::files());
    let folder = tempfile::tempdir().unwrap();
    let [path, new] = ["model.onnx", "new.onnx"].map(|name| folder.path().join(name));
    let (mut done, mut refused, mut most, mut longest) = (0, 0, 0, Duration::ZERO);
    for i in 0..count() {
        let bytes = mutated(&originals[i as usize % originals.len()], &mut random);
        std::fs::write(&path, &bytes).unwrap();
        let _told = Mutation {
            seed,
            number: i,
            bytes: &bytes,
        };
        let target = if i % 3 == 0 { NormTarget::Crms } else { NormTarget::Rms };
        let begun = Instant::now();
        allocated::reset_peak();
        let before = allocated::current().unwrap();
        for result in [convert(&path, &new, target), run(&path)] {
            match result {
                Ok(()) => done += 1,
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "seed {seed}, mutation {i}: {error}");
                    refused += 1;
                }
            }
        }
        let (size, time) = (allocated::peak().unwrap().saturating_sub(before), begun.elapsed());
        assert!(size < MOST_ALLOCATED, "seed {seed}, mutation {i}: {size} bytes");
        assert!(time < LONGEST, "seed {seed}, mutation {i}: {time:?}");
        (most, longest) = (most.max(size), longest.max(time));
    }
    println!("{done} done, {refused} refused, at most {most} bytes and {longest:?}");
    assert!(done > 0 && refused > 0, "seed {seed}: {done} done, {refused} refused");
}

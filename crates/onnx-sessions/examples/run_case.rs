//! Runs cases of ONNX's backend suite in memory, without the program:
//!
//! ```text
//! cargo run -p lessen-onnx-sessions --example run_case -- [--quiet] FOLDER...
//! ```
//!
//! A folder holds `model.onnx` and `test_data_set_N/{input,output}_M.pb`. One line for each says `pass`, `wrong`,
//! `refused` or `panic`, the last one how often; `--quiet` leaves out what passes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_cpu::CpuBackend;
use lessen_device::Backend;
use lessen_onnx::proto::ValueInfoProto;
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

/// What came of a case.
enum Outcome {
    Pass,
    Wrong(String),
    Refused(String),
    Panic,
}

fn main() -> ExitCode {
    let (flags, folders): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument == "--quiet");
    let mut counts = [0usize; 4];
    for folder in &folders {
        let folder = Path::new(folder);
        let outcome = catch_unwind(AssertUnwindSafe(|| run(folder))).unwrap_or(Outcome::Panic);
        let (index, kind, why) = match outcome {
            Outcome::Pass => (0, "pass", String::new()),
            Outcome::Wrong(why) => (1, "wrong", why),
            Outcome::Refused(why) => (2, "refused", why),
            Outcome::Panic => (3, "panic", String::new()),
        };
        counts[index] += 1;
        if index > 0 || flags.is_empty() {
            let name = folder.file_name().unwrap_or_default().display();
            println!("{kind:8}{name} {why}");
        }
    }
    let [pass, wrong, refused, panic] = counts;
    println!("{pass} pass, {wrong} wrong, {refused} refused, {panic} panic");
    ExitCode::from(u8::from(wrong + panic > 0))
}

fn run(folder: &Path) -> Outcome {
    let outcome = Model::open_to_run(&folder.join("model.onnx")).and_then(|model| {
        let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(1)?))?;
        let mut wrong = None;
        for set in sets(folder) {
            wrong = wrong.or(run_set(&session, &set)?);
        }
        Ok(wrong)
    });
    match outcome {
        Ok(None) => Outcome::Pass,
        Ok(Some(why)) => Outcome::Wrong(why),
        Err(error) => Outcome::Refused(error.message().to_string()),
    }
}

/// The folders of data.
fn sets(folder: &Path) -> Vec<PathBuf> {
    let folders = (0..).map(|i| folder.join(format!("test_data_set_{i}")));
    folders.take_while(|set| set.is_dir()).collect()
}

/// Why the outputs for one set of data are wrong, if they are.
fn run_set<B: Backend + ?Sized>(session: &Session<B>, set: &Path) -> Result<Option<String>> {
    let model = session.model();
    let mut inputs = Vec::new();
    for (i, input) in model.inputs.iter().enumerate() {
        if let Some(value) = value(&set.join(format!("input_{i}.pb")), input)? {
            inputs.push((input.name.clone(), value));
        }
    }
    let outputs = session.run(inputs)?;
    for (i, ((name, found), output)) in outputs.iter().zip(&model.outputs).enumerate() {
        if let Some(right) = value(&set.join(format!("output_{i}.pb")), output)?
            && let Some(why) = difference(found, &right)
        {
            return Ok(Some(format!("{name}: {why}")));
        }
    }
    Ok(None)
}

/// The value in a file, if it is there.
fn value(path: &Path, info: &ValueInfoProto) -> Result<Option<HostValue>> {
    let Ok(bytes) = std::fs::read(path) else {
        return Ok(None);
    };
    match &info.r#type {
        Some(ty) => HostValue::of_file(&bytes, ty).map(Some),
        None => Err(Error::user(format!("`{}` has no type", info.name))),
    }
}

fn difference(found: &HostValue, right: &HostValue) -> Option<String> {
    match (found, right) {
        (HostValue::Tensor(found), HostValue::Tensor(right)) => difference_of_arrays(found, right),
        (HostValue::Sequence(found), HostValue::Sequence(right)) if found.len() == right.len() => found
            .iter()
            .zip(right.iter())
            .find_map(|(found, right)| difference(found, right)),
        (HostValue::Sequence(found), HostValue::Sequence(right)) => {
            Some(format!("a list of {}, right is {}", found.len(), right.len()))
        }
        (HostValue::Absent, HostValue::Absent) => None,
        _ => Some("another kind of value".to_string()),
    }
}

fn difference_of_arrays(found: &HostTensor, right: &HostTensor) -> Option<String> {
    if found.element() != right.element() || found.shape() != right.shape() {
        return Some(format!(
            "{:?} {:?}, right is {:?} {:?}",
            found.element(),
            found.shape(),
            right.element(),
            right.shape()
        ));
    }
    let relative = match right.data() {
        Data::F16(_) | Data::F32(_) | Data::F64(_) => 1e-3,
        Data::BF16(_) => 2f64.powi(-6),
        right if right == found.data() => return None,
        _ => 0.0,
    };
    let (found_data, right_data) = (found.data().to_f64(), right.data().to_f64());
    let is_near = |(found, right): (&f64, &f64)| {
        let is_close = relative > 0.0 && (found - right).abs() <= 1e-7 + relative * right.abs();
        found == right || (found.is_nan() && right.is_nan()) || is_close
    };
    let is_number = !matches!(right.data(), Data::Text(_));
    let all_near = is_number && found_data.iter().zip(&right_data).all(is_near);
    (!all_near).then(|| shown(found, right))
}

/// The beginnings of two arrays.
fn shown(found: &HostTensor, right: &HostTensor) -> String {
    let begin = |array: &HostTensor| {
        let all = array.data().to_f64();
        format!("{:?}", &all[..all.len().min(6)])
    };
    format!("{}, right is {}", begin(found), begin(right))
}

//! Scratch.
use std::path::Path;
use std::sync::Arc;

use lessen_onnx::proto::TensorProto;
use lessen_onnx::{Data, Elements, HostTensor, HostValue, Model, Session, Tensor};
use prost::Message;

fn read(path: &Path) -> Result<(String, HostValue), String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let message = TensorProto::decode(&bytes[..]).map_err(|e| e.to_string())?;
    let tensor = Tensor::of(&message).map_err(|e| e.to_string())?.ok_or("SKIP type")?;
    let Elements::Held(bytes) = &tensor.elements else { return Err("SKIP elements".into()) };
    let t = HostTensor::new(&tensor.shape, Data::of_bytes(tensor.element, bytes)).map_err(|e| e.to_string())?;
    Ok((message.name.clone(), t.into()))
}

fn case(dir: &Path) -> Result<(), String> {
    let tol = std::fs::read_to_string(dir.join("tol")).map_err(|e| e.to_string())?;
    let tol: Vec<f64> = tol.split_whitespace().map(|x| x.parse().unwrap()).collect();
    let model = Arc::new(Model::open(&dir.join("model.onnx")).map_err(|e| e.to_string())?);
    for set in 0.. {
        let folder = dir.join(format!("test_data_set_{set}"));
        if !folder.exists() {
            break;
        }
        let mut inputs = Vec::new();
        for j in 0.. {
            let file = folder.join(format!("input_{j}.pb"));
            if !file.exists() {
                break;
            }
            let (name, value) = read(&file)?;
            let name = model.inputs.get(j).map_or(name, |i| i.name.clone());
            inputs.push((name, value));
        }
        let session = Session::new(model.clone()).map_err(|e| e.to_string())?;
        let begun = std::time::Instant::now();
        let outputs = session.run(inputs).map_err(|e| e.to_string())?;
        if std::env::var("TIME").is_ok() {
            println!("{} {:?}", dir.display(), begun.elapsed());
        }
        for (j, (name, value)) in outputs.iter().enumerate() {
            let file = folder.join(format!("output_{j}.pb"));
            if !file.exists() {
                continue;
            }
            let (_, right) = read(&file)?;
            let (a, b) = (value.tensor().ok_or("WRONG no tensor")?, right.tensor().unwrap());
            if a.element() != b.element() {
                return Err(format!("WRONG {name} type {:?} right {:?}", a.element(), b.element()));
            }
            if a.shape() != b.shape() {
                return Err(format!("WRONG {name} shape {:?} right {:?}", a.shape(), b.shape()));
            }
            let (x, y) = (a.data().to_f64(), b.data().to_f64());
            let mut bad = 0;
            let mut first = String::new();
            for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                let ok = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tol[1] + tol[0] * y.abs();
                if !ok {
                    bad += 1;
                    if bad <= 4 {
                        first += &format!(" [{i}] {x} right {y};");
                    }
                }
            }
            if bad > 0 {
                return Err(format!("WRONG {name} {bad} of {}: {first}", x.len()));
            }
        }
    }
    Ok(())
}

fn main() {
    let root = std::env::args().nth(1).unwrap();
    let filter = std::env::args().nth(2).unwrap_or_default();
    let mut dirs: Vec<_> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    dirs.sort();
    let (mut pass, mut wrong, mut refused) = (0, 0, 0);
    for dir in dirs {
        let name = dir.file_name().unwrap().to_string_lossy().to_string();
        if !name.contains(&filter) {
            continue;
        }
        match case(&dir) {
            Ok(()) => pass += 1,
            Err(e) if e.starts_with("WRONG") => {
                wrong += 1;
                println!("{name}: {e}");
            }
            Err(e) => {
                refused += 1;
                let others = std::fs::read_to_string(dir.join("ops")).unwrap_or_default();
                println!("{name}: refused {} OTHER OPS {}", e.replace('\n', " "), others.trim());
            }
        }
    }
    println!("pass {pass} wrong {wrong} refused {refused}");
}

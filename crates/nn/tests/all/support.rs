//! Shared support of tests: recorded tensors, weights as arrays, temporary folders.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::{BatchShape, Cx, Model, ParamSpec, Result, Weights, checkpoint};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

pub type Arrays = HashMap<String, Array>;

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// All tensors of `expected-NAME.safetensors`.
pub fn expected(name: &str) -> Arrays {
    let bytes = fs::read(fixture(&format!("expected-{name}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let array = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let words = view.data().as_chunks::<4>().0.iter();
        let (dtype, data): (DType, Vec<f64>) = match view.dtype() {
            Dtype::F32 => (DType::F32, words.map(|&b| f32::from_le_bytes(b).into()).collect()),
            Dtype::I32 => (DType::I32, words.map(|&b| i32::from_le_bytes(b).into()).collect()),
            other => panic!("a recorded tensor of dtype {other}"),
        };
        (name.to_string(), Array::new(Type::new(dtype, view.shape()), data))
    };
    file.iter().map(array).collect()
}

/// A model and its weights.
pub fn model(name: &str) -> (Model, Weights) {
    let dir = fixture(name);
    let model = Model::from_dir(&dir).unwrap();
    let loaded = checkpoint::load(&dir, &model.parameters(), &|_| false).unwrap();
    assert!(loaded.missing.is_empty() && loaded.extra.is_empty(), "{loaded:?}");
    (model, loaded.weights)
}

pub fn arrays(weights: &Weights) -> Arrays {
    let array = |w: &lessen_nn::Weight| Array::f32(&w.shape, w.data.iter().map(|&v| v.into()).collect());
    weights.iter().map(|(name, w)| (name.clone(), array(w))).collect()
}

/// Part `index` of the first axis, as a dtype.
pub fn part(array: &Array, index: usize, dtype: DType) -> Array {
    let shape = &array.ty.shape[1..];
    let size: usize = shape.iter().product();
    Array::new(Type::new(dtype, shape), array.data[index * size..][..size].to_vec())
}

#[track_caller]
pub fn assert_close(what: &str, got: &Array, expected: &Array, tolerance: f64) {
    assert_eq!(got.ty.shape, expected.ty.shape, "{what}");
    let scale = expected.data.iter().fold(1e-3, |most: f64, e| most.max(e.abs()));
    for (i, (g, e)) in got.data.iter().zip(&expected.data).enumerate() {
        assert!(
            (g - e).abs() <= tolerance * scale,
            "{what}: element {i} is {g} instead of {e}"
        );
    }
}

/// Loads parameters; none may be missing.
pub fn load(folder: &Folder, params: &[ParamSpec]) -> Result<checkpoint::Loaded> {
    checkpoint::load(&folder.0, params, &|_| false)
}

/// The message of the error when the recorded BERT classifier is loaded from this folder.
pub fn fault(folder: &Folder) -> String {
    let params = Model::from_dir(&fixture("bert-tiny-cls")).unwrap().parameters();
    let sentence = load(folder, &params).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "{sentence:?} is one sentence");
    sentence.replace(&folder.0.display().to_string(), "DIR")
}

/// Tensors of a file by name: dtype, shape, bytes.
pub type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// The tensors of a recorded model.
pub fn read(name: &str) -> Tensors {
    let bytes = fs::read(fixture(name).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(n, v)| (n.to_string(), (v.dtype(), v.shape().to_vec(), v.data().to_vec())))
        .collect()
}

/// Writes tensors to a file of the folder.
pub fn write(folder: &Folder, file: &str, tensors: &Tensors) {
    let views = tensors
        .iter()
        .map(|(n, (d, s, b))| (n.as_str(), TensorView::new(*d, s.clone(), b).unwrap()));
    fs::write(folder.file(file), safetensors::serialize(views, None).unwrap()).unwrap();
}

/// A temporary folder and its path.
pub struct Folder(pub PathBuf, #[allow(dead_code)] TempDir);

impl Folder {
    pub fn new() -> Folder {
        let dir = tempfile::tempdir().unwrap();
        Folder(dir.path().to_path_buf(), dir)
    }

    /// A copy of a recorded model.
    pub fn copy_of(name: &str) -> Folder {
        let folder = Folder::new();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(fixture(name).join(file), folder.0.join(file)).unwrap();
        }
        folder
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// The recorded tensors below a prefix.
pub fn recorded(file: &SafeTensors<'_>, prefix: &str) -> Tensors {
    let own = file
        .iter()
        .filter_map(|(name, view)| Some((name.strip_prefix(prefix)?, view)));
    own.map(|(name, view)| {
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        (name.to_string(), (dtype, shape, view.data().to_vec()))
    })
    .collect()
}

/// Numbers of the bytes of `f32`.
pub fn floats(shape: &[usize], bytes: &[u8]) -> Array {
    let words = bytes.as_chunks::<4>().0.iter();
    Array::f32(shape, words.map(|&b| f32::from_le_bytes(b).into()).collect())
}

/// Logits of a model for these tokens, or of a model of images for an image of ramps.
pub fn logits(model: &Model, weights: &Weights, tokens: &[i32]) -> Array {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let mut given = arrays(weights);
    let batch = match model.image() {
        Some(image) => {
            let size: usize = image.iter().product();
            let shape = [&[1][..], &image].concat();
            let ramp = (0..size).map(|element| element as f64 / size as f64).collect();
            given.insert("images".into(), Array::f32(&shape, ramp));
            BatchShape::Images {
                size: 1,
                image,
                mixed: false,
            }
        }
        None => BatchShape::Padded {
            size: 1,
            length: tokens.len(),
        },
    };
    trace.output("logits", model.logits(cx, batch));
    for (name, dtype, data) in [
        ("tokens", DType::I32, tokens.iter().map(|&token| token.into()).collect()),
        ("types", DType::I32, vec![0.0; tokens.len()]),
        ("mask", DType::Bool, vec![1.0; tokens.len()]),
    ] {
        if cx.has_input(name) {
            given.insert(name.into(), Array::new(Type::new(dtype, &[1, tokens.len()]), data));
        }
    }
    evaluate_exactly(&trace.finish(), &given)
        .unwrap()
        .remove("logits")
        .unwrap()
}

/// The largest difference of arrays, relative to the largest number.
pub fn difference(found: &Array, expected: &Array) -> f64 {
    if found.data.len() != expected.data.len() {
        return f64::INFINITY;
    }
    let scale = expected.data.iter().fold(1e-3, |most: f64, e| most.max(e.abs()));
    let pairs = found.data.iter().zip(&expected.data);
    pairs.fold(0.0, |most: f64, (f, e)| most.max((f - e).abs())) / scale
}

//! Parameters whose storage is several states: codes of 8 bits and a scale for each row.

use crate::support::device;
use lessen_base::Result;
use lessen_device::Host;
use lessen_graph::{DType, Tensor, Type, numel};
use lessen_nn::checkpoint::{self, WeightDtype};
use lessen_nn::layers::{layer_norm, linear};
use lessen_nn::{Cx, Init, NormKind, ParamStorage, Put, Stored, Weights, initialize};
use lessen_train::Session;
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of matrices in codes of 8 bits with a scale; vectors as they are.
#[derive(Debug)]
struct CodedRows;

/// The code of 0.
const ZERO: f32 = 128.0;

impl ParamStorage for CodedRows {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        match shape {
            [rows, _, ..] => vec![("codes", Type::new(DType::U8, shape)), ("scales", Type::f32(&[*rows]))],
            _ => vec![("", Type::f32(shape))],
        }
    }

    fn value(&self, Stored { shape, .. }: Stored<'_>, states: &[Tensor]) -> Tensor {
        match *states {
            [codes, scales] => {
                let mut rows = vec![1; shape.len()];
                rows[0] = shape[0];
                (codes.cast(DType::F32) - f64::from(ZERO)) * scales.reshape(&rows)
            }
            _ => states[0],
        }
    }

    fn unit(&self, Stored { shape, .. }: Stored<'_>) -> usize {
        if shape.len() > 1 { numel(&shape[1..]) } else { 1 }
    }

    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        let shape = param.shape;
        if shape.len() < 2 {
            return put(0, first, Host::F32(values));
        }
        let width = self.unit(param);
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for row in values.chunks(width) {
            let scale = row.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 127.0;
            scales.push(scale);
            codes.extend(
                row.iter()
                    .map(|value| (value / scale.max(f32::MIN_POSITIVE) + ZERO).round() as u8),
            );
        }
        put(0, first, Host::U8(&codes))?;
        put(1, first / width, Host::F32(&scales))
    }

    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        match *states {
            [Host::U8(codes), Host::F32(scales)] => {
                let rows = codes.chunks(self.unit(param)).zip(scales);
                let values =
                    rows.flat_map(|(row, scale)| row.iter().map(move |&code| (f32::from(code) - ZERO) * scale));
                values.collect()
            }
            [Host::F32(values)] => Cow::Borrowed(values),
            _ => panic!("codes and scales, or values"),
        }
    }
}

fn model(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[3, 4]);
    let hidden = layer_norm(cx, "norm", linear(cx, "in", x, 6, init), 1e-5);
    // A matrix that two products read.
    let tied = cx.param("in.weight", &[6, 4], init);
    linear(cx, "out", hidden.matmul(tied).relu(), 2, init)
}

/// A session with coded rows, its first weights, and a function.
fn coded() -> (Session, Weights) {
    let trace = lessen_graph::Trace::new();
    let cx = Cx::new(*trace, false);
    model(cx);
    let params = cx.params();
    let weights = initialize(&params, 3);
    let mut session = Session::stored(device(1), params, Arc::new(CodedRows)).unwrap();
    session.set_weights(&weights).unwrap();
    (session, weights)
}

const X: [f32; 12] = [0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -2.0, 0.125, 1.0, 0.5, 0.5, -1.0];

fn ask(session: &mut Session) -> Vec<f32> {
    let function = session.function(|cx| vec![("y", model(cx))]).unwrap();
    let results = session.run(function, &[("x", Host::F32(&X))]).unwrap();
    results.f32("y").unwrap().to_vec()
}

#[test]
fn a_parameter_of_several_states_is_set_read_and_saved() {
    let (mut session, weights) = coded();
    // A byte for each element of a matrix, and a scale for each row.
    let matrices = (6 * 4 + 2 * 4) + 4 * (6 + 2);
    assert_eq!(session.memory().used.states, matrices + 4 * (6 + 6 + 6 + 2));
    let stored = session.weights().unwrap();
    for (name, weight) in &weights {
        let rows = weight.data.chunks(*weight.shape.last().unwrap());
        let own = stored[name].data.chunks(*weight.shape.last().unwrap());
        for (row, own) in rows.zip(own) {
            let most = row.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            let error = if weight.shape.len() > 1 {
                0.51 * most / 127.0
            } else {
                0.0
            };
            assert!(row.iter().zip(own).all(|(a, b)| (a - b).abs() <= error), "{name}");
        }
    }
    assert_eq!(session.broken_parameter().unwrap(), None);

    // A session of plain parameters computes the same with the stored values.
    let mut plain = Session::new(device(1), session.params().to_vec(), &stored).unwrap();
    let (found, expected) = (ask(&mut session), ask(&mut plain));
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.iter().zip(&expected).all(close), "{found:?} for {expected:?}");

    // The saved values are the values that functions read. Encoding them again changes scales by their rounding at
    // most.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved");
    session.save(&path, &serde_json::Map::new(), WeightDtype::F32).unwrap();
    let loaded = checkpoint::load(&path, session.params(), &|_| false).unwrap();
    assert_eq!(loaded.weights, stored);
    session.set_weights(&loaded.weights).unwrap();
    for (name, weight) in session.weights().unwrap() {
        let mut pairs = weight.data.iter().zip(&stored[&name].data);
        assert!(pairs.all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{name}");
    }
}

#[test]
fn parts_that_end_within_a_row_are_joined() {
    let (mut session, weights) = coded();
    let stored = session.weights().unwrap();
    let matrix = &weights["in.weight"];
    for size in [1, 3, 5, 7, 24] {
        session.set_part("in.weight", 0, &[0.0; 24]).unwrap();
        for (number, part) in matrix.data.chunks(size).enumerate() {
            session.set_part("in.weight", number * size, part).unwrap();
        }
        assert_eq!(session.weights().unwrap(), stored, "parts of {size}");
    }
    // From the beginning of a row on, and not from the middle of one.
    session.set_part("in.weight", 8, &matrix.data[8..]).unwrap();
    assert_eq!(session.weights().unwrap(), stored);
    let sentence = session.set_part("in.weight", 5, &[1.0; 4]).unwrap_err().to_string();
    assert!(sentence.contains("stored in units of 4 elements"), "{sentence}");
    assert_eq!(session.weights().unwrap(), stored);
}

#[test]
fn norms_are_converted_without_parameters_of_several_states() {
    let (mut session, _) = coded();
    let before = ask(&mut session);
    let stored = session.weights().unwrap();
    session
        .convert_norms(NormKind::Auto, |cx| vec![("y", model(cx))])
        .unwrap();
    let matrices = |weights: &Weights| [weights["in.weight"].clone(), weights["out.weight"].clone()];
    assert_eq!(matrices(&session.weights().unwrap()), matrices(&stored));
    let after = ask(&mut session);
    assert!(
        before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-5),
        "{before:?}, {after:?}"
    );
}

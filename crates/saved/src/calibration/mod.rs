//! Calibration: fixed ranges of the inputs of a model's layers, from what they are on data.

mod entropy;
mod magnitudes;
mod method;

pub use self::magnitudes::Magnitudes;
pub use self::method::Method;

use self::magnitudes::BINS;
use lessen_base::{Error, Result};
use lessen_data::Source;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Cx, Model};
use lessen_task::evaluation::{inputs_of, shape_of};
use lessen_train::{Function, Session};
use std::collections::{BTreeMap, HashMap};

/// Examples that are looked at where nothing says how many.
pub const EXAMPLES: usize = 512;

/// The last code of either sign.
const LAST: f32 = 127.0;

/// The scales of layers' inputs, and what they are from.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibrated {
    /// A positive scale by the name of its layer.
    pub scales: BTreeMap<String, f32>,
    /// Examples that were looked at.
    pub examples: usize,
}

/// What the inputs of a model's layers are on about `most` examples of a source, in whole batches that are spread
/// evenly over it, and the scales that follow. Padding counts, as layers compute it, too.
///
/// # Errors
/// Data that does not fit the model; inputs that are not finite; a model without layers that have a matrix or a kernel.
pub fn calibrate(
    session: &mut Session,
    model: &Model,
    source: &dyn Source,
    method: Method,
    most: usize,
) -> Result<Calibrated> {
    let mut functions: HashMap<BatchShape, Function> = HashMap::new();
    let mut found: BTreeMap<String, Magnitudes> = BTreeMap::new();
    let layers = model.layers();
    let mut examples = 0;
    let all = source.eval_batches();
    let first = if all > 0 {
        source.eval_batch(0)?.examples.max(1)
    } else {
        1
    };
    let taken = (most.div_ceil(first) as u64).min(all);
    for index in (0..taken).map(|part| part * all / taken) {
        let batch = source.eval_batch(index)?;
        let shape = shape_of(&batch);
        let function = match functions.get(&shape) {
            Some(function) => *function,
            None => {
                let function = session.function(|cx| outputs(cx, model, shape))?;
                functions.insert(shape, function);
                function
            }
        };
        let results = session.run(function, &inputs_of(&batch))?;
        for layer in &layers {
            let [greatest, counts] = names(layer);
            let greatest = results.scalar(&greatest)? as f32;
            if !greatest.is_finite() {
                return Err(Error::user(format!(
                    "the input of the layer `{layer}` is not finite in batch {index}; no range holds it, and the model is of \
                     no use"
                )));
            }
            found
                .entry(layer.clone())
                .or_default()
                .add(greatest, results.f32(&counts)?);
        }
        examples += batch.examples;
    }
    if examples == 0 {
        return Err(Error::user("the data to calibrate on has no examples; name other data"));
    }
    let scale = |(layer, magnitudes): (String, Magnitudes)| {
        let clip = magnitudes.clip(method);
        // Inputs that are always 0 have any scale.
        (
            layer,
            if clip > 0.0 {
                (clip / LAST).max(f32::MIN_POSITIVE)
            } else {
                1.0
            },
        )
    };
    Ok(Calibrated {
        scales: found.into_iter().map(scale).collect(),
        examples,
    })
}

/// The names of a layer's results.
fn names(layer: &str) -> [String; 2] {
    [format!("{layer}:greatest"), format!("{layer}:counts")]
}

/// For each layer the greatest magnitude of its input, and the number of magnitudes in each bin.
fn outputs(cx: Cx, model: &Model, shape: BatchShape) -> Vec<(String, Tensor)> {
    let cx = cx.keeping_layer_inputs();
    model.logits(cx, shape);
    let mut all: BTreeMap<String, [Tensor; 2]> = BTreeMap::new();
    for (layer, x) in cx.layer_inputs() {
        let size = x.abs();
        let every: Vec<usize> = (0..x.rank()).collect();
        // 0 times a number that is not finite is NaN.
        let mark = (x * 0.0).sum();
        let greatest = size.max_axes(&every) + mark;
        let counts = cx.trace().apply1(BINS, &[size]);
        let found = match all.get(&layer) {
            Some([own, more]) => [own.maximum(greatest), *more + counts],
            None => [greatest, counts],
        };
        all.insert(layer, found);
    }
    all.into_iter()
        .flat_map(|(layer, found)| names(&layer).into_iter().zip(found))
        .collect()
}

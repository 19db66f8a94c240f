//! Operators on columns of features.

use lessen_base::Result;

use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("ai.onnx.ml", "ArrayFeatureExtractor", extract),
    ("ai.onnx.ml", "Binarizer", binarize),
];

fn extract(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let Some((&columns, outer)) = data.shape().split_last() else {
        return call.refused("its input has no columns");
    };
    let chosen = call.integers(1)?.into_iter().map(|index| usize::try_from(index).ok());
    let Some(chosen) = chosen
        .collect::<Option<Vec<usize>>>()
        .filter(|all| all.iter().all(|at| *at < columns))
    else {
        return call.refused(format!("one of its indices is none of {columns} columns"));
    };
    let taken = moved!(data.data(), v => {
        let rows = v.chunks_exact(columns.max(1));
        rows.flat_map(|row| chosen.iter().map(|at| Clone::clone(&row[*at]))).collect()
    });
    let shape = match outer {
        [] => vec![1, chosen.len()],
        outer => [outer, &[chosen.len()]].concat(),
    };
    one(HostTensor::new(&shape, taken)?)
}

fn binarize(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let threshold = f64::from(call.attribute("threshold").map_or(0.0, |threshold| threshold.f));
    let above: Data = each_number!(data.data(), v => {
        fn of<T: Number>(all: &[T], threshold: f64) -> Vec<T> {
            all.iter().map(|x| if x.to_f64() > threshold { T::ONE } else { T::ZERO }).collect()
        }
        of(v, threshold).into()
    }, else return call.refused("truth values and texts have no threshold"));
    one(HostTensor::new(data.shape(), above)?)
}

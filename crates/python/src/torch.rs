//! PyTorch modules in training: exported programs come as JSON, arrays as NumPy's.

use crate::error::{raised, released};
use lessen::device_with;
use lessen_base::{Error, Result};
use lessen_device::HostArray;
use lessen_graph::{Array, DType, Type};
use lessen_torch::{Batch, ExportedProgram, Training, TrainingSettings};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Elements of a part of a batch, or of a result.
#[derive(FromPyObject)]
pub enum Elements<'py> {
    Floats(PyReadonlyArray1<'py, f32>),
    Ints(PyReadonlyArray1<'py, i32>),
    Truths(PyReadonlyArray1<'py, bool>),
}

/// Shapes and elements of a batch.
type GivenBatch<'py> = Vec<(Vec<usize>, Elements<'py>)>;

/// Names, dtypes, shapes and elements of constants.
type GivenValues<'py> = Vec<(String, String, Vec<usize>, PyReadonlyArray1<'py, f64>)>;

/// A module in training, with the programs that were exported of it.
#[pyclass(frozen, module = "lessen._lessen")]
pub struct TorchTraining {
    own: Mutex<(Training, Vec<ExportedProgram>)>,
}

fn batch(given: GivenBatch<'_>) -> Batch {
    let parts = given.into_iter().map(|(shape, elements)| {
        let array = match elements {
            Elements::Floats(x) => HostArray::F32(x.as_array().to_vec()),
            Elements::Ints(x) => HostArray::I32(x.as_array().to_vec()),
            Elements::Truths(x) => HostArray::Bool(x.as_array().iter().map(|x| u8::from(*x)).collect()),
        };
        (Type::new(array.dtype(), &shape), array)
    });
    let (types, arrays) = parts.unzip();
    Batch { types, arrays }
}

fn values(given: GivenValues<'_>) -> Result<BTreeMap<String, Arc<Array>>> {
    let value = |(name, dtype, shape, data): (String, String, Vec<usize>, PyReadonlyArray1<'_, f64>)| {
        let dtype = DType::from_name(&dtype);
        let dtype =
            dtype.ok_or_else(|| Error::user(format!("`{name}` has a dtype that is not traced; use float32")))?;
        let array = Array::new(Type::new(dtype, &shape), data.as_array().to_vec());
        Ok((name, Arc::new(array)))
    };
    given.into_iter().map(value).collect()
}

impl TorchTraining {
    fn locked(&self) -> MutexGuard<'_, (Training, Vec<ExportedProgram>)> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TorchTraining {
    /// Plans the training of a program on batches like this one, by settings in JSON.
    #[new]
    fn plan(
        py: Python<'_>,
        settings: &str,
        program: &str,
        types: Vec<(String, Vec<usize>)>,
        constants: GivenValues<'_>,
        threads: Option<usize>,
    ) -> PyResult<TorchTraining> {
        let constants = values(constants).map_err(|error| raised(py, &error))?;
        released(py, || {
            let settings: TrainingSettings = serde_json::from_str(settings)
                .map_err(|error| Error::internal(format!("settings of a training: {error}")))?;
            let program = ExportedProgram::from_json(program)?;
            let ty = |(dtype, shape): &(String, Vec<usize>)| {
                let dtype = DType::from_name(dtype).ok_or_else(|| Error::internal("a dtype of a batch"))?;
                Ok(Type::new(dtype, shape))
            };
            let types = types.iter().map(ty).collect::<Result<Vec<Type>>>()?;
            let training = Training::new(device_with("cpu", threads)?, settings, &program, &types, constants)?;
            Ok(TorchTraining {
                own: Mutex::new((training, vec![program])),
            })
        })
    }

    /// Adds a program over the same parameters, with values that it reads alone; its number.
    fn add_program(&self, py: Python<'_>, program: &str, constants: GivenValues<'_>) -> PyResult<usize> {
        let constants = values(constants).map_err(|error| raised(py, &error))?;
        released(py, || {
            let (training, programs) = &mut *self.locked();
            programs.push(ExportedProgram::from_json(program)?);
            training.add_constants(constants);
            Ok(programs.len() - 1)
        })
    }

    /// One step of a program on a batch, with these learning rates of the groups: the loss, the number of the step, the
    /// norm of the gradient, and the seconds.
    fn step(
        &self,
        py: Python<'_>,
        number: usize,
        parts: GivenBatch<'_>,
        rates: Vec<f64>,
    ) -> PyResult<(f32, u64, Option<f32>, f64)> {
        let batch = batch(parts);
        released(py, || {
            let (training, programs) = &mut *self.locked();
            training.set_rates(&rates)?;
            let report = training.step((number, &programs[number]), &batch)?;
            Ok((
                report.loss,
                report.step,
                report.gradient_norm,
                report.time.as_secs_f64(),
            ))
        })
    }

    /// The results of a program on a batch: shapes and elements.
    fn ask<'py>(
        &self,
        py: Python<'py>,
        number: usize,
        parts: GivenBatch<'_>,
    ) -> PyResult<Vec<(Vec<usize>, Bound<'py, PyAny>)>> {
        let batch = batch(parts);
        let results = released(py, || {
            let (training, programs) = &mut *self.locked();
            training.ask((number, &programs[number]), &batch)
        })?;
        let shown = results.into_iter().map(|(ty, array)| {
            let elements = match array {
                HostArray::F32(x) => x.into_pyarray(py).into_any(),
                HostArray::F64(x) => x.into_pyarray(py).into_any(),
                HostArray::I32(x) => x.into_pyarray(py).into_any(),
                HostArray::Bool(x) => x
                    .into_iter()
                    .map(|x| x != 0)
                    .collect::<Vec<bool>>()
                    .into_pyarray(py)
                    .into_any(),
                other => other
                    .host()
                    .elements()
                    .collect::<Vec<f64>>()
                    .into_pyarray(py)
                    .into_any(),
            };
            (ty.shape.to_vec(), elements)
        });
        Ok(shown.collect())
    }

    /// Names of the parameters and buffers that training holds.
    fn states(&self) -> Vec<String> {
        self.locked().0.states().iter().cloned().collect()
    }

    /// By how much each step moves buffers that count.
    fn counters(&self) -> BTreeMap<String, f64> {
        self.locked().0.counters().clone()
    }

    /// The values of a parameter or buffer.
    fn value<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let values = released(py, || self.locked().0.value(name))?;
        Ok(values.into_pyarray(py))
    }

    /// Gives a parameter or buffer other values.
    fn set_value(&self, py: Python<'_>, name: &str, values: PyReadonlyArray1<'_, f32>) -> PyResult<()> {
        let values = values.as_slice()?;
        released(py, || self.locked().0.set_value(name, values))
    }

    /// States of the optimizer by name.
    fn moments<'py>(&self, py: Python<'py>) -> PyResult<BTreeMap<String, Bound<'py, PyArray1<f32>>>> {
        let moments = released(py, || self.locked().0.moments())?;
        let shown = moments
            .into_iter()
            .map(|(name, values)| (name, values.into_pyarray(py)));
        Ok(shown.collect())
    }

    /// Continues after `done` steps with these states of the optimizer.
    fn carry_on(
        &self,
        py: Python<'_>,
        done: u64,
        moments: BTreeMap<String, PyReadonlyArray1<'_, f32>>,
    ) -> PyResult<()> {
        let given = moments.into_iter();
        let moments = given.map(|(name, values)| (name, values.as_array().to_vec())).collect();
        released(py, || self.locked().0.carry_on(done, moments))
    }

    /// What is planned, as JSON.
    fn summary(&self) -> String {
        let own = self.locked();
        let (summary, peak) = (own.0.summary(), own.0.peak());
        serde_json::json!({
            "peak_bytes": peak.planned,
            "measured_bytes": peak.measured,
            "state_bytes": summary.state_bytes,
            "arena_bytes": summary.arena_bytes,
            "estimated_step_ms": summary.estimated_seconds * 1e3,
            "compile_s": summary.compile_seconds,
            "states": summary.states,
            "notes": summary.notes,
        })
        .to_string()
    }
}

//! Folders of parameters: a session of a saved one, and saving the parameters of a session.

use super::{Function, Session};
use crate::filed::{self, FiledState};
use crate::function_graph::traced;
use crate::view::ParameterView;
use lessen_base::Result;
use lessen_compile::Options;
use lessen_device::SharedDevice;
use lessen_graph::{Tensor, Type};
use lessen_nn::checkpoint::{self, Entry, Sink, TensorFile, WeightDtype};
use lessen_nn::{Cx, ParamSpec};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

/// The file with the parameters in a checkpoint.
pub(crate) const PARAMETERS: &str = "model.safetensors";

impl Session {
    /// The parameters of a folder with `model.safetensors`, such as a checkpoint, and a function over them: `trace`
    /// declares the parameters that it uses and returns its results by name. Others in the file are left out.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function; a file that cannot be read or lacks a
    /// parameter; a model that the device's memory cannot hold.
    pub fn open<N: Into<String>>(
        device: impl Into<SharedDevice>,
        dir: &Path,
        trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
    ) -> Result<(Session, Function)> {
        let (graph, params) = traced(&ParameterView::default(), false, trace)?;
        let states: Vec<FiledState> = params
            .iter()
            .map(|param| FiledState::of_param(&param.name, &param.shape))
            .collect();
        let mut file = TensorFile::open(&dir.join(PARAMETERS))?;
        filed::check(&file, &states).map_err(|error| error.at(dir.display()))?;
        let mut session = Session::zeros(device, params)?;
        session.load_states(&mut file, &states)?;
        let function = session.add(&graph, &Options::default())?;
        Ok((session, function))
    }

    /// The parameters of a folder, in its order.
    pub(crate) fn saved_params(&self) -> Vec<&ParamSpec> {
        let lora = self.view.lora();
        let is_saved = |param: &&ParamSpec| lora.is_none_or(|lora| lora.trains(&param.name));
        let mut params: Vec<&ParamSpec> = self.params.iter().filter(is_saved).collect();
        params.sort_by(|a, b| a.name.cmp(&b.name));
        params
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor: of a
    /// training that averages them the averages, and of one with adapters these in the layout of `peft`.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a number that the dtype does not reach.
    pub fn save(&self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        let (lora, params) = (self.view.lora(), self.saved_params());
        let entry = |param: &&ParamSpec| Entry {
            name: param.name.clone(),
            ty: Type::f32(&param.shape),
        };
        let entries: Vec<Entry> = params.iter().map(entry).collect();
        let show = |entry: &Entry, sink: &mut Sink<'_>| {
            let Some(param) = params.iter().find(|param| param.name == entry.name) else {
                return Ok(());
            };
            let mut taken = Ok(());
            let read = self.show_result(param, &mut |values| taken = sink(values));
            read.map_err(io::Error::other)?;
            taken
        };
        match lora {
            Some(lora) => checkpoint::save_adapters(dir, config_json, lora, dtype, &entries, show),
            None => checkpoint::save_with(dir, config_json, dtype, &entries, show),
        }
    }
}

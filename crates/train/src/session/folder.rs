//! Folders of parameters: a session of a saved one, and saving the parameters of a session.

use super::{Function, Session};
use crate::array::as_f32;
use crate::graphs::traced;
use crate::reading::Reading;
use lessen_base::Result;
use lessen_compile::Options;
use lessen_device::SharedDevice;
use lessen_graph::Tensor;
use lessen_nn::checkpoint::{self, Entry, Sink, TensorFile, WeightDtype};
use lessen_nn::{Context, ParamSpec};
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
    /// parameter; a model that the machine's memory cannot hold.
    pub fn open(
        device: impl Into<SharedDevice>,
        dir: &Path,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<(Session, Function)> {
        let (graph, params) = traced(&Reading::default(), trace)?;
        let names: Vec<String> = params.iter().map(|param| param.name.clone()).collect();
        let mut file = TensorFile::open(&dir.join(PARAMETERS))?;
        let mut session = Session::zeros(device, params)?;
        session
            .check_states(&file, &names)
            .map_err(|error| error.at(dir.display()))?;
        session.load_states(&mut file, &names)?;
        let function = session.add(&graph, &Options::default())?;
        Ok((session, function))
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor: of a
    /// training that averages them the averages, and of one with adapters these in the layout of `peft`.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a number that the dtype does not reach.
    pub fn save(&self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        let lora = self.reading.lora();
        let is_saved = |param: &&ParamSpec| lora.is_none_or(|lora| lora.trains(&param.name));
        let params = self.params.iter().filter(is_saved);
        let mut entries: Vec<Entry> = params.map(|param| self.entry(&param.name)).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let show = |entry: &Entry, sink: &mut Sink<'_>| {
            let mut taken = Ok(());
            let state = self.reading.result_of(&entry.name);
            let read = self.model.download(&state, &mut |host| {
                taken = sink(&as_f32(host));
            });
            read.map_err(io::Error::other)?;
            taken
        };
        match lora {
            Some(lora) => checkpoint::save_adapters(dir, config_json, lora, dtype, &entries, show),
            None => checkpoint::save_with(dir, config_json, dtype, &entries, show),
        }
    }
}

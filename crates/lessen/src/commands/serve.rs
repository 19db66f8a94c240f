//! `lessen serve`

use super::access_args::AccessArgs;
use super::asked_model::AskedModel;
use crate::stdout::say;
use crate::tell;
use clap::Args;
use lessen_base::{Error, Result};
use lessen_saved::embedding::Embedder;
use lessen_saved::saved_run::SavedRun;
use lessen_serve::{Announcement, Limits, Options, ServedModel, Stop, leaves_out_beams};
use lessen_train::{parse_size, show_size};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Flags of `lessen serve`.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    asked: AskedModel,
    /// Embed texts, also with a model that could predict or continue them
    #[arg(long)]
    embed: bool,
    /// Address to listen on; 0.0.0.0 is every address of this machine, and takes a key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    access: AccessArgs,
    /// Name of the model in requests and answers [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Most bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    max_body: String,
    /// Most texts of a request
    #[arg(long, value_name = "N", default_value_t = Limits::default().texts, allow_negative_numbers = true)]
    max_texts: usize,
    /// Seconds that a client may take to send a request, and the server to answer it; clients that send or take less
    /// than 1 KiB a second for 10 seconds are let go before
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().time.as_secs_f64(), allow_negative_numbers = true)]
    timeout: f64,
    /// Most requests that wait; others are refused with status 429
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue, allow_negative_numbers = true)]
    queue: usize,
    /// Most requests that are answered at once, each on a connection; others are refused with status 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, allow_negative_numbers = true)]
    connections: usize,
    /// Most tokens of texts that are computed together
    #[arg(long, value_name = "N", default_value_t = Limits::default().tokens, allow_negative_numbers = true)]
    batch_tokens: usize,
    /// Most texts that are continued together
    #[arg(long, value_name = "N", default_value_t = Limits::default().sequences, allow_negative_numbers = true)]
    sequences: usize,
    /// Most tokens of a text that is continued, its prompt among them [default: the model's positions, at most 2048]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    context: Option<usize>,
    /// Another value for data.max_length or data.threshold; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object when the server is ready
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// Serves the model until a signal ends it; the exit code.
    pub fn run(self) -> Result<u8> {
        let time = Duration::try_from_secs_f64(self.timeout);
        let limits = Limits {
            body: parse_size(&self.max_body).map_err(|error| error.at("--max-body"))?,
            texts: self.max_texts,
            time: time
                .map_err(|_| Error::user(format!("--timeout {} cannot be; choose seconds above 0", self.timeout)))?,
            queue: self.queue,
            connections: self.connections,
            tokens: self.batch_tokens,
            sequences: self.sequences,
            context: self.context,
        };
        limits.check()?;
        let access = self.access.access(self.host)?;
        let options = Options {
            host: self.host,
            port: self.port,
            name: self.name.clone().unwrap_or_else(|| name_of(self.asked.model.folder())),
            limits,
            access,
        };
        let json = self.json;
        let name = options.name.clone();
        let serve = |model: ServedModel| {
            let stop = Stop::default();
            lessen_serve::serve(model, options, &stop, &mut |ready| {
                stop.at_signals()?;
                announce(ready, &name, json)
            })
        };
        if self.embed || self.asked.model.is_embedder()? {
            serve(ServedModel::Embedder(Box::new(self.embedder()?)))?;
        } else {
            let run = self.asked.open(&self.set)?;
            tell_what_is_not_followed(&run, &limits);
            serve(ServedModel::Run(Box::new(run)))?;
        }
        Ok(0)
    }
}

impl Serve {
    /// The model as one that embeds.
    fn embedder(&self) -> Result<Embedder> {
        if let Some(assignment) = self.set.first() {
            return Err(Error::user(format!(
                "--set {assignment} is for models that predict, and this one embeds texts; leave it out"
            )));
        }
        let options = self.asked.embed_options()?;
        let embedder = self.asked.embedder(&options)?;
        if embedder.multiplies_integers() {
            self.asked.device.warn_of_integers()?;
        }
        embedder.notes().iter().for_each(|note| tell(&format!("note: {note}")));
        Ok(embedder)
    }
}

/// Names the fields of `generation_config.json` that served texts do not follow.
fn tell_what_is_not_followed(run: &SavedRun, limits: &Limits) {
    if let Some(note) = run.generation_note() {
        tell(&note);
    }
    if leaves_out_beams(run, limits) {
        tell(&format!(
            "note: generation_config.json asks for more beams (num_beams) than the {} texts that are continued together, so \
             the most likely tokens are taken; raise --sequences to search with beams",
            limits.sequences
        ));
    }
}

/// Says where the server listens, and the memory that it takes at most.
fn announce(ready: &Announcement, name: &str, json: bool) -> Result<()> {
    let url = format!("http://{}", ready.address);
    if let Some(bytes) = ready.bytes {
        tell(&format!(
            "the process takes at most {}, requests included",
            show_size(bytes)
        ));
    }
    say(&if json {
        let object = serde_json::json!({ "url": url, "model": name, "most_bytes": ready.bytes });
        format!("{object}\n")
    } else {
        format!("{name} is ready at {url}\n")
    })
}

/// The name of a folder, as a user would call the model in it.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    whole
        .file_name()
        .map_or_else(|| "model".to_string(), |name| name.to_string_lossy().into_owned())
}

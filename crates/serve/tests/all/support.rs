//! Helpers that the tests share: tiny models, servers in this process, and requests as bytes.

use lessen_base::Result;
use lessen_cpu::CpuBackend;
use lessen_jobs::training::{Request, train};
use lessen_saved::embedding::{EmbedOptions, Embedder};
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_serve::{Access, Announcement, Limits, Options, ServedModel, Stop, serve};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A device with one thread.
pub fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// Trains the model of a recipe for some steps in a folder that stays until the process ends.
fn trained(name: &str, recipe: &str, files: &[(&str, String)]) -> PathBuf {
    let dir = tempfile::tempdir().unwrap().keep();
    for (file, text) in files {
        fs::write(dir.join(file), text).unwrap();
    }
    let path = dir.join(format!("{name}.toml"));
    fs::write(&path, recipe).unwrap();
    let mut settings = recipe::load(path.to_str().unwrap()).unwrap();
    settings
        .set_flag(&format!("data.path={}", dir.join("data").display()))
        .unwrap();
    fs::create_dir_all(dir.join("data")).unwrap();
    for (file, _) in files {
        fs::rename(dir.join(file), dir.join("data").join(file)).unwrap();
    }
    if let [(file, _)] = files {
        let one = dir.join("data").join(file);
        settings.set_flag(&format!("data.path={}", one.display())).unwrap();
    }
    let out = dir.join("run");
    train(&Request::new(settings, out.clone()), &cpu()).unwrap();
    out
}

/// A classifier of texts with the classes `fair` and `foul`, of at most 12 tokens.
pub fn classifier() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let line = |i: u32| {
            let (word, label) = if i.is_multiple_of(2) { ("sun", 0) } else { ("rain", 1) };
            format!("day {i} {word}\t{label}\n")
        };
        let recipe = "[model]\nkind = \"encoder\"\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\n\
             [data]\nformat = \"labelled\"\nmax_length = 12\n[train]\nbatch = 8\nsteps = 4\nlr = 0.01\n";
        let files = [
            ("train.txt", (0..40).map(line).collect()),
            ("dev.txt", (40..52).map(line).collect()),
            ("class.txt", "fair\nfoul\n".to_string()),
        ];
        trained("classifier", recipe, &files)
    })
}

/// A language model of characters that goes on with `abc`.
pub fn language_model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let recipe = "[model]\nkind = \"gpt2\"\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\n\
             [data]\nformat = \"text\"\nmax_length = 64\n[train]\nbatch = 4\nsteps = 40\nlr = 0.02\neval_every = 0\n";
        trained("characters", recipe, &[("text.txt", "abcabcabc\n".repeat(80))])
    })
}

/// A language model of 64 rotary positions.
pub fn rotary_language_model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let recipe = "[model]\nkind = \"gpt2\"\nposition = \"rope\"\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\n\
             [data]\nformat = \"text\"\nmax_length = 64\n[train]\nbatch = 4\nsteps = 2\neval_every = 0\n";
        trained("rotary", recipe, &[("text.txt", "abcabcabc\n".repeat(80))])
    })
}

/// A folder with the language model of the tests and further files, which stays until the process ends.
pub fn language_model_with(files: &[(&str, &str)]) -> PathBuf {
    let dir = tempfile::tempdir().unwrap().keep();
    for entry in fs::read_dir(language_model().join("model")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
    }
    dir
}

/// A server in this process, which is stopped when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub bytes: Option<usize>,
    stop: Stop,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Server {
    /// Serves a model within the bounds that `change` makes of the default ones.
    pub fn start(model: &Path, change: impl FnOnce(&mut Limits)) -> Server {
        Server::start_on(model, 0, change)
    }

    /// The same on a port.
    pub fn start_on(model: &Path, port: u16, change: impl FnOnce(&mut Limits)) -> Server {
        Server::start_with(model, port, false, change)
    }

    /// The same of a model that embeds texts, or that does not.
    pub fn start_with(model: &Path, port: u16, embeds: bool, change: impl FnOnce(&mut Limits)) -> Server {
        let mut limits = Limits {
            time: Duration::from_secs(20),
            ..Limits::default()
        };
        change(&mut limits);
        Server::start_for(model, port, embeds, limits, Access::default())
    }

    /// The same for clients with this access.
    pub fn start_for(model: &Path, port: u16, embeds: bool, limits: Limits, access: Access) -> Server {
        let (model, stop, (ready, is_ready)) = (model.to_path_buf(), Stop::default(), channel());
        let own = stop.clone();
        let thread = thread::spawn(move || {
            let options = Options {
                host: Ipv4Addr::LOCALHOST.into(),
                port,
                name: "tiny".to_string(),
                limits,
                access,
            };
            let announce = &mut |announcement: &Announcement| {
                ready.send(announcement.clone()).unwrap();
                Ok(())
            };
            if embeds {
                let embedder = Embedder::open(&model, &EmbedOptions::default(), &cpu())?;
                return serve(ServedModel::Embedder(Box::new(embedder)), options, &own, announce);
            }
            let run = SavedRun::open(&model, WhichModel::Last, AdapterOptions::default(), &cpu())?;
            serve(ServedModel::Run(Box::new(run)), options, &own, announce)
        });
        let announcement = is_ready.recv();
        let announcement = announcement.unwrap_or_else(|_| panic!("{}", "the server did not start"));
        Server {
            address: announcement.address,
            bytes: announcement.bytes,
            stop,
            thread: Some(thread),
        }
    }

    /// Asks it to stop.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Stops it; how it ended.
    pub fn end(mut self) -> Result<()> {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes and reads the answer to its end.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        Answer::read(stream)
    }

    /// Posts a body of JSON.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.send(&request(path, body))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

/// The bytes of a request. Answers to HTTP 1.0 have no chunks.
pub fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads a response until its server closes the connection.
    pub fn read(mut stream: TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A connection that is reset has sent what it has.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Answer {
            status: head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_string(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a successful answer.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The message of a refusal with this status and about this field.
    #[track_caller]
    pub fn refusal(&self, status: u16, param: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = &self.json()["error"];
        assert_eq!(error["param"].as_str().unwrap_or_default(), param, "{self:?}");
        assert!(error["type"].is_string(), "{self:?}");
        error["message"].as_str().unwrap().to_string()
    }

    /// The objects of a stream of events, whose last one is `[DONE]`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.head.contains("content-type: text/event-stream"), "{self:?}");
        let mut events: Vec<&str> = self.body.trim_end().split("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"), "{self:?}");
        let object = |event: &str| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        events.into_iter().map(object).collect()
    }
}

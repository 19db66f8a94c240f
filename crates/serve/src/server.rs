//! A server from its start to its end.

use crate::connections;
use crate::continuing;
use crate::options::{Limits, Options};
use crate::queue::Queue;
use crate::service::{Served, Service};
use crate::stop::Stop;
use crate::texts;
use lessen_base::process::status_bytes;
use lessen_base::{Error, Result};
use lessen_nn::Task;
use lessen_saved::embedding::{Embedder, JoinedEmbedder};
use lessen_saved::saved_run::SavedRun;
use lessen_saved::text_model::TextModel;
use lessen_train::Sampling;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

/// A model to be served.
pub enum ServedModel {
    /// A classifier, a regression or a language model.
    Run(Box<SavedRun>),
    /// A model that embeds texts.
    Embedder(Box<Embedder>),
}

/// What a server says when it is ready.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// Where it listens.
    pub address: SocketAddr,
    /// The most bytes that the process takes; none where the system does not tell what it takes already.
    pub bytes: Option<usize>,
}

/// How texts are continued where a request does not say otherwise: as the model's `generation_config.json` says, else
/// drawn from the softmax of the logits as they are. Beams for which there are too few places
/// ([`leaves_out_beams`]) are none.
fn served_sampling(run: &SavedRun, limits: &Limits) -> Sampling {
    let own = run.sampling(Sampling {
        tokens: usize::MAX,
        ..Sampling::default()
    });
    Sampling {
        beams: own.beams.filter(|_| !leaves_out_beams(run, limits)),
        ..own
    }
}

/// Whether the model's `generation_config.json` asks for more beams than texts can be continued together.
pub fn leaves_out_beams(run: &SavedRun, limits: &Limits) -> bool {
    let own = run.sampling(Sampling::default()).beams;
    own.is_some_and(|beams| beams.count > limits.sequences)
}

/// Serves a model until `stop` is wished for. `ready` is called when clients can connect: the address is taken at once,
/// the model is loaded and its programs are compiled before.
///
/// # Errors
/// Bounds that cannot be, an address that cannot be taken, and a model that answers nothing about texts.
pub fn serve(
    model: ServedModel,
    options: Options,
    stop: &Stop,
    ready: &mut (dyn FnMut(&Announcement) -> Result<()> + Send),
) -> Result<()> {
    options.limits.check()?;
    options.access.check_names()?;
    let limits = options.limits;
    let (room, seconds) = (limits.queue, limits.time.as_secs_f64());
    let http = Http::new(&options)?;
    match model {
        ServedModel::Embedder(embedder) => {
            let embedder = JoinedEmbedder::new(*embedder, limits.tokens)?;
            embedder.warm_up()?;
            let model = Served::Embeddings {
                width: embedder.embedder().dim(),
                normalizes: embedder.embedder().normalizes(),
                queue: Queue::new(room),
            };
            let service = Arc::new(Service::new(options, model));
            let Served::Embeddings { queue, .. } = &service.model else {
                return Ok(());
            };
            with_http(&service, http, stop, ready, || {
                texts::run(&embedder, queue, &service.metrics, seconds);
            })
        }
        ServedModel::Run(run) if run.task() == Task::LanguageModelling => {
            let sampling = served_sampling(&run, &limits);
            let mut sequences = run.sequences(limits.context, limits.sequences)?;
            if sampling.beams.is_some() {
                sequences.allow_beams();
            }
            sequences.warm_up()?;
            let model = Served::Continuations {
                queue: Queue::new(room),
                sampling: Box::new(sampling),
                stops: run.stops(),
                template: run.own_chat_template()?.map(Arc::new),
            };
            let service = Arc::new(Service::new(options, model));
            let tokenizer = run.tokenizer()?;
            let Served::Continuations { queue, .. } = &service.model else {
                return Ok(());
            };
            with_http(&service, http, stop, ready, || {
                continuing::run(&mut sequences, tokenizer, queue, &service.metrics, seconds);
            })
        }
        ServedModel::Run(run) => {
            let predictor = run.batched_predictor(limits.tokens)?;
            predictor.warm_up()?;
            let model = Served::Predictions {
                labels: run.labels().to_vec(),
                queue: Queue::new(room),
            };
            let service = Arc::new(Service::new(options, model));
            let Served::Predictions { queue, .. } = &service.model else {
                return Ok(());
            };
            with_http(&service, http, stop, ready, || {
                texts::run(&predictor, queue, &service.metrics, seconds);
            })
        }
    }
}

/// The most connections that the system keeps until they are accepted.
const BACKLOG: u32 = 1024;

/// The most bytes of answers that the system keeps for a connection.
const SEND_BUFFER: u32 = 256 << 10;

/// HTTP, which has an address and can be run.
struct Http {
    runtime: Runtime,
    listener: TcpListener,
}

impl Http {
    /// Takes the address.
    fn new(options: &Options) -> Result<Http> {
        let failed = |error| Error::internal(format!("HTTP cannot be started ({error})"));
        // Templates of chats are filled in on a thread of their own, one after another.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .map_err(failed)?;
        let address = SocketAddr::new(options.host, options.port);
        let listener = runtime.block_on(async {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            // The address can be taken again at once after a server has ended; on Windows, this would share it.
            #[cfg(unix)]
            socket.set_reuseaddr(true)?;
            // What a client does not read is kept by the system beside the process; this bounds it for each connection.
            socket.set_send_buffer_size(SEND_BUFFER)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        });
        let listener = listener.map_err(|error| {
            Error::user(format!(
                "--port: {address} cannot be listened on ({error}); choose another port, or 0 for any that is free"
            ))
        })?;
        Ok(Http { runtime, listener })
    }

    /// Serves until the server is stopped.
    fn run(
        self,
        service: &Arc<Service>,
        stop: &Stop,
        ready: &mut (dyn FnMut(&Announcement) -> Result<()> + Send),
    ) -> Result<()> {
        let Http { runtime, listener } = self;
        let served = runtime.block_on(async {
            let address = listener.local_addr();
            let address = address.map_err(|error| Error::internal(format!("the address is not known ({error})")))?;
            let taken = status_bytes("VmHWM");
            let bytes = taken.map(|taken| taken.saturating_add(service.most_bytes()));
            ready(&Announcement { address, bytes })?;
            connections::serve(service.clone(), listener, stop.clone()).await;
            Ok(())
        });
        // A template that is being filled in is not waited for.
        runtime.shutdown_background();
        served
    }
}

/// Runs `work` on this thread, until the queue is closed, and HTTP on another one.
fn with_http(
    service: &Arc<Service>,
    http: Http,
    stop: &Stop,
    ready: &mut (dyn FnMut(&Announcement) -> Result<()> + Send),
    work: impl FnOnce(),
) -> Result<()> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("http".to_string());
        let handle = thread.spawn_scoped(scope, || {
            let served = http.run(service, stop, ready);
            // The model's thread ends with the queue, whatever ended this one.
            service.close();
            served
        });
        let handle = handle.map_err(|error| Error::internal(format!("no thread for HTTP can be made ({error})")))?;
        work();
        let served = handle.join();
        served.map_err(|_| Error::internal("the thread of HTTP has panicked"))?
    })
}

//! Connections: all are accepted, and beyond the bound the one whose client has done nothing for the longest time is
//! closed for the next one. When the server stops, requests that it works for are answered.

use crate::client::Client;
use crate::connection::converse;
use crate::options::SPARE;
use crate::service::Service;
use crate::stop::Stop;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// How long the last answers may take when the server stops.
const DRAIN: Duration = Duration::from_secs(8);

/// How long clients may let the server wait when it stops.
const PARTING: Duration = Duration::from_secs(3);

/// Serves connections until the server is stopped and all requests are answered.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: Stop) {
    let most = service.options.limits.connections + SPARE;
    let mut all = Connections::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.wait() => break,
            () = all.ended() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if all.clients.len() >= most {
                    all.close_idlest();
                }
                all.add(&service, stream, &stop);
            }
            Err(_) => {
                // No more descriptors, or a client that has gone: neither is over at once.
                all.close_idlest();
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    drop(listener);
    let rest = all.finish();
    tokio::select! {
        _ = timeout(DRAIN, rest) => {}
        () = stop.wait_again() => {}
    }
    service.close();
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    clients: HashMap<Id, (AbortHandle, Arc<Client>)>,
}

impl Connections {
    fn add(&mut self, service: &Arc<Service>, stream: TcpStream, stop: &Stop) {
        let client = Arc::new(Client::new());
        let (service, own, stop) = (service.clone(), client.clone(), stop.clone());
        let handle = self.tasks.spawn(async move {
            let _open = service.metrics.connection();
            // What goes wrong with a connection concerns its client alone.
            let _ = converse(&service, &own, stream, &stop).await;
        });
        self.clients.insert(handle.id(), (handle, client));
    }

    /// Waits until a connection has ended; for ever, where there is none.
    async fn ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        self.clients.remove(&id);
    }

    /// Closes the connection whose client has let the server wait for the longest time without a byte.
    fn close_idlest(&mut self) {
        let idle = self
            .clients
            .iter()
            .filter_map(|(id, (_, client))| Some((client.idle()?, *id)));
        if let Some((_, id)) = idle.max_by_key(|(idle, _)| *idle)
            && let Some((handle, _)) = self.clients.remove(&id)
        {
            handle.abort();
        }
    }

    /// Waits until all requests are answered that the server works for. Clients that let it wait are left.
    async fn finish(&mut self) {
        let begun = Instant::now();
        while !self.tasks.is_empty() {
            let is_over = begun.elapsed() >= PARTING;
            for (handle, client) in self.clients.values() {
                let lets_wait = client.lets_wait().is_some_and(|time| time >= PARTING);
                if client.is_waiting() || (is_over && lets_wait) {
                    handle.abort();
                }
            }
            tokio::select! {
                () = self.ended() => {}
                () = sleep(Duration::from_millis(50)) => {}
            }
        }
    }
}

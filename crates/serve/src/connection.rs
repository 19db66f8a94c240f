//! A connection: its requests are answered, and it is closed when its client is too slow.

use crate::client::{Client, ClientPhase};
use crate::endpoints::answer;
use crate::options::{BUFFER, Limits};
use crate::paced::Paced;
use crate::refusal::Refusal;
use crate::service::Service;
use crate::stop::Stop;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a refused client's rest is read, so that it gets to see the refusal.
const LINGER: Duration = Duration::from_secs(2);

/// Answers the requests of a connection.
///
/// # Errors
/// A connection that fails, which concerns its client alone.
pub async fn converse(service: &Arc<Service>, client: &Arc<Client>, stream: TcpStream, stop: &Stop) -> io::Result<()> {
    let limits = &service.options.limits;
    stream.set_nodelay(true)?;
    let paced = Paced::new(stream, client, limits.patience());
    let respond = |request: Request<Incoming>| {
        let (service, client) = (service.clone(), client.clone());
        Box::pin(async move { Ok::<_, Infallible>(answer(&service, &client, request).await) })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.time)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(paced), service_fn(respond));
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = stop.wait(), if !is_stopping => {
                is_stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let is_late_head = client.is_in_head() && ended.is_err_and(|error| is_late(&error));
    client.enter(ClientPhase::Leaving);
    let mut stream = connection.into_parts().io.into_inner();
    if is_late_head {
        stream.write_all(late_head(limits).as_bytes()).await?;
    }
    stream.shutdown().await?;
    // Bytes that nobody has read would take the last answer away from the client.
    let mut rest = [0; 4096];
    let drain = async { while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, drain).await;
    Ok(())
}

/// Whether a connection has ended because its client was too slow.
fn is_late(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    error.is_timeout() || cause.is_some_and(|cause| cause.kind() == ErrorKind::TimedOut)
}

/// The answer to a head that comes too slowly.
fn late_head(limits: &Limits) -> String {
    let seconds = limits.patience().as_secs_f64();
    let message =
        format!("the head of the request did not come within {seconds} s (--timeout, at most 10 s); send it faster");
    let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, message).with_code("timeout");
    let body = refusal.body().to_string();
    format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n\
         {body}",
        body.len()
    )
}

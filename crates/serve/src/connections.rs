//! Connections: accepted within a bound, closed when a client is too slow, and finished when the server stops.

use crate::endpoints::answer;
use crate::refusal::Refusal;
use crate::service::Service;
use crate::stop::Stop;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

/// The most bytes of a request's head, and of what is read ahead.
const BUFFER: usize = 64 << 10;

/// How long a refused client's rest is read, so that it gets to see the refusal.
const LINGER: Duration = Duration::from_secs(2);

/// How long the last answers may take when the server stops, beyond the time of a request.
const GRACE: Duration = Duration::from_secs(2);

/// Serves connections until the server is stopped and all requests are answered.
///
/// # Errors
/// A second request to stop.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: Stop) {
    let limits = service.options.limits;
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut all = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.wait() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        while all.try_join_next().is_some() {}
        let Some((stream, permit)) = accepted else { continue };
        let (service, stop) = (service.clone(), stop.clone());
        all.spawn(async move {
            service.metrics.connection(1);
            // What goes wrong with a connection concerns its client alone.
            let _ = connection(&service, stream, &stop).await;
            service.metrics.connection(-1);
            drop(permit);
        });
    }
    drop(listener);
    let rest = async { while all.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout(limits.time + GRACE, rest) => {}
        () = stop.wait_again() => {}
    }
    service.close();
}

/// The next connection, when there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(_) => {
            // No more descriptors, or a client that has gone: neither is over at once.
            sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Answers the requests of a connection.
async fn connection(service: &Arc<Service>, stream: TcpStream, stop: &Stop) -> io::Result<()> {
    let time = service.options.limits.time;
    stream.set_nodelay(true)?;
    let mut timed = TimeoutStream::new(stream);
    // A client that reads nothing is as slow as one that writes nothing.
    timed.set_write_timeout(Some(time));
    let respond = |request: Request<Incoming>| {
        let service = service.clone();
        Box::pin(async move { Ok::<_, Infallible>(answer(&service, request).await) })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(time)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Box::pin(timed)), service_fn(respond));
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
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    if ended.is_err_and(|error| error.is_timeout()) && !parts.read_buf.is_empty() {
        let seconds = time.as_secs_f64();
        let message = format!("the head of the request did not come within {seconds} s (--timeout); send it faster");
        let body = Refusal::new(StatusCode::REQUEST_TIMEOUT, message)
            .with_code("timeout")
            .body()
            .to_string();
        let head = format!(
            "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
    }
    stream.shutdown().await?;
    // Bytes that nobody has read would take the last answer away from the client.
    let mut rest = [0; 4096];
    let drain = async { while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, drain).await;
    Ok(())
}

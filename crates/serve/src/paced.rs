//! A connection whose client must keep a pace: while it sends the head of a request, and while it takes an answer.

use crate::client::Client;
use crate::pace::Pace;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection; reads and writes of a client that does not keep the pace fail with [`ErrorKind::TimedOut`].
pub struct Paced {
    stream: TcpStream,
    client: Arc<Client>,
    head: Timed,
    answer: Timed,
}

/// A pace with the timer of its while.
struct Timed {
    length: Duration,
    pace: Option<Pace>,
    timer: Pin<Box<Sleep>>,
}

impl Timed {
    fn new(length: Duration) -> Timed {
        Timed {
            length,
            pace: None,
            timer: Box::pin(sleep_until(Instant::now())),
        }
    }

    /// Counts bytes, once something was waited for.
    fn add(&mut self, bytes: usize) {
        if let Some(pace) = &mut self.pace {
            pace.add(bytes);
        }
    }

    /// Whether what is waited for comes too slowly; the first call begins a while.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let pace = match &mut self.pace {
            Some(pace) => pace,
            none => {
                let pace = none.insert(Pace::new(self.length));
                self.timer.as_mut().reset(pace.end());
                pace
            }
        };
        while self.timer.as_mut().poll(cx).is_ready() {
            if !pace.goes_on() {
                return true;
            }
            self.timer.as_mut().reset(pace.end());
        }
        false
    }
}

impl Paced {
    /// A connection with whiles of this length.
    pub fn new(stream: TcpStream, client: &Arc<Client>, length: Duration) -> Paced {
        Paced {
            stream,
            client: client.clone(),
            head: Timed::new(length),
            answer: Timed::new(length),
        }
    }

    fn written(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(Ok(bytes)) => {
                self.client.has_taken();
                self.answer.add(*bytes);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.client.stalls();
                if self.answer.is_late(cx) {
                    return Poll::Ready(Err(ErrorKind::TimedOut.into()));
                }
            }
        }
        polled
    }
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            if self.client.has_sent() {
                self.head.pace = None;
            }
            self.head.add(bytes);
        }
        if polled.is_pending() && self.client.is_in_head() && self.head.is_late(cx) {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, all);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All bytes have been written when it is called.
        self.answer.pace = None;
        self.client.has_taken_all();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

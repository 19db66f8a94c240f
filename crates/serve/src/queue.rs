//! Requests that wait for the model, bounded in number. Their order is that of fair queueing by virtual times (Demers,
//! Keshav and Shenker 1989), each request as a flow of its own: one that asks for little does not wait for those that
//! ask for much, and these wait no longer than the work that came before them and as much again.

use crate::refusal::Refusal;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request that waits.
pub trait Waiting {
    /// When its client stops waiting.
    fn deadline(&self) -> Instant;
    /// Whether its client has gone.
    fn is_gone(&self) -> bool;
    /// About how much it asks of the model, in tokens.
    fn work(&self) -> u64;
    /// Answers it with a refusal.
    fn refuse(self, refusal: Refusal);
}

/// A bounded queue between the threads of HTTP and the thread of the model.
pub struct Queue<J> {
    inner: Mutex<Inner<J>>,
    has_news: Condvar,
    most: usize,
}

struct Inner<J> {
    /// Requests in the order of their virtual ends, which stand before them.
    jobs: VecDeque<(u64, J)>,
    /// The virtual time: the work that each request has had, were that of all shared among those that have not ended.
    now: u64,
    /// The virtual times at which requests that were taken end, were work shared so.
    taken: Vec<u64>,
    /// Requests that were taken and wait again.
    held: usize,
    is_closed: bool,
}

impl<J> Inner<J> {
    /// The requests that wait.
    fn len(&self) -> usize {
        self.jobs.len() + self.held
    }

    /// Shares the work of a request that is taken among all that have not ended in virtual time.
    fn share(&mut self, end: u64, work: u64) {
        let now = self.now;
        self.taken.retain(|end| *end > now);
        let flows = self.jobs.len() + self.taken.len();
        self.now = now.saturating_add((work / flows.max(1) as u64).max(1));
        self.taken.push(end);
    }
}

impl<J: Waiting> Queue<J> {
    /// An empty queue of at most `most` requests.
    pub fn new(most: usize) -> Queue<J> {
        Queue {
            inner: Mutex::new(Inner {
                jobs: VecDeque::new(),
                now: 0,
                taken: Vec::new(),
                held: 0,
                is_closed: false,
            }),
            has_news: Condvar::new(),
            most,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<J>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request.
    ///
    /// # Errors
    /// A queue that is full or closed.
    pub fn push(&self, job: J) -> Result<(), Refusal> {
        let mut inner = self.lock();
        if inner.is_closed {
            return Err(Refusal::stopping());
        }
        if inner.len() >= self.most {
            // Requests of clients that have gone make room.
            inner.jobs.retain(|(_, job)| !job.is_gone());
        }
        if inner.len() >= self.most {
            return Err(Refusal::full(self.most));
        }
        let end = inner.now.saturating_add(job.work().max(1));
        let place = inner.jobs.partition_point(|(other, _)| *other <= end);
        inner.jobs.insert(place, (end, job));
        drop(inner);
        self.has_news.notify_one();
        Ok(())
    }

    /// The number of requests that wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether requests wait that were never taken.
    pub fn has_jobs(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// Says how many requests that were taken wait again. They count as those that wait here.
    pub fn hold(&self, held: usize) {
        self.lock().held = held;
    }

    /// Takes the requests at the front, as many as `takes` accepts one after another; none where the first one is not
    /// accepted or nothing waits. With `waits`, an empty queue is waited for; the result is `None` when it is closed
    /// and empty. Requests of clients that have gone are dropped, and late ones are refused.
    pub fn take(&self, waits: bool, seconds: f64, mut takes: impl FnMut(&J) -> bool) -> Option<Vec<J>> {
        let mut inner = self.lock();
        loop {
            let (now, mut taken, mut late) = (Instant::now(), Vec::new(), Vec::new());
            while let Some((end, job)) = inner.jobs.front() {
                if job.is_gone() {
                    inner.jobs.pop_front();
                } else if job.deadline() <= now {
                    late.extend(inner.jobs.pop_front().map(|(_, job)| job));
                } else if takes(job) {
                    let (end, work) = (*end, job.work());
                    inner.share(end, work);
                    taken.extend(inner.jobs.pop_front().map(|(_, job)| job));
                } else {
                    break;
                }
            }
            for job in late {
                job.refuse(Refusal::late(seconds));
            }
            if !taken.is_empty() || !waits {
                return Some(taken);
            }
            if !inner.jobs.is_empty() {
                return Some(taken);
            }
            if inner.is_closed {
                return None;
            }
            inner = self.has_news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until a request comes, `most` at the longest.
    pub fn pause(&self, most: Duration) {
        let inner = self.lock();
        if inner.jobs.is_empty() {
            let waited = self.has_news.wait_timeout(inner, most);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Closes the queue: what waits is still taken, and nothing can be added.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.has_news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Job(&'static str, u64);

    impl Waiting for Job {
        fn deadline(&self) -> Instant {
            Instant::now() + Duration::from_secs(60)
        }

        fn is_gone(&self) -> bool {
            false
        }

        fn work(&self) -> u64 {
            self.1
        }

        fn refuse(self, _: Refusal) {}
    }

    fn next(queue: &Queue<Job>) -> &'static str {
        let mut room = true;
        let taken = queue.take(false, 1.0, |_| std::mem::replace(&mut room, false));
        taken.unwrap()[0].0
    }

    #[test]
    fn a_small_request_goes_before_large_ones_and_none_waits_for_ever() {
        let queue = Queue::new(64);
        for large in ["a", "b", "c"] {
            queue.push(Job(large, 100)).unwrap();
        }
        queue.push(Job("small", 2)).unwrap();
        assert_eq!(["small", "a"], [next(&queue), next(&queue)]);
        // Small ones that keep coming hold the others up for as much work as these are.
        let mut passed = 0;
        while {
            queue.push(Job("more", 10)).unwrap();
            next(&queue) != "c"
        } {
            passed += 1;
            assert!(passed < 64, "c never comes");
        }
    }
}

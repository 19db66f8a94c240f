//! A fixed pool of threads that run the tasks of one job at a time.
//!
//! Tasks are claimed from a counter; the caller works, too. Between jobs the workers spin for a moment,
//! because in a training step the next job follows at once, and then sleep. Running a job allocates nothing.

use lessen_base::{Error, Result};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time that an idle worker spins before it sleeps, which is about the time that waking it takes.
const SPIN: Duration = Duration::from_micros(50);

/// A task: called with its number and the number of the thread that runs it, 0 being the caller's.
type Task<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A fixed pool of threads.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs: jobs of several calling threads run one after the other.
    running: Mutex<()>,
}

struct Shared {
    job: UnsafeCell<Job>,
    /// Bit 0: whether a job is open, that is, whether threads may join it. The rest: how many have joined,
    /// times two.
    state: AtomicUsize,
    /// Counts jobs, so that a worker joins each only once.
    epoch: AtomicUsize,
    /// The next task that nobody has claimed.
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    sleeping: Vec<AtomicBool>,
    stop: AtomicBool,
}

/// The open job: its task function and the number of tasks. The `'static` lifetime is upheld by [`Pool::run`], which
/// returns only after all threads have left the job.
struct Job {
    task: Option<Task<'static>>,
    tasks: usize,
}

// SAFETY: `job` is the only field that is not `Sync` by itself. It is written by the thread that holds
// `Pool::running` while no job is open and no thread is joined, and read by joined threads only; `state`
// orders the two.
unsafe impl Sync for Shared {}
// SAFETY: everything in it may move between threads; a task is `Sync`, so a reference to it is `Send`.
unsafe impl Send for Shared {}

thread_local! {
    /// The pool (by address) whose job this thread runs, and its number in it.
    static WITHIN: Cell<Option<(*const Shared, usize)>> = const { Cell::new(None) };
}

impl Pool {
    /// A pool of `threads` threads (at least one), the caller's included.
    ///
    /// # Errors
    /// When the system does not give a thread.
    pub fn new(threads: usize) -> std::io::Result<Pool> {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(Job { task: None, tasks: 0 }),
            state: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
            sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let mut pool = Pool {
            shared,
            workers: Vec::with_capacity(workers),
            running: Mutex::new(()),
        };
        for index in 0..workers {
            let shared = Arc::clone(&pool.shared);
            let work = move || shared.work(index);
            pool.workers.push(
                thread::Builder::new()
                    .name(format!("lessen-{}", index + 1))
                    .spawn(work)?,
            );
        }
        Ok(pool)
    }

    /// A pool of as many threads as the environment variable `LESSEN_THREADS` says, or as the machine has
    /// cores.
    ///
    /// # Errors
    /// One sentence, if the variable is no positive number or the system does not give the threads.
    pub fn from_env() -> Result<Pool> {
        let threads = match std::env::var_os("LESSEN_THREADS") {
            None => thread::available_parallelism().map_or(1, |n| n.get()),
            Some(text) => threads_of(&text.to_string_lossy())?,
        };
        Pool::new(threads).map_err(|error| {
            Error::user(format!(
                "cannot start {threads} threads ({error}); set LESSEN_THREADS lower"
            ))
        })
    }

    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `task(i, thread)` for every `i` below `tasks`, in any order, on any of the threads, and returns
    /// when all are done. `thread` is below [`Pool::threads`], and no two tasks run at the same time with the
    /// same one. Called within a task of the same pool, it runs everything on that thread.
    ///
    /// # Panics
    /// With the panic of a task, if one panics; then some tasks may not have run.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let this = Arc::as_ptr(&self.shared);
        if let Some((pool, thread)) = WITHIN.get()
            && pool == this
        {
            return (0..tasks).for_each(|i| task(i, thread));
        }
        let guard = lock(&self.running);
        if tasks <= 1 || self.workers.is_empty() {
            let _within = Within::enter(this, 0);
            return (0..tasks).for_each(|i| task(i, 0));
        }
        self.shared.open(task, tasks);
        for (worker, sleeping) in self.workers.iter().zip(&self.shared.sleeping).take(tasks - 1) {
            if sleeping.load(Ordering::SeqCst) && sleeping.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        self.shared.run_tasks(task, tasks, 0);
        self.shared.close();
        let panic = lock(&self.shared.panic).take();
        drop(guard);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// A panic of a task is caught, and leaves the pool as it was.
impl std::panic::RefUnwindSafe for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of tasks and has none of its own.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

impl Shared {
    /// Lets threads join a job. The caller holds `Pool::running`, and calls [`Shared::close`] before the
    /// task's lifetime ends.
    fn open(&self, task: Task<'_>, tasks: usize) {
        // SAFETY: lengthens the lifetime only; `close` returns when no thread can use the reference any more.
        let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        // SAFETY: no job is open and no thread is joined (`close` saw to it), so nobody reads `job`.
        unsafe {
            *self.job.get() = Job {
                task: Some(task),
                tasks,
            }
        };
        self.next.store(0, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.state.store(1, Ordering::SeqCst);
    }

    /// Lets no more threads join, and waits until all that have joined are done.
    fn close(&self) {
        self.state.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.state.load(Ordering::Acquire) != 0 {
            spins += 1;
            // With fewer free cores than threads, a joined thread may need this one.
            if spins < 10_000 {
                std::hint::spin_loop()
            } else {
                thread::yield_now()
            }
        }
    }

    /// Claims and runs tasks until there are none left; keeps a panic for the caller.
    fn run_tasks(&self, task: Task<'_>, tasks: usize, thread: usize) {
        let _within = Within::enter(self, thread);
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let i = self.next.fetch_add(1, Ordering::Relaxed);
                if i >= tasks {
                    break;
                }
                task(i, thread);
            }
        }));
        if let Err(panic) = result {
            // Nobody needs to begin another task; half of the range leaves room for further claims.
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(panic);
        }
    }

    /// The main loop of a worker.
    fn work(&self, index: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.wait(index, seen) {
            seen = epoch;
            let joined = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
                (state & 1 == 1).then_some(state + 2)
            });
            if joined.is_err() {
                continue;
            }
            // SAFETY: this thread has joined an open job, so nobody writes `job` until it leaves.
            let (task, tasks) = unsafe { ((*self.job.get()).task, (*self.job.get()).tasks) };
            if let Some(task) = task {
                self.run_tasks(task, tasks, index + 1);
            }
            self.state.fetch_sub(2, Ordering::AcqRel);
        }
    }

    /// Waits for an open job after the one seen last, first spinning, then sleeping; none when the pool is dropped.
    fn wait(&self, index: usize, seen: usize) -> Option<usize> {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if let Some(epoch) = self.opened(seen) {
                    return Some(epoch);
                }
                std::hint::spin_loop();
            }
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if start.elapsed() > SPIN {
                self.sleeping[index].store(true, Ordering::SeqCst);
                // A job opened before the flag was up has woken nobody; one opened later wakes this thread.
                if self.opened(seen).is_none() && !self.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.sleeping[index].store(false, Ordering::SeqCst);
            }
        }
    }

    fn opened(&self, seen: usize) -> Option<usize> {
        let open = self.state.load(Ordering::SeqCst) & 1 == 1;
        let epoch = self.epoch.load(Ordering::Relaxed);
        (open && epoch != seen).then_some(epoch)
    }
}

/// Marks the thread as running tasks of a pool until it is dropped.
struct Within(Option<(*const Shared, usize)>);

impl Within {
    fn enter(pool: *const Shared, thread: usize) -> Within {
        Within(WITHIN.replace(Some((pool, thread))))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(self.0);
    }
}

/// Locks, whether or not a thread has panicked while it held the lock: nothing is left half-done under these
/// locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn threads_of(text: &str) -> Result<usize> {
    match text.trim().parse() {
        Ok(threads) if (1..=1024).contains(&threads) => Ok(threads),
        _ => Err(Error::user(format!(
            "LESSEN_THREADS is \"{text}\"; set it to a number of threads from 1 to 1024, or unset it"
        ))),
    }
}

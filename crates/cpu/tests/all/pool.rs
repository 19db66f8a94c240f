//! The thread pool and the arena.

use std::sync::atomic::{AtomicUsize, Ordering};

use lessen_cpu::arena::Arena;
use lessen_cpu::pool::Pool;

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 8] {
        let pool = Pool::new(threads).unwrap();
        assert_eq!(pool.threads(), threads);
        for tasks in [0, 1, 2, 7, 100] {
            for round in 0..50 {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, &|i, thread| {
                    assert!(thread < threads);
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                let once = counts.iter().all(|c| c.load(Ordering::Relaxed) == 1);
                assert!(once, "{threads} threads, {tasks} tasks, round {round}");
            }
        }
    }
}

#[test]
fn no_two_tasks_share_a_thread_number() {
    let pool = Pool::new(4).unwrap();
    let busy: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    pool.run(200, &|_, thread| {
        assert_eq!(busy[thread].fetch_add(1, Ordering::SeqCst), 0);
        std::hint::black_box((0..1000).sum::<usize>());
        busy[thread].fetch_sub(1, Ordering::SeqCst);
    });
}

#[test]
fn sleeping_workers_wake() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        // Each task waits for the other, so both threads must take part.
        let met = AtomicUsize::new(0);
        pool.run(2, &|_, _| {
            met.fetch_add(1, Ordering::SeqCst);
            while met.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    for threads in [1, 3] {
        let pool = Pool::new(threads).unwrap();
        for bad in [0, 5, 9] {
            let result = std::panic::catch_unwind(|| {
                pool.run(10, &|i, _| {
                    if i == bad {
                        std::panic::panic_any(i);
                    }
                })
            });
            assert_eq!(result.unwrap_err().downcast_ref::<usize>(), Some(&bad));
            let done = AtomicUsize::new(0);
            pool.run(10, &|_, _| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 10);
        }
    }
}

#[test]
fn nested_jobs_run_inside_their_task() {
    let pool = Pool::new(3).unwrap();
    let other = Pool::new(2).unwrap();
    let sum = AtomicUsize::new(0);
    pool.run(6, &|_, outer| {
        pool.run(5, &|i, inner| {
            assert_eq!(outer, inner);
            sum.fetch_add(i, Ordering::Relaxed);
        });
        other.run(2, &|_, thread| assert!(thread < 2));
    });
    assert_eq!(sum.into_inner(), 6 * 10);
}

#[test]
fn callers_on_several_threads_take_turns() {
    let pool = Pool::new(2).unwrap();
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    pool.run(3, &|i, _| {
                        sum.fetch_add(i, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 4 * 100 * 3);
}

#[test]
fn an_arena_is_aligned_zero_and_grows() {
    for len in [0, 1, 4096, 100_000, 5 << 20] {
        let arena = Arena::new(len).unwrap();
        assert_eq!((arena.len(), arena.is_empty()), (len, len == 0));
        assert_eq!(arena.ptr() as usize % 4096, 0);
        // SAFETY: the arena has this many bytes, and nobody writes to them.
        let bytes = unsafe { std::slice::from_raw_parts(arena.ptr(), len) };
        assert!(bytes.iter().all(|&b| b == 0));
    }
    let mut arena = Arena::new(10).unwrap();
    let ptr = arena.ptr();
    arena.grow(5).unwrap();
    assert_eq!((arena.len(), arena.ptr()), (10, ptr), "never shrinks");
    arena.grow(1 << 16).unwrap();
    assert_eq!(arena.len(), 1 << 16);
    // SAFETY: the last byte of the arena.
    unsafe { *arena.ptr().add((1 << 16) - 1) = 1 };
    let error = Arena::new(usize::MAX / 2).unwrap_err();
    assert!(error.to_string().contains("bytes of memory"), "{error}");
}

//! Buffers of messages that are used again. A buffer that is freed gives its pages back to the system, and the next
//! message would wait for new ones.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes from which buffers are kept: smaller ones cost little.
const SMALLEST: usize = 1 << 16;
/// The most bytes that are kept; the oldest buffers are freed.
const MOST: usize = 16 << 20;

/// Buffers that nobody has, all filled to their capacity.
struct Free {
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free {
    buffers: VecDeque::new(),
    bytes: 0,
});

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer of arbitrary bytes.
pub fn filled(length: usize) -> Vec<u8> {
    if length >= SMALLEST {
        let mut free = free();
        let kept = free.buffers.iter().rposition(|buffer| buffer.len() == length);
        if let Some(buffer) = kept.and_then(|at| free.buffers.remove(at)) {
            free.bytes -= length;
            return buffer;
        }
    }
    vec![0; length]
}

/// An empty buffer with room for `length` bytes.
pub fn empty(length: usize) -> Vec<u8> {
    let mut buffer = filled(length);
    buffer.clear();
    buffer
}

/// Keeps a buffer that is no longer needed.
pub fn reuse(buffer: Vec<u8>) {
    let length = buffer.len();
    if length != buffer.capacity() || !(SMALLEST..=MOST).contains(&length) {
        return;
    }
    let mut free = free();
    free.buffers.push_back(buffer);
    free.bytes += length;
    while free.bytes > MOST
        && let Some(oldest) = free.buffers.pop_front()
    {
        free.bytes -= oldest.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_for_as_many_bytes() {
        // A length that no other test has.
        let length = SMALLEST + 12_345;
        let (new, kept) = (vec![0; length], vec![7; length]);
        assert_eq!(filled(length), new);
        reuse(kept.clone());
        assert_eq!(filled(length + 1), vec![0; length + 1]);
        assert_eq!(filled(length), kept);
        assert_eq!(filled(length), new);
        reuse(kept);
        let again = empty(length);
        assert_eq!((again.len(), again.capacity()), (0, length));
    }

    #[test]
    fn small_buffers_and_those_with_room_are_freed() {
        let length = SMALLEST - 1;
        reuse(filled(length));
        let with_room = empty(SMALLEST + 54_321);
        let capacity = with_room.capacity();
        reuse(with_room);
        let kept = free();
        assert!(
            kept.buffers
                .iter()
                .all(|buffer| ![length, capacity].contains(&buffer.len()))
        );
        assert!(kept.bytes <= MOST);
    }
}

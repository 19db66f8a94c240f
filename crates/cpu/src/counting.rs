//! The system's allocator with a count of the bytes that are allocated.

use std::alloc::{GlobalAlloc, Layout, System};

use lessen_base::allocated;

/// The system's allocator, which reports every allocation to [`allocated`]. A program makes it its
/// `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Free bytes at the end of the heap from which on they are given back to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIMMED: libc::c_int = 256 << 10;

/// Bytes by which the heap grows beyond what is asked for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PADDING: libc::c_int = 64 << 10;

impl CountingAllocator {
    /// Makes the system's allocator hold little more than what is allocated: one heap for all threads, and large
    /// allocations mapped one by one. By itself glibc makes a heap for each thread, and raises the size from which on
    /// allocations are mapped, so that memory that was freed stays resident. To be called at the start of a program.
    /// Other allocators stay as they are.
    pub fn hold_little(&self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            for (parameter, value) in [
                (libc::M_ARENA_MAX, 1),
                (libc::M_MMAP_THRESHOLD, allocated::LARGE as libc::c_int),
                (libc::M_TRIM_THRESHOLD, TRIMMED),
                (libc::M_TOP_PAD, PADDING),
            ] {
                // SAFETY: the call sets a parameter of the allocator; it refuses a value that it does not take.
                unsafe { libc::mallopt(parameter, value) };
            }
            allocated::set_give_back(trim);
        }
    }
}

/// Gives free pages of the heap back to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: the call touches free memory of the allocator alone.
    unsafe { libc::malloc_trim(0) };
}

// SAFETY: all memory comes from the system's allocator, to which every call passes on its arguments unchanged; counting
// neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds what `GlobalAlloc::alloc` asks for.
        let memory = unsafe { System.alloc(layout) };
        count_new(memory, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds what `GlobalAlloc::alloc_zeroed` asks for.
        let memory = unsafe { System.alloc_zeroed(layout) };
        count_new(memory, layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds what `GlobalAlloc::dealloc` asks for.
        unsafe { System.dealloc(memory, layout) };
        allocated::subtract(layout.size());
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds what `GlobalAlloc::realloc` asks for.
        let new = unsafe { System.realloc(memory, layout, size) };
        if !new.is_null() {
            allocated::change(layout.size(), size);
        }
        new
    }
}

fn count_new(memory: *mut u8, layout: Layout) -> *mut u8 {
    if !memory.is_null() {
        allocated::add(layout.size());
    }
    memory
}

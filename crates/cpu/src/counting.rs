//! The system's allocator with a count of the bytes that are allocated.

use std::alloc::{GlobalAlloc, Layout, System};

use lessen_base::allocated;

/// The system's allocator, which reports every allocation to [`allocated`]. A program makes it its
/// `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

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
            let old = layout.size();
            if size > old {
                allocated::add(size - old);
            } else {
                allocated::subtract(old - size);
            }
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

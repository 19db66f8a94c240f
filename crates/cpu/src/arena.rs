//! The memory of a step: one allocation, touched when it is made.

use lessen_base::{Error, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Alignment of small arenas: a page.
const PAGE: usize = 4096;
/// Alignment of large arenas: a huge page, so that the system can use huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// A block of memory of zeros, aligned to a page.
#[derive(Debug)]
pub struct Arena {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: an arena owns its memory and hands out a raw pointer only; its users uphold the aliasing rules.
unsafe impl Send for Arena {}
// SAFETY: as above; the arena itself does not change through a shared reference.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena of `len` bytes of zeros. All of it is in memory when this returns.
    ///
    /// # Errors
    /// One sentence, if the system does not give that much memory.
    pub fn new(len: usize) -> Result<Arena> {
        let refused = || {
            Error::user(format!(
                "the system does not give {len} bytes of memory; choose a smaller batch or model"
            ))
        };
        let layout = layout(len).ok_or_else(refused)?;
        // SAFETY: the layout's size is not 0.
        let ptr = NonNull::new(unsafe { alloc(layout) }).ok_or_else(refused)?;
        ask_for_huge_pages(ptr, len);
        // SAFETY: the allocation has `len` bytes.
        unsafe { ptr.write_bytes(0, len) };
        Ok(Arena { ptr, len })
    }

    /// Makes the arena at least `len` bytes long. A longer one is a new one: pointers into the old one are no
    /// longer valid, and all bytes are zero.
    ///
    /// # Errors
    /// As [`Arena::new`]; then the arena is empty.
    pub fn grow(&mut self, len: usize) -> Result<()> {
        if len > self.len {
            // The old memory goes first, so that the two never exist together.
            *self = Arena::new(0)?;
            *self = Arena::new(len)?;
        }
        Ok(())
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(layout) = layout(self.len) {
            // SAFETY: the memory was allocated with this very layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

/// Asks the system for huge pages, before the memory is touched: with pages of 4 KiB, products wait for addresses.
/// Memory after the last whole huge page keeps small pages, so that no more memory is resident than was allocated.
fn ask_for_huge_pages(ptr: NonNull<u8>, len: usize) {
    #[cfg(target_os = "linux")]
    if len >= HUGE_PAGE {
        // SAFETY: the range lies within the allocation, and the advice changes no byte. A system without huge pages
        // refuses it, which changes nothing.
        unsafe { libc::madvise(ptr.as_ptr().cast(), len / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (ptr, len);
}

/// The layout of the allocation of an arena, which is never empty.
fn layout(len: usize) -> Option<Layout> {
    let align = if len >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
    Layout::from_size_align(len.max(1), align).ok()
}

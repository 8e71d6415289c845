//! The allocator: lists of free blocks by their size. A module lives for a run, and
//! asks for the same sizes hook after hook.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::UnsafeCell;
use core::ptr;

const PAGE: usize = 65536;
/// How much new memory is taken at once: to grow costs more than the usual hook.
const PAGES: usize = 8;

/// Sizes are multiples of 16 up to 1 KB, and four for each power of two from there on.
const SMALL: usize = 1024;
const CLASSES: usize = SMALL / 16 + 1 + 4 * 22;

struct Free {
    next: *mut Free,
}

struct State {
    free: [*mut Free; CLASSES],
    at: usize, // of the memory that was never given out
    end: usize,
}

/// The allocator of a module. Memory has one thread.
pub(crate) struct Heap(UnsafeCell<State>);

unsafe impl Sync for Heap {}

impl Heap {
    pub(crate) const fn new() -> Self {
        Heap(UnsafeCell::new(State { free: [ptr::null_mut(); CLASSES], at: 0, end: 0 }))
    }
}

/// The size that is given for a size, and its list.
#[inline(always)]
fn class(size: usize) -> (usize, usize) {
    if size <= SMALL {
        let n = (size + 15) / 16;
        return (n * 16, n);
    }
    let log = 31 - ((size - 1) as u32).leading_zeros(); // 10 or more
    let shift = log - 2;
    let n = (size - 1) >> shift; // 4 to 7
    ((n + 1) << shift, SMALL / 16 + 1 + (log as usize - 10) * 4 + (n - 4))
}

impl State {
    /// Takes memory that was never given out, or nothing if there is no more.
    #[inline(never)]
    unsafe fn fresh(&mut self, size: usize, align: usize) -> *mut u8 {
        let mut from = (self.at + align - 1) & !(align - 1);
        if self.end < from || self.end - from < size {
            let need = (size + align + PAGE - 1) / PAGE;
            let mut pages = need.max(PAGES);
            let mut first = memory_grow(0, pages);
            if first == usize::MAX {
                pages = need;
                first = memory_grow(0, pages);
            }
            if first == usize::MAX {
                return ptr::null_mut();
            }
            if first * PAGE != self.end {
                self.at = first * PAGE;
            }
            self.end = memory_size(0) * PAGE;
            from = (self.at + align - 1) & !(align - 1);
        }
        self.at = from + size;
        from as *mut u8
    }
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let state = &mut *self.0.get();
        if layout.size() > isize::MAX as usize / 2 {
            return ptr::null_mut();
        }
        let (size, class) = class(layout.size());
        let block = state.free[class];
        if block.is_null() || layout.align() > 16 {
            return state.fresh(size, layout.align().max(16));
        }
        state.free[class] = (*block).next;
        block.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let state = &mut *self.0.get();
        let (size, class) = class(layout.size());
        if block as usize + size == state.at {
            state.at = block as usize; // the last that was given out
            return;
        }
        let block = block.cast::<Free>();
        (*block).next = state.free[class];
        state.free[class] = block;
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (now, _) = class(layout.size());
        if size <= now && size * 2 > now {
            return block;
        }
        let state = &mut *self.0.get();
        if size > now && block as usize + now == state.at && size <= state.end - block as usize {
            let (more, _) = class(size);
            if more <= state.end - block as usize {
                state.at = block as usize + more;
                return block;
            }
        }
        let to = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !to.is_null() {
            ptr::copy_nonoverlapping(block, to, layout.size().min(size));
            self.dealloc(block, layout);
        }
        to
    }
}

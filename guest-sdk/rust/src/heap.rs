//! The allocator: lists of free blocks by their size, and one of large blocks. A module
//! lives for a run, and asks for the same sizes hook after hook.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::UnsafeCell;
use core::ptr;

const PAGE: usize = 65536;
/// How much new memory is taken at once: to grow costs more than the usual hook.
const PAGES: usize = 4;

/// Sizes are multiples of 16 up to 1 KB, four for each power of two up to 32 KB, and
/// multiples of 1 KB from there on. The large ones share a list.
const SMALL: usize = 1 << 10;
const LARGE: usize = 1 << 15;
const CLASSES: usize = SMALL / 16 + 1 + 4 * 5;

struct Free {
    next: *mut Free,
    size: usize, // of a large one
}

struct State {
    free: [*mut Free; CLASSES],
    large: *mut Free, // by address; neighbours are one
    at: usize,        // of the memory that was never given out
    end: usize,
}

/// The allocator of a module. Memory has one thread.
pub(crate) struct Heap(UnsafeCell<State>);

unsafe impl Sync for Heap {}

impl Heap {
    pub(crate) const fn new() -> Self {
        Heap(UnsafeCell::new(State { free: [ptr::null_mut(); CLASSES], large: ptr::null_mut(), at: 0, end: 0 }))
    }
}

/// The size that is given for a size, and its list, which is none for a large one.
#[inline(always)]
fn class(size: usize) -> (usize, usize) {
    if size <= SMALL {
        let n = (size + 15) / 16;
        return (n * 16, n);
    }
    if size > LARGE {
        return ((size + SMALL - 1) & !(SMALL - 1), CLASSES);
    }
    let log = 31 - ((size - 1) as u32).leading_zeros(); // 10 to 14
    let shift = log - 2;
    let n = (size - 1) >> shift; // 4 to 7
    ((n + 1) << shift, SMALL / 16 + 1 + (log as usize - 10) * 4 + (n - 4))
}

impl State {
    /// Takes a block of a size.
    unsafe fn take(&mut self, size: usize) -> *mut u8 {
        if size > isize::MAX as usize / 2 {
            return ptr::null_mut();
        }
        let (size, class) = class(size);
        if class == CLASSES {
            return self.take_large(size);
        }
        let block = self.free[class];
        if block.is_null() {
            return self.fresh(size);
        }
        self.free[class] = (*block).next;
        block.cast()
    }

    unsafe fn give_back(&mut self, block: *mut u8, size: usize) {
        let (size, class) = class(size);
        if class == CLASSES {
            return self.give_back_large(block.cast(), size);
        }
        if block as usize + size == self.at {
            self.at = block as usize; // the last that was given out
            return;
        }
        let block = block.cast::<Free>();
        (*block).next = self.free[class];
        self.free[class] = block;
    }

    /// Takes the begin of the first block that is large enough.
    #[inline(never)]
    unsafe fn take_large(&mut self, size: usize) -> *mut u8 {
        let mut place: *mut *mut Free = &mut self.large;
        while !(*place).is_null() {
            let block = *place;
            if (*block).size >= size {
                *place = (*block).next;
                if (*block).size > size {
                    let rest = block.cast::<u8>().add(size).cast::<Free>();
                    rest.write(Free { next: (*block).next, size: (*block).size - size });
                    *place = rest;
                }
                return block.cast();
            }
            place = &mut (*block).next;
        }
        self.fresh(size)
    }

    #[inline(never)]
    unsafe fn give_back_large(&mut self, block: *mut Free, size: usize) {
        let end = |block: *mut Free| block as usize + (*block).size;
        let (mut place, mut before): (*mut *mut Free, *mut *mut Free) = (&mut self.large, ptr::null_mut());
        while !(*place).is_null() && *place < block {
            before = place;
            place = &mut (**place).next;
        }
        block.write(Free { next: *place, size });
        *place = block;
        if end(block) == (*block).next as usize {
            let next = (*block).next;
            block.write(Free { next: (*next).next, size: size + (*next).size });
        }
        let mut whole = place;
        if !before.is_null() && end(*before) == block as usize {
            (**before).size += (*block).size;
            (**before).next = (*block).next;
            whole = before;
        }
        if end(*whole) == self.at {
            self.at = *whole as usize; // the last that were given out
            *whole = (**whole).next;
        }
    }

    /// Takes memory that was never given out, or nothing if there is no more.
    #[inline(never)]
    unsafe fn fresh(&mut self, size: usize) -> *mut u8 {
        if self.end - self.at < size {
            let need = (size + PAGE - 1) / PAGE;
            let mut first = memory_grow(0, need.max(PAGES));
            if first == usize::MAX {
                first = memory_grow(0, need);
            }
            if first == usize::MAX {
                return ptr::null_mut();
            }
            if first * PAGE != self.end {
                self.at = first * PAGE; // somebody else has grown it
            }
            self.end = memory_size(0) * PAGE;
        }
        let block = self.at;
        self.at += size;
        block as *mut u8
    }
}

/// Blocks are aligned to so much. One that is to be aligned to more lies in a larger
/// one, whose address is before it.
const ALIGNED: usize = 16;

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let state = &mut *self.0.get();
        let align = layout.align();
        if align <= ALIGNED {
            return state.take(layout.size());
        }
        let whole = state.take(layout.size().saturating_add(align));
        if whole.is_null() {
            return whole;
        }
        let block = ((whole as usize + align) & !(align - 1)) as *mut u8;
        block.cast::<*mut u8>().sub(1).write(whole);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let state = &mut *self.0.get();
        let align = layout.align();
        if align <= ALIGNED {
            return state.give_back(block, layout.size());
        }
        state.give_back(block.cast::<*mut u8>().sub(1).read(), layout.size() + align)
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            let state = &mut *self.0.get();
            let ((now, _), (then, large)) = (class(layout.size()), class(size));
            if then == now {
                return block;
            }
            if then > now && block as usize + now == state.at && then <= state.end - block as usize {
                state.at = block as usize + then; // the last that was given out grows where it is
                return block;
            }
            if then < now && large == CLASSES {
                state.give_back_large(block.add(then).cast(), now - then);
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

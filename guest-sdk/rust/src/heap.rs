//! The allocator: one list of free blocks for each small size, and one of large blocks. A module is instantiated for
//! a run and requests the same sizes in each hook.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::UnsafeCell;
use core::ptr;

const PAGE: usize = 65536;
/// The number of pages by which memory grows at least. Growing costs more than a typical
/// hook.
const PAGES: usize = 4;

/// Sizes are multiples of 16 up to 1 KB, four for each power of two up to 32 KB, and
/// multiples of 1 KB above. The blocks above 32 KB share a list.
const SMALL: usize = 1 << 10;
const LARGE: usize = 1 << 15;
const CLASSES: usize = SMALL / 16 + 1 + 4 * 5;

struct Free {
    next: *mut Free,
    size: usize, // of a large block
}

struct State {
    free: [*mut Free; CLASSES],
    large: *mut Free, // sorted by address; adjacent blocks are merged
    at: usize,        // start of the memory that was never allocated
    end: usize,
}

/// The allocator of a module, which has a single thread.
pub(crate) struct Heap(UnsafeCell<State>);

unsafe impl Sync for Heap {}

impl Heap {
    pub(crate) const fn new() -> Self {
        Heap(UnsafeCell::new(State { free: [ptr::null_mut(); CLASSES], large: ptr::null_mut(), at: 0, end: 0 }))
    }
}

/// Returns the rounded size and the index of its list, which is CLASSES for large sizes.
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
    /// Allocates a block.
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
            self.at = block as usize; // the last block allocated
            return;
        }
        let block = block.cast::<Free>();
        (*block).next = self.free[class];
        self.free[class] = block;
    }

    /// Allocates the start of the first large block that is big enough.
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
            self.at = *whole as usize; // the last blocks allocated
            *whole = (**whole).next;
        }
    }

    /// Allocates memory that was never allocated before. Returns null if there is none.
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
                self.at = first * PAGE; // other code has grown it
            }
            self.end = memory_size(0) * PAGE;
        }
        let block = self.at;
        self.at += size;
        block as *mut u8
    }
}

/// The alignment of blocks. A block with a larger alignment is part of a larger block,
/// whose address is stored before it.
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
                state.at = block as usize + then; // the last block allocated grows in place
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

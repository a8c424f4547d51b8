//! The program's allocator: mimalloc, mostly called without an alignment.
//!
//! All its blocks of 16 bytes and more are aligned to 16, and smaller ones to their size. Its
//! aligned functions search nevertheless, and take a larger block if they find none at once. So
//! requests whose alignment is at most their size, and at most 16, use the plain functions.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// See the module's front page.
pub struct Allocator;

/// The alignment that every block has which is not smaller.
const ALIGN: usize = 16;

/// Whether every block of `size` has this alignment without asking for it.
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= ALIGN && align <= size
}

// SAFETY: mimalloc's functions keep the contract of `GlobalAlloc`: blocks are as large as asked
// for, at least as aligned, theirs alone, and null if there is no memory. Any of them frees and
// moves what any other has given.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if is_aligned_anyway(size, align) {
            // SAFETY: takes any size.
            return unsafe { mi::mi_malloc(size) }.cast();
        }
        // SAFETY: takes any size, and a `Layout`'s alignment is a power of two.
        unsafe { mi::mi_malloc_aligned(size, align) }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if is_aligned_anyway(size, align) {
            // SAFETY: takes any size.
            return unsafe { mi::mi_zalloc(size) }.cast();
        }
        // SAFETY: takes any size, and a `Layout`'s alignment is a power of two.
        unsafe { mi::mi_zalloc_aligned(size, align) }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller gives back what this allocator gave.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        if is_aligned_anyway(size, align) {
            // SAFETY: the caller gives what this allocator gave; a block that stays where it is
            // stays as aligned as it was, and another is aligned as a new one.
            return unsafe { mi::mi_realloc(block.cast(), size) }.cast();
        }
        // SAFETY: as above, and a `Layout`'s alignment is a power of two.
        unsafe { mi::mi_realloc_aligned(block.cast(), size, align) }.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size up to a few pages, zeroed or not, grown and shrunk: aligned, and as it was.
    #[test]
    fn blocks_are_aligned_and_keep_what_they_hold() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in (1..200).chain((200..20_000).step_by(397)) {
                let layout = Layout::from_size_align(size, align).expect("small");
                let aligned = |block: *mut u8| {
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{layout:?}");
                };
                // SAFETY: no layout is empty, and each block is used within its size and given back
                // with its layout.
                unsafe {
                    let zeroed = Allocator.alloc_zeroed(layout);
                    aligned(zeroed);
                    assert_eq!((*zeroed, *zeroed.add(size - 1)), (0, 0));
                    let block = Allocator.alloc(layout);
                    aligned(block);
                    *block = 7;
                    let grown = Allocator.realloc(block, layout, size * 3);
                    aligned(grown);
                    assert_eq!(*grown, 7);
                    let layout = Layout::from_size_align(size * 3, align).expect("small");
                    let shrunk = Allocator.realloc(grown, layout, 1);
                    aligned(shrunk);
                    assert_eq!(*shrunk, 7);
                    Allocator.dealloc(shrunk, Layout::from_size_align(1, align).expect("small"));
                    Allocator.dealloc(zeroed, Layout::from_size_align(size, align).expect("small"));
                }
            }
        }
    }
}

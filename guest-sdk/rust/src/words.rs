//! Texts are looked at by words of eight bytes.

/// A byte in each place of a word.
pub(crate) const EACH: u64 = 0x0101010101010101;
const HIGH: u64 = EACH * 0x80;

/// The word at a place of a text that has eight bytes there.
#[inline(always)]
pub(crate) unsafe fn load(bytes: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= bytes.len());
    bytes.as_ptr().add(at).cast::<u64>().read_unaligned()
}

/// The highest bit of each byte that is zero; bytes behind the first one may have it, too.
#[inline(always)]
pub(crate) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & HIGH
}

/// The same of what a JSON string does not hold as it is: quotes, backslashes, controls.
/// With the bit of 2 turned over, a quote is one more than the controls.
#[inline(always)]
pub(crate) fn specials(word: u64) -> u64 {
    let quotes = (word ^ (EACH * 2)).wrapping_sub(EACH * (b' ' as u64 + 1));
    let slashes = (word ^ (EACH * b'\\' as u64)).wrapping_sub(EACH);
    (quotes | slashes) & !word & HIGH
}

/// The place of the first byte that was found.
#[inline(always)]
pub(crate) fn first(found: u64) -> usize {
    (found.trailing_zeros() / 8) as usize
}

/// Whether bytes are ASCII all through.
pub(crate) fn is_ascii(bytes: &[u8]) -> bool {
    let mut at = 0;
    while bytes.len() - at >= 16 {
        if unsafe { load(bytes, at) | load(bytes, at + 8) } & HIGH != 0 {
            return false;
        }
        at += 16;
    }
    bytes[at..].iter().all(|c| *c < 0x80)
}

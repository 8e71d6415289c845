//! Strings are searched in words of eight bytes.

/// A word with 1 in each byte.
pub(crate) const EACH: u64 = 0x0101010101010101;
const HIGH: u64 = EACH * 0x80;

/// Loads the eight bytes at an index, which must exist.
#[inline(always)]
pub(crate) unsafe fn load(bytes: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= bytes.len());
    bytes.as_ptr().add(at).cast::<u64>().read_unaligned()
}

/// Sets the highest bit of each zero byte. The bits after the first one are undefined.
#[inline(always)]
pub(crate) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & HIGH
}

/// Sets the highest bit of each character that a JSON string must escape: quotes, backslashes and control characters.
/// The bits after the first one are undefined. With bit 2 inverted, a quote is one above the control characters.
#[inline(always)]
pub(crate) fn specials(word: u64) -> u64 {
    let quotes = (word ^ (EACH * 2)).wrapping_sub(EACH * (b' ' as u64 + 1));
    let slashes = (word ^ (EACH * b'\\' as u64)).wrapping_sub(EACH);
    (quotes | slashes) & !word & HIGH
}

/// The index of the first marked byte.
#[inline(always)]
pub(crate) fn first(found: u64) -> usize {
    (found.trailing_zeros() / 8) as usize
}

/// Reports whether all bytes are ASCII.
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

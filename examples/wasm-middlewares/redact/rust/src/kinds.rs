//! The kinds of data to find. Each finds matches from an index on; the text before the index has
//! been processed and only provides context.

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Email,
    Card,
    Ip,
    Iban,
}

pub const KINDS: [(&str, Kind); 4] = [("email", Kind::Email), ("credit_card", Kind::Card), ("ip", Kind::Ip), ("iban", Kind::Iban)];

impl Kind {
    /// Calls `found` with the start and the end of each match.
    pub fn find(self, t: &[u8], from: usize, found: &mut dyn FnMut(usize, usize)) {
        let mut i = from;
        while i < t.len() {
            let (begin, end) = match self {
                Kind::Email => email(t, from, i),
                Kind::Card => (i, card(t, i)),
                Kind::Ip => (i, ip(t, i)),
                Kind::Iban if byte(t, i + 2).is_ascii_digit() => (i, iban(t, i).0),
                Kind::Iban => (i, 0),
            };
            if end > begin {
                found(begin, end);
            }
            i = end.max(i + 1);
        }
    }

    /// Returns the index from which more text could change the result of `find`; the text's length
    /// if there is none.
    pub fn open(self, t: &[u8], from: usize) -> usize {
        match self {
            Kind::Email => email_open(t, from),
            Kind::Card => card_open(t, from),
            Kind::Ip => ip_open(t, from),
            Kind::Iban => (from.max(t.len().saturating_sub(MAX_IBAN))..t.len()).find(|i| iban(t, *i).1).unwrap_or(t.len()),
        }
    }
}

fn word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

fn separator(c: u8) -> bool {
    c == b' ' || c == b'-'
}

/// Returns the byte at `i`, or 0 outside the text.
fn byte(t: &[u8], i: usize) -> u8 {
    t.get(i).copied().unwrap_or(0)
}

/// Returns the byte before `i`, or 0.
fn before(t: &[u8], i: usize) -> u8 {
    byte(t, i.wrapping_sub(1))
}

/// Returns the start of the run of bytes of a class that ends at index `to`; the result is at least
/// `least`.
fn back(t: &[u8], least: usize, to: usize, class: fn(u8) -> bool) -> usize {
    (least..to).rev().find(|i| !class(t[*i])).map_or(least.min(to), |i| i + 1)
}

fn in_domain(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'.' || c == b'-'
}

fn in_local(c: u8) -> bool {
    in_domain(c) || matches!(c, b'_' | b'%' | b'+')
}

/// Returns the start of the local part before the @ at index `at`, at most 64 bytes.
fn local(t: &[u8], least: usize, at: usize) -> usize {
    let begin = back(t, least.max(at.saturating_sub(64)), at, in_local);
    (begin..at).find(|i| t[*i] != b'.').unwrap_or(at)
}

/// Returns the start and the end of the address around the @ at index `at`.
fn email(t: &[u8], from: usize, at: usize) -> (usize, usize) {
    if t[at] != b'@' {
        return (at, at);
    }
    // An address has one @.
    let begin = local(t, back(t, from, at, |c| c != b'@'), at);
    match domain(t, at + 1) {
        end if end > 0 && begin < at => (begin, end),
        _ => (at, at),
    }
}

/// Returns the end of the domain that begins at `start`, or 0. It has at least two labels, and the
/// last begins with a letter.
fn domain(t: &[u8], start: usize) -> usize {
    let stop = t.len().min(start + 253);
    let (mut i, mut end, mut labels) = (start, 0, 1);
    loop {
        let last = (i..stop).find(|k| t[*k] == b'.' || !in_domain(t[*k])).unwrap_or(stop);
        let mut n = last;
        while n > i && t[n - 1] == b'-' {
            n -= 1;
        }
        if n == i || n - i > 63 || t[i] == b'-' {
            return end;
        }
        if labels > 1 && t[i].is_ascii_alphabetic() && n - i > 1 {
            end = n;
        }
        if n < last || last >= stop || t[last] != b'.' {
            return end;
        }
        i = last + 1;
        labels += 1;
    }
}

fn email_open(t: &[u8], from: usize) -> usize {
    // The domain after an @ may continue.
    let d = back(t, from.max(t.len().saturating_sub(254)), t.len(), in_domain);
    if d > from && t[d - 1] == b'@' {
        let begin = local(t, from, d - 1);
        if begin < d - 1 {
            return begin;
        }
    }
    local(t, from, t.len())
}

const MAX_CARD: usize = 19;

/// Reports whether the digit at `i` may begin a number.
fn begins_number(t: &[u8], i: usize) -> bool {
    !word(before(t, i)) && before(t, i) != b'.'
}

/// Returns the end of the longest card number that begins at `i`, or 0: 13 to 19 digits with a
/// valid check digit, in groups of at least three.
fn card(t: &[u8], i: usize) -> usize {
    if !(b'2'..=b'6').contains(&t[i]) || !begins_number(t, i) {
        return 0;
    }
    let (mut end, mut digits, mut p) = (0, 0, i);
    loop {
        let mut q = p;
        while byte(t, q).is_ascii_digit() && q - p <= MAX_CARD {
            q += 1;
        }
        digits += q - p;
        if q - p < 3 || digits > MAX_CARD {
            return end;
        }
        if digits >= 13 && !word(byte(t, q)) && luhn(&t[i..q]) {
            end = q;
        }
        if !separator(byte(t, q)) || !byte(t, q + 1).is_ascii_digit() {
            return end;
        }
        p = q + 1;
    }
}

/// Reports whether the check digit of a number is valid (ISO/IEC 7812-1).
fn luhn(number: &[u8]) -> bool {
    let digits = number.iter().rev().filter(|c| c.is_ascii_digit()).map(|c| (c - b'0') as u32);
    let sum: u32 = digits.enumerate().map(|(i, d)| if i % 2 == 0 { d } else { d * 2 % 10 + d / 5 }).sum();
    sum % 10 == 0
}

/// Returns the index from which the end of `t` could become a card number if more digits follow, or
/// `t.len()` if there is none. The index is at least `from`.
fn card_open(t: &[u8], from: usize) -> usize {
    let (mut open, mut end, mut digits) = (t.len(), t.len(), 0);
    let mut growing = true; // the last group may still grow
    if end > from && separator(t[end - 1]) {
        end -= 1;
        growing = false;
    }
    loop {
        let begin = back(t, from.max(end.saturating_sub(MAX_CARD + 1)), end, |c| c.is_ascii_digit());
        digits += end - begin;
        if begin == end || digits > MAX_CARD || end - begin < 3 && !growing || !begins_number(t, begin) {
            return open;
        }
        open = begin;
        if begin == from || !separator(t[begin - 1]) {
            return open;
        }
        end = begin - 1;
        growing = false;
    }
}

fn in_ip(c: u8) -> bool {
    c.is_ascii_digit() || c == b'.'
}

const MAX_IP: usize = 16; // including a dot that ends a sentence

/// Returns the end of the IPv4 address that begins at `i`, or 0: four numbers up to 255, not
/// adjacent to word characters.
fn ip(t: &[u8], i: usize) -> usize {
    if !in_ip(t[i]) || in_ip(before(t, i)) || word(before(t, i)) {
        return 0;
    }
    let stop = (i..t.len()).find(|k| !in_ip(t[*k])).unwrap_or(t.len());
    if word(byte(t, stop)) {
        return 0;
    }
    let end = if t[stop - 1] == b'.' { stop - 1 } else { stop };
    let number = |n: &[u8]| (1..=3).contains(&n.len()) && n.iter().fold(0, |sum, c| sum * 10 + (c - b'0') as u32) < 256;
    let groups: Vec<&[u8]> = t[i..end].split(|c| *c == b'.').collect();
    if groups.len() == 4 && groups.into_iter().all(number) {
        end
    } else {
        0
    }
}

fn ip_open(t: &[u8], from: usize) -> usize {
    let begin = back(t, from.max(t.len().saturating_sub(MAX_IP + 1)), t.len(), in_ip);
    if t.len() - begin <= MAX_IP {
        begin
    } else {
        t.len()
    }
}

/// Countries and the lengths of their IBANs, from SWIFT's IBAN registry.
const LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 \
    EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 \
    LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 \
    QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";
const MAX_IBAN: usize = 33 + 8;

/// Returns the end of the IBAN that begins at `i`, or 0, and whether more text could change that.
fn iban(t: &[u8], i: usize) -> (usize, bool) {
    if !t[i].is_ascii_alphabetic() || before(t, i).is_ascii_alphanumeric() {
        return (0, false);
    }
    let mut length = MAX_IBAN;
    let mut compact = Vec::with_capacity(MAX_IBAN);
    for p in i.. {
        let (seen, c) = (compact.len(), byte(t, p));
        if p == t.len() {
            return (if seen == length && mod97(&compact) { p } else { 0 }, true);
        }
        if seen == length {
            return (if c.is_ascii_alphanumeric() || !mod97(&compact) { 0 } else { p }, false);
        }
        if separator(c) && seen > 0 && seen % 4 == 0 && t[p - 1].is_ascii_alphanumeric() {
            continue;
        }
        if !c.is_ascii_alphanumeric() || seen < 4 && (seen < 2) == c.is_ascii_digit() {
            return (0, false);
        }
        compact.push(c.to_ascii_uppercase());
        if seen == 1 {
            match LENGTHS.as_bytes().windows(2).position(|w| w == &compact[..]) {
                Some(at) => length = LENGTHS[at + 2..at + 4].parse().unwrap_or(MAX_IBAN),
                None => return (0, false),
            }
        }
    }
    (0, false)
}

/// Reports whether the check digits of a number without separators are valid (ISO 7064).
fn mod97(compact: &[u8]) -> bool {
    let from_fifth = compact.iter().cycle().skip(4).take(compact.len());
    from_fifth.fold(0, |rest, c| match c {
        b'0'..=b'9' => (rest * 10 + (c - b'0') as u32) % 97,
        _ => (rest * 100 + (c - b'A') as u32 + 10) % 97,
    }) == 1
}

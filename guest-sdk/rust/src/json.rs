//! A JSON reader and writer for the types of the ABI, and any other JSON.

use crate::words::{first, load, specials, zeros, EACH};
use alloc::{boxed::Box, string::String, vec::Vec};

/// The maximum nesting depth of JSON.
const DEPTH: u32 = 64;

/// The error for invalid or unexpected JSON, with its byte offset.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    pub why: &'static str,
    pub at: usize,
}

/// A type that can be decoded from and encoded to JSON.
pub trait Json: Default {
    /// Reads a value into a new one. The reader records errors.
    fn read(&mut self, r: &mut Reader);
    fn write(&self, w: &mut Writer);
    /// Reports whether the value is omitted where it is optional.
    fn is_empty(&self) -> bool {
        false
    }
    fn decode_json(text: &str) -> Result<Self, Malformed> {
        let mut r = Reader::new(text);
        let mut value = Self::default();
        value.read(&mut r);
        r.end()?;
        Ok(value)
    }
    fn encode_json(&self) -> String {
        let mut w = Writer::default();
        self.write(&mut w);
        w.finish()
    }
}

/// A struct that is encoded as a JSON object.
pub trait Object {
    /// Reads the value of a field. Returns false for an unknown key.
    fn read_field(&mut self, key: &Key, r: &mut Reader) -> bool;
    fn write_fields(&self, w: &mut Writer);
}

impl<T: Object + Default + PartialEq> Json for T {
    fn read(&mut self, r: &mut Reader) {
        r.object(self)
    }
    fn write(&self, w: &mut Writer) {
        w.object(self)
    }
    fn is_empty(&self) -> bool {
        *self == T::default()
    }
}

/// The key of a field, with the words by which it is compared.
pub struct Key<'a> {
    pub text: &'a str,
    head: u64,
    tail: u64,
}

impl<'a> Key<'a> {
    fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        if bytes.len() < 8 {
            return Key { text, head: Name::of(text).head, tail: 0 };
        }
        let tail = if bytes.len() > 8 { unsafe { load(bytes, bytes.len() - 8) } } else { 0 };
        Key { text, head: unsafe { load(bytes, 0) }, tail }
    }

    /// Reports whether the key equals a name.
    #[inline(always)]
    pub fn is(&self, name: &Name) -> bool {
        self.head == name.head && self.text.len() == name.text.len() && self.tail == name.tail && (name.text.len() <= 16 || self.text == name.text)
    }
}

/// A name to compare keys with.
pub struct Name<'a> {
    text: &'a str,
    head: u64, // the first eight bytes, or fewer
    tail: u64, // the last eight bytes, if there are more than eight
}

impl<'a> Name<'a> {
    pub const fn of(text: &'a str) -> Self {
        let len = text.len();
        let head = Name::word(text, 0, if len < 8 { len } else { 8 });
        Name { text, head, tail: if len > 8 { Name::word(text, len - 8, 8) } else { 0 } }
    }

    const fn word(text: &str, at: usize, n: usize) -> u64 {
        let (mut word, mut i) = (0, 0);
        while i < n {
            word |= (text.as_bytes()[at + i] as u64) << (8 * i);
            i += 1;
        }
        word
    }
}

/// Reads the field that a key names, and returns.
macro_rules! read_fields {
    ($self:ident, $key:ident, $r:ident, $($name:literal => $field:ident),* $(,)?) => {
        $({
            const NAME: $crate::json::Name = $crate::json::Name::of($name);
            if $key.is(&NAME) {
                $self.$field.read($r);
                return true;
            }
        })*
    };
}
pub(crate) use read_fields;

/// Reads JSON. It records the first error and stops reading.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    stop: usize,
    depth: u32,
    wrong: Option<Malformed>,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Reader { text, at: 0, stop: text.len(), depth: 0, wrong: None }
    }

    #[cold]
    pub fn fail(&mut self, why: &'static str) {
        if self.wrong.is_none() {
            self.wrong = Some(Malformed { why, at: self.at });
        }
        self.stop = self.at;
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        // stop never exceeds the length of the text
        if at < self.stop { unsafe { *self.text.as_bytes().get_unchecked(at) } } else { 0 }
    }

    /// The text between two positions, which must be next to ASCII characters.
    #[inline(always)]
    fn between(&self, from: usize, to: usize) -> &'a str {
        unsafe { self.text.get_unchecked(from..to) }
    }

    /// The next byte that is not white space, or 0 at the end. The host writes no white
    /// space.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        let c = self.byte(self.at);
        if c > b' ' { c } else { self.peek_behind() }
    }

    #[cold]
    #[inline(never)]
    fn peek_behind(&mut self) -> u8 {
        while self.at < self.stop && matches!(self.byte(self.at), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
        self.byte(self.at)
    }

    fn word(&mut self, word: &str) {
        if !self.between(self.at, self.stop).as_bytes().starts_with(word.as_bytes()) {
            return self.fail("invalid JSON value");
        }
        self.at += word.len();
    }

    /// Ends reading and returns the first error.
    pub fn end(mut self) -> Result<(), Malformed> {
        if self.wrong.is_none() {
            self.peek();
            if self.at < self.stop {
                self.fail("unexpected text after the JSON value");
            }
        }
        self.wrong.map_or(Ok(()), Err)
    }

    /// Skips a null and reports whether there was one. null counts as absent.
    #[inline(always)]
    pub fn null(&mut self) -> bool {
        if self.peek() != b'n' {
            return false;
        }
        self.word("null");
        true
    }

    /// Starts a list or an object with the given bracket.
    fn enter(&mut self, open: u8) -> bool {
        if self.peek() != open {
            self.fail(if open == b'{' { "want an object" } else { "want a list" });
            return false;
        }
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH {
            self.fail("nested too deeply");
        }
        self.wrong.is_none()
    }

    /// Advances to the next item of a list or object, or ends it.
    #[inline(always)]
    fn item(&mut self, close: u8, first: &mut bool) -> bool {
        let c = self.peek();
        if c == close {
            self.at += 1;
            self.depth -= 1;
            return false;
        }
        if core::mem::take(first) {
            return self.wrong.is_none();
        }
        if c != b',' {
            self.fail("want a comma");
            return false;
        }
        self.at += 1; // a value must follow, but not the closing bracket
        true
    }

    /// Reads a list. It calls `read` for each item. null counts as an empty list.
    pub fn items(&mut self, read: &mut dyn FnMut(&mut Self)) {
        if self.null() || !self.enter(b'[') {
            return;
        }
        let mut first = true;
        while self.item(b']', &mut first) {
            read(self);
        }
    }

    /// Reads an object. It calls `read` for each field. null counts as an empty object.
    pub fn fields(&mut self, read: &mut dyn FnMut(&Key, &mut Self)) {
        if self.null() || !self.enter(b'{') {
            return;
        }
        let mut first = true;
        while self.item(b'}', &mut first) {
            if let Some(key) = self.short_key() {
                read(&key, self);
                continue;
            }
            let (from, to, escaped) = self.span();
            if self.peek() != b':' {
                return self.fail("want a colon");
            }
            self.at += 1;
            let store;
            let text = if escaped {
                store = self.unescaped(from, to);
                &store
            } else {
                self.between(from, to)
            };
            let key = Key::new(text);
            read(&key, self);
        }
    }

    /// Reads a key in the host's encoding, if it is shorter than two words.
    #[inline(always)]
    fn short_key(&mut self) -> Option<Key<'a>> {
        if self.stop - self.at < 18 {
            return None;
        }
        unsafe {
            // The next 18 bytes exist: two quotes, two words less one byte, and a colon.
            let bytes = self.text.as_bytes().get_unchecked(self.at..);
            let mut head = load(bytes, 1);
            let (mut found, mut n, mut tail) = (specials(head), 0, 0);
            if found == 0 {
                found = specials(load(bytes, 9));
                n = 8;
            }
            n += first(found | 1 << 63);
            if *bytes.get_unchecked(0) != b'"' || *bytes.get_unchecked(n + 1) != b'"' || *bytes.get_unchecked(n + 2) != b':' {
                return None;
            }
            if n < 8 {
                head &= !(!0 << (8 * n));
            } else if n > 8 {
                tail = load(bytes, n - 7);
            }
            let text = self.between(self.at + 1, self.at + 1 + n);
            self.at += n + 3;
            Some(Key { text, head, tail })
        }
    }

    pub fn object(&mut self, object: &mut dyn Object) {
        self.fields(&mut |key, r| {
            if !object.read_field(key, r) {
                r.skip();
            }
        })
    }

    /// Skips a string. Returns the start and end of the text between its quotes, and
    /// whether it has escapes.
    fn span(&mut self) -> (usize, usize, bool) {
        if self.peek() != b'"' {
            self.fail("want a string");
            return (self.at, self.at, false);
        }
        let bytes = self.text.as_bytes();
        let (from, stop, mut at, mut escaped) = (self.at + 1, self.stop, self.at + 1, false);
        while at < stop {
            if stop - at >= 16 {
                let mut found = specials(unsafe { load(bytes, at) });
                if found == 0 {
                    at += 8;
                    found = specials(unsafe { load(bytes, at) });
                    if found == 0 {
                        at += 8;
                        continue;
                    }
                }
                at += first(found);
            }
            let c = self.byte(at);
            if c == b'"' {
                self.at = at + 1;
                return (from, at, escaped);
            }
            if c < b' ' {
                break;
            }
            escaped |= c == b'\\';
            at += 1 + (c == b'\\') as usize;
        }
        self.at = at.min(stop);
        self.fail("unterminated string");
        (from, from, false)
    }

    /// Reads a string.
    pub fn string(&mut self) -> String {
        let (from, to, escaped) = self.span();
        if escaped { self.unescaped(from, to) } else { String::from(self.between(from, to)) }
    }

    /// Decodes a string with escapes. The reader is after the string.
    fn unescaped(&mut self, from: usize, to: usize) -> String {
        let bytes = self.text.as_bytes();
        let mut out = String::with_capacity(to - from);
        let (mut plain, mut at) = (from, from);
        while at < to {
            if to - at >= 8 {
                let found = zeros(unsafe { load(bytes, at) } ^ (EACH * b'\\' as u64));
                if found == 0 {
                    at += 8;
                    continue;
                }
                at += first(found);
            }
            if self.byte(at) != b'\\' {
                at += 1;
                continue;
            }
            out.push_str(self.between(plain, at));
            let (c, behind) = self.escape(at, to);
            if behind == 0 {
                self.at = at;
                self.fail("invalid escape in a string");
                return String::new();
            }
            out.push(c);
            plain = behind;
            at = behind;
        }
        out.push_str(self.between(plain, to));
        out
    }

    /// Returns the character of an escape and the index after it, or 0. Half of a
    /// surrogate pair becomes the replacement character.
    fn escape(&self, at: usize, to: usize) -> (char, usize) {
        let b = &self.text.as_bytes()[..to];
        let c = b.get(at + 1).copied().unwrap_or(0);
        let plain = match c {
            b'"' | b'\\' | b'/' => c as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return escaped_unit(b, at + 2),
            _ => return ('\0', 0),
        };
        (plain, at + 2)
    }

    /// Skips a number and returns its text.
    pub fn number(&mut self) -> &'a str {
        self.peek();
        let from = self.at;
        self.at += (self.byte(from) == b'-') as usize;
        let zero = self.byte(self.at) == b'0';
        let mut ok = match self.digits() {
            0 => false,
            n => n == 1 || !zero,
        };
        if self.byte(self.at) == b'.' {
            self.at += 1;
            ok &= self.digits() > 0;
        }
        if matches!(self.byte(self.at), b'e' | b'E') {
            self.at += 1;
            self.at += matches!(self.byte(self.at), b'-' | b'+') as usize;
            ok &= self.digits() > 0;
        }
        if !ok {
            self.fail("invalid JSON value");
        }
        self.between(from, self.at)
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.byte(self.at).is_ascii_digit() {
            self.at += 1;
        }
        self.at - from
    }

    /// Reads an integer. A value out of range becomes the nearest valid one.
    fn whole(&mut self) -> i64 {
        let (from, mut at, mut few) = (self.at, self.at, 0i64);
        let digits = &self.text.as_bytes()[from..self.stop.min(from + 18)];
        for c in digits {
            let d = c.wrapping_sub(b'0');
            if d > 9 {
                break;
            }
            few = few * 10 + d as i64;
            at += 1;
        }
        if at > from && matches!(self.byte(at), b',' | b'}') && (at == from + 1 || digits[0] != b'0') {
            self.at = at;
            return few;
        }
        if self.null() {
            return 0;
        }
        let digits = self.number().as_bytes();
        let negative = digits.first() == Some(&b'-');
        let (mut value, mut left) = (0i64, 18);
        for c in &digits[negative as usize..] {
            let d = c.wrapping_sub(b'0');
            if d > 9 {
                self.fail("want an integer");
                return 0;
            }
            value = if left > 0 { value * 10 + d as i64 } else { value.saturating_mul(10).saturating_add(d as i64) };
            left -= 1;
        }
        if negative { -value } else { value }
    }

    /// Skips a value.
    pub fn skip(&mut self) {
        match self.peek() {
            b'"' => {
                let (from, to, escaped) = self.span();
                if escaped {
                    self.unescaped(from, to);
                }
            }
            b'{' => self.fields(&mut |_, r| r.skip()),
            b'[' => self.items(&mut |r| r.skip()),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => {
                self.number();
            }
        }
    }
}

/// Returns the character of a `\u` escape, which may span two escapes, and the index
/// after it, or 0.
fn escaped_unit(b: &[u8], at: usize) -> (char, usize) {
    let mut code = match hex(b, at) {
        Some(code) => code,
        None => return ('\0', 0),
    };
    let mut behind = at + 4;
    if (0xd800..0xdc00).contains(&code) && b.get(behind) == Some(&b'\\') && b.get(behind + 1) == Some(&b'u') {
        match hex(b, behind + 2) {
            Some(low) if (0xdc00..0xe000).contains(&low) => {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                behind += 6;
            }
            Some(_) => {}
            None => return ('\0', 0),
        }
    }
    (char::from_u32(code).unwrap_or('\u{fffd}'), behind)
}

fn hex(b: &[u8], at: usize) -> Option<u32> {
    let mut code = 0;
    for i in at..at + 4 {
        code = code << 4 | (*b.get(i)? as char).to_digit(16)?;
    }
    Some(code)
}

/// Writes JSON.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>, // UTF-8
}

impl Writer {
    /// Returns the output.
    pub fn finish(self) -> String {
        unsafe { String::from_utf8_unchecked(self.out) }
    }

    fn byte(&mut self, c: u8) {
        self.out.push(c)
    }

    pub fn key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.byte(b',');
        }
        self.text(key);
        self.byte(b':');
    }

    pub fn object(&mut self, object: &dyn Object) {
        self.byte(b'{');
        object.write_fields(self);
        self.byte(b'}');
    }

    pub fn field<T: Json>(&mut self, key: &str, value: &T) {
        self.key(key);
        value.write(self);
    }

    /// Writes a field unless it is empty.
    pub fn optional<T: Json>(&mut self, key: &str, value: &T) {
        if !value.is_empty() {
            self.field(key, value);
        }
    }

    pub fn text_field(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text(value);
    }

    #[inline(never)]
    pub fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    #[inline(never)]
    pub fn text(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let bytes = text.as_bytes();
        self.out.reserve(bytes.len() + 2);
        self.byte(b'"');
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            if bytes.len() - at >= 8 {
                let word = unsafe { load(bytes, at) };
                let found = specials(word) | zeros(word ^ (EACH * 0xe2));
                if found == 0 {
                    at += 8;
                    continue;
                }
                at += first(found);
            }
            let c = bytes[at];
            // U+2028 and U+2029 are line terminators in JavaScript.
            let line = c == 0xe2 && matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9]));
            if !line && c >= b' ' && c != b'"' && c != b'\\' {
                at += 1;
                continue;
            }
            self.out.extend_from_slice(&bytes[from..at]);
            self.byte(b'\\');
            match c {
                b'"' | b'\\' => self.byte(c),
                8 => self.byte(b'b'),
                12 => self.byte(b'f'),
                b'\n' => self.byte(b'n'),
                b'\r' => self.byte(b'r'),
                b'\t' => self.byte(b't'),
                0xe2 => self.raw(if bytes[at + 2] == 0xa8 { "u2028" } else { "u2029" }),
                _ => {
                    self.raw("u00");
                    self.byte(HEX[c as usize >> 4]);
                    self.byte(HEX[c as usize & 15]);
                }
            }
            at += if line { 3 } else { 1 };
            from = at;
        }
        self.out.extend_from_slice(&bytes[from..]);
        self.byte(b'"');
    }

    pub fn number(&mut self, value: i64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            self.byte(b'-');
        }
        self.out.extend_from_slice(&digits[at..]);
    }
}

impl Json for String {
    fn read(&mut self, r: &mut Reader) {
        *self = if r.null() { String::new() } else { r.string() }
    }
    fn write(&self, w: &mut Writer) {
        w.text(self)
    }
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Json for i64 {
    fn read(&mut self, r: &mut Reader) {
        *self = r.whole()
    }
    fn write(&self, w: &mut Writer) {
        w.number(*self)
    }
    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Json for i32 {
    fn read(&mut self, r: &mut Reader) {
        *self = r.whole().clamp(i32::MIN as i64, i32::MAX as i64) as i32
    }
    fn write(&self, w: &mut Writer) {
        w.number(*self as i64)
    }
    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Json for bool {
    fn read(&mut self, r: &mut Reader) {
        *self = r.peek() == b't';
        match r.peek() {
            b't' => r.word("true"),
            b'f' => r.word("false"),
            b'n' => r.word("null"),
            _ => r.fail("want true or false"),
        }
    }
    fn write(&self, w: &mut Writer) {
        w.raw(if *self { "true" } else { "false" })
    }
    fn is_empty(&self) -> bool {
        !*self
    }
}

impl<T: Json> Json for Vec<T> {
    fn read(&mut self, r: &mut Reader) {
        self.clear();
        r.items(&mut |r| {
            self.push(T::default());
            if let Some(item) = self.last_mut() {
                item.read(r);
            }
        })
    }
    fn write(&self, w: &mut Writer) {
        w.byte(b'[');
        for (i, item) in self.iter().enumerate() {
            if i > 0 {
                w.byte(b',');
            }
            item.write(w);
        }
        w.byte(b']');
    }
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Json> Json for Option<T> {
    fn read(&mut self, r: &mut Reader) {
        if r.null() {
            *self = None;
        } else {
            self.insert(T::default()).read(r)
        }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            Some(value) => value.write(w),
            None => w.raw("null"),
        }
    }
    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl Json for Box<crate::Event> {
    fn read(&mut self, r: &mut Reader) {
        (**self).read(r)
    }
    fn write(&self, w: &mut Writer) {
        (**self).write(w)
    }
    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
}

/// An answer without fields.
impl Json for () {
    fn read(&mut self, r: &mut Reader) {
        r.skip()
    }
    fn write(&self, w: &mut Writer) {
        w.raw("{}")
    }
}

/// Raw JSON text. Empty for an absent optional value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw(pub String);

impl Raw {
    /// Encodes a string.
    pub fn text(text: &str) -> Raw {
        let mut w = Writer::default();
        w.text(text);
        Raw(w.finish())
    }

    /// Encodes an object of strings.
    pub fn object(fields: &[(&str, &str)]) -> Raw {
        let mut w = Writer::default();
        w.raw("{");
        for (key, value) in fields {
            w.text_field(key, value);
        }
        w.raw("}");
        Raw(w.finish())
    }

    /// Parses the text to a tree.
    pub fn value(&self) -> Result<Value, Malformed> {
        Value::decode_json(&self.0)
    }

    /// Decodes the text with serde.
    #[cfg(feature = "serde")]
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::Error> {
        use alloc::string::ToString;
        serde_json::from_str(&self.0).map_err(|e| crate::Error::invalid(e.to_string()))
    }

    /// Encodes a value with serde.
    #[cfg(feature = "serde")]
    pub fn encode<T: serde::Serialize>(value: &T) -> Result<Raw, crate::Error> {
        use alloc::string::ToString;
        serde_json::to_string(value).map(Raw).map_err(|e| crate::Error::invalid(e.to_string()))
    }
}

impl From<&str> for Raw {
    fn from(json: &str) -> Raw {
        Raw(json.into())
    }
}

impl Json for Raw {
    fn read(&mut self, r: &mut Reader) {
        r.peek();
        let from = r.at;
        r.skip();
        self.0 = r.between(from, r.at).into()
    }
    fn write(&self, w: &mut Writer) {
        w.raw(if self.0.is_empty() { "null" } else { &self.0 })
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The keys and values of an object, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members(pub Vec<(String, Raw)>);

impl Members {
    pub fn get(&self, key: &str) -> Option<&Raw> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }
    pub fn add(&mut self, key: &str, value: Raw) {
        self.0.push((key.into(), value));
    }
    /// Reads a member's value.
    pub(crate) fn read_member(&mut self, key: &Key, r: &mut Reader) {
        let mut value = Raw::default();
        value.read(r);
        self.0.push((key.text.into(), value));
    }
    pub(crate) fn write_fields(&self, w: &mut Writer) {
        for (key, value) in &self.0 {
            w.field(key, value);
        }
    }
}

impl Json for Members {
    fn read(&mut self, r: &mut Reader) {
        r.fields(&mut |key, r| self.read_member(key, r))
    }
    fn write(&self, w: &mut Writer) {
        w.raw("{");
        self.write_fields(w);
        w.raw("}");
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A JSON value as a tree. Duplicate keys are an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    /// The literal of a number.
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Returns the value of an object's key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(fields) => fields.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Json for Value {
    fn read(&mut self, r: &mut Reader) {
        *self = match r.peek() {
            b'n' => {
                r.word("null");
                Value::Null
            }
            b't' | b'f' => {
                let mut value = false;
                value.read(r);
                Value::Bool(value)
            }
            b'"' => Value::Text(r.string()),
            b'[' => {
                let mut list = Vec::new();
                list.read(r);
                Value::List(list)
            }
            b'{' => {
                let mut fields: Vec<(String, Value)> = Vec::new();
                r.fields(&mut |key, r| {
                    if fields.iter().any(|(k, _)| k == key.text) {
                        return r.fail("duplicate key");
                    }
                    let mut value = Value::Null;
                    value.read(r);
                    fields.push((key.text.into(), value));
                });
                Value::Object(fields)
            }
            _ => Value::Number(r.number().into()),
        }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            Value::Null => w.raw("null"),
            Value::Bool(value) => value.write(w),
            Value::Number(literal) => w.raw(literal),
            Value::Text(text) => w.text(text),
            Value::List(list) => list.write(w),
            Value::Object(fields) => {
                w.raw("{");
                for (key, value) in fields {
                    w.field(key, value);
                }
                w.raw("}");
            }
        }
    }
}

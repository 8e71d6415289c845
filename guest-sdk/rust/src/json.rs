//! JSON: a reader and a writer for the types of the ABI, and values of any shape.

use alloc::{boxed::Box, string::String, vec::Vec};

/// How deeply JSON may be nested.
const DEPTH: u32 = 64;

/// What is wrong with a text that is not the JSON that was wanted, and at which byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    pub why: &'static str,
    pub at: usize,
}

/// A type that reads and writes its JSON.
pub trait Json: Sized {
    fn read(r: &mut Reader) -> Result<Self, Malformed>;
    fn write(&self, w: &mut Writer);
    /// Whether it is left out where it is optional.
    fn is_empty(&self) -> bool {
        false
    }
    fn decode_json(text: &str) -> Result<Self, Malformed> {
        let mut r = Reader::new(text);
        let value = Self::read(&mut r)?;
        r.end()?;
        Ok(value)
    }
    fn encode_json(&self) -> String {
        let mut w = Writer::default();
        self.write(&mut w);
        w.out
    }
}

/// A struct that is a JSON object.
pub trait Object: Default + PartialEq {
    /// Reads the value of a field, or returns false for a key that it does not have.
    fn read_field(&mut self, key: &str, r: &mut Reader) -> Result<bool, Malformed>;
    fn write_fields(&self, w: &mut Writer);
}

impl<T: Object> Json for T {
    fn read(r: &mut Reader) -> Result<T, Malformed> {
        let mut value = T::default();
        r.fields(&mut |key, r| {
            if !value.read_field(key, r)? {
                r.skip()?;
            }
            Ok(())
        })?;
        Ok(value)
    }
    fn write(&self, w: &mut Writer) {
        w.out.push('{');
        self.write_fields(w);
        w.out.push('}');
    }
    fn is_empty(&self) -> bool {
        *self == T::default()
    }
}

/// Reads JSON.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Reader { text, at: 0, depth: 0 }
    }

    pub fn wrong<T>(&self, why: &'static str) -> Result<T, Malformed> {
        Err(Malformed { why, at: self.at })
    }

    /// The next byte that is no white space, or 0 at the end.
    pub fn peek(&mut self) -> u8 {
        let b = self.text.as_bytes();
        while self.at < b.len() && matches!(b[self.at], b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
        b.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, c: u8) -> bool {
        let found = self.peek() == c;
        self.at += found as usize;
        found
    }

    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        self.peek();
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.wrong("no JSON value");
        }
        self.at += word.len();
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), Malformed> {
        self.peek();
        if self.at < self.text.len() {
            return self.wrong("something follows the JSON value");
        }
        Ok(())
    }

    /// Reads a value; null is as if it were not there.
    pub fn read<T: Json>(&mut self) -> Result<T, Malformed> {
        T::read(self)
    }

    fn null(&mut self) -> Result<bool, Malformed> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.word("null")?;
        Ok(true)
    }

    /// Calls read for each item of a list or an object, whose brackets are given.
    fn items(&mut self, open: u8, close: u8, read: &mut dyn FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        if !self.take(open) {
            return self.wrong(if open == b'{' { "want an object" } else { "want a list" });
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return self.wrong("nested too deeply");
        }
        let mut first = true;
        while first || !self.take(close) {
            if first && self.take(close) {
                break;
            }
            if !first && !self.take(b',') {
                return self.wrong("want a comma");
            }
            first = false;
            read(self)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an object field by field; null is one without any.
    pub fn fields(&mut self, read: &mut dyn FnMut(&str, &mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        if self.null()? {
            return Ok(());
        }
        self.items(b'{', b'}', &mut |r| {
            let key = r.string()?;
            if !r.take(b':') {
                return r.wrong("want a colon");
            }
            read(&key, r)
        })
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<String, Malformed> {
        if !self.take(b'"') {
            return self.wrong("want a string");
        }
        let b = self.text.as_bytes();
        let mut out = String::new();
        let mut from = self.at;
        loop {
            match b.get(self.at) {
                Some(b'"') => {
                    out.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[from..self.at]);
                    let c = self.escape()?;
                    out.push(c);
                    from = self.at;
                }
                Some(c) if *c >= b' ' => self.at += 1,
                _ => return self.wrong("a string without an end"),
            }
        }
    }

    /// Reads an escape. Half a pair of surrogates becomes the replacement character.
    fn escape(&mut self) -> Result<char, Malformed> {
        let b = self.text.as_bytes();
        let c = b.get(self.at + 1).copied().unwrap_or(0);
        let plain = match c {
            b'"' | b'\\' | b'/' => c as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hex(self.at + 2)?;
                self.at += 6;
                if (0xd800..0xdc00).contains(&code) && b.get(self.at) == Some(&b'\\') && b.get(self.at + 1) == Some(&b'u') {
                    let low = self.hex(self.at + 2)?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        self.at += 6;
                    }
                }
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            _ => return self.wrong("a bad escape in a string"),
        };
        self.at += 2;
        Ok(plain)
    }

    fn hex(&self, at: usize) -> Result<u32, Malformed> {
        let mut code = 0;
        for i in at..at + 4 {
            match self.text.as_bytes().get(i).and_then(|c| (*c as char).to_digit(16)) {
                Some(digit) => code = code << 4 | digit,
                None => return self.wrong("a bad escape in a string"),
            }
        }
        Ok(code)
    }

    /// Reads over a number and returns how it is spelled.
    pub fn number(&mut self) -> Result<&'a str, Malformed> {
        self.peek();
        let from = self.at;
        self.at += (self.byte() == b'-') as usize;
        let zero = self.byte() == b'0';
        let mut ok = match self.digits() {
            0 => false,
            n => n == 1 || !zero,
        };
        if self.byte() == b'.' {
            self.at += 1;
            ok &= self.digits() > 0;
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            self.at += matches!(self.byte(), b'-' | b'+') as usize;
            ok &= self.digits() > 0;
        }
        if !ok {
            return self.wrong("no JSON value");
        }
        Ok(&self.text[from..self.at])
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        self.at - from
    }

    /// Reads a whole number; what does not fit is the nearest that does.
    fn whole(&mut self) -> Result<i64, Malformed> {
        if self.null()? {
            return Ok(0);
        }
        let digits = self.number()?.as_bytes();
        let negative = digits[0] == b'-';
        let mut value = 0i64;
        for c in &digits[negative as usize..] {
            if !c.is_ascii_digit() {
                return self.wrong("want a whole number");
            }
            value = value.saturating_mul(10).saturating_add((c - b'0') as i64);
        }
        Ok(if negative { -value } else { value })
    }

    /// Reads over a value.
    pub fn skip(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b'{' => self.fields(&mut |_, r| r.skip()),
            b'[' => self.items(b'[', b']', &mut |r| r.skip()),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number().map(|_| ()),
        }
    }
}

/// Writes JSON.
#[derive(Default)]
pub struct Writer {
    pub(crate) out: String,
}

impl Writer {
    pub fn key(&mut self, key: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.text(key);
        self.out.push(':');
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

    pub fn raw(&mut self, json: &str) {
        self.out.push_str(json);
    }

    pub fn text(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.out.push('"');
        let mut from = 0;
        for (i, c) in text.char_indices() {
            if c >= ' ' && c != '"' && c != '\\' && c != '\u{2028}' && c != '\u{2029}' {
                continue;
            }
            self.out.push_str(&text[from..i]);
            from = i + c.len_utf8();
            self.out.push('\\');
            match c {
                '"' | '\\' => self.out.push(c),
                '\u{8}' => self.out.push('b'),
                '\u{c}' => self.out.push('f'),
                '\n' => self.out.push('n'),
                '\r' => self.out.push('r'),
                '\t' => self.out.push('t'),
                _ => {
                    self.out.push('u');
                    for shift in [12, 8, 4, 0] {
                        self.out.push(HEX[(c as usize >> shift) & 15] as char);
                    }
                }
            }
        }
        self.out.push_str(&text[from..]);
        self.out.push('"');
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
            self.out.push('-');
        }
        for d in &digits[at..] {
            self.out.push(*d as char);
        }
    }
}

impl Json for String {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        if r.null()? {
            return Ok(String::new());
        }
        r.string()
    }
    fn write(&self, w: &mut Writer) {
        w.text(self)
    }
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Json for i64 {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        r.whole()
    }
    fn write(&self, w: &mut Writer) {
        w.number(*self)
    }
    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Json for i32 {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        Ok(r.whole()?.clamp(i32::MIN as i64, i32::MAX as i64) as i32)
    }
    fn write(&self, w: &mut Writer) {
        w.number(*self as i64)
    }
    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Json for bool {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        match r.peek() {
            b't' => r.word("true").map(|_| true),
            b'f' => r.word("false").map(|_| false),
            b'n' => r.word("null").map(|_| false),
            _ => r.wrong("want true or false"),
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
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        let mut list = Vec::new();
        if !r.null()? {
            r.items(b'[', b']', &mut |r| {
                list.push(T::read(r)?);
                Ok(())
            })?;
        }
        Ok(list)
    }
    fn write(&self, w: &mut Writer) {
        w.out.push('[');
        for (i, item) in self.iter().enumerate() {
            if i > 0 {
                w.out.push(',');
            }
            item.write(w);
        }
        w.out.push(']');
    }
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Json> Json for Option<T> {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        if r.null()? {
            return Ok(None);
        }
        T::read(r).map(Some)
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
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        crate::Event::read(r).map(Box::new)
    }
    fn write(&self, w: &mut Writer) {
        (**self).write(w)
    }
    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
}

/// An answer of nothing.
impl Json for () {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        r.skip()
    }
    fn write(&self, w: &mut Writer) {
        w.raw("{}")
    }
}

/// JSON as it is spelled; nothing where it is optional and not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw(pub String);

impl Raw {
    /// JSON of a string.
    pub fn text(text: &str) -> Raw {
        let mut w = Writer::default();
        w.text(text);
        Raw(w.out)
    }

    /// An object of strings.
    pub fn object(fields: &[(&str, &str)]) -> Raw {
        let mut w = Writer::default();
        w.raw("{");
        for (key, value) in fields {
            w.text_field(key, value);
        }
        w.raw("}");
        Raw(w.out)
    }

    /// Reads it as a tree.
    pub fn value(&self) -> Result<Value, Malformed> {
        Value::decode_json(&self.0)
    }

    /// Reads it into a type of serde's.
    #[cfg(feature = "serde")]
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::Error> {
        use alloc::string::ToString;
        serde_json::from_str(&self.0).map_err(|e| crate::Error::invalid(e.to_string()))
    }

    /// Writes what serde knows how to.
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
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        r.peek();
        let from = r.at;
        r.skip()?;
        Ok(Raw(r.text[from..r.at].into()))
    }
    fn write(&self, w: &mut Writer) {
        w.raw(if self.0.is_empty() { "null" } else { &self.0 })
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The keys and values of an object, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members(pub Vec<(String, Raw)>);

impl Members {
    pub fn get(&self, key: &str) -> Option<&Raw> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }
    pub fn add(&mut self, key: &str, value: Raw) {
        self.0.push((key.into(), value));
    }
    pub(crate) fn write_fields(&self, w: &mut Writer) {
        for (key, value) in &self.0 {
            w.field(key, value);
        }
    }
}

impl Json for Members {
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        let mut members = Members::default();
        r.fields(&mut |key, r| {
            members.add(key, r.read()?);
            Ok(())
        })?;
        Ok(members)
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

/// Any JSON, read strictly: no key stands twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// How it is spelled.
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// What an object has under a key.
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
    fn read(r: &mut Reader) -> Result<Self, Malformed> {
        Ok(match r.peek() {
            b'n' => r.word("null").map(|_| Value::Null)?,
            b't' | b'f' => Value::Bool(r.read()?),
            b'"' => Value::Text(r.string()?),
            b'[' => Value::List(r.read()?),
            b'{' => {
                let mut fields: Vec<(String, Value)> = Vec::new();
                r.fields(&mut |key, r| {
                    if fields.iter().any(|(k, _)| k == key) {
                        return r.wrong("a key stands twice");
                    }
                    fields.push((key.into(), r.read()?));
                    Ok(())
                })?;
                Value::Object(fields)
            }
            _ => Value::Number(r.number()?.into()),
        })
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

//! Regular expressions for this policy. Matching takes one pass over the text for any pattern, so
//! no pattern makes it slow.
//!
//! The syntax is . [] () | * + ? {n,m} ^ $ \b, the classes \d \w \s and their negations, escapes of
//! punctuation, \t \n \r, and (?i) (?s) at the beginning. Anything else is an error.

use std::iter::Peekable;
use std::str::Chars;

type Ranges = Vec<(char, char)>;

#[derive(Clone)]
enum Op {
    Char(char),
    Any,
    Set { ranges: Ranges, negated: bool },
    /// Continues at both positions, which are relative to this one.
    Split(usize, usize),
    Jump(isize),
    Begin,
    End,
    Border(bool),
    Match,
}

/// Describes the error in a pattern.
pub type Wrong = &'static str;

pub struct Pattern {
    code: Vec<Op>,
    fold: bool,
    lines: bool, // . also matches a line feed
}

const MOST: usize = 2000;
const DEEPEST: usize = 50;

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    code: Vec<Op>,
    depth: usize,
}

/// Returns the ranges of \d, \w or \s, or of their negations.
fn class(name: char) -> Option<Ranges> {
    let ranges: &[(char, char)] = match name.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        's' => &[('\t', '\n'), ('\u{c}', '\r'), (' ', ' ')],
        _ => return None,
    };
    if name.is_ascii_lowercase() {
        return Some(ranges.to_vec());
    }
    let mut out = Vec::new();
    let mut next = '\0';
    for (from, to) in ranges {
        if next < *from {
            out.push((next, (*from as u8 - 1) as char));
        }
        next = (*to as u8 + 1) as char;
    }
    out.push((next, char::MAX));
    Some(out)
}

impl Parser<'_> {
    fn emit(&mut self, op: Op) -> Result<(), Wrong> {
        if self.code.len() >= MOST {
            return Err("it is too long");
        }
        self.code.push(op);
        Ok(())
    }

    fn take(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }

    fn either(&mut self) -> Result<(), Wrong> {
        let at = self.code.len();
        while !matches!(self.rest.peek(), None | Some('|' | ')')) {
            self.repeated()?;
        }
        if !self.take('|') {
            return Ok(());
        }
        // Jumps are relative, so the moved operations stay valid.
        self.code.insert(at, Op::Split(1, self.code.len() - at + 2));
        let jump = self.code.len();
        self.emit(Op::Jump(0))?;
        self.either()?;
        self.code[jump] = Op::Jump((self.code.len() - jump) as isize);
        Ok(())
    }

    fn repeated(&mut self) -> Result<(), Wrong> {
        let at = self.code.len();
        self.atom()?;
        let (least, most) = match self.count()? {
            Some(count) => count,
            None => return Ok(()),
        };
        self.take('?'); // greediness does not affect whether it matches
        if self.count()?.is_some() {
            return Err("there is nothing to repeat");
        }
        let one = self.code.split_off(at);
        for _ in 0..least {
            self.all(&one)?;
        }
        match most {
            None => {
                self.emit(Op::Split(1, one.len() + 2))?;
                self.all(&one)?;
                self.emit(Op::Jump(-(one.len() as isize + 1))) // back to the split
            }
            Some(most) => (least..most).try_for_each(|_| {
                self.emit(Op::Split(1, one.len() + 1))?;
                self.all(&one)
            }),
        }
    }

    fn all(&mut self, ops: &[Op]) -> Result<(), Wrong> {
        ops.iter().try_for_each(|op| self.emit(op.clone()))
    }

    /// Parses * + ? {n} {n,} {n,m}, if one follows. Other braces are literal.
    fn count(&mut self) -> Result<Option<(usize, Option<usize>)>, Wrong> {
        let found = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.braces(),
            _ => return Ok(None),
        };
        self.rest.next();
        Ok(Some(found))
    }

    fn braces(&mut self) -> Result<Option<(usize, Option<usize>)>, Wrong> {
        let mut ahead = self.rest.clone();
        ahead.next();
        let inside: String = ahead.by_ref().take_while(|c| *c != '}').collect();
        if inside.len() + 2 > self.rest.clone().collect::<String>().len() {
            return Ok(None); // there is no closing brace
        }
        let number = |digits: &str| match digits.len() {
            1..=4 if digits.bytes().all(|c| c.is_ascii_digit()) => digits.parse().ok(),
            _ => None,
        };
        let (least, most) = match inside.split_once(',') {
            None => (number(&inside), Some(number(&inside))),
            Some((least, "")) => (number(least), None),
            Some((least, most)) => (number(least), Some(number(most))),
        };
        let (least, most) = match (least, most) {
            (Some(least), None) => (least, None),
            (Some(least), Some(Some(most))) => (least, Some(most)),
            _ => return Ok(None),
        };
        if most.map_or(false, |most| most < least) {
            return Err("a count is the wrong way round");
        }
        self.rest = ahead;
        Ok(Some((least, most)))
    }

    fn atom(&mut self) -> Result<(), Wrong> {
        let c = self.rest.next().unwrap_or_default();
        let op = match c {
            '(' => return self.group(),
            '[' => return self.set(),
            '.' => Op::Any,
            '^' => Op::Begin,
            '$' => Op::End,
            '*' | '+' | '?' => return Err("there is nothing to repeat"),
            '\\' => {
                let c = self.rest.next().unwrap_or_default();
                match (c, class(c)) {
                    ('b' | 'B', _) => Op::Border(c == 'b'),
                    (_, Some(ranges)) => Op::Set { ranges, negated: false },
                    _ => Op::Char(escaped(c)?),
                }
            }
            c => Op::Char(c),
        };
        self.emit(op)
    }

    fn group(&mut self) -> Result<(), Wrong> {
        if self.take('?') && !self.take(':') {
            return Err("it has a group that begins with (?");
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is nested too deeply");
        }
        self.either()?;
        self.depth -= 1;
        if self.take(')') {
            Ok(())
        } else {
            Err("a ) is missing")
        }
    }

    fn set(&mut self) -> Result<(), Wrong> {
        let negated = self.take('^');
        let mut ranges = Vec::new();
        loop {
            let first = ranges.is_empty();
            let c = self.rest.next().ok_or("a ] is missing")?;
            if c == ']' && !first {
                return self.emit(Op::Set { ranges, negated });
            }
            if c == '[' && self.rest.peek() == Some(&':') {
                return Err("it has a class by name");
            }
            let known = if c == '\\' { self.rest.peek().and_then(|c| class(*c)) } else { None };
            if let Some(known) = known {
                self.rest.next();
                ranges.extend(known);
                continue;
            }
            let from = self.character(c)?;
            let mut to = from;
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']')) {
                self.rest.next();
                let c = self.rest.next().unwrap_or_default();
                to = self.character(c)?;
            }
            if to < from {
                return Err("a range is the wrong way round");
            }
            ranges.push((from, to));
        }
    }

    fn character(&mut self, c: char) -> Result<char, Wrong> {
        if c == '\\' {
            escaped(self.rest.next().unwrap_or_default())
        } else {
            Ok(c)
        }
    }
}

/// Returns the meaning of a character after a backslash.
fn escaped(c: char) -> Result<char, Wrong> {
    match c {
        't' => Ok('\t'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        c if c.is_ascii_punctuation() && c != '_' => Ok(c),
        _ => Err("there is an escape that it does not know"),
    }
}

impl Pattern {
    pub fn new(text: &str) -> Result<Pattern, Wrong> {
        let flag = text.strip_prefix("(?").filter(|r| r.starts_with("i)") || r.starts_with("s)"));
        let rest = flag.map_or(text, |r| &r[2..]).chars().peekable();
        let mut parser = Parser { rest, code: Vec::new(), depth: 0 };
        parser.either()?;
        if parser.rest.peek().is_some() {
            return Err("a ( is missing");
        }
        parser.emit(Op::Match)?;
        let fold = flag.map_or(false, |r| r.starts_with('i'));
        Ok(Pattern { code: parser.code, fold, lines: flag.is_some() && !fold })
    }

    /// Reports whether the pattern matches somewhere in a text.
    pub fn matches(&self, text: &str) -> bool {
        let mut search = Search { code: &self.code, seen: vec![0; self.code.len()], turn: 0, reading: Vec::new() };
        let mut threads = Vec::new();
        let mut before = None;
        let mut chars = text.chars().peekable();
        loop {
            let after = chars.peek().copied();
            search.turn += 1;
            search.reading.clear();
            let ends = threads.drain(..).any(|pc| search.follow(pc, before, after));
            if ends || search.follow(0, before, after) {
                return true;
            }
            let c = match chars.next() {
                Some(c) => c,
                None => return false,
            };
            threads.extend(search.reading.iter().filter(|pc| self.takes(&self.code[**pc], c)).map(|pc| pc + 1));
            before = Some(c);
        }
    }

    fn takes(&self, op: &Op, c: char) -> bool {
        let in_any = |ranges: &Ranges, c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
        match op {
            Op::Any => self.lines || c != '\n',
            Op::Char(want) => *want == c || self.fold && want.eq_ignore_ascii_case(&c),
            Op::Set { ranges, negated } => {
                let folded = self.fold && (in_any(ranges, c.to_ascii_lowercase()) || in_any(ranges, c.to_ascii_uppercase()));
                (in_any(ranges, c) || folded) != *negated
            }
            _ => false,
        }
    }
}

/// The state of a search at one position of a text.
struct Search<'a> {
    code: &'a [Op],
    seen: Vec<usize>, // the value of turn when each instruction was last reached
    turn: usize,      // number of the position in the text, from 1
    reading: Vec<usize>, // instructions that consume a character next
}

impl Search<'_> {
    /// Adds an instruction, or those reachable from it without consuming a character. Reports
    /// whether `Match` is one of them.
    fn follow(&mut self, pc: usize, before: Option<char>, after: Option<char>) -> bool {
        if self.seen[pc] == self.turn {
            return false;
        }
        self.seen[pc] = self.turn;
        let word = |c: Option<char>| c.map_or(false, |c| c.is_ascii_alphanumeric() || c == '_');
        let goes_on = match self.code[pc] {
            Op::Match => return true,
            Op::Split(x, y) => return self.follow(pc + x, before, after) || self.follow(pc + y, before, after),
            Op::Jump(by) => return self.follow((pc as isize + by) as usize, before, after),
            Op::Begin => before.is_none(),
            Op::End => after.is_none(),
            Op::Border(there) => (word(before) != word(after)) == there,
            _ => {
                self.reading.push(pc);
                return false;
            }
        };
        goes_on && self.follow(pc + 1, before, after)
    }
}

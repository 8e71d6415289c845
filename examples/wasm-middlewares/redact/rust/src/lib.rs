//! Hides e-mail addresses, card numbers, IP addresses and IBANs in the messages that a run begins
//! with, in requests to the model, in tools' results, and in the model's answers, even where a
//! streamed chunk ends in the middle of an address.
//!
//! Unlike the Go version it has no hashes, custom patterns, tool arguments, IPv6 addresses, or
//! non-ASCII letters in addresses.

mod kinds;

use agent_middleware::*;
use kinds::{Kind, KINDS};

struct Redact {
    detect: Vec<(&'static str, Kind)>,
    mask: bool,
    input: bool,
    output: bool,
    tool_results: bool,
}

impl Default for Redact {
    fn default() -> Self {
        Redact { detect: KINDS.to_vec(), mask: false, input: true, output: true, tool_results: true }
    }
}

export!(Redact: configure, before_agent, before_model, on_chunk, after_model_rewrite_state, after_tool, after_agent);

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{
    "detect":{"type":"array","items":{"type":"string"},"description":"which of email, credit_card, ip, iban to look for"},
    "strategy":{"type":"string","description":"what stands in the place of a find: redact or mask"},
    "input":{"type":"boolean","description":"hide in the user's messages, in requests and in the run's state"},
    "output":{"type":"boolean","description":"hide in the model's answers"},
    "tool_results":{"type":"boolean","description":"hide in what tools answer"}}}"#;

impl Middleware for Redact {
    fn describe(&self) -> Description {
        Description { config_schema: SCHEMA.into(), ..Description::new("redact", "1.1.0", "Hides e-mail addresses, card numbers, IP addresses and IBANs.") }
    }

    fn configure(&mut self, input: ConfigureInput) -> Result<(), Error> {
        let config = input.config.value()?;
        if let Some(Value::List(names)) = config.get("detect") {
            self.detect.clear();
            for (i, name) in names.iter().enumerate() {
                let name = name.as_str().unwrap_or("");
                match KINDS.iter().find(|(n, _)| *n == name) {
                    Some(kind) => self.detect.push(*kind),
                    None => return Err(Error::invalid(format!("config: detect[{}]: {:?} is not one of email, credit_card, ip, iban", i, name))),
                }
            }
        }
        self.mask = match config.get("strategy").and_then(Value::as_str) {
            None | Some("redact") => false,
            Some("mask") => true,
            Some(other) => return Err(Error::invalid(format!("config: strategy: {:?} is not one of redact, mask", other))),
        };
        let flag = |key| config.get(key).and_then(Value::as_bool).unwrap_or(true);
        self.input = flag("input");
        self.output = flag("output");
        self.tool_results = flag("tool_results");
        Ok(())
    }

    /// Changes the run's state, so that the run is stored without the data.
    fn before_agent(&mut self, input: BeforeAgentInput) -> Result<BeforeAgentAnswer, Error> {
        let mut answer = BeforeAgentAnswer::default();
        self.list(&input.messages, &mut answer.messages, "input")?;
        Ok(answer)
    }

    /// Processes messages that other modules have added.
    fn before_model(&mut self, input: BeforeModelInput) -> Result<BeforeModelAnswer, Error> {
        let mut answer = BeforeModelAnswer::default();
        self.list(&input.request.messages, &mut answer.request.messages, "request")?;
        Ok(answer)
    }

    /// Releases text that cannot become part of a match any more. Held text is a run-local value,
    /// because the host may discard the module's memory before the next chunk.
    fn on_chunk(&mut self, input: OnChunkInput) -> Result<OnChunkAnswer, Error> {
        let mut held: Vec<Held> = Vec::new();
        let (mut output, mut results) = (Finds::default(), Finds::default());
        let mut out = Vec::new();
        for mut c in input.chunks {
            let found = if c.call_id.is_empty() { &mut output } else { &mut results };
            if let Some(part) = c.part.as_mut() {
                part.text = self.all(&part.text, found); // parts arrive whole
            }
            if self.hides_in(&c.kind) {
                let h = Held::of(&mut held, input.stream, &c)?;
                let shown = self.next(&mut h.tail, &c.text, false, found);
                if shown.is_empty() && !c.text.is_empty() {
                    continue;
                }
                c.text = shown;
            }
            out.push(c);
        }
        if input.final_ {
            for kind in STREAMED {
                let h = Held::of(&mut held, input.stream, &Chunk { kind: kind.into(), ..Chunk::default() })?;
                let found = if kind == TOOL_RESULT { &mut results } else { &mut output };
                let text = self.next(&mut h.tail, "", true, found);
                if !text.is_empty() {
                    out.push(Chunk { kind: kind.into(), call_id: h.call_id.clone(), ..Chunk::text(text) });
                }
            }
        }
        for h in held {
            h.keep(input.stream)?;
        }
        output.tell("output")?;
        results.tell("tool_result")?;
        Ok(OnChunkAnswer { chunks: Some(out), ..Default::default() })
    }

    /// Processes an answer that did not pass through on_chunk, because a module made it.
    fn after_model_rewrite_state(&mut self, input: AfterModelRewriteStateInput) -> Result<AfterModelRewriteStateAnswer, Error> {
        let mut answer = AfterModelRewriteStateAnswer::default();
        let mut found = Finds::default();
        if let Some(m) = input.messages.last()?.and_then(|m| self.message(&m, &mut found)) {
            answer.messages.set(input.messages.len() - 1, m);
        }
        found.tell("output")?;
        Ok(answer)
    }

    /// Processes a tool's result or error.
    fn after_tool(&mut self, input: AfterToolInput) -> Result<AfterToolAnswer, Error> {
        let mut answer = AfterToolAnswer::default();
        if !self.tool_results {
            return Ok(answer);
        }
        let mut found = Finds::default();
        if let Some(result) = input.result {
            answer.result = self.content(&result.content, &mut found).map(|content| ToolResult { content, ..result });
        }
        if let Some(mut error) = input.error {
            error.message = self.all(&error.message, &mut found);
            answer.error = Some(error);
        }
        found.tell("tool_result")?;
        Ok(answer)
    }

    /// Processes a final answer that another module has changed.
    fn after_agent(&mut self, input: AfterAgentInput) -> Result<AfterAgentAnswer, Error> {
        let mut found = Finds::default();
        let final_ = input.final_.and_then(|m| self.message(&m, &mut found));
        found.tell("output")?;
        Ok(AfterAgentAnswer { final_ })
    }
}

const TOOL_RESULT: &str = "tool_result";
const STREAMED: [&str; 3] = ["text", "reasoning", TOOL_RESULT];

/// The number of matches of each kind.
#[derive(Default)]
struct Finds(Vec<(&'static str, i64)>);

impl Finds {
    fn add(&mut self, kind: &'static str) {
        match self.0.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += 1,
            None => self.0.push((kind, 1)),
        }
    }

    /// Emits an event with the counts, without the data.
    fn tell(&self, place: &str) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let counts: Vec<String> = self.0.iter().map(|(kind, n)| format!("\"{}\":{}", kind, n)).collect();
        host::emit("redacted", Raw(format!("{{\"in\":\"{}\",\"found\":{{{}}}}}", place, counts.join(","))))
    }
}

/// The end of a text that may still become part of a match.
#[derive(Default, PartialEq, Clone)]
struct Tail {
    before: String, // the character before it
    text: String,
}

/// The held text of one text of a stream.
struct Held {
    kind: String,
    call_id: String,
    tail: Tail,
    was: Tail,
}

impl Held {
    fn key(kind: &str, stream: i64) -> String {
        format!("stream/{}/{}", stream, kind)
    }

    /// Returns the held state of the text that a chunk belongs to.
    fn of<'a>(all: &'a mut Vec<Held>, stream: i64, c: &Chunk) -> Result<&'a mut Held, Error> {
        if let Some(i) = all.iter().position(|h| h.kind == c.kind) {
            return Ok(&mut all[i]);
        }
        let mut h = Held { kind: c.kind.clone(), call_id: c.call_id.clone(), tail: Tail::default(), was: Tail::default() };
        if let Some(kept) = host::local_get(&Held::key(&c.kind, stream))? {
            let value = kept.value.value()?;
            let text = |key| value.get(key).and_then(Value::as_str).unwrap_or("").to_string();
            h.call_id = text("call_id");
            h.tail = Tail { before: text("before"), text: text("text") };
            h.was = h.tail.clone();
        }
        all.push(h);
        let last = all.len() - 1;
        Ok(&mut all[last])
    }

    fn keep(self, stream: i64) -> Result<(), Error> {
        if self.tail == self.was {
            return Ok(());
        }
        let value = Raw::object(&[("before", &self.tail.before), ("text", &self.tail.text), ("call_id", &self.call_id)]);
        host::local_set(&Held::key(&self.kind, stream), &value, host::ALWAYS)
    }
}

struct Span {
    from: usize,
    to: usize,
    kind: &'static str,
}

impl Redact {
    fn hides_in(&self, chunk: &str) -> bool {
        match chunk {
            "text" | "reasoning" => self.output,
            TOOL_RESULT => self.tool_results,
            _ => false,
        }
    }

    /// Redacts all messages of a list, and emits an event.
    fn list(&self, messages: &List, patch: &mut ListPatch, place: &str) -> Result<(), Error> {
        let mut found = Finds::default();
        for i in 0..messages.len() {
            if let Some(m) = self.message(&*messages.at(i)?, &mut found) {
                patch.set(i, m);
            }
        }
        found.tell(place)
    }

    /// Returns the redacted message, or `None` if nothing changes.
    fn message(&self, m: &Message, found: &mut Finds) -> Option<Message> {
        let hides = match m.role.as_str() {
            "user" => self.input,
            "tool" => self.tool_results,
            "assistant" => self.output,
            _ => false,
        };
        if !hides {
            return None;
        }
        let content = self.content(&m.content, found);
        let reasoning_content = self.all(&m.reasoning_content, found);
        if content.is_none() && reasoning_content == m.reasoning_content {
            return None;
        }
        Some(Message { content: content.unwrap_or_else(|| m.content.clone()), reasoning_content, ..m.clone() })
    }

    fn content(&self, content: &Content, found: &mut Finds) -> Option<Content> {
        let hidden = match content {
            Content::Null => Content::Null,
            Content::Text(text) => Content::Text(self.all(text, found)),
            Content::Parts(parts) => Content::Parts(parts.iter().map(|p| Part { text: self.all(&p.text, found), ..p.clone() }).collect()),
        };
        if hidden == *content {
            None
        } else {
            Some(hidden)
        }
    }

    /// Redacts a complete text.
    fn all(&self, text: &str, found: &mut Finds) -> String {
        self.next(&mut Tail::default(), text, true, found)
    }

    /// Appends a piece to a tail and returns the text to release: everything before the first
    /// possible match that is still incomplete, with complete matches replaced. With the last piece
    /// it returns everything.
    fn next(&self, tail: &mut Tail, piece: &str, last: bool, found: &mut Finds) -> String {
        let from = tail.before.len();
        let text = format!("{}{}{}", tail.before, tail.text, piece);
        let spans = self.find(&text, from);
        let cut = if last { text.len() } else { self.cut(&text, from, &spans) };
        let mut out = String::new();
        let mut at = from;
        for s in spans.iter().take_while(|s| s.from < cut) {
            out += &text[at..s.from];
            out += &self.instead(s.kind, &text[s.from..s.to]);
            found.add(s.kind);
            at = s.to;
        }
        if at < cut {
            out += &text[at..cut];
        }
        tail.before = text[..cut].chars().next_back().map(String::from).unwrap_or_default();
        tail.text = text[cut..].into();
        out
    }

    /// Returns the matches of all kinds, merged where they overlap.
    fn find(&self, text: &str, from: usize) -> Vec<Span> {
        let mut all = Vec::new();
        for (name, kind) in &self.detect {
            kind.find(text.as_bytes(), from, &mut |from, to| all.push(Span { from, to, kind: *name }));
        }
        all.sort_by_key(|s| s.from);
        let mut apart: Vec<Span> = Vec::new();
        for s in all {
            match apart.last_mut() {
                Some(last) if s.from < last.to => last.to = last.to.max(s.to),
                _ => apart.push(s),
            }
        }
        apart
    }

    /// Returns the end of the text that more text cannot change. It is never within a match.
    fn cut(&self, text: &str, from: usize, spans: &[Span]) -> usize {
        let cut = self.detect.iter().map(|(_, kind)| kind.open(text.as_bytes(), from)).min().unwrap_or(text.len());
        spans.iter().find(|s| s.from < cut && cut < s.to).map_or(cut, |s| s.from)
    }

    fn instead(&self, kind: &str, found: &str) -> String {
        if !self.mask {
            return format!("[REDACTED_{}]", kind.to_ascii_uppercase());
        }
        let keep = if kind == "credit_card" || kind == "iban" { 4 } else { 0 };
        let mut left = found.chars().filter(|c| c.is_ascii_alphanumeric()).count();
        let masked = found.chars().map(|c| {
            if !c.is_ascii_alphanumeric() {
                return c;
            }
            left -= 1;
            if left < keep {
                c
            } else {
                '*'
            }
        });
        masked.collect()
    }
}

//! Forwards the model's text sentence by sentence, for a voice that reads it aloud, or a page that
//! should not show partial sentences.

use agent_middleware::*;

struct Sentences {
    longest: i64,
}

impl Default for Sentences {
    fn default() -> Self {
        Sentences { longest: 400 }
    }
}

export!(Sentences: configure, wrap_model);

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{"longest":{"type":"integer",
    "description":"how many characters are held at most; what is longer is cut between words"}}}"#;

impl Middleware for Sentences {
    fn describe(&self) -> Description {
        Description { config_schema: SCHEMA.into(), ..Description::new("sentences", "1.0.0", "Hands the model's text on sentence by sentence.") }
    }

    fn configure(&mut self, input: ConfigureInput) -> Result<(), Error> {
        if let Some(longest) = input.config.value()?.get("longest").and_then(Value::as_i64) {
            self.longest = longest;
        }
        if self.longest < 1 {
            return Err(Error::invalid(format!("config: longest: {} is below 1", self.longest)));
        }
        Ok(())
    }

    fn wrap_model(&mut self, input: WrapModelInput) -> Result<WrapModelAnswer, Error> {
        if !input.request.stream {
            host::next_model(None)?; // not a stream
            return Ok(Default::default());
        }
        let mut cutter = Cutter { longest: self.longest, held: String::new() };
        let failed = cutter.pass();
        // Forward the text up to a failure of the model.
        host::send(cutter.rest())?;
        failed.map(|_| Default::default())
    }
}

/// Splits text that arrives in pieces into sentences. White space stays at the end of the sentence
/// before it, unless that sentence already has the maximum length. The concatenated sentences equal
/// the text.
struct Cutter {
    longest: i64, // characters
    held: String,
}

impl Cutter {
    /// Forwards the answer as it arrives. Chunks other than text and reasoning follow the text
    /// before them.
    fn pass(&mut self) -> Result<(), Error> {
        host::next_model_stream(None)?;
        while let Some(got) = host::recv()? {
            let mut ready = Vec::new();
            for c in got.chunks {
                match c.kind.as_str() {
                    "text" => {
                        self.held += &c.text;
                        self.cut(&mut ready);
                        continue;
                    }
                    "reasoning" => {}
                    _ => ready.append(&mut self.rest()),
                }
                ready.push(c);
            }
            host::send(ready)?;
        }
        Ok(())
    }

    /// Moves the complete sentences out of the held text.
    fn cut(&mut self, to: &mut Vec<Chunk>) {
        while let Some(n) = self.end() {
            let rest = self.held.split_off(n);
            to.push(Chunk::text(core::mem::replace(&mut self.held, rest)));
        }
    }

    /// Returns the remaining text as the last sentence, or nothing.
    fn rest(&mut self) -> Vec<Chunk> {
        match core::mem::take(&mut self.held) {
            text if text.is_empty() => Vec::new(),
            text => vec![Chunk::text(text)],
        }
    }

    /// Returns the end of the first sentence, including the white space after it, if it is
    /// complete. A mark ends a sentence only before white space, so 3.14 and "?!" are not split.
    fn end(&self) -> Option<usize> {
        #[derive(PartialEq)]
        enum State {
            Inside,
            Marked, // after a mark
            Closed, // after the white space that follows a mark
        }
        let mut state = State::Inside;
        let mut word = 0;
        for (count, (i, c)) in self.held.char_indices().enumerate() {
            state = match c {
                _ if state != State::Inside && c.is_whitespace() => State::Closed,
                _ if state == State::Closed => return Some(i),
                '\n' | '。' | '！' | '？' => State::Closed, // these need no space after them
                '.' | '!' | '?' | '…' => State::Marked,
                '"' | '\'' | '”' | '’' | '»' | ')' | ']' if state == State::Marked => State::Marked,
                _ => State::Inside,
            };
            if c.is_whitespace() {
                word = i + c.len_utf8();
            }
            if count as i64 >= self.longest {
                return Some(if word > 0 && word <= i { word } else { i });
            }
        }
        None
    }
}

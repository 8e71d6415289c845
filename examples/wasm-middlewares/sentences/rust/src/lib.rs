//! Hands the model's text on sentence by sentence: for a voice that reads it out,
//! or a reader who is not to see words come and go.

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
            host::next_model(None)?; // there is nobody who could hear it in pieces
            return Ok(Default::default());
        }
        let mut cutter = Cutter { longest: self.longest, held: String::new() };
        let failed = cutter.pass();
        // What was said before the model broke off is said.
        host::send(cutter.rest())?;
        failed.map(|_| Default::default())
    }
}

/// Cuts text that comes in pieces into sentences, which put together are the text:
/// white space stays at the end of the sentence before it, unless that is as long
/// as may be already.
struct Cutter {
    longest: i64, // characters
    held: String,
}

impl Cutter {
    /// Reads the answer as it comes. What is no text goes on as it is, behind the
    /// text that came before it.
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

    /// Moves the sentences that have come to their end out of what is held.
    fn cut(&mut self, to: &mut Vec<Chunk>) {
        while let Some(n) = self.end() {
            let rest = self.held.split_off(n);
            to.push(Chunk::text(core::mem::replace(&mut self.held, rest)));
        }
    }

    /// What is left, as the last sentence; nothing if nothing is.
    fn rest(&mut self) -> Vec<Chunk> {
        match core::mem::take(&mut self.held) {
            text if text.is_empty() => Vec::new(),
            text => vec![Chunk::text(text)],
        }
    }

    /// Where the first sentence ends, with the white space behind it, if that is
    /// known. A mark ends one if white space follows: neither 3.14 nor "?!" is cut
    /// in two.
    fn end(&self) -> Option<usize> {
        #[derive(PartialEq)]
        enum State {
            Inside,
            Marked, // behind a mark
            Closed, // behind the white space that follows it
        }
        let mut state = State::Inside;
        let mut word = 0;
        for (count, (i, c)) in self.held.char_indices().enumerate() {
            state = match c {
                _ if state != State::Inside && c.is_whitespace() => State::Closed,
                _ if state == State::Closed => return Some(i),
                '\n' | '。' | '！' | '？' => State::Closed, // no space follows those
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

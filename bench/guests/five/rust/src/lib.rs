//! The five middlewares in one module, like the module in Go. The configuration of an entry selects
//! one of them.

use agent_middleware::*;
use std::collections::HashSet;

#[derive(Default)]
struct Five;

export!(Five: configure, before_model_rewrite_state, gate_tool, on_chunk, after_tool, wrap_tool_call, observe);

impl Middleware for Five {
    fn describe(&self) -> Description {
        Description { events: Some(vec!["message".into(), "tool_result".into()]), ..Description::new("five", "", "") }
    }

    fn configure(&mut self, input: ConfigureInput) -> Result<(), Error> {
        match input.config.value()?.get("use").and_then(Value::as_str) {
            Some("patch") | Some("policy") | Some("redact") | Some("cache") | Some("observe") => Ok(()),
            other => Err(Error::invalid(format!("there is no {:?}", other))),
        }
    }

    /// patch adds an answer to each call without one.
    fn before_model_rewrite_state(&mut self, input: BeforeModelRewriteStateInput) -> Result<BeforeModelRewriteStateAnswer, Error> {
        let list = &input.messages;
        let messages = (0..list.len()).map(|i| list.at(i)).collect::<Result<Vec<_>, _>>()?;
        let answered: HashSet<&str> = messages.iter().filter(|m| m.role == "tool").map(|m| m.tool_call_id.as_str()).collect();
        let mut answer = BeforeModelRewriteStateAnswer::default();
        for (i, m) in messages.iter().enumerate() {
            for call in m.tool_calls.iter().filter(|c| !answered.contains(c.id.as_str())) {
                answer.messages.insert(i as i32 + 1, Message::tool(&call.id, &call.function.name, "This call was canceled."));
            }
        }
        Ok(answer)
    }

    /// policy decides which tools may be called.
    fn gate_tool(&mut self, input: GateToolInput) -> Result<GateToolAnswer, Error> {
        if input.call.name == "delete" || input.call.arguments.contains("/etc/") {
            return Ok(GateToolAnswer::deny("this is not allowed here"));
        }
        Ok(GateToolAnswer::allow())
    }

    /// redact replaces addresses in the stream.
    fn on_chunk(&mut self, input: OnChunkInput) -> Result<OnChunkAnswer, Error> {
        let mut chunks = input.chunks;
        let mut found = false;
        for c in &mut chunks {
            if let Some(text) = redacted(&c.text) {
                c.text = text;
                found = true;
            }
        }
        Ok(OnChunkAnswer { chunks: if found { Some(chunks) } else { None }, ..Default::default() })
    }

    /// redact replaces addresses in tool results.
    fn after_tool(&mut self, input: AfterToolInput) -> Result<AfterToolAnswer, Error> {
        let result = input.result.and_then(|r| redacted(&r.content.plain()).map(|text| ToolResult { content: text.into(), ..r }));
        Ok(AfterToolAnswer { result, ..Default::default() })
    }

    /// cache stores the result of a call in a run-local value.
    fn wrap_tool_call(&mut self, input: WrapToolCallInput) -> Result<WrapToolCallAnswer, Error> {
        let key = format!("{} {}", input.call.name, input.call.arguments);
        let result = match host::local_get(&key)? {
            Some(kept) => ToolResult::decode_json(&kept.value.0)?,
            None => {
                let result = host::next_tool(None)?;
                host::local_set(&key, &Raw(result.encode_json()), host::ALWAYS)?;
                result
            }
        };
        Ok(WrapToolCallAnswer { result: Some(result), ..Default::default() })
    }

    /// observe counts events by type.
    fn observe(&mut self, input: ObserveInput) -> Result<(), Error> {
        let (mut messages, mut results) = (0, 0);
        if let Some(kept) = host::local_get("run/counts")? {
            let counts = kept.value.value()?;
            let count = |key| counts.get(key).and_then(Value::as_i64).unwrap_or(0);
            messages = count("message");
            results = count("tool_result");
        }
        messages += input.events.iter().filter(|e| e.type_ == "message").count() as i64;
        results += input.events.iter().filter(|e| e.type_ == "tool_result").count() as i64;
        host::local_set("run/counts", &Raw(format!("{{\"message\":{},\"tool_result\":{}}}", messages, results)), host::ALWAYS)
    }
}

fn address(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'.' || c == b'-' || c == b'_'
}

/// Returns the text with its addresses replaced, or None if it has none.
fn redacted(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut behind, mut found) = (String::new(), 0, false);
    while let Some(at) = text[behind..].find('@').map(|at| at + behind) {
        let (mut from, mut to) = (at, at + 1);
        while from > behind && address(bytes[from - 1]) {
            from -= 1;
        }
        while to < bytes.len() && address(bytes[to]) {
            to += 1;
        }
        if from < at && to > at + 1 {
            out += &text[behind..from];
            out += "[address]";
            found = true;
        } else {
            out += &text[behind..to];
        }
        behind = to;
    }
    if !found {
        return None;
    }
    out += &text[behind..];
    Some(out)
}

//! Constructors for answers.

use crate::*;
use alloc::string::String;
use core::fmt;

impl Description {
    /// Describes a module that reads messages one by one with [List::at].
    pub fn new(name: &str, version: &str, description: &str) -> Self {
        Description { name: name.into(), version: version.into(), description: description.into(), messages: "lazy".into(), ..Default::default() }
    }
}

impl Message {
    pub fn new(role: &str, content: impl Into<Content>) -> Self {
        Message { role: role.into(), content: content.into(), ..Default::default() }
    }
    pub fn user(content: impl Into<Content>) -> Self {
        Message::new("user", content)
    }
    pub fn assistant(content: impl Into<Content>) -> Self {
        Message::new("assistant", content)
    }
    /// The message that answers a tool call.
    pub fn tool(call_id: &str, tool: &str, content: impl Into<Content>) -> Self {
        Message { tool_call_id: call_id.into(), name: tool.into(), ..Message::new("tool", content) }
    }
}

impl Response {
    pub fn new(message: Message) -> Self {
        Response { message, ..Default::default() }
    }
}

impl ToolResult {
    pub fn new(content: impl Into<Content>) -> Self {
        ToolResult { content: content.into(), ..Default::default() }
    }
    pub fn error(content: impl Into<Content>) -> Self {
        ToolResult { is_error: true, ..ToolResult::new(content) }
    }
}

impl Chunk {
    /// A chunk of text.
    pub fn text(text: impl Into<String>) -> Self {
        Chunk { kind: "text".into(), text: text.into(), ..Default::default() }
    }
}

impl GateToolAnswer {
    fn of(decision: &str, message: String) -> Self {
        GateToolAnswer { decision: decision.into(), message, ..Default::default() }
    }
    pub fn allow() -> Self {
        GateToolAnswer::of("allow", String::new())
    }
    /// Denies the call. The model receives the message.
    pub fn deny(message: impl Into<String>) -> Self {
        GateToolAnswer::of("deny", message.into())
    }
    /// Asks a person for approval. The payload is shown to the person.
    pub fn ask(message: impl Into<String>, payload: Raw) -> Self {
        GateToolAnswer { payload, ..GateToolAnswer::of("ask", message.into()) }
    }
    /// Ends the run.
    pub fn stop(message: impl Into<String>) -> Self {
        GateToolAnswer::of("stop", message.into())
    }
}

impl Stop {
    pub fn new(reason: impl Into<String>, code: &str) -> Self {
        Stop { reason: reason.into(), code: code.into() }
    }
}

impl Interrupt {
    pub fn new(reason: impl Into<String>, payload: Raw) -> Self {
        Interrupt { reason: reason.into(), payload }
    }
}

impl Error {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Error { code: code.into(), message: message.into(), ..Default::default() }
    }
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new("invalid", message)
    }
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Error::new("internal", message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.message.is_empty() { &self.code } else { &self.message })
    }
}

impl From<Malformed> for Error {
    fn from(m: Malformed) -> Self {
        Error::invalid(m.why)
    }
}

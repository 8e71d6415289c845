//! Types with several JSON forms.

use crate::json::{Json, Reader, Writer};
use crate::{Chunk, Message, Part, Splice, Tool};
use alloc::{string::String, vec, vec::Vec};

/// The content of a message or a result: null, text, or parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Null,
    Text(String),
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Content::Null
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.into())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Content::Text(text)
    }
}

impl Content {
    /// Returns the concatenated text of all parts.
    pub fn plain(&self) -> String {
        match self {
            Content::Null => String::new(),
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => parts.iter().map(|p| p.text.as_str()).collect(),
        }
    }
}

impl Json for Content {
    fn read(&mut self, r: &mut Reader) {
        *self = match r.peek() {
            b'n' => {
                r.skip();
                Content::Null
            }
            b'"' => Content::Text(r.string()),
            _ => {
                let mut parts = Vec::new();
                parts.read(r);
                Content::Parts(parts)
            }
        }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            Content::Null => w.raw("null"),
            Content::Text(text) => w.text(text),
            Content::Parts(parts) => parts.write(w),
        }
    }
}

/// Changes a list of messages, by ascending splices or by a new list. Splices refer to
/// the list in the input.
#[derive(Clone, Debug, PartialEq)]
pub enum ListPatch {
    Splice(Vec<Splice>),
    Whole(Vec<Message>),
}

impl Default for ListPatch {
    fn default() -> Self {
        ListPatch::Splice(Vec::new())
    }
}

impl ListPatch {
    /// Replaces `remove` messages at index `at`. Indices refer to the list in the input
    /// and must ascend from call to call. It has no effect on a whole list.
    pub fn splice(&mut self, at: i32, remove: i32, insert: Vec<Message>) {
        if let ListPatch::Splice(list) = self {
            list.push(Splice { at, remove, insert });
        }
    }
    /// Inserts a message before message `at`, or at the end.
    pub fn insert(&mut self, at: i32, message: Message) {
        self.splice(at, 0, vec![message]);
    }
    pub fn set(&mut self, at: i32, message: Message) {
        self.splice(at, 1, vec![message]);
    }
    pub fn delete(&mut self, from: i32, to: i32) {
        self.splice(from, to - from, Vec::new());
    }
}

impl Json for ListPatch {
    fn read(&mut self, r: &mut Reader) {
        if r.peek() == b'[' {
            let mut list = Vec::new();
            list.read(r);
            *self = ListPatch::Whole(list);
            return;
        }
        let mut list = Vec::new();
        r.fields(&mut |key, r| match key.text {
            "splice" => list.read(r),
            _ => r.skip(),
        });
        *self = ListPatch::Splice(list)
    }
    fn write(&self, w: &mut Writer) {
        match self {
            ListPatch::Whole(list) => list.write(w),
            ListPatch::Splice(list) => {
                w.raw("{");
                w.field("splice", list);
                w.raw("}");
            }
        }
    }
    fn is_empty(&self) -> bool {
        matches!(self, ListPatch::Splice(list) if list.is_empty())
    }
}

/// Changes a list of tools, by additions and removals or by a new list.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolsPatch {
    Change { add: Vec<Tool>, remove: Vec<String> },
    Whole(Vec<Tool>),
}

impl Default for ToolsPatch {
    fn default() -> Self {
        ToolsPatch::Change { add: Vec::new(), remove: Vec::new() }
    }
}

impl ToolsPatch {
    /// Adds a tool. The module's call_tool receives its calls.
    pub fn add(&mut self, tool: Tool) {
        match self {
            ToolsPatch::Change { add, .. } => add.push(tool),
            ToolsPatch::Whole(list) => list.push(tool),
        }
    }
    pub fn remove(&mut self, name: &str) {
        match self {
            ToolsPatch::Change { remove, .. } => remove.push(name.into()),
            ToolsPatch::Whole(list) => list.retain(|t| t.name != name),
        }
    }
}

impl Json for ToolsPatch {
    fn read(&mut self, r: &mut Reader) {
        if r.peek() == b'[' {
            let mut list = Vec::new();
            list.read(r);
            *self = ToolsPatch::Whole(list);
            return;
        }
        let (mut add, mut remove) = (Vec::new(), Vec::new());
        r.fields(&mut |key, r| match key.text {
            "add" => add.read(r),
            "remove" => remove.read(r),
            _ => r.skip(),
        });
        *self = ToolsPatch::Change { add, remove }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            ToolsPatch::Whole(list) => list.write(w),
            ToolsPatch::Change { add, remove } => {
                w.raw("{");
                w.optional("add", add);
                w.optional("remove", remove);
                w.raw("}");
            }
        }
    }
    fn is_empty(&self) -> bool {
        matches!(self, ToolsPatch::Change { add, remove } if add.is_empty() && remove.is_empty())
    }
}

/// Writes the fields that belong to the chunk's kind.
pub(crate) fn write_chunk(c: &Chunk, w: &mut Writer) {
    w.optional("seq", &c.seq);
    w.field("kind", &c.kind);
    if c.kind == "tool_call" {
        w.field("index", &c.index);
        w.optional("id", &c.id);
        w.optional("name", &c.name);
        w.field("arguments", &c.arguments);
        return;
    }
    w.optional("call_id", &c.call_id);
    if c.kind == "part" {
        w.field("part", &c.part);
    } else {
        w.field("text", &c.text);
    }
}

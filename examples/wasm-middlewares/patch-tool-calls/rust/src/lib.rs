//! Answers dangling tool calls: calls in an assistant's message that no tool message answers, because
//! the user wrote again before the tools finished. Models reject such a conversation, or invent
//! results. Optionally it also removes surplus results, or rejects an inconsistent conversation.

use agent_middleware::*;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

#[derive(Default)]
struct Patcher {
    template: String,
    strict: bool,
    remove_orphans: bool,
    remove_duplicates: bool,
}

export!(Patcher: configure, before_model_rewrite_state);

const ENGLISH: &str = "Tool call {name} with id {id} was canceled - another message came in before it could be completed.";
const CHINESE: &str = "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。";

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{
    "language":{"type":"string","description":"of the text: en or zh"},
    "template":{"type":"string","description":"a text of one's own, with {name} and {id} of the call"},
    "remove_orphan_results":{"type":"boolean","description":"remove results whose call is not in the assistant's message right before them"},
    "remove_duplicate_results":{"type":"boolean","description":"remove all results of a call but the first"},
    "strict":{"type":"boolean","description":"repair nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run"}}}"#;

impl Middleware for Patcher {
    fn describe(&self) -> Description {
        Description {
            config_schema: SCHEMA.into(),
            ..Description::new("patch-tool-calls", "1.1.0", "Answers tool calls that were left without a result.")
        }
    }

    fn configure(&mut self, input: ConfigureInput) -> Result<(), Error> {
        let config = input.config.value()?;
        let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or("");
        let flag = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
        let usual = match text("language") {
            "" | "en" => ENGLISH,
            "zh" => CHINESE,
            other => return Err(Error::invalid(format!("config: language: {:?} is not one of en, zh", other))),
        };
        self.strict = flag("strict");
        self.remove_orphans = flag("remove_orphan_results");
        self.remove_duplicates = flag("remove_duplicate_results");
        if self.strict && (self.remove_orphans || self.remove_duplicates) {
            return Err(Error::invalid(
                "config: strict repairs nothing, so remove_orphan_results and remove_duplicate_results cannot be set with it",
            ));
        }
        self.template = match text("template") {
            "" => usual.into(),
            own => own.into(),
        };
        Ok(())
    }

    /// Processes the rounds of calls and results in order. It starts at the round before the first
    /// change since the last step, or at the first message if there are late results.
    fn before_model_rewrite_state(&mut self, input: BeforeModelRewriteStateInput) -> Result<BeforeModelRewriteStateAnswer, Error> {
        let mut answer = BeforeModelRewriteStateAnswer::default();
        let mut i = begin(&input.messages)?;
        let mut late = Late::read(&input.messages, i)?;
        if i > 0 && !late.left.is_empty() {
            i = 0; // the calls may be in any message
            late = Late::read(&input.messages, 0)?;
        }
        while i < input.messages.len() {
            let mut round = Round::read(&input.messages, i)?;
            if self.strict {
                round.check(i)?;
            } else {
                late.settle(&mut round);
                self.mend(&round, &mut answer.messages)?;
            }
            i = round.first + round.results.len() as i32;
        }
        host::local_set("looked", &Raw(input.messages.revision.to_string()), host::ALWAYS)?;
        Ok(answer)
    }
}

/// Returns the index of the first message to check: the last message before the first change, other
/// than tool messages.
fn begin(messages: &List) -> Result<i32, Error> {
    let looked = host::local_get("looked")?.and_then(|v| v.value.0.parse().ok());
    let mut i = looked.map_or(0, |revision| messages.changed_since(revision));
    while i > 0 {
        i -= 1;
        if messages.at(i)?.role != "tool" {
            break;
        }
    }
    Ok(i)
}

/// A message and the tool messages right after it, which should answer each of its calls once. A
/// list may begin with tool messages that follow no message.
struct Round {
    first: i32, // the index of the first tool message
    calls: Vec<(ToolCall, Option<usize>)>, // each with the index of its result
    results: Vec<(Rc<Message>, Option<Surplus>)>,
}

/// Counts the results that other messages separate from their calls. The host moves each to its call
/// before it calls the model, if the call has no other result.
#[derive(Default)]
struct Late {
    left: BTreeMap<String, i32>, // number of late results in the following rounds, by the call's id
    awaited: BTreeSet<String>,   // ids of calls in earlier rounds that a late result answers
}

impl Late {
    /// Counts the late results from message `i` on.
    fn read(messages: &List, i: i32) -> Result<Late, Error> {
        let mut late = Late::default();
        let mut head: Option<Rc<Message>> = None;
        for i in i..messages.len() {
            let m = messages.at(i)?;
            if m.role != "tool" {
                head = Some(m);
            } else if !head.iter().any(|h| h.tool_calls.iter().any(|c| c.id == m.tool_call_id)) && !synthetic(&m) {
                *late.left.entry(m.tool_call_id.clone()).or_default() += 1;
            }
        }
        Ok(late)
    }

    /// Corrects the round for late results. A call that a late result answers is not missing a
    /// result, and its placeholder is surplus. The late result itself is not surplus.
    fn settle(&mut self, round: &mut Round) {
        for (m, surplus) in &mut round.results {
            if *surplus == Some(Surplus::Orphan) && !synthetic(m) {
                *self.left.entry(m.tool_call_id.clone()).or_default() -= 1;
                if self.awaited.remove(&m.tool_call_id) {
                    *surplus = None;
                }
            }
        }
        let results = &mut round.results;
        round.calls.retain(|(c, result)| {
            if result.map_or(false, |r| !synthetic(&results[r].0)) || self.left.get(&c.id).map_or(true, |n| *n <= 0) {
                return true;
            }
            if let Some(r) = result {
                results[*r].1 = Some(Surplus::Duplicate);
            }
            self.awaited.insert(c.id.clone());
            false
        });
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Surplus {
    Orphan,
    Duplicate,
}

impl Surplus {
    fn why(self) -> &'static str {
        match self {
            Surplus::Orphan => "orphan",
            Surplus::Duplicate => "duplicate",
        }
    }
}

fn synthetic(m: &Message) -> bool {
    m.extra.value().map_or(false, |v| v.get("synthetic") == Some(&Value::Bool(true)))
}

impl Round {
    /// Reads the round that begins with message `i`.
    fn read(messages: &List, i: i32) -> Result<Round, Error> {
        let head = messages.at(i)?;
        let headless = head.role == "tool";
        let calls = if headless { &[][..] } else { &head.tool_calls };
        let mut round = Round {
            first: if headless { i } else { i + 1 },
            calls: calls.iter().map(|c| (c.clone(), None)).collect(),
            results: Vec::new(),
        };
        for i in round.first..messages.len() {
            let message = messages.at(i)?;
            if message.role != "tool" {
                break;
            }
            round.add(message);
        }
        Ok(round)
    }

    /// Assigns a result to its call. If a call has a placeholder and a result, the placeholder is
    /// surplus.
    fn add(&mut self, message: Rc<Message>) {
        let id = &message.tool_call_id;
        let of_id = |c: &ToolCall| !c.id.is_empty() && c.id == *id;
        let known = self.calls.iter().any(|(c, _)| of_id(c));
        let mut surplus = None;
        if let Some((_, result)) = self.calls.iter_mut().find(|(c, result)| of_id(c) && result.is_none()) {
            *result = Some(self.results.len());
        } else {
            let results = &mut self.results;
            let placeholder = self.calls.iter_mut().find(|(c, r)| of_id(c) && r.map_or(false, |r| synthetic(&results[r].0)));
            match placeholder {
                Some((_, result)) if !synthetic(&message) => {
                    if let Some(r) = result.replace(results.len()) {
                        results[r].1 = Some(Surplus::Duplicate);
                    }
                }
                _ => surplus = Some(if known { Surplus::Duplicate } else { Surplus::Orphan }),
            }
        }
        self.results.push((message, surplus));
    }

    /// Returns the calls to answer. A call without an id cannot be answered.
    fn missing(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.iter().filter(|(c, result)| result.is_none() && !c.id.is_empty()).map(|(c, _)| c)
    }

    /// Returns the surplus results with their indices.
    fn surplus(&self) -> impl Iterator<Item = (i32, &Message, Surplus)> {
        let first = self.first;
        self.results.iter().enumerate().filter_map(move |(i, (m, why))| why.map(|why| (first + i as i32, &**m, why)))
    }

    /// Returns an error that lists all inconsistencies of the round that begins with message `i`.
    fn check(&self, i: i32) -> Result<(), Error> {
        let mut faults = Vec::new();
        if self.calls.iter().any(|(c, _)| c.id.is_empty()) {
            faults.push(format!("message {} has a call without an id", i));
        }
        for c in self.missing() {
            faults.push(format!("the call {}#{} of message {} has no result", c.function.name, c.id, i));
        }
        for (at, m, why) in self.surplus() {
            faults.push(format!("message {} is a result of {}#{}: {}", at, m.name, m.tool_call_id, why.why()));
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!("the conversation is not sound: {}; mend it, or configure without strict", faults.join("; "))))
    }
}

impl Patcher {
    /// Inserts a placeholder for each call without a result, before the existing results, and
    /// removes surplus placeholders, and surplus results as configured.
    fn mend(&self, round: &Round, patch: &mut ListPatch) -> Result<(), Error> {
        for c in round.missing() {
            patch.insert(round.first, self.placeholder(c));
        }
        for (at, m, why) in round.surplus() {
            if synthetic(m) || if why == Surplus::Orphan { self.remove_orphans } else { self.remove_duplicates } {
                patch.delete(at, at + 1);
                host::emit("removed", Raw::object(&[("call", &m.tool_call_id), ("tool", &m.name), ("why", why.why())]))?;
            }
        }
        for c in round.missing() {
            host::emit("patched", Raw::object(&[("call", &c.id), ("tool", &c.function.name)]))?;
        }
        Ok(())
    }

    /// Returns the answer to a call. Its extra marks it as synthetic for later readers of the
    /// conversation; models do not see it.
    fn placeholder(&self, c: &ToolCall) -> Message {
        let mut text = String::new();
        let mut rest = self.template.as_str();
        while let Some(at) = rest.find('{') {
            text += &rest[..at];
            rest = &rest[at..];
            let (with, n) = match rest {
                r if r.starts_with("{name}") => (c.function.name.as_str(), 6),
                r if r.starts_with("{id}") => (c.id.as_str(), 4),
                _ => ("{", 1),
            };
            text += with; // inserted texts are not expanded again
            rest = &rest[n..];
        }
        text += rest;
        Message { extra: r#"{"synthetic":true}"#.into(), ..Message::tool(&c.id, &c.function.name, text) }
    }
}

//! Calls of the host. Each returns a value or the error that the host reported.

use crate::*;
use alloc::{string::String, vec::Vec};

mod import {
    #[link(wasm_import_module = "agent_middleware_v1")]
    extern "C" {
        pub fn read(ptr: *mut u8, cap: i32) -> i32;
        pub fn write(ptr: *const u8, len: i32);
        pub fn next(ptr: *const u8, len: i32) -> i32;
        pub fn next_stream(ptr: *const u8, len: i32) -> i32;
        pub fn recv() -> i32;
        pub fn send(ptr: *const u8, len: i32) -> i32;
        pub fn messages(list: i32, from: i32, to: i32) -> i32;
        pub fn changed(list: i32, revision: i64) -> i32;
        pub fn local_get(key: *const u8, len: i32) -> i32;
        pub fn local_set(key: *const u8, len: i32, value: *const u8, value_len: i32, version: i64) -> i32;
        pub fn local_delete(key: *const u8, len: i32) -> i32;
        pub fn local_add(key: *const u8, len: i32, delta: i64) -> i32;
        pub fn store_get(key: *const u8, len: i32) -> i32;
        pub fn store_set(key: *const u8, len: i32, value: *const u8, value_len: i32, version: i64, ttl: i64) -> i32;
        pub fn store_delete(key: *const u8, len: i32) -> i32;
        pub fn store_add(key: *const u8, len: i32, delta: i64) -> i32;
        pub fn emit(ptr: *const u8, len: i32) -> i32;
        pub fn model(ptr: *const u8, len: i32) -> i32;
        pub fn tool(ptr: *const u8, len: i32) -> i32;
        pub fn http(ptr: *const u8, len: i32) -> i32;
        pub fn log(level: i32, ptr: *const u8, len: i32);
    }
}

/// The version with which [local_set] and [store_set] set a value unconditionally.
pub const ALWAYS: i64 = -1;

/// Reads `len` pending bytes, such as an export's input. The host's text is UTF-8.
pub fn pending(len: i32) -> Result<String, Error> {
    let room = len.max(0) as usize;
    let mut bytes = Vec::with_capacity(room);
    unsafe {
        let n = import::read(bytes.as_mut_ptr(), room as i32);
        bytes.set_len((n.max(0) as usize).min(room));
    }
    if words::is_ascii(&bytes) {
        return Ok(unsafe { String::from_utf8_unchecked(bytes) });
    }
    String::from_utf8(bytes).map_err(|_| Error::internal("the host's text is no UTF-8"))
}

/// Reads the pending reply of a call that returned `n`.
fn reply(n: i32) -> Result<String, Error> {
    if n > 0 {
        return pending(n);
    }
    done(n).map(|_| String::new())
}

fn done(n: i32) -> Result<(), Error> {
    if n >= 0 {
        return Ok(());
    }
    Err(Error::decode_json(&pending(-n)?).unwrap_or_else(|_| Error::internal("the host's error cannot be read")))
}

fn read_as<T: Json>(n: i32) -> Result<T, Error> {
    T::decode_json(&reply(n)?).map_err(|_| Error::internal("the host's reply cannot be read"))
}

fn given<T: Json>(value: Option<&T>, call: unsafe extern "C" fn(*const u8, i32) -> i32) -> i32 {
    let text = value.map_or_else(String::new, |v| v.encode_json());
    unsafe { call(text.as_ptr(), text.len() as i32) }
}

fn response(n: i32) -> Result<Response, Error> {
    read_as::<ModelReply>(n)?.response.ok_or_else(|| Error::internal("the host's reply has no response"))
}

fn result(n: i32) -> Result<ToolResult, Error> {
    read_as::<ToolReply>(n)?.result.ok_or_else(|| Error::internal("the host's reply has no result"))
}

fn other_arguments(arguments: Option<&str>) -> Option<CallPatch> {
    arguments.map(|a| CallPatch { arguments: Some(a.into()) })
}

/// In wrap_model: continues with a patch of the request, or unchanged if it is None.
pub fn next_model(patch: Option<&RequestPatch>) -> Result<Response, Error> {
    response(given(patch, import::next))
}

/// In wrap_tool_call: continues with other arguments, or unchanged if they are None.
pub fn next_tool(arguments: Option<&str>) -> Result<ToolResult, Error> {
    result(given(other_arguments(arguments).as_ref(), import::next))
}

/// Like [next_model], but returns at once. [recv] returns the chunks.
pub fn next_model_stream(patch: Option<&RequestPatch>) -> Result<(), Error> {
    done(given(patch, import::next_stream))
}

/// Like [next_tool], but returns at once. [recv] returns the chunks.
pub fn next_tool_stream(arguments: Option<&str>) -> Result<(), Error> {
    done(given(other_arguments(arguments).as_ref(), import::next_stream))
}

/// Returns the available chunks or, once, the end of the stream, and None after the end.
pub fn recv() -> Result<Option<Received>, Error> {
    let text = reply(unsafe { import::recv() })?;
    if text.is_empty() {
        return Ok(None);
    }
    let got = Received::decode_json(&text).map_err(|_| Error::internal("the host's chunks cannot be read"))?;
    Ok(if got == Received::default() { None } else { Some(got) })
}

/// Sends chunks to the caller. What a wrapper or a tool sends is its answer.
pub fn send(chunks: Vec<Chunk>) -> Result<(), Error> {
    if chunks.is_empty() {
        return Ok(());
    }
    done(given(Some(&Sent { chunks }), import::send))
}

/// Makes a model call. Needs the grant `model`. The messages are a [ListPatch::Whole].
pub fn model(request: &RequestPatch) -> Result<Response, Error> {
    response(given(Some(request), import::model))
}

/// Calls one of the agent's tools. Needs the grant `tool:NAME`. If the tool fails, the
/// result is an error result.
pub fn tool(name: &str, arguments: &str) -> Result<ToolResult, Error> {
    result(given(Some(&ToolRequest { name: name.into(), arguments: arguments.into() }), import::tool))
}

/// Sends an HTTP request. Needs the grant `http:HOST`. The host replaces
/// `{{secret:NAME}}` in it. Any status is a response; a missing response is an error.
pub fn http(request: &HTTPRequest) -> Result<HTTPResponse, Error> {
    read_as(given(Some(request), import::http))
}

/// See [List::at].
pub(crate) fn messages(list: i32, from: i32, to: i32) -> Result<Vec<Message>, Error> {
    read_as(unsafe { import::messages(list, from, to) })
}

pub(crate) fn changed(list: i32, revision: i64) -> i32 {
    unsafe { import::changed(list, revision) }
}

fn value(n: i32) -> Result<Option<LocalValue>, Error> {
    let text = reply(n)?;
    if text.is_empty() {
        return Ok(None);
    }
    LocalValue::decode_json(&text).map(Some).map_err(|_| Error::internal("the host's value cannot be read"))
}

/// Returns a run-local value, or None if the key is missing.
pub fn local_get(key: &str) -> Result<Option<LocalValue>, Error> {
    value(unsafe { import::local_get(key.as_ptr(), key.len() as i32) })
}

/// Sets a run-local value if its version is still the given one (0 for a missing value),
/// or unconditionally with [ALWAYS].
pub fn local_set(key: &str, value: &Raw, version: i64) -> Result<(), Error> {
    done(unsafe { import::local_set(key.as_ptr(), key.len() as i32, value.0.as_ptr(), value.0.len() as i32, version) })
}

pub fn local_delete(key: &str) -> Result<(), Error> {
    done(unsafe { import::local_delete(key.as_ptr(), key.len() as i32) })
}

/// Adds to a counter and returns the new value.
pub fn local_add(key: &str, delta: i64) -> Result<i64, Error> {
    read_as(unsafe { import::local_add(key.as_ptr(), key.len() as i32, delta) })
}

/// Returns a durable value, or None if the key is missing. Needs the grant `store`.
pub fn store_get(key: &str) -> Result<Option<LocalValue>, Error> {
    value(unsafe { import::store_get(key.as_ptr(), key.len() as i32) })
}

/// Sets a durable value for `ttl` seconds; 0 means no expiry.
pub fn store_set(key: &str, value: &Raw, version: i64, ttl: i64) -> Result<(), Error> {
    done(unsafe { import::store_set(key.as_ptr(), key.len() as i32, value.0.as_ptr(), value.0.len() as i32, version, ttl) })
}

pub fn store_delete(key: &str) -> Result<(), Error> {
    done(unsafe { import::store_delete(key.as_ptr(), key.len() as i32) })
}

pub fn store_add(key: &str, delta: i64) -> Result<i64, Error> {
    read_as(unsafe { import::store_add(key.as_ptr(), key.len() as i32, delta) })
}

/// Emits a custom event of the run.
pub fn emit(name: &str, data: Raw) -> Result<(), Error> {
    done(given(Some(&Custom { name: name.into(), data }), import::emit))
}

/// The levels of [log].
#[derive(Clone, Copy)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

pub fn log(level: Level, text: &str) {
    unsafe { import::log(level as i32, text.as_ptr(), text.len() as i32) }
}

/// Sets the hook's output.
pub fn write(text: &str) {
    unsafe { import::write(text.as_ptr(), text.len() as i32) }
}

/// The common implementation of exports: reads the input, calls the hook, writes its
/// answer.
pub fn serve<I: Json, A: Json>(len: i32, hook: impl FnOnce(I) -> Result<A, Error>) -> i32 {
    let input = pending(len).and_then(|text| {
        I::decode_json(&text).map_err(|m| Error::internal(alloc::format!("the hook's input cannot be read: {}, at byte {}", m.why, m.at)))
    });
    match input.and_then(hook) {
        Ok(answer) => {
            let text = answer.encode_json();
            if text != "{}" {
                write(&text); // {} means no change
            }
            0
        }
        Err(error) => {
            write(&error.encode_json());
            1
        }
    }
}

/// The implementation of the export describe.
pub fn serve_describe(len: i32, describe: impl FnOnce() -> Description) -> i32 {
    serve(len, |_: Raw| Ok(describe()))
}

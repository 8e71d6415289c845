//! An SDK for agent-runner middlewares: WebAssembly modules that are called in an agent's
//! loop. It implements version 1 of the ABI.
//!
//! ```ignore
//! use agent_middleware::*;
//!
//! #[derive(Default)]
//! struct Guard;
//!
//! impl Middleware for Guard {
//!     fn gate_tool(&mut self, input: GateToolInput) -> Result<GateToolAnswer, Error> {
//!         if input.call.name == "shell" {
//!             return Ok(GateToolAnswer::deny("no shell here"));
//!         }
//!         Ok(GateToolAnswer::allow())
//!     }
//! }
//!
//! export!(Guard: gate_tool);
//! ```
//!
//! The crate needs no other crates. Without the feature `std` it needs only `alloc`.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod answers;
#[cfg(all(feature = "allocator", target_arch = "wasm32"))]
mod heap;
pub mod host;
mod json;
mod list;
mod panic;
mod special;
mod types;
mod words;

pub use json::{Json, Key, Malformed, Members, Name, Object, Raw, Reader, Value, Writer};
pub use special::{Content, ListPatch, ToolsPatch};
pub use types::*;

#[cfg(all(feature = "allocator", target_arch = "wasm32"))]
#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

/// Exports hooks of a [Middleware]: `export!(Guard: configure, gate_tool)`. The host
/// calls only exported hooks. Use it once in a module.
#[macro_export]
macro_rules! export {
    ($type:ty: $($hook:ident),+ $(,)?) => {
        const _: () = {
            // A module has one thread, and the host calls one hook at a time.
            fn instance() -> &'static mut $type {
                static mut INSTANCE: Option<$type> = None;
                unsafe { (*core::ptr::addr_of_mut!(INSTANCE)).get_or_insert_with(Default::default) }
            }
            #[no_mangle]
            extern "C" fn describe(len: i32) -> i32 {
                $crate::host::serve_describe(len, || $crate::Middleware::describe(instance()))
            }
            $(
                #[no_mangle]
                extern "C" fn $hook(len: i32) -> i32 {
                    $crate::host::serve(len, |input| $crate::Middleware::$hook(instance(), input))
                }
            )+
        };
    };
}

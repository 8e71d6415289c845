;; Exports the functions that initialize language runtimes: __wasm_call_ctors loops if it is called, and hs_init sets
;; a global that before_agent returns. Tests rename one of the two.
(module
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (memory (export "memory") 1)
  (global $ready (mut i32) (i32.const 7))
  (func (export "__wasm_call_ctors") (loop $l (br $l)))
  (func (export "hs_init") (param i32 i32) (result i32)
    (global.set $ready (i32.or (local.get 0) (local.get 1)))
    (i32.const 0))
  (func (export "before_agent") (result i32) (global.get $ready)))

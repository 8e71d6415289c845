;; A policy that denies every tool call. abi/README.md describes this module.
(module
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"decision\":\"deny\",\"message\":\"no tools today\"}")
  (func (export "gate_tool") (param $input_len i32) (result i32)
    (call $write (i32.const 0) (i32.const 46))
    (i32.const 0)))

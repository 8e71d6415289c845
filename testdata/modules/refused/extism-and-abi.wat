(module
  (import "extism:host/env" "input_length" (func (result i64)))
  (import "agent_middleware_v1" "write" (func (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "before_agent") (result i32) (i32.const 0)))

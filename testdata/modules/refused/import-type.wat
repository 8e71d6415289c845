(module
  (import "agent_middleware_v1" "changed" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "before_agent") (param i32) (result i32) (i32.const 0)))

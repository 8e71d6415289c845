(module
  (import "extism:host/user" "mesages" (func (param i64) (result i64)))
  (memory (export "memory") 1)
  (func (export "before_agent") (result i32) (i32.const 0)))

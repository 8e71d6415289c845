;; Makes calls of its own: before_agent passes its configuration to the import
;; tool, and before_model_rewrite_state to model. The reply is logged, at level
;; warning if it is an error.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "config" (func $config (result i32)))
  (import "agent_middleware_v1" "log" (func $log (param i32 i32 i32)))
  (import "agent_middleware_v1" "model" (func $model (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "tool" (func $tool (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $request (result i32)
    (call $read (i32.const 0) (call $config)))
  (func $tell (param $n i32) (result i32)
    (local $level i32)
    (local.set $level (i32.const 1))
    (if (i32.lt_s (local.get $n) (i32.const 0))
      (then
        (local.set $level (i32.const 2))
        (local.set $n (i32.sub (i32.const 0) (local.get $n)))))
    (call $log (local.get $level) (i32.const 16384) (call $read (i32.const 16384) (local.get $n)))
    (i32.const 0))
  (func (export "before_agent") (param i32) (result i32)
    (call $tell (call $tool (i32.const 0) (call $request))))
  (func (export "before_model_rewrite_state") (param i32) (result i32)
    (call $tell (call $model (i32.const 0) (call $request)))))

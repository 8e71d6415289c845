;; Calls next as many times as its configuration specifies, {"next":"2"}, and
;; returns the last reply, or fails with its error. Each call emits an event with
;; the number of calls that the instance has served: memory persists during a run.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (import "agent_middleware_v1" "next" (func $next (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "emit" (func $emit (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "config" (func $config (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 1024) "{\"name\":\"served\",\"data\":0}")
  (global $served (mut i32) (i32.const 0))
  (func $hook (param i32) (result i32)
    (local $left i32) (local $n i32)
    (global.set $served (i32.add (global.get $served) (i32.const 1)))
    (i32.store8 (i32.const 1048) (i32.add (i32.const 48) (global.get $served)))
    (drop (call $emit (i32.const 1024) (i32.const 26)))
    (drop (call $config))
    (drop (call $read (i32.const 0) (i32.const 64)))
    (local.set $left (i32.sub (i32.load8_u (i32.const 9)) (i32.const 48)))
    (if (i32.eqz (local.get $left)) (then (return (i32.const 0))))
    (loop $again
      (local.set $n (call $next (i32.const 0) (i32.const 0)))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    (if (i32.lt_s (local.get $n) (i32.const 0)) (then
      (call $write (i32.const 65536) (call $read (i32.const 65536) (i32.sub (i32.const 0) (local.get $n))))
      (return (i32.const 1))))
    (call $write (i32.const 65536) (call $read (i32.const 65536) (local.get $n)))
    (i32.const 0))
  (export "wrap_model" (func $hook))
  (export "wrap_tool_call" (func $hook)))

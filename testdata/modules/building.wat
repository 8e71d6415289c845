;; Calls imports while its image is built. describe returns the error object of a
;; failed call to model as its schema; configure reads its configuration.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (import "agent_middleware_v1" "messages" (func $messages (param i32 i32 i32) (result i32)))
  (import "agent_middleware_v1" "model" (func $model (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "config" (func $config (result i32)))
  (import "agent_middleware_v1" "changed" (func $changed (param i32 i64) (result i32)))
  (import "agent_middleware_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "{\"config_schema\":")
  (data (i32.const 2048) "started")
  (data (i32.const 4096) "{\"instruction\":\"")
  (global $started (mut i32) (i32.const 0))
  (global $len (mut i32) (i32.const 0))

  ;; All imports can be called, but none returns data yet.
  (func (export "_initialize")
    (call $log (i32.const 1) (i32.const 2048) (i32.const 7))
    (if (i32.ge_s (call $messages (i32.const 0) (i32.const 0) (i32.const 1)) (i32.const 0)) (then unreachable))
    (if (i32.ge_s (call $config) (i32.const 0)) (then unreachable))
    (if (i32.ge_s (call $changed (i32.const 0) (i64.const 1)) (i32.const 0)) (then unreachable))
    (global.set $started (i32.const 1)))

  (func (export "describe") (param i32) (result i32)
    (local $n i32)
    (if (i32.eqz (global.get $started)) (then unreachable))
    (if (i32.ge_s (call $config) (i32.const 0)) (then unreachable))
    (local.set $n (call $model (i32.const 0) (i32.const 0)))
    (if (i32.ge_s (local.get $n) (i32.const 0)) (then unreachable))
    (local.set $n (call $read (i32.const 1041) (i32.const 1000)))
    (i32.store8 (i32.add (i32.const 1041) (local.get $n)) (i32.const 125))
    (call $write (i32.const 1024) (i32.add (local.get $n) (i32.const 18)))
    (i32.const 0))

  ;; The state that configure built persists: before_agent returns the configuration.
  (func (export "configure") (param i32) (result i32)
    (if (i32.ge_s (call $messages (i32.const 0) (i32.const 0) (i32.const 1)) (i32.const 0)) (then unreachable))
    (global.set $len (call $config))
    (if (i32.lt_s (global.get $len) (i32.const 2)) (then unreachable))
    (drop (call $read (i32.const 4112) (i32.const 100)))
    ;; replace {"a":1} by (-a-:1), to put it into a string
    (i32.store8 (i32.const 4112) (i32.const 40))
    (i32.store8 (i32.const 4113) (i32.const 45))
    (i32.store8 (i32.const 4115) (i32.const 45))
    (i32.store8 (i32.add (i32.const 4111) (global.get $len)) (i32.const 41))
    (i32.store8 (i32.add (i32.const 4112) (global.get $len)) (i32.const 34))
    (i32.store8 (i32.add (i32.const 4113) (global.get $len)) (i32.const 125))
    (i32.const 0))

  (func (export "before_agent") (param i32) (result i32)
    (call $write (i32.const 4096) (i32.add (global.get $len) (i32.const 18)))
    (i32.const 0)))

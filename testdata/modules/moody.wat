;; Traps in the third call of an instance. The fuel that it uses before depends
;; on random bytes, the clock, and the host's replies.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (import "agent_middleware_v1" "next" (func $next (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "local_add" (func $local_add (param i32 i32 i64) (result i32)))
  (import "agent_middleware_v1" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))

  (memory (export "memory") 2)
  (data (i32.const 16) "n")
  (data (i32.const 32) "panic: I am tired\n")
  (data (i32.const 64) "\20\00\00\00\12\00\00\00")
  (data (i32.const 80) "about to go on")
  (data (i32.const 96) "{\"decision\":\"maybe\"}")

  (global $calls (mut i32) (i32.const 0))

  (func $burn (param $n i32)
    (loop $more
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $more (i32.gt_s (local.get $n) (i32.const 0)))))

  ;; Uses an amount of fuel that eight bytes at 256 determine.
  (func $burn_bytes
    (call $burn (i32.and (i32.wrap_i64 (i64.rem_u (i64.load (i32.const 256)) (i64.const 9973))) (i32.const 0x3fff))))

  (func $pending (param $n i32)
    (drop (call $read (i32.const 256) (i32.const 8)))
    (call $burn_bytes))

  (func $hook (param $len i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (drop (call $read (i32.const 1024) (i32.const 65536)))
    (drop (call $random_get (i32.const 256) (i32.const 8)))
    (call $burn_bytes)
    (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 256)))
    (call $burn_bytes)
    (call $pending (call $local_add (i32.const 16) (i32.const 1) (i64.const 1)))
    (call $log (i32.const 1) (i32.const 80) (i32.const 14))
    (if (i32.ge_s (global.get $calls) (i32.const 3)) (then
      (drop (call $fd_write (i32.const 2) (i32.const 64) (i32.const 1) (i32.const 72)))
      unreachable))
    (i32.const 0))

  (func (export "before_agent") (param $len i32) (result i32) (call $hook (local.get $len)))
  (func (export "wrap_tool_call") (param $len i32) (result i32)
    (call $pending (call $next (i32.const 0) (i32.const 0)))
    (call $hook (local.get $len)))
  (func (export "gate_tool") (param $len i32) (result i32)
    (call $write (i32.const 96) (i32.const 20))
    (i32.const 0)))

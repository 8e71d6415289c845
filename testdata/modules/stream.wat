;; Reads the stream of the wrapped call, and sends each batch of chunks unchanged.
;; The configuration, {"trap":"2"}, is the number of batches after which it traps,
;; or "0" for never. It returns nothing, so the sent chunks are the answer. It
;; returns errors of the wrapped call. The hook call_tool sends chunks twice.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (import "agent_middleware_v1" "next_stream" (func $next_stream (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "recv" (func $recv (result i32)))
  (import "agent_middleware_v1" "send" (func $send (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "config" (func $config (result i32)))
  (memory (export "memory") 16)
  (data (i32.const 1024) "{\"chunks\":[{\"kind\":\"tool_result\",\"text\":\"again \"}]}")
  ;; fail writes the pending error, which has -n bytes.
  (func $fail (param $n i32) (result i32)
    (call $write (i32.const 65536) (call $read (i32.const 65536) (i32.sub (i32.const 0) (local.get $n))))
    (i32.const 1))
  (func $hook (param i32) (result i32)
    (local $n i32) (local $left i32)
    (drop (call $config))
    (drop (call $read (i32.const 0) (i32.const 64)))
    (local.set $left (i32.sub (i32.load8_u (i32.const 9)) (i32.const 48)))
    (if (i32.lt_s (local.tee $n (call $next_stream (i32.const 0) (i32.const 0))) (i32.const 0))
      (then (return (call $fail (local.get $n)))))
    (loop $more
      (if (i32.lt_s (local.tee $n (call $recv)) (i32.const 0)) (then (return (call $fail (local.get $n)))))
      (drop (call $read (i32.const 65536) (local.get $n)))
      ;; a batch begins with {"chunks", the end with {"end"
      (if (i32.eq (i32.load8_u (i32.const 65538)) (i32.const 99 (; c ;))) (then
        (if (i32.eqz (local.tee $left (i32.sub (local.get $left) (i32.const 1)))) (then (unreachable)))
        (if (i32.lt_s (local.tee $n (call $send (i32.const 65536) (local.get $n))) (i32.const 0))
          (then (return (call $fail (local.get $n)))))
        (br $more))))
    (if (call $recv) (then (unreachable))) ;; nothing follows the end
    (i32.const 0))
  (func $tool (param i32) (result i32)
    (drop (call $send (i32.const 1024) (i32.const 51)))
    (drop (call $send (i32.const 1024) (i32.const 51)))
    (i32.const 0))
  (export "wrap_model" (func $hook))
  (export "wrap_tool_call" (func $hook))
  (export "call_tool" (func $tool)))

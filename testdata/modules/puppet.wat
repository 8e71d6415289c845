;; The letter in the configuration, {"do":"x"}, selects what every hook does.
(module
  (import "agent_middleware_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "write" (func $write (param i32 i32)))
  (import "agent_middleware_v1" "next" (func $next (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "next_stream" (func $next_stream (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "recv" (func $recv (result i32)))
  (import "agent_middleware_v1" "send" (func $send (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "messages" (func $messages (param i32 i32 i32) (result i32)))
  (import "agent_middleware_v1" "changed" (func $changed (param i32 i64) (result i32)))
  (import "agent_middleware_v1" "local_get" (func $local_get (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "local_set" (func $local_set (param i32 i32 i32 i32 i64) (result i32)))
  (import "agent_middleware_v1" "local_delete" (func $local_delete (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "local_add" (func $local_add (param i32 i32 i64) (result i32)))
  (import "agent_middleware_v1" "emit" (func $emit (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "config" (func $config (result i32)))
  (import "agent_middleware_v1" "log" (func $log (param i32 i32 i32)))
  (import "agent_middleware_v1" "model" (func $model (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "tool" (func $tool (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "http" (func $http (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "store_get" (func $store_get (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "store_set" (func $store_set (param i32 i32 i32 i32 i64 i64) (result i32)))
  (import "agent_middleware_v1" "store_delete" (func $store_delete (param i32 i32) (result i32)))
  (import "agent_middleware_v1" "store_add" (func $store_add (param i32 i32 i64) (result i32)))

  (memory (export "memory") 4)
  (data (i32.const 1024) "{\"name\":\"reply\",\"data\":")
  (data (i32.const 1056) "{\"name\":\"error\",\"data\":")
  (data (i32.const 1088) "{\"name\":\"count\",\"data\":0}")
  (data (i32.const 1200) "not json")
  (data (i32.const 1216) "{\"instruction\":\"\ff\"}")
  (data (i32.const 1248) "{\"instruction\":7}")
  (data (i32.const 1280) "{\"instruction\":\"first\"}")
  (data (i32.const 1312) "{\"instruction\":\"second\"}")
  (data (i32.const 1344) "{\"instruction\":\"x\",\"speed\":9}")
  (data (i32.const 1376) "{\"code\":\"denied\",\"message\":\"not today\"}")
  (data (i32.const 1440) "{\"code\":\"odd\",\"message\":\"m\"}")
  (data (i32.const 1472) "key")
  (data (i32.const 1488) "{\"n\":1}")
  (data (i32.const 1504) "{\"arguments\":\"{\\\"n\\\":2}\",\"model\":\"other\"}")
  (data (i32.const 1568) "{\"arguments\":7,\"model\":7}")
  (data (i32.const 1600) "{\"Instruction\":\"x\"}")
  (data (i32.const 1632) "{\"name\":\"n\",\"data\":1,\"more\":2}")
  (data (i32.const 1664) "hello\ff\1b[31m")
  (data (i32.const 1680) "k\ff")

  (global $count (mut i32) (i32.const 0))

  ;; Emits an event with the pending reply of a host call that returned $n.
  (func $show (param $n i32)
    (local $at i32)
    (memory.copy (i32.const 131072)
      (select (i32.const 1024) (i32.const 1056) (i32.ge_s (local.get $n) (i32.const 0)))
      (i32.const 23))
    (if (i32.lt_s (local.get $n) (i32.const 0)) (then (local.set $n (i32.sub (i32.const 0) (local.get $n)))))
    (local.set $at (i32.add (i32.const 131095) (call $read (i32.const 131095) (local.get $n))))
    (i32.store8 (local.get $at) (i32.const 125))
    (drop (call $emit (i32.const 131072) (i32.sub (i32.add (local.get $at) (i32.const 1)) (i32.const 131072)))))

  ;; Emits an event with a number of one digit.
  (func $number (param $n i32)
    (i32.store8 (i32.const 1111) (i32.add (i32.const 48) (local.get $n)))
    (drop (call $emit (i32.const 1088) (i32.const 25))))

  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))

  (func $hook (param $len i32) (result i32)
    (local $do i32) (local $n i32)
    (drop (call $config))
    (drop (call $read (i32.const 0) (i32.const 64)))
    (local.set $do (i32.load8_u (i32.const 7)))

    ;; faults
    (if (i32.eq (local.get $do) (i32.const 116 (;t;))) (then unreachable))
    (if (i32.eq (local.get $do) (i32.const 108 (;l;))) (then (loop $l (br $l))))
    (if (i32.eq (local.get $do) (i32.const 100 (;d;))) (then (drop (call $recurse (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 103 (;g;))) (then (call $write (i32.const 1200) (i32.const 8))))
    (if (i32.eq (local.get $do) (i32.const 117 (;u;))) (then (call $write (i32.const 1216) (i32.const 19))))
    (if (i32.eq (local.get $do) (i32.const 115 (;s;))) (then (call $write (i32.const 1248) (i32.const 17))))
    (if (i32.eq (local.get $do) (i32.const 105 (;i;))) (then (call $write (i32.const 1600) (i32.const 19))))
    (if (i32.eq (local.get $do) (i32.const 98 (;b;))) (then
      (drop (memory.grow (i32.const 1600)))
      (call $write (i32.const 0) (i32.const 100000000))))
    (if (i32.eq (local.get $do) (i32.const 114 (;r;))) (then (return (i32.const 2))))
    (if (i32.eq (local.get $do) (i32.const 110 (;n;))) (then (return (i32.const -1))))
    (if (i32.eq (local.get $do) (i32.const 112 (;p;))) (then (call $write (i32.const -16) (i32.const 32))))
    (if (i32.eq (local.get $do) (i32.const 113 (;q;))) (then (drop (call $read (i32.const -8) (i32.const 64)))))
    (if (i32.eq (local.get $do) (i32.const 106 (;j;))) (then (call $log (i32.const 1) (i32.const 0) (i32.const -1))))
    (if (i32.eq (local.get $do) (i32.const 104 (;h;))) (then (loop $l (drop (call $config)) (br $l))))
    (if (i32.eq (local.get $do) (i32.const 109 (;m;))) (then
      (loop $l (br_if $l (i32.ge_s (memory.grow (i32.const 64)) (i32.const 0))))
      unreachable))

    ;; failures
    (if (i32.eq (local.get $do) (i32.const 102 (;f;))) (then
      (call $write (i32.const 1376) (i32.const 39)) (return (i32.const 1))))
    (if (i32.eq (local.get $do) (i32.const 70 (;F;))) (then
      (call $write (i32.const 1200) (i32.const 8)) (return (i32.const 1))))
    (if (i32.eq (local.get $do) (i32.const 111 (;o;))) (then (return (i32.const 1))))
    (if (i32.eq (local.get $do) (i32.const 99 (;c;))) (then
      (call $write (i32.const 1440) (i32.const 28)) (return (i32.const 1))))

    ;; valid behavior
    (if (i32.eq (local.get $do) (i32.const 119 (;w;))) (then
      (call $write (i32.const 1280) (i32.const 23)) (call $write (i32.const 1312) (i32.const 24))))
    (if (i32.eq (local.get $do) (i32.const 101 (;e;))) (then
      (call $write (i32.const 1280) (i32.const 23)) (call $write (i32.const 0) (i32.const 0))))
    (if (i32.eq (local.get $do) (i32.const 107 (;k;))) (then (call $write (i32.const 1344) (i32.const 29))))
    (if (i32.eq (local.get $do) (i32.const 97 (;a;))) (then
      ;; a short read returns a prefix; after another call of config, all of it can be read
      (call $number (call $read (i32.const 131072) (i32.const 4)))
      (drop (call $config))
      (drop (call $read (i32.const 131072) (i32.const 4)))
      (call $show (call $config))))
    (if (i32.eq (local.get $do) (i32.const 120 (;x;))) (then
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (call $number (global.get $count))))
    (if (i32.eq (local.get $do) (i32.const 79 (;O;))) (then
      (call $log (i32.const 2) (i32.const 1664) (i32.const 11))))
    (if (i32.eq (local.get $do) (i32.const 76 (;L;))) (then
      (loop $l
        (call $log (i32.const 1) (i32.const 0) (i32.const 60000))
        (br_if $l (i32.lt_s (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5))))))

    ;; host calls; the reply is emitted as an event
    (if (i32.eq (local.get $do) (i32.const 78 (;N;))) (then (call $show (call $next (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 80 (;P;))) (then (call $show (call $next (i32.const 1504) (i32.const 41)))))
    (if (i32.eq (local.get $do) (i32.const 66 (;B;))) (then (call $show (call $next (i32.const 1568) (i32.const 25)))))
    (if (i32.eq (local.get $do) (i32.const 48 (;0;))) (then (call $show (call $next_stream (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 49 (;1;))) (then (call $show (call $recv))))
    (if (i32.eq (local.get $do) (i32.const 50 (;2;))) (then (call $show (call $send (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 51 (;3;))) (then (call $show (call $model (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 52 (;4;))) (then (call $show (call $tool (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 53 (;5;))) (then (call $show (call $http (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 54 (;6;))) (then (call $show (call $store_get (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 55 (;7;))) (then (call $show (call $store_set (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const -1) (i64.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 56 (;8;))) (then (call $show (call $store_delete (i32.const 0) (i32.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 57 (;9;))) (then (call $show (call $store_add (i32.const 0) (i32.const 0) (i64.const 1)))))
    (if (i32.eq (local.get $do) (i32.const 77 (;M;))) (then (call $show (call $messages (i32.const 0) (i32.const -5) (i32.const 1000)))))
    (if (i32.eq (local.get $do) (i32.const 88 (;X;))) (then (call $show (call $messages (i32.const 7) (i32.const 0) (i32.const 1)))))
    (if (i32.eq (local.get $do) (i32.const 67 (;C;))) (then
      (call $number (call $changed (i32.const 0) (i64.const 0)))
      (call $number (call $read (i32.const 131072) (i32.const 64)))))
    (if (i32.eq (local.get $do) (i32.const 68 (;D;))) (then (call $show (call $changed (i32.const 9) (i64.const 0)))))
    (if (i32.eq (local.get $do) (i32.const 83 (;S;))) (then
      (call $show (call $local_set (i32.const 1472) (i32.const 3) (i32.const 1488) (i32.const 7) (i64.const -1)))
      (call $show (call $local_get (i32.const 1472) (i32.const 3)))
      (call $show (call $local_set (i32.const 1472) (i32.const 3) (i32.const 1488) (i32.const 7) (i64.const 99)))
      (call $number (call $local_delete (i32.const 1472) (i32.const 3)))
      (call $number (call $local_get (i32.const 1472) (i32.const 3)))
      (call $show (call $local_set (i32.const 1472) (i32.const 3) (i32.const 1200) (i32.const 8) (i64.const -1)))))
    (if (i32.eq (local.get $do) (i32.const 65 (;A;))) (then
      (call $show (call $local_add (i32.const 1472) (i32.const 3) (i64.const 5)))
      (call $show (call $local_add (i32.const 1472) (i32.const 3) (i64.const -7)))))
    (if (i32.eq (local.get $do) (i32.const 75 (;K;))) (then
      (call $show (call $local_get (i32.const 0) (i32.const 257)))
      (call $show (call $local_get (i32.const 0) (i32.const 0)))
      (call $show (call $local_get (i32.const 1680) (i32.const 2)))))
    (if (i32.eq (local.get $do) (i32.const 69 (;E;))) (then
      (call $show (call $emit (i32.const 1200) (i32.const 8)))
      (call $show (call $emit (i32.const 1632) (i32.const 30)))))
    (i32.const 0))

  (export "before_agent" (func $hook))
  (export "before_model_rewrite_state" (func $hook))
  (export "before_model" (func $hook))
  (export "wrap_model" (func $hook))
  (export "after_model" (func $hook))
  (export "after_model_rewrite_state" (func $hook))
  (export "before_tool" (func $hook))
  (export "wrap_tool_call" (func $hook))
  (export "call_tool" (func $hook))
  (export "after_tool" (func $hook))
  (export "tool_messages" (func $hook))
  (export "after_tools" (func $hook))
  (export "after_agent" (func $hook))
  (export "observe" (func $hook)))

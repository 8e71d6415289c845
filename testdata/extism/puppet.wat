;; Interprets a program of 12-byte instructions. Each instruction calls one function of
;; Extism with the values of registers. "run" receives the program as its input; the
;; hook before_agent reads it from "program" in its configuration, in hexadecimal.
;;
;; An instruction consists of an opcode, the registers a, b and d, and a 64-bit number n.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "free" (func $free (param i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "length_unsafe" (func $length_unsafe (param i64) (result i64)))
  (import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
  (import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "error_set" (func $error_set (param i64)))
  (import "extism:host/env" "error_get" (func $error_get (result i64)))
  (import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
  (import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
  (import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
  (import "extism:host/env" "log_trace" (func $log_trace (param i64)))
  (import "extism:host/env" "log_debug" (func $log_debug (param i64)))
  (import "extism:host/env" "log_info" (func $log_info (param i64)))
  (import "extism:host/env" "log_warn" (func $log_warn (param i64)))
  (import "extism:host/env" "log_error" (func $log_error (param i64)))
  (import "extism:host/env" "get_log_level" (func $get_log_level (result i32)))
  (import "extism:host/env" "http_request" (func $http_request (param i64 i64) (result i64)))
  (import "extism:host/env" "http_status_code" (func $http_status_code (result i32)))
  (import "extism:host/env" "http_headers" (func $http_headers (result i64)))
  (import "extism:host/env" "memory_bytes" (func $memory_bytes (result i64)))
  (import "extism:host/env" "reset" (func $reset))
  (import "extism:host/env" "input_set" (func $input_set (param i64 i64)))
  (import "extism:host/env" "output_offset" (func $output_offset (result i64)))
  (import "extism:host/env" "output_length" (func $output_length (result i64)))

  (memory (export "memory") 2)
  (data (i32.const 512) "program")

  ;; Register i is at 8 * i. The program starts at 4096.
  (func $get (param $at i32) (result i64)
    (i64.load (i32.shl (i32.load8_u (local.get $at)) (i32.const 3))))
  (func $set (param $at i32) (param $value i64)
    (i64.store (i32.shl (i32.load8_u offset=3 (local.get $at)) (i32.const 3)) (local.get $value)))

  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))

  (func $interpret (result i32)
    (local $pc i32) (local $op i32) (local $a i64) (local $b i64) (local $n i64) (local $sum i64)
    (local.set $pc (i32.const 4096))
    (loop $step
      (local.set $op (i32.load8_u (local.get $pc)))
      (local.set $a (call $get (i32.add (local.get $pc) (i32.const 1))))
      (local.set $b (call $get (i32.add (local.get $pc) (i32.const 2))))
      (local.set $n (i64.load offset=4 (local.get $pc)))
      (local.set $sum (i64.add (local.get $a) (local.get $n)))

      ;; 0: return a
      (if (i32.eqz (local.get $op)) (then (return (i32.wrap_i64 (local.get $a)))))
      ;; 1: d = n    2: d = a + b + n
      (if (i32.eq (local.get $op) (i32.const 1)) (then (call $set (local.get $pc) (local.get $n))))
      (if (i32.eq (local.get $op) (i32.const 2)) (then (call $set (local.get $pc) (i64.add (local.get $sum) (local.get $b)))))
      ;; calls of functions; loads and stores use the address a + n
      (if (i32.eq (local.get $op) (i32.const 3)) (then (call $set (local.get $pc) (call $alloc (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 4)) (then (call $free (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 5)) (then (call $set (local.get $pc) (call $length (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 6)) (then (call $set (local.get $pc) (call $length_unsafe (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 7)) (then (call $set (local.get $pc) (i64.extend_i32_u (call $load_u8 (local.get $sum))))))
      (if (i32.eq (local.get $op) (i32.const 8)) (then (call $set (local.get $pc) (call $load_u64 (local.get $sum)))))
      (if (i32.eq (local.get $op) (i32.const 9)) (then (call $store_u8 (local.get $sum) (i32.wrap_i64 (local.get $b)))))
      (if (i32.eq (local.get $op) (i32.const 10)) (then (call $store_u64 (local.get $sum) (local.get $b))))
      (if (i32.eq (local.get $op) (i32.const 11)) (then (call $set (local.get $pc) (call $input_offset))))
      (if (i32.eq (local.get $op) (i32.const 12)) (then (call $set (local.get $pc) (call $input_length))))
      (if (i32.eq (local.get $op) (i32.const 13)) (then (call $set (local.get $pc) (i64.extend_i32_u (call $input_load_u8 (local.get $sum))))))
      (if (i32.eq (local.get $op) (i32.const 14)) (then (call $set (local.get $pc) (call $input_load_u64 (local.get $sum)))))
      (if (i32.eq (local.get $op) (i32.const 15)) (then (call $output_set (local.get $a) (local.get $b))))
      (if (i32.eq (local.get $op) (i32.const 16)) (then (call $error_set (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 17)) (then (call $set (local.get $pc) (call $error_get))))
      (if (i32.eq (local.get $op) (i32.const 18)) (then (call $set (local.get $pc) (call $config_get (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 19)) (then (call $set (local.get $pc) (call $var_get (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 20)) (then (call $var_set (local.get $a) (local.get $b))))
      (if (i32.eq (local.get $op) (i32.const 21)) (then (call $log_trace (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 22)) (then (call $log_debug (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 23)) (then (call $log_info (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 24)) (then (call $log_warn (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 25)) (then (call $log_error (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 26)) (then (call $set (local.get $pc) (i64.extend_i32_u (call $get_log_level)))))
      (if (i32.eq (local.get $op) (i32.const 27)) (then (call $set (local.get $pc) (call $http_request (local.get $a) (local.get $b)))))
      (if (i32.eq (local.get $op) (i32.const 28)) (then (call $set (local.get $pc) (i64.extend_i32_u (call $http_status_code)))))
      (if (i32.eq (local.get $op) (i32.const 29)) (then (call $set (local.get $pc) (call $http_headers))))
      (if (i32.eq (local.get $op) (i32.const 30)) (then (call $set (local.get $pc) (call $memory_bytes))))
      (if (i32.eq (local.get $op) (i32.const 31)) (then (call $reset)))
      (if (i32.eq (local.get $op) (i32.const 32)) (then (call $input_set (local.get $a) (local.get $b))))
      (if (i32.eq (local.get $op) (i32.const 33)) (then (call $set (local.get $pc) (call $output_offset))))
      (if (i32.eq (local.get $op) (i32.const 34)) (then (call $set (local.get $pc) (call $output_length))))
      ;; 35: trap    36: jump back by n instructions, forever    37: allocate all available memory
      ;; 38: infinite recursion
      (if (i32.eq (local.get $op) (i32.const 35)) (then unreachable))
      (if (i32.eq (local.get $op) (i32.const 36)) (then
        (local.set $pc (i32.sub (local.get $pc) (i32.mul (i32.wrap_i64 (local.get $n)) (i32.const 12))))
        (br $step)))
      (if (i32.eq (local.get $op) (i32.const 37)) (then
        (loop $l (br_if $l (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0))))))
      (if (i32.eq (local.get $op) (i32.const 38)) (then (drop (call $recurse (i32.const 0)))))
      (local.set $pc (i32.add (local.get $pc) (i32.const 12)))
      (br $step))
    unreachable)

  (func (export "run") (result i32)
    (local $i i64)
    (block $done
      (loop $copy
        (br_if $done (i64.ge_u (local.get $i) (call $input_length)))
        (i32.store8 offset=4096 (i32.wrap_i64 (local.get $i)) (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $copy)))
    (call $interpret))

  (func $digit (param i32) (result i32)
    (select
      (i32.sub (local.get 0) (i32.const 48))
      (i32.sub (local.get 0) (i32.const 87))
      (i32.lt_u (local.get 0) (i32.const 58))))

  (func (export "before_agent") (result i32)
    (local $i i64) (local $text i64) (local $length i64)
    (local.set $text (call $alloc (i64.const 7)))
    (loop $key
      (call $store_u8 (i64.add (local.get $text) (local.get $i)) (i32.load8_u offset=512 (i32.wrap_i64 (local.get $i))))
      (br_if $key (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 1))) (i64.const 7))))
    (local.set $text (call $config_get (local.get $text)))
    (local.set $length (call $length (local.get $text)))
    (local.set $i (i64.const 0))
    (block $done
      (loop $copy
        (br_if $done (i64.ge_u (local.get $i) (local.get $length)))
        (i32.store8 offset=4096 (i32.wrap_i64 (i64.shr_u (local.get $i) (i64.const 1)))
          (i32.or
            (i32.shl (call $digit (call $load_u8 (i64.add (local.get $text) (local.get $i)))) (i32.const 4))
            (call $digit (call $load_u8 (i64.add (local.get $text) (i64.add (local.get $i) (i64.const 1)))))))
        (local.set $i (i64.add (local.get $i) (i64.const 2)))
        (br $copy)))
    (call $interpret)))

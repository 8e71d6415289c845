// An Extism plug-in for tests; the one in Go does the same.
import { Config, Host, LogLevel, Memory, Var } from "@extism/as-pdk";

// @ts-ignore: decorator
@external("extism:host/env", "error_set")
declare function error_set(offset: u64): void;

// @ts-ignore: decorator
@external("extism:host/user", "local_add")
declare function local_add(offset: u64): u64;

// @ts-ignore: decorator
@external("extism:host/env", "length")
declare function length(offset: u64): u64;

function output(s: string): void {
  Host.output(Uint8Array.wrap(String.UTF8.encode(s)));
}

export function echo(): i32 {
  Host.output(Host.input());
  return 0;
}

export function vowels(): i32 {
  const before = Var.getString("total");
  let total = before === null ? 0 : i32.parse(before);
  const text = Host.inputString();
  for (let i = 0; i < text.length; i++) {
    if ("aeiou".includes(text.charAt(i))) total++;
  }
  Var.set("total", Uint8Array.wrap(String.UTF8.encode(total.toString())));
  output(total.toString());
  return 0;
}

export function setting(): i32 {
  const value = Config.get(Host.inputString());
  if (value === null) {
    error_set(Memory.allocateString("there is no " + Host.inputString()).offset);
    return 1;
  }
  output(value);
  return 0;
}

export function forget(): i32 {
  Var.remove("total");
  return 0;
}

export function tell(): i32 {
  Host.log(LogLevel.Info, Host.inputString());
  Host.log(LogLevel.Warn, "warning");
  Host.log(LogLevel.Error, "error");
  return 0;
}

export function broken(): i32 {
  throw new Error("broken: " + Host.inputString());
}

export function before_agent(): i32 {
  const instruction = Config.get("instruction");
  const offset = local_add(Memory.allocateString('{"key": "runs", "delta": 2}').offset);
  const reply = new Memory(offset, length(offset)).toString();
  output('{"instruction":"' + (instruction === null ? "" : instruction) + " " + reply + '"}');
  return 0;
}

// What throws ends in here, and then in a trap.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  if (message !== null) error_set(Memory.allocateString(message).offset);
}

// The code between the ABI and the JavaScript engine. It translates hooks and host calls, so that
// the host can call a script in the same way as any other module. build.sh compiles this file, and
// package javascript links the result with the engine.
//
// The code has no static data and no stack of its own. Persistent data is stored at the bottom of
// the engine's stack, and JavaScript uses the upper part of the stack.

#include "abi.h"

typedef unsigned long long u64;

#define ENGINE(name) __attribute__((import_module("engine"), import_name(#name))) extern
#define EXPORT(name) __attribute__((export_name(#name)))

// A value is a cell of the engine that contains a JavaScript value. Functions that return a value
// return 0 if there is not enough memory. The caller must free a returned value.
typedef u64 *value;

struct name;
struct descriptor;

ENGINE(qjs_init) int qjs_init(void);
ENGINE(qjs_set_max_stack_size) void qjs_set_max_stack_size(int bytes);
ENGINE(qjs_set_interrupt_handler) void qjs_set_interrupt_handler(int on);
ENGINE(qjs_set_promise_rejection_handler) void qjs_set_promise_rejection_handler(int on);
ENGINE(qjs_get_value_ptr) int qjs_get_value_ptr(value v);
ENGINE(qjs_get_prop_string) value qjs_get_prop_string(value v, char *name);
ENGINE(qjs_set_memory_limit) void qjs_set_memory_limit(int bytes);
ENGINE(qjs_run_gc) void qjs_run_gc(void);
ENGINE(qjs_eval) value qjs_eval(char *source, int length, char *file, int flags);
ENGINE(qjs_call) value qjs_call(value function, value self, int count, value *arguments);
ENGINE(qjs_new_host_function) value qjs_new_host_function(char *name, int length, int count);
ENGINE(qjs_new_number) value qjs_new_number(double n);
ENGINE(qjs_new_string) value qjs_new_string(char *text, int length);
ENGINE(qjs_get_undefined) value qjs_get_undefined(void);
ENGINE(qjs_get_float64) double qjs_get_float64(value v);
ENGINE(qjs_get_string_len) char *qjs_get_string_len(value v, int *length);
ENGINE(qjs_free_cstring) void qjs_free_cstring(char *text);
ENGINE(qjs_free_value) void qjs_free_value(value v);
ENGINE(qjs_is_exception) int qjs_is_exception(value v);
ENGINE(qjs_is_number) int qjs_is_number(value v);
ENGINE(qjs_get_exception) value qjs_get_exception(void);
ENGINE(qjs_throw) value qjs_throw(value v);
ENGINE(qjs_is_job_pending) int qjs_is_job_pending(void);
ENGINE(qjs_execute_pending_job) int qjs_execute_pending_job(void);
ENGINE(qjs_get_context_ptr) int qjs_get_context_ptr(void);
ENGINE(JS_ParseJSON) u64 JS_ParseJSON(int context, char *text, int length, char *file);
ENGINE(JS_ThrowOutOfMemory) u64 JS_ThrowOutOfMemory(int context);
ENGINE(JS_NewStringLen) u64 JS_NewStringLen(int context, unsigned char *text, int length);
ENGINE(JS_NewNumber) u64 JS_NewNumber(int context, double n);
ENGINE(JS_NewObject) u64 JS_NewObject(int context);
ENGINE(JS_DefinePropertyValue) int JS_DefinePropertyValue(int context, u64 object, unsigned key, u64 v, int flags);
ENGINE(JS_NewArrayFrom) u64 JS_NewArrayFrom(int context, int count, u64 *values);
ENGINE(JS_NewAtomLen) unsigned JS_NewAtomLen(int context, unsigned char *text, int length);
ENGINE(JS_DupAtom) unsigned JS_DupAtom(int context, unsigned atom);
ENGINE(JS_FreeAtom) void JS_FreeAtom(int context, unsigned atom);
ENGINE(JS_FreeValue) void JS_FreeValue(int context, u64 v);
ENGINE(JS_Throw) u64 JS_Throw(int context, u64 v);
ENGINE(JS_GetException) u64 JS_GetException(int context);
ENGINE(qjs_get_true) value qjs_get_true(void);
ENGINE(qjs_get_false) value qjs_get_false(void);
ENGINE(qjs_get_null) value qjs_get_null(void);
ENGINE(strtod) double strtod(unsigned char *text, unsigned char **end);
ENGINE(JS_GetClassID) int JS_GetClassID(u64 v);
ENGINE(JS_GetLength) int JS_GetLength(int context, u64 v, long long *length);
ENGINE(JS_HasProperty) int JS_HasProperty(int context, u64 v, unsigned atom);
ENGINE(JS_GetOwnProperty) int JS_GetOwnProperty(int context, struct descriptor *d, u64 v, unsigned atom);
ENGINE(JS_NewAtomUInt32) unsigned JS_NewAtomUInt32(int context, unsigned n);
ENGINE(JS_ValueToAtom) unsigned JS_ValueToAtom(int context, u64 v);
ENGINE(JS_DupValue) u64 JS_DupValue(int context, u64 v);
ENGINE(JS_DefinePropertyGetSet) int JS_DefinePropertyGetSet(int context, u64 object, unsigned key, u64 getter, u64 setter, int flags);
ENGINE(JS_PreventExtensions) int JS_PreventExtensions(int context, u64 v);
ENGINE(JS_GetOwnPropertyNames) int JS_GetOwnPropertyNames(int context, struct name **names, int *count, u64 v, int flags);
ENGINE(JS_FreePropertyEnum) void JS_FreePropertyEnum(int context, struct name *names, int count);
ENGINE(JS_AtomToCStringLen) unsigned char *JS_AtomToCStringLen(int context, int *length, unsigned atom);
ENGINE(JS_ToCStringLen2) unsigned char *JS_ToCStringLen2(int context, int *length, u64 v, int cesu);
ENGINE(JS_FreeCString) void JS_FreeCString(int context, unsigned char *text);
ENGINE(qjs_is_string) int qjs_is_string(value v);
ENGINE(JS_FreezeObject) int JS_FreezeObject(int context, u64 v);
ENGINE(memcpy) void *memcpy(void *to, void *from, int bytes);
ENGINE(realloc) void *realloc(void *p, int bytes);
ENGINE(malloc) void *malloc(int bytes);
ENGINE(free) void free(void *p);

// script_over returns 1 if the script exceeded a limit and must end. If the script continues, the
// host stops it later, but then the error has no position in the script.
__attribute__((import_module("agent_runner_script"), import_name("over"))) extern int script_over(void);

__attribute__((import_module("wasi_snapshot_preview1"), import_name("random_get"))) extern int random_get(void *p, int length);

// The outcomes of a hook. 0 and 1 are those of the ABI, and the others are only for scripts.
enum { DONE, FAILED, THREW, BROKEN, PENDING };

// The values of dispatch's parameter what other than the numbers of hooks.
enum { LOAD = -1, SETTLE = -2, CATCH = -3, LOST = -4 };

// The first arguments of host other than the numbers of imports. ENCODE encodes a value for the next
// host call, PARSE parses a text, and LAZY defines a member of inputs that is parsed when the script
// reads it.
enum { ENCODE = -1, PARSE = -2, LAZY = -3 };

// A key is an entry of the parser's cache, with the atom of a key in JSON.
struct key {
	unsigned atom;
	int length;
	u64 words[3];
};

enum { KEYS = 1 << 8 };

// A name is JSPropertyEnum of the engine.
struct name {
	int enumerable;
	unsigned atom;
};

// A descriptor is JSPropertyDescriptor of the engine.
struct descriptor {
	int flags;
	u64 value, getter, setter;
};

// A lazy is a member of inputs that is parsed when the script reads it. Its getter reads the JSON
// from the member raw.
struct lazy {
	unsigned key, raw;
	u64 getter, setter;
};

enum { LAZIES = 2 };

// The state of the JSON parser and writer.
struct json {
	int context;
	u64 exception, undefined, null, yes, no;
	struct key *cache; // KEYS of them
	u64 *values; // a stack of the elements of arrays that are not complete
	int top, room;
	unsigned char *at;
	unsigned char *unescaped; // memory for a string with decoded escapes, and for eight more bytes
	int length;               // length of the text
	int frozen;               // whether to freeze objects and arrays
	int input;                // whether the value is the input of a hook
	int lazies;
	struct lazy lazy[LAZIES];

	int writing; // whether a value is being written
	unsigned char *text;
	int used, size;
	int object_class, array_class;
	unsigned to_json; // the atom of toJSON
	struct name *names;
	int name_count;
	long long elements;
	struct descriptor descriptor;
};

struct slots {
	value dispatch; // prelude.js
	value self;     // undefined
	value lost;     // the reason of the first unhandled rejection; 0: none
	int promise;    // the promise that was rejected with lost
	value arguments[2];
	value cell; // undefined, except while a value is examined
	char name[16];
	int length[2];
	double random;
	struct json json;
};

// The slots are at the bottom of the stack. JavaScript uses at most the upper half of the stack.
#define slots ((struct slots *)64)

static value box(u64 v) {
	value b = qjs_get_undefined();
	if (b) *b = v;
	return b;
}

static int broken(value v) { return !v || qjs_is_exception(v); }

// pending returns the pending bytes with a zero byte after them, or 0 if there is not enough memory.
// Eight bytes can be read at the address of each pending byte.
static char *pending(int length) {
	char *p = malloc(length + 8);
	if (p) p[abi_read(p, length)] = 0;
	return p;
}

#include "json.h"

// parse_bytes parses a text that pending returned, and frees the text.
static value parse_bytes(char *p, int length) {
	u64 v = json_parse((unsigned char *)p, length);
	if (v == json->exception) v = JS_ParseJSON(json->context, p, length, slots->name);
	free(p);
	return box(v);
}

// parse parses the pending JSON.
static value parse(int length) {
	if (length == 0) return qjs_get_undefined();
	char *p = pending(length);
	return p ? parse_bytes(p, length) : box(JS_ThrowOutOfMemory(json->context));
}

// reply parses the reply of a host call. The argument n is the length of the reply. If n is
// negative, the call failed, and reply throws the parsed error.
static value reply(int n) {
	value v = parse(n < 0 ? -n : n);
	if (n >= 0 || broken(v)) return v;
	value thrown = qjs_throw(v);
	if (thrown) qjs_free_value(thrown);
	qjs_free_value(v);
	return 0;
}

// text returns argument i as a string, and stores the length of the string in slot n. If the
// argument is undefined, text returns 0. If it is true, text returns the text that json_encode wrote.
static char *text(int i, int count, value *arguments, int n) {
	slots->length[n] = 0;
	if (i >= count || *arguments[i] == json->undefined) return 0;
	if (*arguments[i] == json->yes) {
		slots->length[n] = json->used;
		return (char *)json->text;
	}
	return qjs_get_string_len(arguments[i], &slots->length[n]);
}

static long long number(int i, int count, value *arguments) {
	if (i >= count) return 0;
	double d = qjs_get_float64(arguments[i]);
	return d >= -9007199254740992.0 && d <= 9007199254740992.0 ? (long long)d : 0; // also for NaN
}

static void free_text(char *p) {
	if (p && p != (char *)json->text) qjs_free_cstring(p);
}

// parse_text parses a string of the script.
static value parse_text(value v) {
	int length;
	char *s = qjs_get_string_len(v, &slots->length[0]);
	char *p = s ? malloc((length = slots->length[0]) + 8) : 0; // eight bytes can be read at each byte
	if (p) memcpy(p, s, length + 1);
	if (s) qjs_free_cstring(s);
	return p ? parse_bytes(p, length) : box(JS_ThrowOutOfMemory(json->context));
}

static value call(int op, int count, value *arguments) {
	if (op == PARSE && count > 1) return parse_text(arguments[1]);
	if (op == LAZY && count > 4) return json_lazy(arguments + 1) ? qjs_get_undefined() : 0;
	if (op == ENCODE) return count > 1 && json_encode(*arguments[1]) ? qjs_get_true() : qjs_get_false();
	value result = 0;
	char *a = 0, *b = 0;
	int n;
	switch (op) {
	case LOG:
		a = text(2, count, arguments, 0);
		break;
	case LOCAL_SET: case STORE_SET:
		b = text(2, count, arguments, 1);
		// the key follows
	default:
		a = text(1, count, arguments, 0);
		break;
	case RECV: case MESSAGES: case CHANGED: case RANDOM:
		break;
	}
	n = slots->length[0];
	switch (op) {
	case WRITE:
		abi_write(a, n);
		result = qjs_get_undefined();
		break;
	case LOG:
		abi_log(number(1, count, arguments), a, n);
		result = qjs_get_undefined();
		break;
	case NEXT: result = reply(abi_next(a, n)); break;
	case NEXT_STREAM: result = reply(abi_next_stream(a, n)); break;
	case RECV: result = reply(abi_recv()); break;
	case SEND: result = reply(abi_send(a, n)); break;
	case MESSAGES:
		n = abi_messages(number(1, count, arguments), number(2, count, arguments), number(3, count, arguments));
		json->frozen = 1;
		result = reply(n);
		json->frozen = 0;
		break;
	case CHANGED:
		n = abi_changed(number(1, count, arguments), number(2, count, arguments));
		result = n < 0 ? reply(n) : qjs_new_number(n);
		break;
	case LOCAL_GET: result = reply(abi_local_get(a, n)); break;
	case LOCAL_SET: result = reply(abi_local_set(a, n, b, slots->length[1], number(3, count, arguments))); break;
	case LOCAL_DELETE: result = reply(abi_local_delete(a, n)); break;
	case LOCAL_ADD: result = reply(abi_local_add(a, n, number(2, count, arguments))); break;
	case EMIT: result = reply(abi_emit(a, n)); break;
	case MODEL: result = reply(abi_model(a, n)); break;
	case TOOL: result = reply(abi_tool(a, n)); break;
	case HTTP: result = reply(abi_http(a, n)); break;
	case STORE_GET: result = reply(abi_store_get(a, n)); break;
	case STORE_SET:
		result = reply(abi_store_set(a, n, b, slots->length[1], number(3, count, arguments), number(4, count, arguments)));
		break;
	case STORE_DELETE: result = reply(abi_store_delete(a, n)); break;
	case STORE_ADD: result = reply(abi_store_add(a, n, number(2, count, arguments))); break;
	case RANDOM:
		random_get(&slots->random, 8);
		result = qjs_new_number((double)(*(u64 *)&slots->random >> 11) * 0x1p-53);
		break;
	default: result = qjs_get_undefined();
	}
	free_text(a);
	free_text(b);
	return result;
}

// The imports of the engine.

EXPORT(host_call) value host_call(char *name, int length, value self, int count, value *arguments) {
	return call(number(0, count, arguments), count, arguments);
}

EXPORT(host_get_timezone_offset) int host_get_timezone_offset(int high, int low) { return 0; }
EXPORT(host_interrupt) int host_interrupt(void) { return script_over(); }
EXPORT(host_module_normalize) char *host_module_normalize(char *base, char *name) { return 0; }
EXPORT(host_module_load) char *host_module_load(char *name, int *length) { return 0; }

// The engine calls host_promise_rejection when a promise without a handler is rejected, and when
// such a promise gets a handler later. The first rejection without a handler is reported.
EXPORT(host_promise_rejection) void host_promise_rejection(value promise, value reason, int handled) {
	int which = promise ? qjs_get_value_ptr(promise) : 0;
	if (handled && slots->lost && slots->promise == which) {
		qjs_free_value(slots->lost);
		slots->lost = 0;
	}
	if (promise) qjs_free_value(promise);
	if (!handled && !slots->lost) {
		slots->lost = reason;
		slots->promise = which;
	} else if (reason) {
		qjs_free_value(reason);
	}
}

// The exports for the host.

static void named(u64 text, int last) {
	((u64 *)slots->name)[0] = text;
	((u64 *)slots->name)[1] = 0;
	slots->name[7] = last;
}

// tell writes the exception that JavaScript code did not catch. The first line is the text of the
// exception, and the following lines are the stack.
static int tell(value v) {
	if (v) qjs_free_value(v);
	value thrown = qjs_get_exception();
	char *s = thrown ? qjs_get_string_len(thrown, &slots->length[0]) : 0;
	if (!s) return BROKEN;
	int n = slots->length[0];
	abi_write(s, n);
	named(0x6b63617473, 0); // "stack"
	value stack = qjs_get_prop_string(thrown, slots->name);
	char *t = broken(stack) ? 0 : qjs_get_string_len(stack, &slots->length[0]);
	char *all = t ? malloc(n + 1 + slots->length[0]) : 0;
	if (!all) return BROKEN;
	for (int i = 0; i < n; i++) all[i] = s[i];
	all[n] = '\n';
	for (int i = 0; i < slots->length[0]; i++) all[n + 1 + i] = t[i];
	abi_write(all, n + 1 + slots->length[0]);
	return BROKEN;
}

// dispatch calls the prelude's function with what and v, and returns the outcome.
static int dispatch(int what, value v) {
	if (broken(v)) return tell(v);
	value n = qjs_new_number(what);
	slots->arguments[0] = n;
	slots->arguments[1] = v;
	value r = n ? qjs_call(slots->dispatch, slots->self, 2, slots->arguments) : 0;
	qjs_free_value(v);
	if (n) qjs_free_value(n);
	if (broken(r) || !qjs_is_number(r)) return tell(r);
	int outcome = qjs_get_float64(r);
	qjs_free_value(r);
	return outcome;
}

// finish runs pending jobs until all promises that can settle have settled. It returns the outcome.
static int finish(int outcome) {
	while (qjs_is_job_pending())
		if (qjs_execute_pending_job() < 0) return tell(0);
	if (outcome == PENDING) outcome = dispatch(SETTLE, qjs_get_undefined());
	value lost = slots->lost;
	slots->lost = 0;
	if (lost && outcome != BROKEN) dispatch(LOST, lost);
	return outcome;
}

// start initializes the engine and evaluates the pending prelude.
EXPORT(script_start) int script_start(int length, int memory, int stack) {
	if (qjs_init() != 0) return BROKEN;
	qjs_set_interrupt_handler(1);
	qjs_set_promise_rejection_handler(1);
	qjs_set_max_stack_size(stack);
	qjs_set_memory_limit(memory);
	if (!json_start()) return BROKEN;
	named(0x74736f68, 0); // "host"
	slots->self = qjs_get_undefined();
	char *source = pending(length);
	if (!source) return BROKEN;
	value factory = qjs_eval(source, length, slots->name, 0);
	free(source);
	if (broken(factory)) return tell(factory);
	slots->arguments[0] = qjs_new_host_function(slots->name, 4, 1);
	slots->dispatch = qjs_call(factory, slots->self, 1, slots->arguments);
	qjs_free_value(factory);
	return broken(slots->dispatch) ? tell(slots->dispatch) : DONE;
}

// load evaluates the pending script.
EXPORT(script_load) int script_load(int length) {
	char *source = pending(length);
	if (!source) return BROKEN;
	named(0x7470697263733c, '>'); // "<script>", the file name in positions
	value v = qjs_eval(source, length, slots->name, 0);
	free(source);
	if (!broken(v)) return finish(dispatch(LOAD, v));
	if (v) qjs_free_value(v);
	return dispatch(CATCH, qjs_get_exception());
}

// pack is the last call before the image is taken. It makes room bytes of memory free, so that
// ordinary hooks do not have to grow the memory.
EXPORT(script_pack) void script_pack(int room) {
	qjs_run_gc();
	free(malloc(room));
}

static int hook(int number, int length) {
	json->input = 1;
	value input = parse(length);
	json->input = 0;
	return finish(dispatch(number, input));
}

#define HOOK(number, name) EXPORT(name) int hook_##name(int length) { return hook(number, length); }

EACH_HOOK(HOOK)

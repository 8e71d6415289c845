/* agent_middleware.h: an SDK for agent-runner middlewares in C, for version 1 of the ABI.
 *
 *     clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,--strip-all -o guard.wasm guard.c
 *
 * A single header without a library. It needs neither a libc nor WASI, and is compatible
 * with both. Include it in one file. See README.md.
 *
 * Memory: everything that this header returns, and that am_alloc allocates, is in an
 * arena, which is emptied before each hook. What configure allocated persists. Messages
 * that were read are cached in memory of their own until they change. */
#ifndef AGENT_MIDDLEWARE_H
#define AGENT_MIDDLEWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__wasm32__)
#error "a middleware is a WebAssembly module: compile with clang --target=wasm32"
#endif

#define AM_FN static __attribute__((unused))
#define AM_SMALL AM_FN __attribute__((noinline)) /* called from many places */
#define AM_IMPORT(name) __attribute__((import_module("agent_middleware_v1"), import_name(#name)))

/* ---- the host's imports; the functions below are more convenient ---- */

AM_IMPORT(read) int32_t am_host_read(void *ptr, int32_t cap);
AM_IMPORT(write) void am_host_write(const void *ptr, int32_t len);
AM_IMPORT(next) int32_t am_host_next(const void *ptr, int32_t len);
AM_IMPORT(next_stream) int32_t am_host_next_stream(const void *ptr, int32_t len);
AM_IMPORT(recv) int32_t am_host_recv(void);
AM_IMPORT(send) int32_t am_host_send(const void *ptr, int32_t len);
AM_IMPORT(messages) int32_t am_host_messages(int32_t list, int32_t from, int32_t to);
AM_IMPORT(changed) int32_t am_host_changed(int32_t list, int64_t revision);
AM_IMPORT(local_get) int32_t am_host_local_get(const void *key, int32_t len);
AM_IMPORT(local_set) int32_t am_host_local_set(const void *key, int32_t len, const void *value, int32_t value_len, int64_t version);
AM_IMPORT(local_delete) int32_t am_host_local_delete(const void *key, int32_t len);
AM_IMPORT(local_add) int32_t am_host_local_add(const void *key, int32_t len, int64_t delta);
AM_IMPORT(store_get) int32_t am_host_store_get(const void *key, int32_t len);
AM_IMPORT(store_set) int32_t am_host_store_set(const void *key, int32_t len, const void *value, int32_t value_len, int64_t version, int64_t ttl);
AM_IMPORT(store_delete) int32_t am_host_store_delete(const void *key, int32_t len);
AM_IMPORT(store_add) int32_t am_host_store_add(const void *key, int32_t len, int64_t delta);
AM_IMPORT(emit) int32_t am_host_emit(const void *ptr, int32_t len);
AM_IMPORT(model) int32_t am_host_model(const void *ptr, int32_t len);
AM_IMPORT(tool) int32_t am_host_tool(const void *ptr, int32_t len);
AM_IMPORT(http) int32_t am_host_http(const void *ptr, int32_t len);
AM_IMPORT(config) int32_t am_host_config(void);
AM_IMPORT(log) void am_host_log(int32_t level, const void *ptr, int32_t len);

/* ---- memory ---- */

/* A word is eight bytes. Strings are searched and copied in words. */
AM_FN uint64_t am_word(const void *p) {
	uint64_t word;
	__builtin_memcpy(&word, p, 8);
	return word;
}

AM_FN void am_set_word(void *p, uint64_t word) { __builtin_memcpy(p, &word, 8); }

AM_FN uint32_t am_half(const void *p) {
	uint32_t half;
	__builtin_memcpy(&half, p, 4);
	return half;
}

/* am_part_word loads n bytes, from 1 to 7, padded with zeros. */
AM_FN uint64_t am_part_word(const void *from, size_t n) {
	const unsigned char *p = from;
	if (n >= 4) return am_half(p) | (uint64_t)am_half(p + n - 4) << (8 * (n - 4));
	return p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

/* Long copies and fills use one instruction. Modules compiled with this target feature have it. */
#define AM_BULK AM_SMALL __attribute__((target("bulk-memory")))
enum { AM_MANY = 32 };
AM_BULK void am_fill_many(void *to, int c, size_t n) { __builtin_memset(to, c, n); }
AM_BULK void am_copy_many(void *to, const void *from, size_t n) { __builtin_memcpy(to, from, n); }

/* The compiler emits calls of these. A libc's versions are equivalent. */
__attribute__((weak, no_builtin("memset"))) void *memset(void *to, int c, size_t n) {
	unsigned char *t = to;
	if (n >= AM_MANY) {
		am_fill_many(to, c, n);
		return to;
	}
	while (n-- > 0) *t++ = (unsigned char)c;
	return to;
}

__attribute__((weak, no_builtin("memcpy"))) void *memcpy(void *restrict to, const void *restrict from, size_t n) {
	unsigned char *t = to;
	const unsigned char *f = from;
	if (n >= AM_MANY) {
		am_copy_many(to, from, n);
	} else if (n >= 8) {
		for (size_t i = 0; i + 8 < n; i += 8) am_set_word(t + i, am_word(f + i));
		am_set_word(t + n - 8, am_word(f + n - 8));
	} else {
		while (n-- > 0) *t++ = *f++;
	}
	return to;
}

__attribute__((weak, no_builtin("memcmp"))) int memcmp(const void *a, const void *b, size_t n) {
	const unsigned char *x = a, *y = b;
	size_t i = 0;
	while (i + 8 <= n && am_word(x + i) == am_word(y + i)) i += 8;
	for (; i < n; i++)
		if (x[i] != y[i]) return x[i] - y[i];
	return 0;
}

/* am_die ends the hook with a fault. It is for programming errors of the module. */
AM_FN __attribute__((noreturn)) void am_die(const char *why) {
	int32_t n = 0;
	while (why[n] != 0) n++;
	am_host_log(3, why, n);
	__builtin_trap();
}

#ifndef AM_FIRST
#define AM_FIRST 131072 /* initial size of the arena in bytes; growing it costs more than a typical hook */
#endif

#ifndef AM_FIRST_MESSAGES
#define AM_FIRST_MESSAGES 65536 /* initial size of the memory for messages in bytes */
#endif

#ifndef AM_KEPT_MESSAGES
#define AM_KEPT_MESSAGES 4194304 /* bytes; if the messages take more, the next hook starts without any */
#endif

typedef struct am_chunk_of_memory am_chunk_of_memory;
struct am_chunk_of_memory {
	am_chunk_of_memory *next;
	char *from, *end;
	char *used; /* how far it was used when the next chunk was started */
};

/* An arena allocates zeroed memory and frees everything at once. */
typedef struct {
	am_chunk_of_memory *now;
	char *free, *end; /* of the current chunk */
} am_arena;

static __attribute__((aligned(16))) char am_first_bytes[AM_FIRST], am_first_message_bytes[AM_FIRST_MESSAGES];
static am_chunk_of_memory am_first_chunk = {0, am_first_bytes, am_first_bytes + AM_FIRST, 0};
static am_chunk_of_memory am_first_message_chunk = {0, am_first_message_bytes, am_first_message_bytes + AM_FIRST_MESSAGES, 0};

/* The current arena, the other one of the two, and how much of the hooks' arena persists. */
static am_arena am_memory = {&am_first_chunk, am_first_bytes, am_first_bytes + AM_FIRST};
static am_arena am_other = {&am_first_message_chunk, am_first_message_bytes, am_first_message_bytes + AM_FIRST_MESSAGES};
static am_arena am_kept = {&am_first_chunk, am_first_bytes, am_first_bytes + AM_FIRST};
static bool am_swapped; /* whether am_memory is the arena of messages */

AM_SMALL void am_swap(void) {
	am_arena a = am_memory;
	am_memory = am_other;
	am_other = a;
	am_swapped = !am_swapped;
}

/* am_begin_chunk continues in another chunk. */
AM_FN void am_begin_chunk(am_chunk_of_memory *c) {
	am_memory.now->used = am_memory.free;
	am_memory = (am_arena){c, c->from, c->end};
}

/* am_pages allocates at least n pages of new memory and returns their address. It
 * allocates more while memory is small. */
AM_FN char *am_pages(size_t *n) {
	static size_t taken;
	size_t more = taken < 16 ? taken : 16, at;
	if (more > *n && (at = __builtin_wasm_memory_grow(0, more)) != (size_t)-1) *n = more;
	else at = __builtin_wasm_memory_grow(0, *n);
	if (at == (size_t)-1) am_die("out of memory");
	taken += *n;
	return (char *)(at * 65536);
}

/* am_more makes room for n bytes, in the next chunk or in new memory. */
AM_SMALL void am_more(size_t n) {
	am_chunk_of_memory *c = am_memory.now;
	while (c->next != 0) {
		am_begin_chunk(c = c->next);
		if ((size_t)(c->end - c->from) >= n) return;
	}
	size_t pages = (n + sizeof(am_chunk_of_memory) + 65535) / 65536;
	char *from = am_pages(&pages);
	if (from == c->end && c != &am_first_chunk && c != &am_first_message_chunk) { /* directly after the last chunk */
		am_memory.end = c->end += pages * 65536;
		return;
	}
	am_chunk_of_memory *more = (am_chunk_of_memory *)from;
	*more = (am_chunk_of_memory){0, from + sizeof(am_chunk_of_memory), from + pages * 65536, 0};
	c->next = more;
	am_begin_chunk(more);
}

/* am_empty_to frees what was allocated since the state to of an arena was saved. */
AM_FN void am_empty_to(am_arena to) {
	char *from = to.free;
	for (am_chunk_of_memory *c = to.now;; c = c->next, from = c->from) {
		char *used = c == am_memory.now ? am_memory.free : c->used;
		if (used > from) am_fill_many(from, 0, (size_t)(used - from));
		if (c == am_memory.now) break;
	}
	to.end = to.now->end;
	am_memory = to;
}

/* am_alloc returns n zeroed bytes, which are valid until the next hook. It never fails: if
 * the module has used up its memory, the hook ends with a fault. */
AM_SMALL void *am_alloc(size_t n) {
	if (n > 0x40000000) am_die("out of memory");
	n = (n + 7) & ~(size_t)7;
	while (n > (size_t)(am_memory.end - am_memory.free)) am_more(n);
	char *p = am_memory.free;
	am_memory.free += n;
	return p;
}

#define AM_NEW(type) ((type *)am_alloc(sizeof(type)))

/* am_keep makes everything allocated so far persist. configure calls it at its end. Memory
 * that is kept during a run is kept until the host discards the instance. */
AM_FN void am_keep(void) { am_kept = am_memory; }

/* ---- text ---- */

/* Text is UTF-8 with a length, without a terminating zero. p is 0 for absent text. */
typedef struct {
	const char *p;
	int32_t n;
} am_str;

/* Raw JSON text. */
typedef am_str am_json;

/* AM_S returns the text of a string literal. */
#define AM_S(literal) ((am_str){"" literal, sizeof(literal) - 1})

/* am_equal compares n bytes in words. */
AM_SMALL bool am_equal(const char *a, const char *b, int32_t n) {
	if (n < 8) return n <= 0 || am_part_word(a, (size_t)n) == am_part_word(b, (size_t)n);
	for (int32_t i = 0; i + 8 < n; i += 8)
		if (am_word(a + i) != am_word(b + i)) return false;
	return am_word(a + n - 8) == am_word(b + n - 8);
}

AM_FN bool am_same(am_str a, am_str b) { return a.n == b.n && am_equal(a.p, b.p, a.n); }

/* These set the highest bit of each matching byte of a word. The bits after the first
 * match are undefined. */
#define AM_EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

AM_FN uint64_t am_zeros(uint64_t word) { return (word - AM_EACH(1)) & ~word & AM_EACH(0x80); }

/* am_specials marks the characters that a JSON string must escape: quotes, backslashes and
 * control characters. With bit 2 inverted, a quote is one above the control characters. */
AM_FN uint64_t am_specials(uint64_t word) {
	return (((word ^ AM_EACH(2)) - AM_EACH(' ' + 1)) | ((word ^ AM_EACH('\\')) - AM_EACH(1))) & ~word & AM_EACH(0x80);
}

/* am_first returns the index of the first marked byte. */
AM_FN int32_t am_first(uint64_t found) { return __builtin_ctzll(found) >> 3; }

/* am_of returns the text of a zero-terminated string. */
AM_FN am_str am_of(const char *zero_ended) {
	am_str s = {zero_ended, 0};
	while (zero_ended[s.n] != 0) s.n++;
	return s;
}

/* am_eq compares a text with a literal: am_eq(in->call.name, "shell"). */
#define am_eq(text, literal) am_same((text), AM_S(literal))

AM_SMALL am_str am_concat(const am_str *parts, int32_t count) {
	int32_t n = 0;
	for (int32_t i = 0; i < count; i++) n += parts[i].n;
	char *to = am_alloc((size_t)n + 1);
	am_str out = {to, n};
	for (int32_t i = 0; i < count; i++) {
		if (parts[i].n > 0) memcpy(to, parts[i].p, (size_t)parts[i].n);
		to += parts[i].n;
	}
	return out;
}

/* AM_CAT concatenates texts: AM_CAT(AM_S("no "), name). */
#define AM_CAT(...) am_concat((const am_str[]){__VA_ARGS__}, (int32_t)(sizeof((const am_str[]){__VA_ARGS__}) / sizeof(am_str)))

AM_SMALL am_str am_decimal(int64_t v) {
	char digits[20];
	int32_t n = 0;
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do digits[n++] = (char)('0' + u % 10);
	while ((u /= 10) > 0);
	char *to = am_alloc(21);
	int32_t m = 0;
	if (v < 0) to[m++] = '-';
	while (n > 0) to[m++] = digits[--n];
	return (am_str){to, m};
}

/* am_find returns the index of a text in another one, from a position on, or -1. */
AM_SMALL int32_t am_find(am_str in, am_str what, int32_t from) {
	if (what.n == 0) return from <= in.n ? from : -1;
	uint64_t first = AM_EACH((uint64_t)(unsigned char)what.p[0]);
	for (int32_t i = from, last = in.n - what.n; i <= last;) {
		if (i + 8 <= in.n) {
			uint64_t found = am_zeros(am_word(in.p + i) ^ first);
			if (found == 0) {
				i += 8;
				continue;
			}
			i += am_first(found);
			if (i > last) break;
		}
		if (in.p[i] == what.p[0] && am_equal(in.p + i, what.p, what.n)) return i;
		i++;
	}
	return -1;
}

AM_FN bool am_begins(am_str text, am_str with) { return text.n >= with.n && am_same((am_str){text.p, with.n}, with); }

/* am_replace replaces all occurrences of a text. */
AM_FN am_str am_replace(am_str in, am_str what, am_str with) {
	int32_t count = 0;
	for (int32_t at = 0; what.n > 0 && (at = am_find(in, what, at)) >= 0; at += what.n) count++;
	if (count == 0) return in;
	am_str *parts = am_alloc((size_t)(2 * count + 1) * sizeof(am_str));
	int32_t n = 0, at = 0;
	for (int32_t next; n < 2 * count; at = next + what.n) {
		next = am_find(in, what, at);
		parts[n++] = (am_str){in.p + at, next - at};
		parts[n++] = with;
	}
	parts[n++] = (am_str){in.p + at, in.n - at};
	return am_concat(parts, n);
}

typedef struct {
	am_str *items;
	int32_t len;
	bool set; /* in an answer: an empty list differs from an absent one */
} am_strs;

/* The keys and values of an object. */
typedef struct {
	am_str key;
	am_json value;
} am_member;

typedef struct {
	am_member *items;
	int32_t len;
} am_members;

AM_FN am_json am_member_of(const am_members *members, am_str key) {
	for (int32_t i = 0; i < members->len; i++)
		if (am_same(members->items[i].key, key)) return members->items[i].value;
	return (am_json){0, 0};
}

/* ---- the types of the ABI ---- */

typedef enum { AM_TEXT, AM_INT, AM_LONG, AM_BOOL, AM_RAW, AM_MEMBERS, AM_OBJECT, AM_REF, AM_TEXTS, AM_OBJECTS } am_kind;

enum { AM_OMIT = 1, AM_OPTIONAL = 2 };

typedef enum { AM_FORM_FIELDS, AM_FORM_CONTENT, AM_FORM_LIST_PATCH, AM_FORM_TOOLS_PATCH, AM_FORM_CHUNK, AM_FORM_PART, AM_FORM_TOOL_CALL } am_form;

typedef struct am_type am_type;

typedef struct {
	const char *key; /* as encoded in JSON, "key":, with padding for reading words */
	const am_type *of;
	uint16_t offset;
	uint8_t len, shift; /* length of the key; shift that removes the bytes after it from a word */
	uint8_t kind, flags;
} am_field;

#define AM_FIELD(key, type, field, kind, flags, of) \
	{"\"" key "\":\0\0\0", of, offsetof(type, field), sizeof(key) + 2, (uint8_t)(sizeof(key) < 6 ? 48 - 8 * sizeof(key) : 0), kind, flags}

struct am_type {
	const am_field *fields;
	int32_t count, size, form, unknown;
};

typedef enum { AM_CONTENT_NULL, AM_CONTENT_TEXT, AM_CONTENT_PARTS } am_content_kind;

/* ---- generated by internal/sdkgen from package abi: do not edit ---- */

typedef struct am_description am_description;
typedef struct am_configure_input am_configure_input;
typedef struct am_configure_answer am_configure_answer;
typedef struct am_usage am_usage;
typedef struct am_run am_run;
typedef struct am_resume am_resume;
typedef struct am_tool am_tool;
typedef struct am_part am_part;
typedef struct am_content am_content;
typedef struct am_function_call am_function_call;
typedef struct am_tool_call am_tool_call;
typedef struct am_message am_message;
typedef struct am_list am_list;
typedef struct am_run_limits am_run_limits;
typedef struct am_before_agent_input am_before_agent_input;
typedef struct am_stop am_stop;
typedef struct am_interrupt am_interrupt;
typedef struct am_tools_patch am_tools_patch;
typedef struct am_splice am_splice;
typedef struct am_list_patch am_list_patch;
typedef struct am_before_agent_answer am_before_agent_answer;
typedef struct am_state_tool am_state_tool;
typedef struct am_before_model_rewrite_state_input am_before_model_rewrite_state_input;
typedef struct am_before_model_rewrite_state_answer am_before_model_rewrite_state_answer;
typedef struct am_request am_request;
typedef struct am_before_model_input am_before_model_input;
typedef struct am_request_patch am_request_patch;
typedef struct am_response am_response;
typedef struct am_before_model_answer am_before_model_answer;
typedef struct am_wrap_model_input am_wrap_model_input;
typedef struct am_wrap_model_answer am_wrap_model_answer;
typedef struct am_chunk am_chunk;
typedef struct am_on_chunk_input am_on_chunk_input;
typedef struct am_on_chunk_answer am_on_chunk_answer;
typedef struct am_error am_error;
typedef struct am_after_model_input am_after_model_input;
typedef struct am_model_again am_model_again;
typedef struct am_after_model_answer am_after_model_answer;
typedef struct am_after_model_rewrite_state_input am_after_model_rewrite_state_input;
typedef struct am_after_model_rewrite_state_answer am_after_model_rewrite_state_answer;
typedef struct am_by am_by;
typedef struct am_call am_call;
typedef struct am_before_tool_input am_before_tool_input;
typedef struct am_result am_result;
typedef struct am_before_tool_answer am_before_tool_answer;
typedef struct am_wrap_tool_call_input am_wrap_tool_call_input;
typedef struct am_wrap_tool_call_answer am_wrap_tool_call_answer;
typedef struct am_gate_tool_input am_gate_tool_input;
typedef struct am_gate_tool_answer am_gate_tool_answer;
typedef struct am_call_tool_input am_call_tool_input;
typedef struct am_call_tool_answer am_call_tool_answer;
typedef struct am_after_tool_input am_after_tool_input;
typedef struct am_tool_again am_tool_again;
typedef struct am_after_tool_answer am_after_tool_answer;
typedef struct am_tool_messages_input am_tool_messages_input;
typedef struct am_tool_messages_answer am_tool_messages_answer;
typedef struct am_after_tools_input am_after_tools_input;
typedef struct am_after_tools_answer am_after_tools_answer;
typedef struct am_after_agent_input am_after_agent_input;
typedef struct am_after_agent_answer am_after_agent_answer;
typedef struct am_entry_stats am_entry_stats;
typedef struct am_ask am_ask;
typedef struct am_pending am_pending;
typedef struct am_event am_event;
typedef struct am_observe_input am_observe_input;
typedef struct am_observe_answer am_observe_answer;
typedef struct am_translate_input am_translate_input;
typedef struct am_translate_answer am_translate_answer;
typedef struct am_model_reply am_model_reply;
typedef struct am_call_patch am_call_patch;
typedef struct am_tool_reply am_tool_reply;
typedef struct am_tool_request am_tool_request;
typedef struct am_http_header am_http_header;
typedef struct am_http_request am_http_request;
typedef struct am_http_response am_http_response;
typedef struct am_sent am_sent;
typedef struct am_stream_end am_stream_end;
typedef struct am_received am_received;
typedef struct am_local_value am_local_value;
typedef struct am_local_version am_local_version;
typedef struct am_custom am_custom;
typedef struct am_approval am_approval;
typedef struct { am_part *items; int32_t len; bool set; } am_parts;
typedef struct { am_message *items; int32_t len; bool set; } am_messages;
typedef struct { am_splice *items; int32_t len; bool set; } am_splices;
typedef struct { am_tool *items; int32_t len; bool set; } am_tools;
typedef struct { am_tool_call *items; int32_t len; bool set; } am_tool_calls;
typedef struct { am_state_tool *items; int32_t len; bool set; } am_state_tools;
typedef struct { am_chunk *items; int32_t len; bool set; } am_chunks;
typedef struct { am_call *items; int32_t len; bool set; } am_calls;
typedef struct { am_ask *items; int32_t len; bool set; } am_asks;
typedef struct { am_entry_stats *items; int32_t len; bool set; } am_entry_stats_list;
typedef struct { am_pending *items; int32_t len; bool set; } am_pendings;
typedef struct { am_event *items; int32_t len; bool set; } am_events;
typedef struct { am_http_header *items; int32_t len; bool set; } am_http_headers;

/* A Description is a module's answer to describe. */
struct am_description {
	am_str name;
	am_str version;
	am_str description;
	am_strs requires; /* requires names the hooks and features that the module needs. The host rejects the module if it does not support one of them. */
	am_strs hooks; /* hooks lists the exported hooks to call. It defaults to all exported hooks. */
	am_str messages; /* "full" if empty */
	am_strs events; /* events lists the event types that observe receives. It defaults to all types except chunk. */
	bool hold_stream; /* hold_stream holds back the chunks of a wrapped model call until the wrapper returns. */
	am_json config_schema; /* config_schema is a JSON Schema of the module's configuration. It must not refer to other documents. */
};

/* ConfigureInput is the input of configure. */
struct am_configure_input {
	am_str entry;
	am_json config;
};

/* ConfigureAnswer is the answer of configure. It has no fields. */
struct am_configure_answer {
	char nothing;
};

/* Usage counts tokens. */
struct am_usage {
	int64_t prompt_tokens;
	int64_t completion_tokens;
	int64_t total_tokens;
};

/* A Run describes the run in which a hook is called, and its progress. */
struct am_run {
	am_str id;
	am_str agent;
	int32_t step; /* starts at 1; 0 in before_agent */
	am_str step_id;
	int32_t max_steps;
	am_usage usage;
	am_members metadata; /* from the caller */
	int64_t now_ms; /* current Unix time in milliseconds */
	int64_t deadline_ms; /* milliseconds until the deadline; 0 if there is none */
	am_str parent; /* ID of the parent run, if this run is a tool call of another */
};

/* A Resume is the answer to an interrupt. The hook that interrupted receives it in its input when it is called again. */
struct am_resume {
	am_str id;
	am_json answer;
};

/* A Tool describes a tool to the model. */
struct am_tool {
	am_str name;
	am_str description;
	am_json parameters; /* a JSON Schema */
	am_str owner; /* owner is "host" for the agent's own tools, or the name of the entry that added the tool. The host sets it. */
	bool idempotent; /* idempotent marks a tool that can be called again if it is unknown whether a call happened. */
};

/* A Part is one part of the content in the format of the OpenAI chat API. */
struct am_part {
	am_str type;
	am_str text;
	am_json image_url; /* {"url", "detail"} */
	am_json input_audio; /* {"data", "format"} */
	am_json file; /* {"file_id"} or {"filename", "file_data"} */
	/* The fields that this version does not know, unchanged. */
	am_members unknown;
};

/* Content is the content of a message or of a tool result: null, a string, or parts. The zero value is null. */
struct am_content {
	am_content_kind kind;
	am_str text;    /* for AM_CONTENT_TEXT */
	am_parts parts; /* for AM_CONTENT_PARTS */
};

/* A FunctionCall is the name of a tool and its arguments, a JSON object in a string. */
struct am_function_call {
	am_str name;
	am_str arguments;
};

/* A ToolCall is one call in an assistant's message. Its arguments are the model's string, unchanged. */
struct am_tool_call {
	am_str id;
	am_str type; /* "function" */
	am_function_call function;
	/* The fields that this version does not know, unchanged. */
	am_members unknown;
};

/* A Message is one message of the conversation in the format of the OpenAI chat API. The host sets ID and Origin. It ignores the values that a module sets, unless the same answer removed the message with that ID. */
struct am_message {
	am_str id;
	am_str role;
	am_content content;
	am_str name;
	am_tool_calls tool_calls;
	am_str tool_call_id;
	am_str reasoning_content;
	am_json extra; /* an object for modules; never sent to a model */
	am_str origin;
	/* The fields that this version does not know, unchanged. */
	am_members unknown;
};

/* A List represents a list of messages in a hook's input. It does not change while the hook runs. */
struct am_list {
	int32_t list;
	int64_t revision;
	int32_t total;
	am_messages items; /* items holds the messages, for modules whose description has "messages": "full". Other modules request the ranges they want. */
};

/* RunLimits holds the limits of a run. */
struct am_run_limits {
	int32_t max_steps;
	int32_t model_calls; /* 0 if only the steps and the hooks' requests limit it */
	int32_t tool_calls; /* 0 means unlimited */
	am_members tools; /* calls by tool */
};

/* BeforeAgentInput is the input of before_agent. */
struct am_before_agent_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_str instruction;
	am_tools tools;
	am_strs return_directly;
	am_list messages;
	am_str model;
	am_members params;
	am_run_limits limits;
};

/* Stop ends the run. No hook can prevent that. */
struct am_stop {
	am_str reason;
	am_str code;
};

/* Interrupt pauses the run until the interrupt is answered. A native tool has the same effect if it returns an *Interrupt as its error. */
struct am_interrupt {
	am_str reason;
	am_json payload;
};

/* A ToolsPatch changes a list of tools, by additions and removals or by a new list. The zero value changes nothing. */
struct am_tools_patch {
	am_tools add;
	am_strs remove;
	am_tools replace; /* used if whole is set */
	bool whole;
};

/* A Splice removes Remove messages at index At and inserts others there. Indices refer to the list in the hook's input. Splices must be in ascending order and must not overlap. */
struct am_splice {
	int32_t at;
	int32_t remove;
	am_messages insert;
};

/* A ListPatch changes a list of messages, by splices or by a new list. Splices refer to the list in the hook's input. The zero value changes nothing. */
struct am_list_patch {
	am_splices splice;
	am_messages replace; /* used if whole is set */
	bool whole;
};

/* BeforeAgentAnswer is the answer of before_agent. */
struct am_before_agent_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_str instruction;
	am_tools_patch tools;
	am_strs return_directly;
	am_list_patch messages;
	am_message *respond; /* respond is an assistant message that ends the run without a model call. */
};

/* A StateTool is a tool in the input of a state hook. Active reports whether the model is offered the tool. */
struct am_state_tool {
	am_str name;
	am_str description;
	am_json parameters; /* a JSON Schema */
	am_str owner; /* owner is "host" for the agent's own tools, or the name of the entry that added the tool. The host sets it. */
	bool idempotent; /* idempotent marks a tool that can be called again if it is unknown whether a call happened. */
	bool active;
};

/* BeforeModelRewriteStateInput is the input of before_model_rewrite_state. */
struct am_before_model_rewrite_state_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_list messages;
	am_state_tools tools;
	am_str model;
	am_members params;
};

/* BeforeModelRewriteStateAnswer is the answer of before_model_rewrite_state. */
struct am_before_model_rewrite_state_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_list_patch messages;
	am_strs active; /* active names the tools that the model is offered from now on. */
};

/* A Request is a model call as the host will send it. */
struct am_request {
	am_list messages;
	am_tools tools;
	am_str model;
	am_members params;
	bool stream;
};

/* BeforeModelInput is the input of before_model. */
struct am_before_model_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_request request;
};

/* A RequestPatch changes the request of one model call. */
struct am_request_patch {
	am_list_patch messages;
	am_tools_patch tools;
	am_str model;
	am_members params;
};

/* A Response is a model's response. */
struct am_response {
	am_message message;
	am_str finish_reason;
	am_usage *usage;
};

/* BeforeModelAnswer is the answer of before_model. */
struct am_before_model_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_request_patch request;
	am_response *response; /* used instead of calling the model */
};

/* WrapModelInput is the input of wrap_model. The hook passes a RequestPatch to next, which replies with the response. */
struct am_wrap_model_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_request request;
};

/* WrapModelAnswer is the answer of wrap_model. */
struct am_wrap_model_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_response *response;
};

/* A Chunk is a piece of a streamed response or tool result. Concatenate the text of successive chunks. The chunks of one tool call have the same Index; the first of them has the call's ID and name. */
struct am_chunk {
	int64_t seq; /* set by the host; ignored in answers */
	am_str kind;
	am_str text; /* text, reasoning, tool_result */
	int32_t index; /* tool_call */
	am_str id; /* tool_call */
	am_str name; /* tool_call */
	am_str arguments; /* tool_call */
	am_str call_id; /* tool_result, and part in a tool result */
	am_part *part; /* part */
};

/* OnChunkInput is the input of on_chunk: all chunks that are available. */
struct am_on_chunk_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_chunks chunks;
	int64_t stream; /* stream identifies the stream that the chunks belong to. It is unique within the run and differs for each attempt of a call, so that a module does not join chunks of a failed attempt with those of the next. */
	bool final; /* last call for this message; set once per message */
};

/* OnChunkAnswer is the answer of on_chunk. */
struct am_on_chunk_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_chunks chunks; /* replaces the chunks; empty drops them */
};

/* An Error is the error object of a failed host call, and the output of a hook that returns 1. */
struct am_error {
	am_str code;
	am_str message;
	bool retryable;
	int32_t status; /* HTTP status, if there was one */
	int64_t retry_after_ms; /* when to retry, in milliseconds from now */
};

/* AfterModelInput is the input of after_model. Either Response or Error is set. */
struct am_after_model_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_request request;
	am_response *response;
	am_error *error;
	am_str source; /* "model", or the entry that answered */
};

/* ModelAgain requests another model call, with a patched request. */
struct am_model_again {
	am_request_patch request;
	am_str reason;
};

/* AfterModelAnswer is the answer of after_model. */
struct am_after_model_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_response *response;
	am_error *error;
	am_model_again *again;
};

/* AfterModelRewriteStateInput is the input of after_model_rewrite_state. */
struct am_after_model_rewrite_state_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_list messages; /* the response is the last one */
	am_state_tools tools;
};

/* AfterModelRewriteStateAnswer is the answer of after_model_rewrite_state. */
struct am_after_model_rewrite_state_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_list_patch messages;
};

/* By identifies the module that made a call through the import tool. */
struct am_by {
	am_str entry;
	am_str hook;
	am_str call; /* call is the ID of the tool call that the hook was handling, or empty if there was none. */
};

/* A Call is a tool call as the tool hooks receive it. */
struct am_call {
	am_str id;
	am_str name;
	am_str arguments; /* a JSON object in a string, exactly as the tool receives it */
	am_str owner;
	bool idempotent;
	am_str original_arguments; /* original_arguments holds the model's arguments if hooks changed them (after_tool). */
	am_by *by; /* by is set if a module made the call instead of the model. Such a call is not part of the conversation. */
};

/* BeforeToolInput is the input of before_tool. */
struct am_before_tool_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
	am_tool tool;
	bool stream;
};

/* A Result is the result of a tool call. */
struct am_result {
	am_content content;
	bool is_error;
	am_json extra; /* an object for modules; never sent to a model */
};

/* BeforeToolAnswer is the answer of before_tool. */
struct am_before_tool_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_str arguments;
	am_result *result; /* used instead of calling the tool */
};

/* WrapToolCallInput is the input of wrap_tool_call. The hook passes a CallPatch to next, which replies with the result. */
struct am_wrap_tool_call_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
	am_tool tool;
	bool stream;
};

/* WrapToolCallAnswer is the answer of wrap_tool_call. */
struct am_wrap_tool_call_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_result *result;
};

/* GateToolInput is the input of gate_tool. Call has the exact arguments. */
struct am_gate_tool_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
	am_tool tool;
};

/* GateToolAnswer is the answer of gate_tool. Decision is required. */
struct am_gate_tool_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_str decision;
	am_str message; /* the reason; the model reads it */
	am_json payload; /* shown to the person who decides */
};

/* CallToolInput is the input of call_tool. */
struct am_call_tool_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
};

/* CallToolAnswer is the answer of call_tool. */
struct am_call_tool_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_result *result;
};

/* AfterToolInput is the input of after_tool. Either Result or Error is set. */
struct am_after_tool_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
	am_tool tool;
	am_result *result;
	am_error *error;
	am_str source; /* "tool", "host", or the entry that answered or denied */
};

/* ToolAgain requests another call of the tool, with other arguments. */
struct am_tool_again {
	am_str arguments;
	am_str reason;
};

/* AfterToolAnswer is the answer of after_tool. */
struct am_after_tool_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_result *result;
	am_error *error;
	am_tool_again *again;
};

/* ToolMessagesInput is the input of tool_messages. */
struct am_tool_messages_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_call call;
	am_tool tool;
	am_result result;
	am_message default_; /* the message that is recorded by default */
};

/* ToolMessagesAnswer is the answer of tool_messages. Exactly one of the messages must answer the call. */
struct am_tool_messages_answer {
	am_messages messages;
};

/* AfterToolsInput is the input of after_tools. */
struct am_after_tools_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_list messages;
	am_calls calls;
};

/* AfterToolsAnswer is the answer of after_tools. */
struct am_after_tools_answer {
	am_stop *stop;
	am_interrupt *interrupt;
	am_list_patch messages;
};

/* AfterAgentInput is the input of after_agent. */
struct am_after_agent_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_list messages;
	int32_t new_from; /* index of this run's first message */
	am_message *final;
	am_error *error;
	am_str finish_reason;
	am_usage usage;
};

/* AfterAgentAnswer is the answer of after_agent. */
struct am_after_agent_answer {
	am_message *final;
};

/* EntryStats counts what one entry of the chain used in a run. */
struct am_entry_stats {
	am_str entry;
	am_str agent; /* the agent whose chain has the entry, if the run had several agents */
	am_str digest; /* digest of the module's bytes; empty for native Go */
	am_members hooks; /* number of calls by hook */
	int64_t calls;
	int64_t faults;
	int64_t wall_us; /* time in its hooks in microseconds, without the calls that they wrap */
	int64_t bytes_in;
	int64_t bytes_out;
	int64_t fuel;
	int64_t instances;
	int64_t model_calls; /* Calls that the module made through the imports model and tool. */
	int64_t tool_calls;
};

/* An Ask is the question of one gate, if several gates ask about a call. */
struct am_ask {
	am_str entry;
	am_str reason;
	am_json payload;
};

/* A Pending is an interrupt that has not been answered yet. */
struct am_pending {
	am_str id;
	am_str run; /* ID of the nested run that is interrupted, if any */
	am_str agent; /* agent of that nested run */
	am_str entry; /* empty if a tool interrupted the run */
	am_str hook; /* gate_tool if the interrupt asks for approval of a call */
	am_str reason;
	am_json payload;
	am_call *call; /* the tool call, with the exact arguments */
	am_asks asks; /* asks lists the questions of all gates if several gates ask about the call. One answer applies to all of them. */
};

/* An Event reports one thing that happened in a run. Its type determines which fields are set. */
struct am_event {
	am_str type;
	int64_t seq; /* starts at 1, without gaps */
	am_str run;
	int64_t time_ms; /* Unix time in milliseconds */
	int32_t step;
	am_str step_id;
	am_str agent; /* run_started; transfer: the agent that continues */
	am_str model; /* run_started, transfer; model_attempt: the model that failed */
	am_str parent; /* run_started: the parent run, if this run is a tool call of another */
	am_str from; /* transfer: the agent that transferred the conversation */
	am_event *event; /* child */
	int32_t attempt; /* model_attempt: number of the failed attempt, from 1 */
	am_str next; /* model_attempt: the model to try next */
	int64_t delay_ms; /* model_attempt: delay before the next attempt, in milliseconds */
	am_chunk *chunk;
	am_message *message;
	bool replaced; /* the message differs from its chunks */
	am_call *call;
	am_result *result;
	am_str source; /* tool_result; run_finished: the source of a failed model call */
	am_str entry;
	am_str hook;
	am_str name;
	am_json data;
	am_str level; /* debug, info, warn, error */
	am_str text;
	am_str digest; /* digest of the module's bytes */
	am_str stage; /* breaker, input, hook, host_call, answer */
	am_str cause;
	am_str limit; /* the limit that was exceeded */
	int64_t value; /* value of that limit: bytes, a count, or nanoseconds */
	am_str action; /* how the host reacted: run_ended, skipped, denied, … */
	am_strs stderr; /* last lines of the guest's standard error */
	am_str finish_reason;
	am_usage *usage;
	am_error *error;
	am_str stopped_by;
	am_str reason;
	am_str stop_code;
	am_entry_stats_list entries;
	am_pendings interrupts;
	int64_t expires_ms; /* run_paused: deadline for the answer, Unix time in milliseconds */
	am_str resume; /* reference for resuming the run, if the host persists it */
};

/* ObserveInput is the input of observe. */
struct am_observe_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_events events;
};

/* ObserveAnswer is the answer of observe. It has no fields. */
struct am_observe_answer {
	char nothing;
};

/* TranslateInput is the input of translate_before and translate_after. */
struct am_translate_input {
	am_run run;
	am_str entry; /* name of this module's entry in the chain */
	am_resume *resume; /* resume is set if this hook interrupted the run and the interrupt was answered. */
	am_json event; /* event is the Event in translate_before, and its translation to the client's protocol in translate_after. */
	am_str protocol;
};

/* TranslateAnswer is the answer of translate_before and translate_after. */
struct am_translate_answer {
	am_json event; /* replaces the event */
	bool drop; /* suppresses the event */
};

/* ModelReply is the reply of next in wrap_model. */
struct am_model_reply {
	am_response *response;
};

/* CallPatch changes the arguments of a tool call. */
struct am_call_patch {
	am_str arguments;
};

/* ToolReply is the reply of next in wrap_tool_call. */
struct am_tool_reply {
	am_result *result;
};

/* A ToolRequest is the argument of the import tool, which replies with a ToolReply. */
struct am_tool_request {
	am_str name;
	am_str arguments; /* a JSON object in a string; empty means {} */
};

/* An HTTPHeader is one header field. */
struct am_http_header {
	am_str name;
	am_str value;
};

/* An HTTPRequest is the argument of the import http, which replies with an HTTPResponse. The host replaces {{secret:NAME}} in the path and query of the URL, in header values and in the body with the secret of that name. */
struct am_http_request {
	am_str method; /* defaults to GET */
	am_str url; /* https; http is allowed without secrets */
	am_http_headers headers;
	am_str body;
	am_str body_base64; /* body_base64 replaces Body if the bytes are not valid UTF-8. */
	int64_t timeout_ms; /* timeout_ms bounds the whole exchange, in milliseconds. Zero means the host's maximum, and larger values are reduced to it. */
};

/* An HTTPResponse is the reply of the import http. Every HTTP status, including 404 and 500, is a successful reply. */
struct am_http_response {
	int32_t status;
	am_str url; /* final URL, if there were redirects */
	am_http_headers headers; /* names are lower case and sorted */
	am_str body; /* if it is valid UTF-8 */
	am_str body_base64; /* if it is not valid UTF-8 */
};

/* A Sent is the argument of the import send. */
struct am_sent {
	am_chunks chunks;
};

/* A StreamEnd is the final result of a stream: the reply that next would have returned. */
struct am_stream_end {
	am_response *response; /* set for a model call */
	am_result *result; /* set for a tool call */
};

/* A Received is the reply of the import recv: the available chunks or, once, the end of the stream. If both fields are empty, the stream has ended and its end was already delivered. */
struct am_received {
	am_chunks chunks;
	am_stream_end *end;
};

/* LocalValue is the reply of local_get. */
struct am_local_value {
	am_json value;
	int64_t version;
};

/* LocalVersion is the reply of local_set. */
struct am_local_version {
	int64_t version;
};

/* Custom is the argument of the import emit. */
struct am_custom {
	am_str name;
	am_json data;
};

/* An Approval answers the question whether a tool call is allowed. */
struct am_approval {
	am_str decision; /* approve, deny or edit */
	am_str message; /* the reason; the model reads it */
	am_str arguments; /* for edit: the arguments to use instead */
};

static const am_type am_type_description;
static const am_type am_type_configure_input;
static const am_type am_type_configure_answer;
static const am_type am_type_usage;
static const am_type am_type_run;
static const am_type am_type_resume;
static const am_type am_type_tool;
static const am_type am_type_part;
static const am_type am_type_content;
static const am_type am_type_function_call;
static const am_type am_type_tool_call;
static const am_type am_type_message;
static const am_type am_type_list;
static const am_type am_type_run_limits;
static const am_type am_type_before_agent_input;
static const am_type am_type_stop;
static const am_type am_type_interrupt;
static const am_type am_type_tools_patch;
static const am_type am_type_splice;
static const am_type am_type_list_patch;
static const am_type am_type_before_agent_answer;
static const am_type am_type_state_tool;
static const am_type am_type_before_model_rewrite_state_input;
static const am_type am_type_before_model_rewrite_state_answer;
static const am_type am_type_request;
static const am_type am_type_before_model_input;
static const am_type am_type_request_patch;
static const am_type am_type_response;
static const am_type am_type_before_model_answer;
static const am_type am_type_wrap_model_input;
static const am_type am_type_wrap_model_answer;
static const am_type am_type_chunk;
static const am_type am_type_on_chunk_input;
static const am_type am_type_on_chunk_answer;
static const am_type am_type_error;
static const am_type am_type_after_model_input;
static const am_type am_type_model_again;
static const am_type am_type_after_model_answer;
static const am_type am_type_after_model_rewrite_state_input;
static const am_type am_type_after_model_rewrite_state_answer;
static const am_type am_type_by;
static const am_type am_type_call;
static const am_type am_type_before_tool_input;
static const am_type am_type_result;
static const am_type am_type_before_tool_answer;
static const am_type am_type_wrap_tool_call_input;
static const am_type am_type_wrap_tool_call_answer;
static const am_type am_type_gate_tool_input;
static const am_type am_type_gate_tool_answer;
static const am_type am_type_call_tool_input;
static const am_type am_type_call_tool_answer;
static const am_type am_type_after_tool_input;
static const am_type am_type_tool_again;
static const am_type am_type_after_tool_answer;
static const am_type am_type_tool_messages_input;
static const am_type am_type_tool_messages_answer;
static const am_type am_type_after_tools_input;
static const am_type am_type_after_tools_answer;
static const am_type am_type_after_agent_input;
static const am_type am_type_after_agent_answer;
static const am_type am_type_entry_stats;
static const am_type am_type_ask;
static const am_type am_type_pending;
static const am_type am_type_event;
static const am_type am_type_observe_input;
static const am_type am_type_observe_answer;
static const am_type am_type_translate_input;
static const am_type am_type_translate_answer;
static const am_type am_type_model_reply;
static const am_type am_type_call_patch;
static const am_type am_type_tool_reply;
static const am_type am_type_tool_request;
static const am_type am_type_http_header;
static const am_type am_type_http_request;
static const am_type am_type_http_response;
static const am_type am_type_sent;
static const am_type am_type_stream_end;
static const am_type am_type_received;
static const am_type am_type_local_value;
static const am_type am_type_local_version;
static const am_type am_type_custom;
static const am_type am_type_approval;

static const am_field am_fields_description[] = {
	AM_FIELD("name", am_description, name, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("version", am_description, version, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("description", am_description, description, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("requires", am_description, requires, AM_TEXTS, AM_OMIT, 0),
	AM_FIELD("hooks", am_description, hooks, AM_TEXTS, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("messages", am_description, messages, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("events", am_description, events, AM_TEXTS, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("hold_stream", am_description, hold_stream, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("config_schema", am_description, config_schema, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_description = {am_fields_description, 9, sizeof(am_description), AM_FORM_FIELDS, 0};

static const am_field am_fields_configure_input[] = {
	AM_FIELD("entry", am_configure_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("config", am_configure_input, config, AM_RAW, 0, 0),
};
static const am_type am_type_configure_input = {am_fields_configure_input, 2, sizeof(am_configure_input), AM_FORM_FIELDS, 0};

static const am_type am_type_configure_answer = {0, 0, sizeof(am_configure_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_usage[] = {
	AM_FIELD("prompt_tokens", am_usage, prompt_tokens, AM_LONG, 0, 0),
	AM_FIELD("completion_tokens", am_usage, completion_tokens, AM_LONG, 0, 0),
	AM_FIELD("total_tokens", am_usage, total_tokens, AM_LONG, 0, 0),
};
static const am_type am_type_usage = {am_fields_usage, 3, sizeof(am_usage), AM_FORM_FIELDS, 0};

static const am_field am_fields_run[] = {
	AM_FIELD("id", am_run, id, AM_TEXT, 0, 0),
	AM_FIELD("agent", am_run, agent, AM_TEXT, 0, 0),
	AM_FIELD("step", am_run, step, AM_INT, 0, 0),
	AM_FIELD("step_id", am_run, step_id, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("max_steps", am_run, max_steps, AM_INT, 0, 0),
	AM_FIELD("usage", am_run, usage, AM_OBJECT, 0, &am_type_usage),
	AM_FIELD("metadata", am_run, metadata, AM_MEMBERS, AM_OMIT, 0),
	AM_FIELD("now_ms", am_run, now_ms, AM_LONG, 0, 0),
	AM_FIELD("deadline_ms", am_run, deadline_ms, AM_LONG, AM_OMIT, 0),
	AM_FIELD("parent", am_run, parent, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_run = {am_fields_run, 10, sizeof(am_run), AM_FORM_FIELDS, 0};

static const am_field am_fields_resume[] = {
	AM_FIELD("id", am_resume, id, AM_TEXT, 0, 0),
	AM_FIELD("answer", am_resume, answer, AM_RAW, 0, 0),
};
static const am_type am_type_resume = {am_fields_resume, 2, sizeof(am_resume), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool[] = {
	AM_FIELD("name", am_tool, name, AM_TEXT, 0, 0),
	AM_FIELD("description", am_tool, description, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("parameters", am_tool, parameters, AM_RAW, AM_OMIT, 0),
	AM_FIELD("owner", am_tool, owner, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("idempotent", am_tool, idempotent, AM_BOOL, AM_OMIT, 0),
};
static const am_type am_type_tool = {am_fields_tool, 5, sizeof(am_tool), AM_FORM_FIELDS, 0};

static const am_field am_fields_part[] = {
	AM_FIELD("type", am_part, type, AM_TEXT, 0, 0),
	AM_FIELD("text", am_part, text, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("image_url", am_part, image_url, AM_RAW, AM_OMIT, 0),
	AM_FIELD("input_audio", am_part, input_audio, AM_RAW, AM_OMIT, 0),
	AM_FIELD("file", am_part, file, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_part = {am_fields_part, 5, sizeof(am_part), AM_FORM_PART, offsetof(am_part, unknown)};

static const am_type am_type_content = {0, 0, sizeof(am_content), AM_FORM_CONTENT, 0};

static const am_field am_fields_function_call[] = {
	AM_FIELD("name", am_function_call, name, AM_TEXT, 0, 0),
	AM_FIELD("arguments", am_function_call, arguments, AM_TEXT, 0, 0),
};
static const am_type am_type_function_call = {am_fields_function_call, 2, sizeof(am_function_call), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_call[] = {
	AM_FIELD("id", am_tool_call, id, AM_TEXT, 0, 0),
	AM_FIELD("type", am_tool_call, type, AM_TEXT, 0, 0),
	AM_FIELD("function", am_tool_call, function, AM_OBJECT, 0, &am_type_function_call),
};
static const am_type am_type_tool_call = {am_fields_tool_call, 3, sizeof(am_tool_call), AM_FORM_TOOL_CALL, offsetof(am_tool_call, unknown)};

static const am_field am_fields_message[] = {
	AM_FIELD("id", am_message, id, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("role", am_message, role, AM_TEXT, 0, 0),
	AM_FIELD("content", am_message, content, AM_OBJECT, 0, &am_type_content),
	AM_FIELD("name", am_message, name, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("tool_calls", am_message, tool_calls, AM_OBJECTS, AM_OMIT, &am_type_tool_call),
	AM_FIELD("tool_call_id", am_message, tool_call_id, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("reasoning_content", am_message, reasoning_content, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("extra", am_message, extra, AM_RAW, AM_OMIT, 0),
	AM_FIELD("origin", am_message, origin, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_message = {am_fields_message, 9, sizeof(am_message), AM_FORM_FIELDS, offsetof(am_message, unknown)};

static const am_field am_fields_list[] = {
	AM_FIELD("list", am_list, list, AM_INT, 0, 0),
	AM_FIELD("revision", am_list, revision, AM_LONG, 0, 0),
	AM_FIELD("total", am_list, total, AM_INT, 0, 0),
	AM_FIELD("items", am_list, items, AM_OBJECTS, AM_OMIT | AM_OPTIONAL, &am_type_message),
};
static const am_type am_type_list = {am_fields_list, 4, sizeof(am_list), AM_FORM_FIELDS, 0};

static const am_field am_fields_run_limits[] = {
	AM_FIELD("max_steps", am_run_limits, max_steps, AM_INT, 0, 0),
	AM_FIELD("model_calls", am_run_limits, model_calls, AM_INT, AM_OMIT, 0),
	AM_FIELD("tool_calls", am_run_limits, tool_calls, AM_INT, AM_OMIT, 0),
	AM_FIELD("tools", am_run_limits, tools, AM_MEMBERS, AM_OMIT, 0),
};
static const am_type am_type_run_limits = {am_fields_run_limits, 4, sizeof(am_run_limits), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_agent_input[] = {
	AM_FIELD("run", am_before_agent_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_before_agent_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_before_agent_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("instruction", am_before_agent_input, instruction, AM_TEXT, 0, 0),
	AM_FIELD("tools", am_before_agent_input, tools, AM_OBJECTS, 0, &am_type_tool),
	AM_FIELD("return_directly", am_before_agent_input, return_directly, AM_TEXTS, 0, 0),
	AM_FIELD("messages", am_before_agent_input, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("model", am_before_agent_input, model, AM_TEXT, 0, 0),
	AM_FIELD("params", am_before_agent_input, params, AM_MEMBERS, AM_OMIT, 0),
	AM_FIELD("limits", am_before_agent_input, limits, AM_OBJECT, 0, &am_type_run_limits),
};
static const am_type am_type_before_agent_input = {am_fields_before_agent_input, 10, sizeof(am_before_agent_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_stop[] = {
	AM_FIELD("reason", am_stop, reason, AM_TEXT, 0, 0),
	AM_FIELD("code", am_stop, code, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_stop = {am_fields_stop, 2, sizeof(am_stop), AM_FORM_FIELDS, 0};

static const am_field am_fields_interrupt[] = {
	AM_FIELD("reason", am_interrupt, reason, AM_TEXT, 0, 0),
	AM_FIELD("payload", am_interrupt, payload, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_interrupt = {am_fields_interrupt, 2, sizeof(am_interrupt), AM_FORM_FIELDS, 0};

static const am_type am_type_tools_patch = {0, 0, sizeof(am_tools_patch), AM_FORM_TOOLS_PATCH, 0};

static const am_field am_fields_splice[] = {
	AM_FIELD("at", am_splice, at, AM_INT, 0, 0),
	AM_FIELD("remove", am_splice, remove, AM_INT, AM_OMIT, 0),
	AM_FIELD("insert", am_splice, insert, AM_OBJECTS, AM_OMIT, &am_type_message),
};
static const am_type am_type_splice = {am_fields_splice, 3, sizeof(am_splice), AM_FORM_FIELDS, 0};

static const am_type am_type_list_patch = {0, 0, sizeof(am_list_patch), AM_FORM_LIST_PATCH, 0};

static const am_field am_fields_before_agent_answer[] = {
	AM_FIELD("stop", am_before_agent_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_before_agent_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("instruction", am_before_agent_answer, instruction, AM_TEXT, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("tools", am_before_agent_answer, tools, AM_OBJECT, AM_OMIT, &am_type_tools_patch),
	AM_FIELD("return_directly", am_before_agent_answer, return_directly, AM_TEXTS, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("messages", am_before_agent_answer, messages, AM_OBJECT, AM_OMIT, &am_type_list_patch),
	AM_FIELD("respond", am_before_agent_answer, respond, AM_REF, AM_OMIT, &am_type_message),
};
static const am_type am_type_before_agent_answer = {am_fields_before_agent_answer, 7, sizeof(am_before_agent_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_state_tool[] = {
	AM_FIELD("name", am_state_tool, name, AM_TEXT, 0, 0),
	AM_FIELD("description", am_state_tool, description, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("parameters", am_state_tool, parameters, AM_RAW, AM_OMIT, 0),
	AM_FIELD("owner", am_state_tool, owner, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("idempotent", am_state_tool, idempotent, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("active", am_state_tool, active, AM_BOOL, 0, 0),
};
static const am_type am_type_state_tool = {am_fields_state_tool, 6, sizeof(am_state_tool), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_model_rewrite_state_input[] = {
	AM_FIELD("run", am_before_model_rewrite_state_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_before_model_rewrite_state_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_before_model_rewrite_state_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("messages", am_before_model_rewrite_state_input, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("tools", am_before_model_rewrite_state_input, tools, AM_OBJECTS, 0, &am_type_state_tool),
	AM_FIELD("model", am_before_model_rewrite_state_input, model, AM_TEXT, 0, 0),
	AM_FIELD("params", am_before_model_rewrite_state_input, params, AM_MEMBERS, AM_OMIT, 0),
};
static const am_type am_type_before_model_rewrite_state_input = {am_fields_before_model_rewrite_state_input, 7, sizeof(am_before_model_rewrite_state_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_model_rewrite_state_answer[] = {
	AM_FIELD("stop", am_before_model_rewrite_state_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_before_model_rewrite_state_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("messages", am_before_model_rewrite_state_answer, messages, AM_OBJECT, AM_OMIT, &am_type_list_patch),
	AM_FIELD("active", am_before_model_rewrite_state_answer, active, AM_TEXTS, AM_OMIT | AM_OPTIONAL, 0),
};
static const am_type am_type_before_model_rewrite_state_answer = {am_fields_before_model_rewrite_state_answer, 4, sizeof(am_before_model_rewrite_state_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_request[] = {
	AM_FIELD("messages", am_request, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("tools", am_request, tools, AM_OBJECTS, 0, &am_type_tool),
	AM_FIELD("model", am_request, model, AM_TEXT, 0, 0),
	AM_FIELD("params", am_request, params, AM_MEMBERS, AM_OMIT, 0),
	AM_FIELD("stream", am_request, stream, AM_BOOL, AM_OMIT, 0),
};
static const am_type am_type_request = {am_fields_request, 5, sizeof(am_request), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_model_input[] = {
	AM_FIELD("run", am_before_model_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_before_model_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_before_model_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("request", am_before_model_input, request, AM_OBJECT, 0, &am_type_request),
};
static const am_type am_type_before_model_input = {am_fields_before_model_input, 4, sizeof(am_before_model_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_request_patch[] = {
	AM_FIELD("messages", am_request_patch, messages, AM_OBJECT, AM_OMIT, &am_type_list_patch),
	AM_FIELD("tools", am_request_patch, tools, AM_OBJECT, AM_OMIT, &am_type_tools_patch),
	AM_FIELD("model", am_request_patch, model, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("params", am_request_patch, params, AM_MEMBERS, AM_OMIT, 0),
};
static const am_type am_type_request_patch = {am_fields_request_patch, 4, sizeof(am_request_patch), AM_FORM_FIELDS, 0};

static const am_field am_fields_response[] = {
	AM_FIELD("message", am_response, message, AM_OBJECT, 0, &am_type_message),
	AM_FIELD("finish_reason", am_response, finish_reason, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("usage", am_response, usage, AM_REF, AM_OMIT, &am_type_usage),
};
static const am_type am_type_response = {am_fields_response, 3, sizeof(am_response), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_model_answer[] = {
	AM_FIELD("stop", am_before_model_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_before_model_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("request", am_before_model_answer, request, AM_OBJECT, AM_OMIT, &am_type_request_patch),
	AM_FIELD("response", am_before_model_answer, response, AM_REF, AM_OMIT, &am_type_response),
};
static const am_type am_type_before_model_answer = {am_fields_before_model_answer, 4, sizeof(am_before_model_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_wrap_model_input[] = {
	AM_FIELD("run", am_wrap_model_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_wrap_model_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_wrap_model_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("request", am_wrap_model_input, request, AM_OBJECT, 0, &am_type_request),
};
static const am_type am_type_wrap_model_input = {am_fields_wrap_model_input, 4, sizeof(am_wrap_model_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_wrap_model_answer[] = {
	AM_FIELD("stop", am_wrap_model_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_wrap_model_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("response", am_wrap_model_answer, response, AM_REF, AM_OMIT, &am_type_response),
};
static const am_type am_type_wrap_model_answer = {am_fields_wrap_model_answer, 3, sizeof(am_wrap_model_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_chunk[] = {
	AM_FIELD("seq", am_chunk, seq, AM_LONG, 0, 0),
	AM_FIELD("kind", am_chunk, kind, AM_TEXT, 0, 0),
	AM_FIELD("text", am_chunk, text, AM_TEXT, 0, 0),
	AM_FIELD("index", am_chunk, index, AM_INT, 0, 0),
	AM_FIELD("id", am_chunk, id, AM_TEXT, 0, 0),
	AM_FIELD("name", am_chunk, name, AM_TEXT, 0, 0),
	AM_FIELD("arguments", am_chunk, arguments, AM_TEXT, 0, 0),
	AM_FIELD("call_id", am_chunk, call_id, AM_TEXT, 0, 0),
	AM_FIELD("part", am_chunk, part, AM_REF, 0, &am_type_part),
};
static const am_type am_type_chunk = {am_fields_chunk, 9, sizeof(am_chunk), AM_FORM_CHUNK, 0};

static const am_field am_fields_on_chunk_input[] = {
	AM_FIELD("run", am_on_chunk_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_on_chunk_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_on_chunk_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("chunks", am_on_chunk_input, chunks, AM_OBJECTS, 0, &am_type_chunk),
	AM_FIELD("stream", am_on_chunk_input, stream, AM_LONG, AM_OMIT, 0),
	AM_FIELD("final", am_on_chunk_input, final, AM_BOOL, 0, 0),
};
static const am_type am_type_on_chunk_input = {am_fields_on_chunk_input, 6, sizeof(am_on_chunk_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_on_chunk_answer[] = {
	AM_FIELD("stop", am_on_chunk_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_on_chunk_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("chunks", am_on_chunk_answer, chunks, AM_OBJECTS, AM_OMIT | AM_OPTIONAL, &am_type_chunk),
};
static const am_type am_type_on_chunk_answer = {am_fields_on_chunk_answer, 3, sizeof(am_on_chunk_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_error[] = {
	AM_FIELD("code", am_error, code, AM_TEXT, 0, 0),
	AM_FIELD("message", am_error, message, AM_TEXT, 0, 0),
	AM_FIELD("retryable", am_error, retryable, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("status", am_error, status, AM_INT, AM_OMIT, 0),
	AM_FIELD("retry_after_ms", am_error, retry_after_ms, AM_LONG, AM_OMIT, 0),
};
static const am_type am_type_error = {am_fields_error, 5, sizeof(am_error), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_model_input[] = {
	AM_FIELD("run", am_after_model_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_after_model_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_after_model_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("request", am_after_model_input, request, AM_OBJECT, 0, &am_type_request),
	AM_FIELD("response", am_after_model_input, response, AM_REF, AM_OMIT, &am_type_response),
	AM_FIELD("error", am_after_model_input, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("source", am_after_model_input, source, AM_TEXT, 0, 0),
};
static const am_type am_type_after_model_input = {am_fields_after_model_input, 7, sizeof(am_after_model_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_model_again[] = {
	AM_FIELD("request", am_model_again, request, AM_OBJECT, AM_OMIT, &am_type_request_patch),
	AM_FIELD("reason", am_model_again, reason, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_model_again = {am_fields_model_again, 2, sizeof(am_model_again), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_model_answer[] = {
	AM_FIELD("stop", am_after_model_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_after_model_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("response", am_after_model_answer, response, AM_REF, AM_OMIT, &am_type_response),
	AM_FIELD("error", am_after_model_answer, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("again", am_after_model_answer, again, AM_REF, AM_OMIT, &am_type_model_again),
};
static const am_type am_type_after_model_answer = {am_fields_after_model_answer, 5, sizeof(am_after_model_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_model_rewrite_state_input[] = {
	AM_FIELD("run", am_after_model_rewrite_state_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_after_model_rewrite_state_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_after_model_rewrite_state_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("messages", am_after_model_rewrite_state_input, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("tools", am_after_model_rewrite_state_input, tools, AM_OBJECTS, 0, &am_type_state_tool),
};
static const am_type am_type_after_model_rewrite_state_input = {am_fields_after_model_rewrite_state_input, 5, sizeof(am_after_model_rewrite_state_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_model_rewrite_state_answer[] = {
	AM_FIELD("stop", am_after_model_rewrite_state_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_after_model_rewrite_state_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("messages", am_after_model_rewrite_state_answer, messages, AM_OBJECT, AM_OMIT, &am_type_list_patch),
};
static const am_type am_type_after_model_rewrite_state_answer = {am_fields_after_model_rewrite_state_answer, 3, sizeof(am_after_model_rewrite_state_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_by[] = {
	AM_FIELD("entry", am_by, entry, AM_TEXT, 0, 0),
	AM_FIELD("hook", am_by, hook, AM_TEXT, 0, 0),
	AM_FIELD("call", am_by, call, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_by = {am_fields_by, 3, sizeof(am_by), AM_FORM_FIELDS, 0};

static const am_field am_fields_call[] = {
	AM_FIELD("id", am_call, id, AM_TEXT, 0, 0),
	AM_FIELD("name", am_call, name, AM_TEXT, 0, 0),
	AM_FIELD("arguments", am_call, arguments, AM_TEXT, 0, 0),
	AM_FIELD("owner", am_call, owner, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("idempotent", am_call, idempotent, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("original_arguments", am_call, original_arguments, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("by", am_call, by, AM_REF, AM_OMIT, &am_type_by),
};
static const am_type am_type_call = {am_fields_call, 7, sizeof(am_call), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_tool_input[] = {
	AM_FIELD("run", am_before_tool_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_before_tool_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_before_tool_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_before_tool_input, call, AM_OBJECT, 0, &am_type_call),
	AM_FIELD("tool", am_before_tool_input, tool, AM_OBJECT, 0, &am_type_tool),
	AM_FIELD("stream", am_before_tool_input, stream, AM_BOOL, AM_OMIT, 0),
};
static const am_type am_type_before_tool_input = {am_fields_before_tool_input, 6, sizeof(am_before_tool_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_result[] = {
	AM_FIELD("content", am_result, content, AM_OBJECT, 0, &am_type_content),
	AM_FIELD("is_error", am_result, is_error, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("extra", am_result, extra, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_result = {am_fields_result, 3, sizeof(am_result), AM_FORM_FIELDS, 0};

static const am_field am_fields_before_tool_answer[] = {
	AM_FIELD("stop", am_before_tool_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_before_tool_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("arguments", am_before_tool_answer, arguments, AM_TEXT, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("result", am_before_tool_answer, result, AM_REF, AM_OMIT, &am_type_result),
};
static const am_type am_type_before_tool_answer = {am_fields_before_tool_answer, 4, sizeof(am_before_tool_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_wrap_tool_call_input[] = {
	AM_FIELD("run", am_wrap_tool_call_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_wrap_tool_call_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_wrap_tool_call_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_wrap_tool_call_input, call, AM_OBJECT, 0, &am_type_call),
	AM_FIELD("tool", am_wrap_tool_call_input, tool, AM_OBJECT, 0, &am_type_tool),
	AM_FIELD("stream", am_wrap_tool_call_input, stream, AM_BOOL, AM_OMIT, 0),
};
static const am_type am_type_wrap_tool_call_input = {am_fields_wrap_tool_call_input, 6, sizeof(am_wrap_tool_call_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_wrap_tool_call_answer[] = {
	AM_FIELD("stop", am_wrap_tool_call_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_wrap_tool_call_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("result", am_wrap_tool_call_answer, result, AM_REF, AM_OMIT, &am_type_result),
};
static const am_type am_type_wrap_tool_call_answer = {am_fields_wrap_tool_call_answer, 3, sizeof(am_wrap_tool_call_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_gate_tool_input[] = {
	AM_FIELD("run", am_gate_tool_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_gate_tool_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_gate_tool_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_gate_tool_input, call, AM_OBJECT, 0, &am_type_call),
	AM_FIELD("tool", am_gate_tool_input, tool, AM_OBJECT, 0, &am_type_tool),
};
static const am_type am_type_gate_tool_input = {am_fields_gate_tool_input, 5, sizeof(am_gate_tool_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_gate_tool_answer[] = {
	AM_FIELD("stop", am_gate_tool_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_gate_tool_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("decision", am_gate_tool_answer, decision, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("message", am_gate_tool_answer, message, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("payload", am_gate_tool_answer, payload, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_gate_tool_answer = {am_fields_gate_tool_answer, 5, sizeof(am_gate_tool_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_call_tool_input[] = {
	AM_FIELD("run", am_call_tool_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_call_tool_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_call_tool_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_call_tool_input, call, AM_OBJECT, 0, &am_type_call),
};
static const am_type am_type_call_tool_input = {am_fields_call_tool_input, 4, sizeof(am_call_tool_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_call_tool_answer[] = {
	AM_FIELD("stop", am_call_tool_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_call_tool_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("result", am_call_tool_answer, result, AM_REF, AM_OMIT, &am_type_result),
};
static const am_type am_type_call_tool_answer = {am_fields_call_tool_answer, 3, sizeof(am_call_tool_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_tool_input[] = {
	AM_FIELD("run", am_after_tool_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_after_tool_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_after_tool_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_after_tool_input, call, AM_OBJECT, 0, &am_type_call),
	AM_FIELD("tool", am_after_tool_input, tool, AM_OBJECT, 0, &am_type_tool),
	AM_FIELD("result", am_after_tool_input, result, AM_REF, AM_OMIT, &am_type_result),
	AM_FIELD("error", am_after_tool_input, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("source", am_after_tool_input, source, AM_TEXT, 0, 0),
};
static const am_type am_type_after_tool_input = {am_fields_after_tool_input, 8, sizeof(am_after_tool_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_again[] = {
	AM_FIELD("arguments", am_tool_again, arguments, AM_TEXT, AM_OMIT | AM_OPTIONAL, 0),
	AM_FIELD("reason", am_tool_again, reason, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_tool_again = {am_fields_tool_again, 2, sizeof(am_tool_again), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_tool_answer[] = {
	AM_FIELD("stop", am_after_tool_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_after_tool_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("result", am_after_tool_answer, result, AM_REF, AM_OMIT, &am_type_result),
	AM_FIELD("error", am_after_tool_answer, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("again", am_after_tool_answer, again, AM_REF, AM_OMIT, &am_type_tool_again),
};
static const am_type am_type_after_tool_answer = {am_fields_after_tool_answer, 5, sizeof(am_after_tool_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_messages_input[] = {
	AM_FIELD("run", am_tool_messages_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_tool_messages_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_tool_messages_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("call", am_tool_messages_input, call, AM_OBJECT, 0, &am_type_call),
	AM_FIELD("tool", am_tool_messages_input, tool, AM_OBJECT, 0, &am_type_tool),
	AM_FIELD("result", am_tool_messages_input, result, AM_OBJECT, 0, &am_type_result),
	AM_FIELD("default", am_tool_messages_input, default_, AM_OBJECT, 0, &am_type_message),
};
static const am_type am_type_tool_messages_input = {am_fields_tool_messages_input, 7, sizeof(am_tool_messages_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_messages_answer[] = {
	AM_FIELD("messages", am_tool_messages_answer, messages, AM_OBJECTS, AM_OMIT, &am_type_message),
};
static const am_type am_type_tool_messages_answer = {am_fields_tool_messages_answer, 1, sizeof(am_tool_messages_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_tools_input[] = {
	AM_FIELD("run", am_after_tools_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_after_tools_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_after_tools_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("messages", am_after_tools_input, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("calls", am_after_tools_input, calls, AM_OBJECTS, 0, &am_type_call),
};
static const am_type am_type_after_tools_input = {am_fields_after_tools_input, 5, sizeof(am_after_tools_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_tools_answer[] = {
	AM_FIELD("stop", am_after_tools_answer, stop, AM_REF, AM_OMIT, &am_type_stop),
	AM_FIELD("interrupt", am_after_tools_answer, interrupt, AM_REF, AM_OMIT, &am_type_interrupt),
	AM_FIELD("messages", am_after_tools_answer, messages, AM_OBJECT, AM_OMIT, &am_type_list_patch),
};
static const am_type am_type_after_tools_answer = {am_fields_after_tools_answer, 3, sizeof(am_after_tools_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_agent_input[] = {
	AM_FIELD("run", am_after_agent_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_after_agent_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_after_agent_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("messages", am_after_agent_input, messages, AM_OBJECT, 0, &am_type_list),
	AM_FIELD("new_from", am_after_agent_input, new_from, AM_INT, 0, 0),
	AM_FIELD("final", am_after_agent_input, final, AM_REF, AM_OMIT, &am_type_message),
	AM_FIELD("error", am_after_agent_input, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("finish_reason", am_after_agent_input, finish_reason, AM_TEXT, 0, 0),
	AM_FIELD("usage", am_after_agent_input, usage, AM_OBJECT, 0, &am_type_usage),
};
static const am_type am_type_after_agent_input = {am_fields_after_agent_input, 9, sizeof(am_after_agent_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_after_agent_answer[] = {
	AM_FIELD("final", am_after_agent_answer, final, AM_REF, AM_OMIT, &am_type_message),
};
static const am_type am_type_after_agent_answer = {am_fields_after_agent_answer, 1, sizeof(am_after_agent_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_entry_stats[] = {
	AM_FIELD("entry", am_entry_stats, entry, AM_TEXT, 0, 0),
	AM_FIELD("agent", am_entry_stats, agent, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("digest", am_entry_stats, digest, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("hooks", am_entry_stats, hooks, AM_MEMBERS, AM_OMIT, 0),
	AM_FIELD("calls", am_entry_stats, calls, AM_LONG, 0, 0),
	AM_FIELD("faults", am_entry_stats, faults, AM_LONG, AM_OMIT, 0),
	AM_FIELD("wall_us", am_entry_stats, wall_us, AM_LONG, 0, 0),
	AM_FIELD("bytes_in", am_entry_stats, bytes_in, AM_LONG, 0, 0),
	AM_FIELD("bytes_out", am_entry_stats, bytes_out, AM_LONG, 0, 0),
	AM_FIELD("fuel", am_entry_stats, fuel, AM_LONG, 0, 0),
	AM_FIELD("instances", am_entry_stats, instances, AM_LONG, AM_OMIT, 0),
	AM_FIELD("model_calls", am_entry_stats, model_calls, AM_LONG, AM_OMIT, 0),
	AM_FIELD("tool_calls", am_entry_stats, tool_calls, AM_LONG, AM_OMIT, 0),
};
static const am_type am_type_entry_stats = {am_fields_entry_stats, 13, sizeof(am_entry_stats), AM_FORM_FIELDS, 0};

static const am_field am_fields_ask[] = {
	AM_FIELD("entry", am_ask, entry, AM_TEXT, 0, 0),
	AM_FIELD("reason", am_ask, reason, AM_TEXT, 0, 0),
	AM_FIELD("payload", am_ask, payload, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_ask = {am_fields_ask, 3, sizeof(am_ask), AM_FORM_FIELDS, 0};

static const am_field am_fields_pending[] = {
	AM_FIELD("id", am_pending, id, AM_TEXT, 0, 0),
	AM_FIELD("run", am_pending, run, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("agent", am_pending, agent, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("entry", am_pending, entry, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("hook", am_pending, hook, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("reason", am_pending, reason, AM_TEXT, 0, 0),
	AM_FIELD("payload", am_pending, payload, AM_RAW, AM_OMIT, 0),
	AM_FIELD("call", am_pending, call, AM_REF, AM_OMIT, &am_type_call),
	AM_FIELD("asks", am_pending, asks, AM_OBJECTS, AM_OMIT, &am_type_ask),
};
static const am_type am_type_pending = {am_fields_pending, 9, sizeof(am_pending), AM_FORM_FIELDS, 0};

static const am_field am_fields_event[] = {
	AM_FIELD("type", am_event, type, AM_TEXT, 0, 0),
	AM_FIELD("seq", am_event, seq, AM_LONG, 0, 0),
	AM_FIELD("run", am_event, run, AM_TEXT, 0, 0),
	AM_FIELD("time_ms", am_event, time_ms, AM_LONG, 0, 0),
	AM_FIELD("step", am_event, step, AM_INT, AM_OMIT, 0),
	AM_FIELD("step_id", am_event, step_id, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("agent", am_event, agent, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("model", am_event, model, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("parent", am_event, parent, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("from", am_event, from, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("event", am_event, event, AM_REF, AM_OMIT, &am_type_event),
	AM_FIELD("attempt", am_event, attempt, AM_INT, AM_OMIT, 0),
	AM_FIELD("next", am_event, next, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("delay_ms", am_event, delay_ms, AM_LONG, AM_OMIT, 0),
	AM_FIELD("chunk", am_event, chunk, AM_REF, AM_OMIT, &am_type_chunk),
	AM_FIELD("message", am_event, message, AM_REF, AM_OMIT, &am_type_message),
	AM_FIELD("replaced", am_event, replaced, AM_BOOL, AM_OMIT, 0),
	AM_FIELD("call", am_event, call, AM_REF, AM_OMIT, &am_type_call),
	AM_FIELD("result", am_event, result, AM_REF, AM_OMIT, &am_type_result),
	AM_FIELD("source", am_event, source, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("entry", am_event, entry, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("hook", am_event, hook, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("name", am_event, name, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("data", am_event, data, AM_RAW, AM_OMIT, 0),
	AM_FIELD("level", am_event, level, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("text", am_event, text, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("digest", am_event, digest, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("stage", am_event, stage, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("cause", am_event, cause, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("limit", am_event, limit, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("value", am_event, value, AM_LONG, AM_OMIT, 0),
	AM_FIELD("action", am_event, action, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("stderr", am_event, stderr, AM_TEXTS, AM_OMIT, 0),
	AM_FIELD("finish_reason", am_event, finish_reason, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("usage", am_event, usage, AM_REF, AM_OMIT, &am_type_usage),
	AM_FIELD("error", am_event, error, AM_REF, AM_OMIT, &am_type_error),
	AM_FIELD("stopped_by", am_event, stopped_by, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("reason", am_event, reason, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("stop_code", am_event, stop_code, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("entries", am_event, entries, AM_OBJECTS, AM_OMIT, &am_type_entry_stats),
	AM_FIELD("interrupts", am_event, interrupts, AM_OBJECTS, AM_OMIT, &am_type_pending),
	AM_FIELD("expires_ms", am_event, expires_ms, AM_LONG, AM_OMIT, 0),
	AM_FIELD("resume", am_event, resume, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_event = {am_fields_event, 43, sizeof(am_event), AM_FORM_FIELDS, 0};

static const am_field am_fields_observe_input[] = {
	AM_FIELD("run", am_observe_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_observe_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_observe_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("events", am_observe_input, events, AM_OBJECTS, 0, &am_type_event),
};
static const am_type am_type_observe_input = {am_fields_observe_input, 4, sizeof(am_observe_input), AM_FORM_FIELDS, 0};

static const am_type am_type_observe_answer = {0, 0, sizeof(am_observe_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_translate_input[] = {
	AM_FIELD("run", am_translate_input, run, AM_OBJECT, 0, &am_type_run),
	AM_FIELD("entry", am_translate_input, entry, AM_TEXT, 0, 0),
	AM_FIELD("resume", am_translate_input, resume, AM_REF, AM_OMIT, &am_type_resume),
	AM_FIELD("event", am_translate_input, event, AM_RAW, 0, 0),
	AM_FIELD("protocol", am_translate_input, protocol, AM_TEXT, 0, 0),
};
static const am_type am_type_translate_input = {am_fields_translate_input, 5, sizeof(am_translate_input), AM_FORM_FIELDS, 0};

static const am_field am_fields_translate_answer[] = {
	AM_FIELD("event", am_translate_answer, event, AM_RAW, AM_OMIT, 0),
	AM_FIELD("drop", am_translate_answer, drop, AM_BOOL, AM_OMIT, 0),
};
static const am_type am_type_translate_answer = {am_fields_translate_answer, 2, sizeof(am_translate_answer), AM_FORM_FIELDS, 0};

static const am_field am_fields_model_reply[] = {
	AM_FIELD("response", am_model_reply, response, AM_REF, 0, &am_type_response),
};
static const am_type am_type_model_reply = {am_fields_model_reply, 1, sizeof(am_model_reply), AM_FORM_FIELDS, 0};

static const am_field am_fields_call_patch[] = {
	AM_FIELD("arguments", am_call_patch, arguments, AM_TEXT, AM_OMIT | AM_OPTIONAL, 0),
};
static const am_type am_type_call_patch = {am_fields_call_patch, 1, sizeof(am_call_patch), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_reply[] = {
	AM_FIELD("result", am_tool_reply, result, AM_REF, 0, &am_type_result),
};
static const am_type am_type_tool_reply = {am_fields_tool_reply, 1, sizeof(am_tool_reply), AM_FORM_FIELDS, 0};

static const am_field am_fields_tool_request[] = {
	AM_FIELD("name", am_tool_request, name, AM_TEXT, 0, 0),
	AM_FIELD("arguments", am_tool_request, arguments, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_tool_request = {am_fields_tool_request, 2, sizeof(am_tool_request), AM_FORM_FIELDS, 0};

static const am_field am_fields_http_header[] = {
	AM_FIELD("name", am_http_header, name, AM_TEXT, 0, 0),
	AM_FIELD("value", am_http_header, value, AM_TEXT, 0, 0),
};
static const am_type am_type_http_header = {am_fields_http_header, 2, sizeof(am_http_header), AM_FORM_FIELDS, 0};

static const am_field am_fields_http_request[] = {
	AM_FIELD("method", am_http_request, method, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("url", am_http_request, url, AM_TEXT, 0, 0),
	AM_FIELD("headers", am_http_request, headers, AM_OBJECTS, AM_OMIT, &am_type_http_header),
	AM_FIELD("body", am_http_request, body, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("body_base64", am_http_request, body_base64, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("timeout_ms", am_http_request, timeout_ms, AM_LONG, AM_OMIT, 0),
};
static const am_type am_type_http_request = {am_fields_http_request, 6, sizeof(am_http_request), AM_FORM_FIELDS, 0};

static const am_field am_fields_http_response[] = {
	AM_FIELD("status", am_http_response, status, AM_INT, 0, 0),
	AM_FIELD("url", am_http_response, url, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("headers", am_http_response, headers, AM_OBJECTS, AM_OMIT, &am_type_http_header),
	AM_FIELD("body", am_http_response, body, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("body_base64", am_http_response, body_base64, AM_TEXT, AM_OMIT, 0),
};
static const am_type am_type_http_response = {am_fields_http_response, 5, sizeof(am_http_response), AM_FORM_FIELDS, 0};

static const am_field am_fields_sent[] = {
	AM_FIELD("chunks", am_sent, chunks, AM_OBJECTS, 0, &am_type_chunk),
};
static const am_type am_type_sent = {am_fields_sent, 1, sizeof(am_sent), AM_FORM_FIELDS, 0};

static const am_field am_fields_stream_end[] = {
	AM_FIELD("response", am_stream_end, response, AM_REF, AM_OMIT, &am_type_response),
	AM_FIELD("result", am_stream_end, result, AM_REF, AM_OMIT, &am_type_result),
};
static const am_type am_type_stream_end = {am_fields_stream_end, 2, sizeof(am_stream_end), AM_FORM_FIELDS, 0};

static const am_field am_fields_received[] = {
	AM_FIELD("chunks", am_received, chunks, AM_OBJECTS, AM_OMIT, &am_type_chunk),
	AM_FIELD("end", am_received, end, AM_REF, AM_OMIT, &am_type_stream_end),
};
static const am_type am_type_received = {am_fields_received, 2, sizeof(am_received), AM_FORM_FIELDS, 0};

static const am_field am_fields_local_value[] = {
	AM_FIELD("value", am_local_value, value, AM_RAW, 0, 0),
	AM_FIELD("version", am_local_value, version, AM_LONG, 0, 0),
};
static const am_type am_type_local_value = {am_fields_local_value, 2, sizeof(am_local_value), AM_FORM_FIELDS, 0};

static const am_field am_fields_local_version[] = {
	AM_FIELD("version", am_local_version, version, AM_LONG, 0, 0),
};
static const am_type am_type_local_version = {am_fields_local_version, 1, sizeof(am_local_version), AM_FORM_FIELDS, 0};

static const am_field am_fields_custom[] = {
	AM_FIELD("name", am_custom, name, AM_TEXT, 0, 0),
	AM_FIELD("data", am_custom, data, AM_RAW, AM_OMIT, 0),
};
static const am_type am_type_custom = {am_fields_custom, 2, sizeof(am_custom), AM_FORM_FIELDS, 0};

static const am_field am_fields_approval[] = {
	AM_FIELD("decision", am_approval, decision, AM_TEXT, 0, 0),
	AM_FIELD("message", am_approval, message, AM_TEXT, AM_OMIT, 0),
	AM_FIELD("arguments", am_approval, arguments, AM_TEXT, AM_OMIT | AM_OPTIONAL, 0),
};
static const am_type am_type_approval = {am_fields_approval, 3, sizeof(am_approval), AM_FORM_FIELDS, 0};

typedef struct { char nothing; } am_describe_input;
static const am_type am_type_describe_input = {0, 0, sizeof(am_describe_input), AM_FORM_FIELDS, 0};
typedef am_description am_describe_answer;
#define am_type_describe_answer am_type_description
typedef am_translate_input am_translate_before_input;
#define am_type_translate_before_input am_type_translate_input
typedef am_translate_answer am_translate_before_answer;
#define am_type_translate_before_answer am_type_translate_answer
typedef am_translate_input am_translate_after_input;
#define am_type_translate_after_input am_type_translate_input
typedef am_translate_answer am_translate_after_answer;
#define am_type_translate_after_answer am_type_translate_answer

/* AM_EACH_HOOK applies a macro to the name of each hook. */
#define AM_EACH_HOOK(X) \
	X(describe) \
	X(configure) \
	X(before_agent) \
	X(before_model_rewrite_state) \
	X(before_model) \
	X(wrap_model) \
	X(on_chunk) \
	X(after_model) \
	X(after_model_rewrite_state) \
	X(before_tool) \
	X(wrap_tool_call) \
	X(gate_tool) \
	X(call_tool) \
	X(after_tool) \
	X(tool_messages) \
	X(after_tools) \
	X(after_agent) \
	X(observe) \
	X(translate_before) \
	X(translate_after)

/* ---- end of generated code ---- */

/* ---- reading JSON ---- */

enum { AM_DEPTH = 64 };

typedef struct {
	const char *p, *from, *end;
	int32_t depth;
	const char *wrong; /* the error message, or 0 */
} am_reader;

AM_SMALL void am_wrong(am_reader *r, const char *why) {
	if (r->wrong == 0) r->wrong = why;
	r->end = r->p; /* stop reading */
}

AM_SMALL int am_peek_behind(am_reader *r) {
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
	return r->p < r->end ? (unsigned char)*r->p : -1;
}

/* am_peek returns the next byte after white space, or -1. The host writes no white space. */
AM_FN __attribute__((always_inline)) int am_peek(am_reader *r) {
	return r->p < r->end && (unsigned char)*r->p > ' ' ? (unsigned char)*r->p : am_peek_behind(r);
}

AM_SMALL bool am_take(am_reader *r, int c) {
	if (am_peek(r) != c) return false;
	r->p++;
	return true;
}

AM_FN bool am_take_word(am_reader *r, am_str word) {
	if (r->end - r->p < word.n || memcmp(r->p, word.p, (size_t)word.n) != 0) {
		am_wrong(r, "invalid JSON value");
		return false;
	}
	r->p += word.n;
	return true;
}

AM_FN int32_t am_hex4(const char *p) {
	int32_t v = 0;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int32_t d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
		if (d < 0) return -1;
		v = v << 4 | d;
	}
	return v;
}

AM_FN char *am_utf8(char *to, uint32_t c) {
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 63));
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	}
	return to;
}

/* am_unescape decodes an escape after its backslash. Half of a surrogate pair becomes the
 * replacement character. */
AM_FN char *am_unescape(am_reader *r, const char **at, const char *end, char *to) {
	static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *p = *at;
	for (int i = 0; i < 8; i++)
		if (*p == names[i]) {
			*at = p + 1;
			*to++ = means[i];
			return to;
		}
	int32_t c = *p == 'u' && end - p >= 5 ? am_hex4(p + 1) : -1;
	if (c < 0) {
		am_wrong(r, "invalid escape in a string");
		return to;
	}
	p += 5;
	if (c >= 0xd800 && c < 0xe000) {
		int32_t low = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? am_hex4(p + 2) : -1;
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			p += 6;
		} else {
			c = 0xfffd;
		}
	}
	*at = p;
	return am_utf8(to, (uint32_t)c);
}

/* am_string skips a string and reports whether it contains escapes. The text between its
 * quotes ends one byte before the reader's new position. */
AM_SMALL bool am_string(am_reader *r) {
	const char *p = r->p, *end = r->end;
	bool escaped = false;
	if (am_peek(r) != '"') {
		am_wrong(r, "want a string");
		return false;
	}
	for (p = r->p + 1; p < end;) {
		if (end - p >= 16) {
			uint64_t found = am_specials(am_word(p));
			if (found == 0) {
				p += 8;
				found = am_specials(am_word(p));
				if (found == 0) {
					p += 8;
					continue;
				}
			}
			p += am_first(found);
		}
		if (*p == '"') {
			r->p = p + 1;
			return escaped;
		}
		if ((unsigned char)*p < ' ') break;
		if (*p == '\\') {
			escaped = true;
			p++;
		}
		p++;
	}
	r->p = p < end ? p : end;
	am_wrong(r, "unterminated string");
	return false;
}

/* am_unescaped returns the decoded text of a string. */
AM_SMALL am_str am_unescaped(am_reader *r, const char *p, const char *end) {
	char *out = am_alloc((size_t)(end - p)), *to = out;
	while (p < end && r->wrong == 0) {
		if (end - p >= 8) { /* the decoded text is never longer than the encoded text */
			uint64_t word = am_word(p), found = am_zeros(word ^ AM_EACH('\\'));
			int32_t n = found == 0 ? 8 : am_first(found);
			am_set_word(to, word);
			p += n;
			to += n;
			if (n == 8) continue;
		}
		if (*p != '\\') {
			*to++ = *p++;
		} else if (end - p >= 2 && (p[1] == '"' || p[1] == '\\' || p[1] == 'n')) {
			*to++ = p[1] == 'n' ? '\n' : p[1];
			p += 2;
		} else {
			p++;
			to = am_unescape(r, &p, end, to);
		}
	}
	return (am_str){out, (int32_t)(to - out)};
}

/* am_read_text reads a string. Without escapes, the result is a part of the input. */
AM_SMALL am_str am_read_text(am_reader *r) {
	am_peek(r);
	const char *from = r->p + 1;
	bool escaped = am_string(r);
	if (r->wrong != 0) return (am_str){"", 0};
	if (escaped) return am_unescaped(r, from, r->p - 1);
	return (am_str){from, (int32_t)(r->p - 1 - from)};
}

/* am_read_number skips a number and returns its text. */
AM_FN am_str am_read_number(am_reader *r) {
	const char *from = r->p;
	if (r->p < r->end && *r->p == '-') r->p++;
#define AM_DIGITS() while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++
	const char *digits = r->p;
	AM_DIGITS();
	bool ok = r->p > digits && (r->p == digits + 1 || *digits != '0');
	if (r->p < r->end && *r->p == '.') {
		digits = ++r->p;
		AM_DIGITS();
		ok = ok && r->p > digits;
	}
	if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
		r->p++;
		if (r->p < r->end && (*r->p == '-' || *r->p == '+')) r->p++;
		digits = r->p;
		AM_DIGITS();
		ok = ok && r->p > digits;
	}
#undef AM_DIGITS
	if (!ok) am_wrong(r, "invalid JSON value");
	return (am_str){from, (int32_t)(r->p - from)};
}

/* am_whole converts an integer literal. A value out of range becomes the nearest valid one. */
AM_FN bool am_whole(am_str literal, int64_t *out) {
	uint64_t v = 0;
	bool negative = literal.n > 0 && literal.p[0] == '-';
	if (literal.n == (negative ? 1 : 0)) return false;
	for (int32_t i = negative ? 1 : 0; i < literal.n; i++) {
		if (literal.p[i] < '0' || literal.p[i] > '9') return false;
		uint64_t d = (uint64_t)(literal.p[i] - '0');
		v = v > (INT64_MAX - d) / 10 ? INT64_MAX : v * 10 + d;
	}
	*out = negative ? -(int64_t)v : (int64_t)v;
	return true;
}

/* am_read_whole reads an integer. */
AM_SMALL int64_t am_read_whole(am_reader *r) {
	const char *p = r->p, *most = r->end - p > 18 ? p + 18 : r->end;
	int64_t v = 0;
	for (unsigned d; p < most && (d = (unsigned)(*p - '0')) < 10; p++) v = v * 10 + d;
	if (p > r->p && p < most && (*p == ',' || *p == '}') && (p == r->p + 1 || *r->p != '0')) {
		r->p = p;
		return v;
	}
	if (!am_whole(am_read_number(r), &v)) am_wrong(r, "want an integer");
	return v;
}

AM_SMALL bool am_enter(am_reader *r) {
	if (++r->depth > AM_DEPTH) am_wrong(r, "nested too deeply");
	r->p++;
	return r->wrong == 0;
}

/* am_items advances to the next item of a list or object, which ends with close. */
AM_SMALL bool am_items(am_reader *r, int close, bool first) {
	int c = am_peek(r);
	if (c == close) {
		r->p++;
		r->depth--;
		return false;
	}
	if (first) return r->wrong == 0;
	if (c == ',') r->p++; /* and a value, which close is not */
	else am_wrong(r, "want a comma");
	return c == ',';
}

AM_SMALL am_str am_read_key(am_reader *r) {
	am_str key = am_read_text(r);
	if (!am_take(r, ':')) am_wrong(r, "want a colon");
	am_peek(r);
	return key;
}

/* am_skip_text skips a string and validates its escapes. */
AM_SMALL void am_skip_text(am_reader *r) {
	am_peek(r);
	const char *p = r->p + 1;
	if (!am_string(r)) return;
	for (const char *end = r->p - 1; p < end; p++) {
		while (end - p >= 8 && am_zeros(am_word(p) ^ AM_EACH('\\')) == 0) p += 8;
		if (p == end || *p != '\\') continue;
		switch (*++p) {
		case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
			break;
		case 'u':
			if (end - p > 4 && am_hex4(p + 1) >= 0) break;
			/* fallthrough */
		default:
			am_wrong(r, "invalid escape in a string");
		}
	}
}

/* am_skip skips a value. */
AM_SMALL void am_skip(am_reader *r) {
	int c = am_peek(r);
	switch (c) {
	case '"':
		am_skip_text(r);
		return;
	case '{':
		if (!am_enter(r)) return;
		for (bool first = true; am_items(r, '}', first); first = false) {
			am_skip_text(r);
			if (!am_take(r, ':')) am_wrong(r, "want a colon");
			am_skip(r);
		}
		return;
	case '[':
		if (!am_enter(r)) return;
		for (bool first = true; am_items(r, ']', first); first = false) am_skip(r);
		return;
	case 't':
		am_take_word(r, AM_S("true"));
		return;
	case 'f':
		am_take_word(r, AM_S("false"));
		return;
	case 'n':
		am_take_word(r, AM_S("null"));
		return;
	default:
		am_read_number(r);
	}
}

AM_FN am_json am_read_raw(am_reader *r) {
	am_peek(r);
	const char *from = r->p;
	am_skip(r);
	return (am_json){from, (int32_t)(r->p - from)};
}

/* am_grow makes room for one more item of a list. */
AM_SMALL void *am_grow(void *items, int32_t len, int32_t size) {
	if ((len & (len - 1)) != 0 || (len != 0 && len < 4)) return items;
	void *more = am_alloc((size_t)(len < 4 ? 4 : len * 2) * (size_t)size);
	if (len > 0) memcpy(more, items, (size_t)len * (size_t)size);
	return more;
}

AM_FN void am_add_member(am_members *m, am_str key, am_json value) {
	m->items = am_grow(m->items, m->len, sizeof(am_member));
	m->items[m->len++] = (am_member){key, value};
}

typedef struct {
	char *items;
	int32_t len;
	bool set;
} am_any_list;

AM_FN void am_read_value(am_reader *r, const am_type *t, void *to);

AM_SMALL void am_read_list(am_reader *r, const am_type *t, am_any_list *list) {
	if (am_peek(r) != '[') return am_wrong(r, "want a list");
	*list = (am_any_list){0, 0, true};
	if (!am_enter(r)) return;
	int32_t size = t != 0 ? t->size : (int32_t)sizeof(am_str);
	for (bool first = true; am_items(r, ']', first); first = false) {
		list->items = am_grow(list->items, list->len, size);
		char *item = list->items + list->len++ * size;
		if (t != 0) am_read_value(r, t, item);
		else *(am_str *)item = am_read_text(r);
	}
}

AM_FN void am_read_field(am_reader *r, const am_field *f, char *to) {
	int c = am_peek(r);
	if (c == 'n' && f->kind != AM_RAW && f->kind != AM_OBJECT) {
		am_skip(r); /* null counts as absent */
		return;
	}
	switch ((am_kind)f->kind) {
	case AM_TEXT:
		*(am_str *)to = am_read_text(r);
		return;
	case AM_INT:
	case AM_LONG: {
		int64_t v = am_read_whole(r);
		if (f->kind == AM_LONG) *(int64_t *)to = v;
		else *(int32_t *)to = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
		return;
	}
	case AM_BOOL:
		if (c != 't' && c != 'f') return am_wrong(r, "want true or false");
		am_skip(r);
		*(bool *)to = c == 't';
		return;
	case AM_RAW:
		*(am_json *)to = am_read_raw(r);
		return;
	case AM_MEMBERS:
		if (c != '{') return am_wrong(r, "want an object");
		if (!am_enter(r)) return;
		for (bool first = true; am_items(r, '}', first); first = false) {
			am_str key = am_read_key(r);
			am_add_member((am_members *)to, key, am_read_raw(r));
		}
		return;
	case AM_OBJECT:
		am_read_value(r, f->of, to);
		return;
	case AM_REF:
		*(void **)to = am_alloc((size_t)f->of->size);
		am_read_value(r, f->of, *(void **)to);
		return;
	case AM_TEXTS:
	case AM_OBJECTS:
		am_read_list(r, f->of, (am_any_list *)to);
	}
}

/* am_field_of reads a key and returns the field of that name, or 0. It tries expect first,
 * because keys usually arrive in the order of the fields. */
AM_SMALL const am_field *am_field_of(am_reader *r, const am_type *t, const am_field *expect, am_str *key) {
	const am_field *f = expect, *end = t->fields + t->count;
	int32_t left = r->end - r->p;
	if (left >= 8) {
		uint64_t word = am_word(r->p);
		for (int32_t i = t->count; i > 0; i--, f++) {
			if (f == end) f = t->fields;
			if ((word ^ am_word(f->key)) << f->shift != 0) continue;
			int32_t n = f->len;
			if (n <= 8 || (left >= n && am_word(r->p + n - 8) == am_word(f->key + n - 8) && (n <= 16 || am_equal(r->p + 8, f->key + 8, n - 16)))) {
				r->p += n;
				return f;
			}
		}
	}
	*key = am_read_key(r);
	for (f = t->fields; f < end; f++)
		if (am_same(*key, (am_str){f->key + 1, f->len - 3})) return f;
	return 0;
}

AM_FN void am_read_fields(am_reader *r, const am_type *t, char *to) {
	if (am_peek(r) != '{') return am_wrong(r, "want an object");
	if (!am_enter(r)) return;
	const am_field *expect = t->fields;
	for (bool first = true; am_items(r, '}', first); first = false) {
		am_str key;
		const am_field *f = am_field_of(r, t, expect, &key);
		if (f != 0) {
			am_read_field(r, f, to + f->offset);
			expect = f + 1;
			continue;
		}
		if (t->unknown != 0) am_add_member((am_members *)(to + t->unknown), key, am_read_raw(r));
		else am_skip(r);
	}
}

AM_FN void am_read_value(am_reader *r, const am_type *t, void *to) {
	int c = am_peek(r);
	if (c == 'n') return am_skip(r);
	switch (t->form) {
	case AM_FORM_CONTENT: {
		am_content *x = to;
		if (c == '"') {
			x->kind = AM_CONTENT_TEXT;
			x->text = am_read_text(r);
		} else {
			x->kind = AM_CONTENT_PARTS;
			am_read_list(r, &am_type_part, (am_any_list *)&x->parts);
		}
		return;
	}
	case AM_FORM_LIST_PATCH: {
		am_list_patch *x = to;
		static const am_field fields[] = {AM_FIELD("splice", am_list_patch, splice, AM_OBJECTS, 0, &am_type_splice)};
		static const am_type type = {fields, 1, sizeof(am_list_patch), AM_FORM_FIELDS, 0};
		if (c == '{') return am_read_fields(r, &type, to);
		x->whole = true;
		am_read_list(r, &am_type_message, (am_any_list *)&x->replace);
		return;
	}
	case AM_FORM_TOOLS_PATCH: {
		am_tools_patch *x = to;
		static const am_field fields[] = {AM_FIELD("add", am_tools_patch, add, AM_OBJECTS, 0, &am_type_tool),
			AM_FIELD("remove", am_tools_patch, remove, AM_TEXTS, 0, 0)};
		static const am_type type = {fields, 2, sizeof(am_tools_patch), AM_FORM_FIELDS, 0};
		if (c == '{') return am_read_fields(r, &type, to);
		x->whole = true;
		am_read_list(r, &am_type_tool, (am_any_list *)&x->replace);
		return;
	}
	default:
		am_read_fields(r, t, to);
	}
}

/* am_decode decodes JSON into a zeroed value of a type: am_decode(json, &am_type_call,
 * &call). It returns an error message, or 0. */
AM_SMALL const char *am_decode(am_json json, const am_type *t, void *to) {
	am_reader r = {json.p, json.p, json.p + json.n, 0, 0};
	am_read_value(&r, t, to);
	if (r.wrong == 0 && am_peek(&r) >= 0) r.wrong = "unexpected text after the JSON value";
	return r.wrong;
}

/* ---- writing JSON ---- */

typedef struct {
	char *p;
	int32_t n, cap;
} am_writer;

/* am_room makes room for n more bytes. */
AM_SMALL void am_grow_writer(am_writer *w, int32_t n) {
	int32_t cap = w->cap < 256 ? 256 : w->cap;
	while (n > cap - w->n) {
		if (cap > 0x20000000) am_die("out of memory");
		cap *= 2;
	}
	bool last = w->p != 0 && w->p + w->cap == am_memory.free;
	if (last && cap - w->cap <= am_memory.end - am_memory.free) {
		am_memory.free += cap - w->cap; /* grow in place */
	} else {
		char *more = am_alloc((size_t)cap);
		if (w->n > 0) memcpy(more, w->p, (size_t)w->n);
		w->p = more;
	}
	w->cap = cap;
}

AM_FN char *am_room(am_writer *w, int32_t n) {
	if (n > w->cap - w->n) am_grow_writer(w, n);
	return w->p + w->n;
}

AM_SMALL void am_put(am_writer *w, am_str s) {
	if (s.n <= 0) return;
	memcpy(am_room(w, s.n), s.p, (size_t)s.n);
	w->n += s.n;
}

AM_SMALL void am_put_char(am_writer *w, char c) {
	*am_room(w, 1) = c;
	w->n++;
}

AM_SMALL void am_put_whole(am_writer *w, int64_t v) {
	char digits[20];
	int32_t n = 20;
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do digits[--n] = (char)('0' + u % 10);
	while ((u /= 10) > 0);
	if (v < 0) am_put_char(w, '-');
	am_put(w, (am_str){digits + n, 20 - n});
}

/* am_sequence returns the length of the UTF-8 character at p, or 0 if it is invalid. */
AM_FN int32_t am_sequence(const unsigned char *p, int32_t n) {
	int32_t len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
	if (len > n) return 0;
	for (int32_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80) return 0;
	if (len > 2) {
		unsigned second = p[1];
		if ((p[0] == 0xe0 && second < 0xa0) || (p[0] == 0xed && second > 0x9f)) return 0;
		if ((p[0] == 0xf0 && second < 0x90) || (p[0] == 0xf4 && second > 0x8f)) return 0;
	}
	return len;
}

/* am_character decodes the UTF-8 character at p and sets its length. An invalid byte
 * stands for itself. */
AM_FN uint32_t am_character(const char *p, int32_t n, int32_t *len) {
	const unsigned char *u = (const unsigned char *)p;
	*len = am_sequence(u, n);
	switch (*len) {
	case 2:
		return (u[0] & 31u) << 6 | (u[1] & 63u);
	case 3:
		return (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u);
	case 4:
		return (u[0] & 7u) << 18 | (u[1] & 63u) << 12 | (u[2] & 63u) << 6 | (u[3] & 63u);
	default:
		*len = 1;
		return u[0];
	}
}

/* am_plain_bytes returns the number of bytes at the start of a text that are written
 * unchanged: ASCII characters that need no escape. */
AM_FN int32_t am_plain_bytes(const char *p, int32_t n) {
	int32_t i = 0;
	while (i < n) {
		uint64_t word = n - i >= 8 ? am_word(p + i) : am_part_word(p + i, (size_t)(n - i)) | AM_EACH(' ') << (8 * (n - i));
		uint64_t found = am_specials(word) | (word & AM_EACH(0x80));
		if (found != 0) return i + am_first(found);
		i += 8;
	}
	return n;
}

/* am_put_text writes a string. It replaces invalid UTF-8. */
AM_SMALL void am_put_text(am_writer *w, am_str s) {
	static const char hex[] = "0123456789abcdef", names[] = "\"\\\b\f\n\r\t", written[] = "\"\\bfnrt";
	am_room(w, s.n + 2);
	am_put_char(w, '"');
	for (int32_t i = 0, from = 0;;) {
		i += am_plain_bytes(s.p + i, s.n - i);
		unsigned char c = i < s.n ? (unsigned char)s.p[i] : 0;
		int32_t n = i < s.n ? am_sequence((const unsigned char *)s.p + i, s.n - i) : 0;
		bool line = n == 3 && c == 0xe2 && (unsigned char)s.p[i + 1] == 0x80 && ((unsigned char)s.p[i + 2] | 1) == 0xa9;
		if (n > 1 && !line) {
			i += n;
			continue;
		}
		am_put(w, (am_str){s.p + from, i - from});
		if (i >= s.n) break;
		const char *name = names;
		while (*name != 0 && *name != (char)c) name++;
		if (n == 0) {
			am_put(w, AM_S("\\ufffd"));
		} else if (line) {
			am_put(w, AM_S("\\u202"));
			am_put_char(w, hex[s.p[i + 2] & 15]);
		} else if (*name != 0) {
			am_put_char(w, '\\');
			am_put_char(w, written[name - names]);
		} else {
			am_put(w, AM_S("\\u00"));
			am_put_char(w, hex[c >> 4]);
			am_put_char(w, hex[c & 15]);
		}
		from = i += n > 0 ? n : 1;
	}
	am_put_char(w, '"');
}

AM_FN void am_put_comma(am_writer *w) {
	if (w->n > 0 && w->p[w->n - 1] != '{') am_put_char(w, ',');
}

AM_SMALL void am_put_key(am_writer *w, am_str key) {
	am_put_comma(w);
	am_put_text(w, key);
	am_put_char(w, ':');
}

AM_FN void am_put_raw(am_writer *w, am_json json) { am_put(w, json.n > 0 ? json : AM_S("null")); }

AM_SMALL void am_put_members(am_writer *w, const am_members *m) {
	for (int32_t i = 0; i < m->len; i++) {
		am_put_key(w, m->items[i].key);
		am_put_raw(w, m->items[i].value);
	}
}

AM_FN void am_put_value(am_writer *w, const am_type *t, const void *from);

AM_SMALL void am_put_list(am_writer *w, const am_type *t, const am_any_list *list) {
	am_put_char(w, '[');
	for (int32_t i = 0; i < list->len; i++) {
		if (i > 0) am_put_char(w, ',');
		if (t != 0) am_put_value(w, t, list->items + i * t->size);
		else am_put_text(w, ((const am_str *)list->items)[i]);
	}
	am_put_char(w, ']');
}

/* am_empty reports whether an optional field is omitted. */
AM_SMALL bool am_empty(const am_field *f, const char *at) {
	switch ((am_kind)f->kind) {
	case AM_TEXT:
	case AM_RAW:
		return f->flags & AM_OPTIONAL ? ((const am_str *)at)->p == 0 : ((const am_str *)at)->n == 0;
	case AM_INT:
		return *(const int32_t *)at == 0;
	case AM_LONG:
		return *(const int64_t *)at == 0;
	case AM_BOOL:
		return !*(const bool *)at;
	case AM_MEMBERS:
		return ((const am_members *)at)->len == 0;
	case AM_REF:
		return *(void *const *)at == 0;
	case AM_TEXTS:
	case AM_OBJECTS: {
		const am_any_list *list = (const am_any_list *)at;
		return list->len == 0 && !((f->flags & AM_OPTIONAL) && list->set);
	}
	case AM_OBJECT:
		break;
	}
	if (f->of->form == AM_FORM_LIST_PATCH) return !((const am_list_patch *)at)->whole && ((const am_list_patch *)at)->splice.len == 0;
	if (f->of->form == AM_FORM_TOOLS_PATCH) {
		const am_tools_patch *p = (const am_tools_patch *)at;
		return !p->whole && p->add.len == 0 && p->remove.len == 0;
	}
	for (int32_t i = 0; i < f->of->count; i++)
		if (!am_empty(&f->of->fields[i], at + f->of->fields[i].offset)) return false;
	return true;
}

AM_FN void am_put_field(am_writer *w, const am_field *f, const char *at) {
	switch ((am_kind)f->kind) {
	case AM_TEXT:
		return am_put_text(w, *(const am_str *)at);
	case AM_INT:
		return am_put_whole(w, *(const int32_t *)at);
	case AM_LONG:
		return am_put_whole(w, *(const int64_t *)at);
	case AM_BOOL:
		return am_put(w, *(const bool *)at ? AM_S("true") : AM_S("false"));
	case AM_RAW:
		return am_put_raw(w, *(const am_json *)at);
	case AM_MEMBERS:
		am_put_char(w, '{');
		am_put_members(w, (const am_members *)at);
		return am_put_char(w, '}');
	case AM_OBJECT:
		return am_put_value(w, f->of, at);
	case AM_REF:
		if (*(void *const *)at == 0) return am_put(w, AM_S("null"));
		return am_put_value(w, f->of, *(void *const *)at);
	case AM_TEXTS:
	case AM_OBJECTS:
		am_put_list(w, f->of, (const am_any_list *)at);
	}
}

AM_FN void am_put_text_field(am_writer *w, am_str key, am_str value) {
	am_put_key(w, key);
	am_put_text(w, value);
}

/* am_put_chunk writes the fields that belong to the chunk's kind. */
AM_FN void am_put_chunk(am_writer *w, const am_chunk *c) {
	bool call = am_eq(c->kind, "tool_call");
	am_put_char(w, '{');
	if (c->seq != 0) {
		am_put_key(w, AM_S("seq"));
		am_put_whole(w, c->seq);
	}
	am_put_text_field(w, AM_S("kind"), c->kind);
	if (call) {
		am_put_key(w, AM_S("index"));
		am_put_whole(w, c->index);
		if (c->id.n > 0) am_put_text_field(w, AM_S("id"), c->id);
		if (c->name.n > 0) am_put_text_field(w, AM_S("name"), c->name);
		am_put_text_field(w, AM_S("arguments"), c->arguments);
		return am_put_char(w, '}');
	}
	if (c->call_id.n > 0) am_put_text_field(w, AM_S("call_id"), c->call_id);
	if (!am_eq(c->kind, "part")) {
		am_put_text_field(w, AM_S("text"), c->text);
	} else if (c->part != 0) {
		am_put_key(w, AM_S("part"));
		am_put_value(w, &am_type_part, c->part);
	}
	am_put_char(w, '}');
}

AM_FN void am_put_value(am_writer *w, const am_type *t, const void *from) {
	const char *at = from;
	switch (t->form) {
	case AM_FORM_CONTENT: {
		const am_content *x = from;
		if (x->kind == AM_CONTENT_TEXT) return am_put_text(w, x->text);
		if (x->kind == AM_CONTENT_NULL) return am_put(w, AM_S("null"));
		return am_put_list(w, &am_type_part, (const am_any_list *)&x->parts);
	}
	case AM_FORM_LIST_PATCH: {
		const am_list_patch *x = from;
		if (x->whole) return am_put_list(w, &am_type_message, (const am_any_list *)&x->replace);
		am_put(w, AM_S("{\"splice\":"));
		am_put_list(w, &am_type_splice, (const am_any_list *)&x->splice);
		return am_put_char(w, '}');
	}
	case AM_FORM_TOOLS_PATCH: {
		const am_tools_patch *x = from;
		if (x->whole) return am_put_list(w, &am_type_tool, (const am_any_list *)&x->replace);
		am_put_char(w, '{');
		if (x->add.len > 0) {
			am_put_key(w, AM_S("add"));
			am_put_list(w, &am_type_tool, (const am_any_list *)&x->add);
		}
		if (x->remove.len > 0) {
			am_put_key(w, AM_S("remove"));
			am_put_list(w, 0, (const am_any_list *)&x->remove);
		}
		return am_put_char(w, '}');
	}
	default:
		break;
	}
	if (t->form == AM_FORM_CHUNK) return am_put_chunk(w, from);
	am_put_char(w, '{');
	for (int32_t i = 0; i < t->count; i++) {
		const am_field *f = &t->fields[i];
		bool text = t->form == AM_FORM_PART && f->offset == offsetof(am_part, text) && am_eq(((const am_part *)from)->type, "text");
		if ((f->flags & AM_OMIT) && !text && am_empty(f, at + f->offset)) continue;
		am_put_comma(w);
		am_put(w, (am_str){f->key, f->len});
		if (t->form == AM_FORM_TOOL_CALL && f->offset == offsetof(am_tool_call, type) && ((const am_tool_call *)from)->type.n == 0) {
			am_put(w, AM_S("\"function\""));
			continue;
		}
		am_put_field(w, f, at + f->offset);
	}
	if (t->unknown != 0) am_put_members(w, (const am_members *)(at + t->unknown));
	am_put_char(w, '}');
}

/* am_encode returns the JSON encoding of a value of a type. */
AM_SMALL am_json am_encode(const am_type *t, const void *value) {
	am_writer w = {0, 0, 0};
	am_put_value(&w, t, value);
	return (am_json){w.p, w.n};
}

/* ---- any JSON, as a tree: configurations, arguments of tools ---- */

typedef enum { AM_NULL, AM_FALSE, AM_TRUE, AM_NUMBER, AM_STRING, AM_ARRAY, AM_MAP } am_value_kind;

typedef struct am_value am_value;
struct am_value {
	am_value_kind kind;
	am_str text; /* text of a string, or a number's literal */
	am_str key;  /* key of an object's member */
	am_value *items;
	int32_t len;
};

AM_FN void am_read_any(am_reader *r, am_value *v) {
	int c = am_peek(r);
	if (c == '"') {
		v->kind = AM_STRING;
		v->text = am_read_text(r);
	} else if (c == '{' || c == '[') {
		v->kind = c == '{' ? AM_MAP : AM_ARRAY;
		if (!am_enter(r)) return;
		for (bool first = true; am_items(r, c == '{' ? '}' : ']', first); first = false) {
			am_str key = {0, 0};
			if (c == '{') key = am_read_key(r);
			for (int32_t i = 0; c == '{' && i < v->len; i++)
				if (am_same(v->items[i].key, key)) am_wrong(r, "duplicate key");
			v->items = am_grow(v->items, v->len, sizeof(am_value));
			am_value *item = &v->items[v->len++];
			item->key = key;
			am_read_any(r, item);
		}
	} else if (c == 't' || c == 'f' || c == 'n') {
		v->kind = c == 't' ? AM_TRUE : c == 'f' ? AM_FALSE : AM_NULL;
		am_skip(r);
	} else {
		v->kind = AM_NUMBER;
		v->text = am_read_number(r);
	}
}

/* am_parse parses any JSON: one value, without duplicate keys, nested at most 64 levels
 * deep. On failure it returns 0 and sets the error message. */
AM_SMALL am_value *am_parse(am_json json, const char **wrong) {
	am_reader r = {json.p, json.p, json.p + json.n, 0, 0};
	am_value *v = AM_NEW(am_value);
	am_read_any(&r, v);
	if (r.wrong == 0 && am_peek(&r) >= 0) r.wrong = "unexpected text after the JSON value";
	if (wrong != 0) *wrong = r.wrong;
	return r.wrong == 0 ? v : 0;
}

/* am_get returns the value of an object's key, or 0. The object may be 0. */
#define am_get(object, literal) am_get_key((object), AM_S(literal))

AM_SMALL const am_value *am_get_key(const am_value *v, am_str key) {
	for (int32_t i = 0; v != 0 && v->kind == AM_MAP && i < v->len; i++)
		if (am_same(v->items[i].key, key)) return &v->items[i];
	return 0;
}

/* am_text_or returns the text of v, or a default. */
AM_FN am_str am_text_or(const am_value *v, am_str otherwise) { return v != 0 && v->kind == AM_STRING ? v->text : otherwise; }

AM_FN int64_t am_int_or(const am_value *v, int64_t otherwise) {
	int64_t n;
	return v != 0 && v->kind == AM_NUMBER && am_whole(v->text, &n) ? n : otherwise;
}

/* am_quote encodes a text as JSON. */
AM_FN am_json am_quote(am_str text) {
	am_writer w = {0, 0, 0};
	am_put_text(&w, text);
	return (am_json){w.p, w.n};
}

/* ---- errors, which are values ---- */

#define AM_OK ((am_error *)0)

AM_SMALL am_error *am_fail(const char *code, am_str message) {
	am_error *e = AM_NEW(am_error);
	e->code = am_of(code);
	e->message = message;
	return e;
}

/* ---- calls of the host: each returns AM_OK or an error ---- */

AM_SMALL am_json am_read_pending(int32_t n) {
	char *p = am_alloc((size_t)n + 1);
	if (n > 0) n = am_host_read(p, n);
	return (am_json){p, n};
}

/* am_reply reads the pending reply of a host call that returned n. */
AM_SMALL am_error *am_reply(int32_t n, am_json *out) {
	if (n >= 0) {
		if (out != 0) *out = am_read_pending(n);
		return AM_OK;
	}
	am_error *e = AM_NEW(am_error);
	const char *wrong = am_decode(am_read_pending(-n), &am_type_error, e);
	return wrong == 0 ? e : am_fail("internal", AM_S("the host's error cannot be read"));
}

/* am_reply_as decodes a reply. An empty reply leaves the value zeroed. */
AM_SMALL am_error *am_reply_as(int32_t n, const am_type *t, void *out) {
	am_json json;
	am_error *e = am_reply(n, &json);
	if (e != AM_OK || json.n == 0) return e;
	return am_decode(json, t, out) == 0 ? AM_OK : am_fail("internal", AM_S("the host's reply cannot be read"));
}

/* am_changed_since returns the index of the first message that changed since an earlier
 * revision: the length if nothing changed, 0 if the revision is unknown. */
AM_FN int32_t am_changed_since(const am_list *list, int64_t revision) {
	int32_t i = am_host_changed(list->list, revision);
	return i < 0 ? 0 : i > list->total ? list->total : i;
}

/* A message is copied to the module when it is first read. It is cached in the second
 * arena across hooks until it changes. The cache is lost if the host discards the
 * instance. */

static struct {
	int64_t revision;
	int32_t total, room, from, to, block;
	const am_message **at; /* 0 if not read; room entries, of which total are in use */
} am_lists[2];

/* am_forget_messages clears the cache of all lists. */
AM_SMALL void am_forget_messages(void) {
	am_lists[0].at = am_lists[1].at = 0;
	am_lists[0].room = am_lists[1].room = 0;
	am_swap();
	am_empty_to((am_arena){&am_first_message_chunk, am_first_message_bytes, 0});
	am_swap();
}

/* am_bound_messages clears the cache if it exceeds AM_KEPT_MESSAGES. This invalidates the
 * messages that the last hook read. */
AM_FN void am_bound_messages(void) {
	size_t used = 0;
	for (am_chunk_of_memory *c = &am_first_message_chunk;; c = c->next) {
		used += (size_t)((c == am_other.now ? am_other.free : c->used) - c->from);
		if (c == am_other.now) break;
	}
	if (used > AM_KEPT_MESSAGES) am_forget_messages();
}

/* am_show updates the cache of a list to its revision. */
AM_FN void am_show(const am_list *list, __typeof__(&am_lists[0]) l) {
	int32_t same = l->at != 0 ? am_changed_since(list, l->revision) : 0;
	if (same > l->total) same = l->total;
	if (list->total > l->room || l->at == 0) {
		int32_t room = list->total + list->total / 2 + 16;
		am_swap();
		const am_message **at = am_alloc((size_t)room * sizeof(*at));
		am_swap();
		if (same > 0) memcpy(at, l->at, (size_t)same * sizeof(*at));
		l->at = at;
		l->room = room;
	} else {
		memset(l->at + same, 0, (size_t)(l->room - same) * sizeof(*l->at));
	}
	l->revision = list->revision;
	l->total = list->total;
	l->block = 0;
}

/* am_read_messages fetches a range of a list's messages into the cache. */
AM_SMALL am_error *am_read_messages(const am_list *list, int32_t from, int32_t to, const am_message **at) {
	int32_t n = am_host_messages(list->list, from, to), got = 0;
	if (n < 0) return am_reply(n, 0);
	am_swap();
	am_json json = am_read_pending(n);
	am_reader r = {json.p, json.p, json.p + json.n, 0, 0};
	am_message *m = am_alloc((size_t)(to - from) * sizeof(am_message));
	if (am_peek(&r) != '[' || !am_enter(&r)) am_wrong(&r, "want a list");
	for (; am_items(&r, ']', got == 0) && got < to - from; got++) am_read_value(&r, &am_type_message, m + got);
	am_swap();
	if (r.wrong != 0 || got != to - from || r.depth != 0 || am_peek(&r) >= 0) return am_fail("internal", AM_S("the host's messages cannot be read"));
	for (int32_t i = from; i < to; i++) at[i] = m + (i - from);
	return AM_OK;
}

/* am_message_at returns message i of a list, from 0. Messages are fetched in blocks, which
 * grow while they are read in one direction. The message belongs to the cache: do not
 * change it, nor what it points to. */
AM_SMALL am_error *am_message_at(const am_list *list, int32_t i, const am_message **out) {
	if (i < 0 || i >= list->total) return am_fail("invalid", AM_CAT(AM_S("there is no message "), am_decimal(i), AM_S(" in a list of "), am_decimal(list->total)));
	if (i < list->items.len) {
		*out = &list->items.items[i];
		return AM_OK;
	}
	__typeof__(&am_lists[0]) l = &am_lists[list->list & 1];
	if (l->at == 0 || l->revision != list->revision || l->total != list->total) am_show(list, l);
	if (l->at[i] == 0) {
		bool on = l->block > 0 && i == l->to, back = l->block > 0 && i == l->from - 1;
		l->block = on || back ? (l->block < 16 ? l->block * 4 : 64) : 1;
		int32_t from = back ? i - l->block + 1 : i, to = back ? i + 1 : i + l->block;
		if (from < 0) from = 0;
		if (to > l->total) to = l->total;
		while (l->at[from] != 0) from++;
		while (l->at[to - 1] != 0) to--;
		am_error *e = am_read_messages(list, from, to, l->at);
		if (e != AM_OK) return e;
		l->from = from;
		l->to = to;
	}
	*out = l->at[i];
	return AM_OK;
}

/* am_next_model continues with a patch of the request, or unchanged (0). */
AM_FN am_error *am_next_model(const am_request_patch *patch, am_response **out) {
	am_json p = patch != 0 ? am_encode(&am_type_request_patch, patch) : (am_json){0, 0};
	am_model_reply reply = {0};
	am_error *e = am_reply_as(am_host_next(p.p, p.n), &am_type_model_reply, &reply);
	if (e == AM_OK && reply.response == 0) e = am_fail("internal", AM_S("the host's reply to next has no response"));
	*out = reply.response;
	return e;
}

/* am_next_tool continues with other arguments, or unchanged (AM_UNCHANGED). */
#define AM_UNCHANGED ((am_str){0, 0})

AM_FN am_json am_arguments_patch(am_str arguments) {
	am_call_patch patch = {.arguments = arguments};
	return arguments.p != 0 ? am_encode(&am_type_call_patch, &patch) : (am_json){0, 0};
}

AM_FN am_error *am_next_tool(am_str arguments, am_result **out) {
	am_json p = am_arguments_patch(arguments);
	am_tool_reply reply = {0};
	am_error *e = am_reply_as(am_host_next(p.p, p.n), &am_type_tool_reply, &reply);
	if (e == AM_OK && reply.result == 0) e = am_fail("internal", AM_S("the host's reply to next has no result"));
	*out = reply.result;
	return e;
}

/* am_next_model_stream and am_next_tool_stream do the same, but return at once. am_recv
 * returns the chunks. */
AM_FN am_error *am_next_model_stream(const am_request_patch *patch) {
	am_json p = patch != 0 ? am_encode(&am_type_request_patch, patch) : (am_json){0, 0};
	return am_reply(am_host_next_stream(p.p, p.n), 0);
}

AM_FN am_error *am_next_tool_stream(am_str arguments) {
	am_json p = am_arguments_patch(arguments);
	return am_reply(am_host_next_stream(p.p, p.n), 0);
}

/* am_recv returns the available chunks or, once, the end of the stream. After the end it
 * returns neither. */
AM_FN am_error *am_recv(am_received *out) {
	*out = (am_received){0};
	return am_reply_as(am_host_recv(), &am_type_received, out);
}

/* am_send sends chunks to the caller. What a wrapper or a tool sends is its answer. */
AM_FN am_error *am_send(const am_chunk *chunks, int32_t len) {
	if (len == 0) return AM_OK;
	am_sent sent = {.chunks = {(am_chunk *)chunks, len, true}};
	am_json p = am_encode(&am_type_sent, &sent);
	return am_reply(am_host_send(p.p, p.n), 0);
}

/* am_call_model makes a model call. It needs the grant model. The messages must be a whole
 * list; see am_whole_list. */
AM_FN am_error *am_call_model(const am_request_patch *request, am_response **out) {
	am_json p = am_encode(&am_type_request_patch, request);
	am_model_reply reply = {0};
	am_error *e = am_reply_as(am_host_model(p.p, p.n), &am_type_model_reply, &reply);
	if (e == AM_OK && reply.response == 0) e = am_fail("internal", AM_S("the host's reply to model has no response"));
	*out = reply.response;
	return e;
}

/* am_call_tool calls a tool of the agent. It needs the grant tool:NAME. If the tool fails,
 * the result is an error result. */
AM_FN am_error *am_call_tool(am_str name, am_json arguments, am_result **out) {
	am_tool_request request = {.name = name, .arguments = arguments};
	am_json p = am_encode(&am_type_tool_request, &request);
	am_tool_reply reply = {0};
	am_error *e = am_reply_as(am_host_tool(p.p, p.n), &am_type_tool_reply, &reply);
	if (e == AM_OK && reply.result == 0) e = am_fail("internal", AM_S("the host's reply to tool has no result"));
	*out = reply.result;
	return e;
}

/* am_http sends a request. It needs the grant http:HOST. The host replaces {{secret:NAME}}
 * in it. Any status is a response; a missing response is an error. */
AM_FN am_error *am_http(const am_http_request *request, am_http_response *out) {
	am_json p = am_encode(&am_type_http_request, request);
	return am_reply_as(am_host_http(p.p, p.n), &am_type_http_response, out);
}

/* Run-local values. A missing value is zeroed; its version is 0. */

enum { AM_ALWAYS = -1 };

AM_FN am_error *am_local_get(am_str key, am_local_value *out) {
	*out = (am_local_value){0};
	return am_reply_as(am_host_local_get(key.p, key.n), &am_type_local_value, out);
}

/* am_local_set sets a value if its version is still the given one, or unconditionally with AM_ALWAYS. */
AM_FN am_error *am_local_set(am_str key, am_json value, int64_t version) {
	return am_reply(am_host_local_set(key.p, key.n, value.p, value.n, version), 0);
}

AM_FN am_error *am_local_delete(am_str key) { return am_reply(am_host_local_delete(key.p, key.n), 0); }

AM_FN am_error *am_sum(int32_t n, int64_t *out) {
	am_json json;
	am_error *e = am_reply(n, &json);
	if (e == AM_OK && out != 0 && !am_whole(json, out)) e = am_fail("internal", AM_S("the host's sum cannot be read"));
	return e;
}

/* am_local_add adds to a counter and sets *out to the new value, unless out is 0. */
AM_FN am_error *am_local_add(am_str key, int64_t delta, int64_t *out) { return am_sum(am_host_local_add(key.p, key.n, delta), out); }

/* Durable values. They need the grant store. */

AM_FN am_error *am_store_get(am_str key, am_local_value *out) {
	*out = (am_local_value){0};
	return am_reply_as(am_host_store_get(key.p, key.n), &am_type_local_value, out);
}

/* am_store_set sets a value for ttl seconds; 0 means no expiry. */
AM_FN am_error *am_store_set(am_str key, am_json value, int64_t version, int64_t ttl) {
	return am_reply(am_host_store_set(key.p, key.n, value.p, value.n, version, ttl), 0);
}

AM_FN am_error *am_store_delete(am_str key) { return am_reply(am_host_store_delete(key.p, key.n), 0); }

AM_FN am_error *am_store_add(am_str key, int64_t delta, int64_t *out) { return am_sum(am_host_store_add(key.p, key.n, delta), out); }

/* am_emit emits a custom event of the run. */
AM_FN am_error *am_emit(am_str name, am_json data) {
	am_custom event = {.name = name, .data = data};
	am_json p = am_encode(&am_type_custom, &event);
	return am_reply(am_host_emit(p.p, p.n), 0);
}

enum { AM_DEBUG, AM_INFO, AM_WARN, AM_ERROR };

AM_FN void am_log(int32_t level, am_str text) { am_host_log(level, text.p, text.n); }

/* ---- constructors for answers ---- */

AM_FN am_content am_text(am_str text) { return (am_content){.kind = AM_CONTENT_TEXT, .text = text}; }

/* am_plain returns the concatenated text of all parts of the content. */
AM_FN am_str am_plain(const am_content *c) {
	am_str out = c->kind == AM_CONTENT_TEXT ? c->text : (am_str){"", 0};
	for (int32_t i = 0; c->kind == AM_CONTENT_PARTS && i < c->parts.len; i++) out = AM_CAT(out, c->parts.items[i].text);
	return out;
}

AM_FN am_message am_say(am_str role, am_str text) { return (am_message){.role = role, .content = am_text(text)}; }

AM_FN am_message am_user(am_str text) { return am_say(AM_S("user"), text); }

AM_FN am_message am_assistant(am_str text) { return am_say(AM_S("assistant"), text); }

/* am_tool_message returns the message that answers a tool call. */
AM_FN am_message am_tool_message(am_str call_id, am_str tool, am_str text) {
	am_message m = am_say(AM_S("tool"), text);
	m.tool_call_id = call_id;
	m.name = tool;
	return m;
}

AM_FN am_result *am_result_of(am_str text) {
	am_result *r = AM_NEW(am_result);
	r->content = am_text(text);
	return r;
}

AM_FN am_result *am_error_result(am_str text) {
	am_result *r = am_result_of(text);
	r->is_error = true;
	return r;
}

/* am_splice_messages replaces remove messages at index at by len messages. Indices refer
 * to the list in the input and must ascend. */
AM_FN void am_splice_messages(am_list_patch *patch, int32_t at, int32_t remove, const am_message *insert, int32_t len) {
	patch->splice.items = am_grow(patch->splice.items, patch->splice.len, sizeof(am_splice));
	am_splice *s = &patch->splice.items[patch->splice.len++];
	s->at = at;
	s->remove = remove;
	s->insert.items = am_alloc((size_t)len * sizeof(am_message));
	s->insert.len = len;
	if (len > 0) memcpy(s->insert.items, insert, (size_t)len * sizeof(am_message));
}

/* am_insert inserts a message before message i, or at the end. */
AM_FN void am_insert(am_list_patch *patch, int32_t i, am_message message) { am_splice_messages(patch, i, 0, &message, 1); }

/* am_set replaces message i. */
AM_FN void am_set(am_list_patch *patch, int32_t i, am_message message) { am_splice_messages(patch, i, 1, &message, 1); }

AM_FN void am_delete(am_list_patch *patch, int32_t from, int32_t to) { am_splice_messages(patch, from, to - from, 0, 0); }

/* am_whole_list replaces the whole list. */
AM_FN am_list_patch am_whole_list(const am_message *messages, int32_t len) {
	return (am_list_patch){.replace = {(am_message *)messages, len, true}, .whole = true};
}

/* am_add_chunk appends to the answer of on_chunk, which then replaces the chunks of the
 * input. am_drop_chunks drops them. */
AM_FN void am_add_chunk(am_chunks *list, am_chunk chunk) {
	list->items = am_grow(list->items, list->len, sizeof(am_chunk));
	list->items[list->len++] = chunk;
	list->set = true;
}

AM_FN void am_drop_chunks(am_chunks *list) { *list = (am_chunks){0, 0, true}; }

AM_FN am_error *am_allow(am_gate_tool_answer *out) {
	out->decision = AM_S("allow");
	return AM_OK;
}

/* am_deny denies a call. The model receives the message. */
AM_FN am_error *am_deny(am_gate_tool_answer *out, am_str message) {
	out->decision = AM_S("deny");
	out->message = message;
	return AM_OK;
}

/* am_ask_for asks a person for approval. payload is shown to the person; it is JSON or AM_UNCHANGED. */
AM_FN am_error *am_ask_for(am_gate_tool_answer *out, am_str message, am_json payload) {
	out->decision = AM_S("ask");
	out->message = message;
	out->payload = payload;
	return AM_OK;
}

/* am_stop_run returns a value that ends the run: out->stop = am_stop_run(...). */
AM_FN am_stop *am_stop_run(am_str reason, am_str code) {
	am_stop *s = AM_NEW(am_stop);
	s->reason = reason;
	s->code = code;
	return s;
}

/* am_interrupt_run returns a value that pauses the run: out->interrupt = am_interrupt_run(...). */
AM_FN am_interrupt *am_interrupt_run(am_str reason, am_json payload) {
	am_interrupt *i = AM_NEW(am_interrupt);
	i->reason = reason;
	i->payload = payload;
	return i;
}

/* ---- hooks ---- */

typedef am_error *(*am_any_hook)(const void *in, void *out);

/* am_serve is the common implementation of exports. */
AM_FN int32_t am_serve(int32_t n, const am_type *input, const am_type *answer, am_any_hook hook, bool keeps) {
	if (am_swapped) am_swap(); /* the last hook ended while messages were read */
	am_empty_to(am_kept);
	am_bound_messages();
	void *in = am_alloc((size_t)input->size), *out = am_alloc((size_t)answer->size);
	const char *wrong = am_decode(am_read_pending(n), input, in);
	am_error *e = wrong == 0 ? hook(in, out) : am_fail("internal", AM_CAT(AM_S("the hook's input cannot be read: "), am_of(wrong)));
	if (e != AM_OK) {
		am_json json = am_encode(&am_type_error, e);
		am_host_write(json.p, json.n);
		return 1;
	}
	am_json json = am_encode(answer, out);
	if (json.n > 2) am_host_write(json.p, json.n); /* {} means no change */
	if (keeps) am_keep();
	return 0;
}

/* AM_HOOK defines and exports a hook's function:
 *
 *     AM_HOOK(gate_tool) { return am_eq(in->call.name, "shell") ? am_deny(out, AM_S("no")) : am_allow(out); }
 *
 * in points to the hook's input, such as am_gate_tool_input. out points to its zeroed
 * answer; zero fields mean no change. The function returns AM_OK or an error. */
#define AM_HOOK(name) AM_HOOK_(name, __builtin_strcmp(#name, "configure") == 0)
#define AM_HOOK_(name, keeps) \
	static am_error *am_hook_##name(const am_##name##_input *in, am_##name##_answer *out); \
	static am_error *am_any_hook_##name(const void *in, void *out) { return am_hook_##name(in, out); } \
	__attribute__((export_name(#name))) int32_t am_export_##name(int32_t n) { \
		return am_serve(n, &am_type_##name##_input, &am_type_##name##_answer, am_any_hook_##name, keeps); \
	} \
	static am_error *am_hook_##name(__attribute__((unused)) const am_##name##_input *in, __attribute__((unused)) am_##name##_answer *out)

/* AM_MIDDLEWARE defines the hook describe with a name, a version and a description, for a
 * module that reads messages one by one. */
#define AM_MIDDLEWARE(name_, version_, description_) \
	AM_HOOK(describe) { \
		out->name = AM_S(name_); \
		out->version = AM_S(version_); \
		out->description = AM_S(description_); \
		out->messages = AM_S("lazy"); \
		return AM_OK; \
	}

#endif

/* patch-tool-calls answers dangling tool calls: calls in an assistant's message that no tool
 * message answers, because the user wrote again before the tools finished. Models reject such a
 * conversation, or invent results. Optionally it also removes surplus results, or rejects an
 * inconsistent conversation. */
#include "../../../../guest-sdk/c/agent_middleware.h"

AM_HOOK(describe) {
	out->name = AM_S("patch-tool-calls");
	out->version = AM_S("1.1.0");
	out->description = AM_S("Answers tool calls that were left without a result.");
	out->messages = AM_S("lazy");
	out->config_schema = AM_S("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
		"\"language\":{\"type\":\"string\",\"description\":\"of the text: en or zh\"},"
		"\"template\":{\"type\":\"string\",\"description\":\"a text of one's own, with {name} and {id} of the call\"},"
		"\"remove_orphan_results\":{\"type\":\"boolean\",\"description\":\"remove results whose call is not in the assistant's message right before them\"},"
		"\"remove_duplicate_results\":{\"type\":\"boolean\",\"description\":\"remove all results of a call but the first\"},"
		"\"strict\":{\"type\":\"boolean\",\"description\":\"repair nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run\"}}}");
	return AM_OK;
}

#define ENGLISH "Tool call {name} with id {id} was canceled - another message came in before it could be completed."
#define CHINESE "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。"

/* State that configure computes is part of the module's memory image. */
static am_str template;
static bool strict, remove_orphans, remove_duplicates;

static bool is_true(const am_value *v) { return v != 0 && v->kind == AM_TRUE; }

AM_HOOK(configure) {
	const am_value *config = am_parse(in->config, 0);
	am_str language = am_text_or(am_get(config, "language"), AM_S("en"));
	bool english = am_eq(language, "en");
	if (!english && !am_eq(language, "zh"))
		return am_fail("invalid", AM_CAT(AM_S("config: language: "), am_quote(language), AM_S(" is not one of en, zh")));
	strict = is_true(am_get(config, "strict"));
	remove_orphans = is_true(am_get(config, "remove_orphan_results"));
	remove_duplicates = is_true(am_get(config, "remove_duplicate_results"));
	if (strict && (remove_orphans || remove_duplicates))
		return am_fail("invalid", AM_S("config: strict repairs nothing, so remove_orphan_results and remove_duplicate_results cannot be set with it"));
	template = am_text_or(am_get(config, "template"), AM_S(""));
	if (template.n == 0) template = english ? AM_S(ENGLISH) : AM_S(CHINESE);
	return AM_OK;
}

/* begin finds the first message to check: the last message before the first change, other than tool
 * messages. */
static am_error *begin(const am_list *messages, int32_t *from) {
	am_local_value looked;
	int64_t revision;
	*from = 0;
	am_error *e = am_local_get(AM_S("looked"), &looked);
	if (e != AM_OK || !am_whole(looked.value, &revision)) return e;
	int32_t i = am_changed_since(messages, revision);
	while (i > 0) {
		const am_message *m;
		e = am_message_at(messages, --i, &m);
		if (e != AM_OK) return e;
		if (!am_eq(m->role, "tool")) break;
	}
	*from = i;
	return AM_OK;
}

/* A round is a message and the tool messages right after it, which should answer each of its calls
 * once. A list may begin with tool messages that follow no message. */
typedef struct {
	const am_tool_call *call;
	int32_t result; /* of the tool messages the one that answers it, or -1 */
} answer;

typedef struct {
	const am_message *message;
	bool surplus, orphan;
} result;

typedef struct {
	int32_t first, calls, results; /* first: the index of the first tool message */
	answer *answers;
	result *all;
} round;

static bool synthetic(const am_message *m) {
	const am_value *v = am_get(am_parse(m->extra, 0), "synthetic");
	return is_true(v);
}

/* matches assigns results to calls, and marks the surplus ones. If a call has a placeholder and a
 * result, the placeholder is surplus. */
static void matches(round *r) {
	for (int32_t i = 0; i < r->results; i++) {
		const am_message *m = r->all[i].message;
		answer *free = 0, *placeholder = 0;
		bool known = false;
		for (int32_t k = 0; k < r->calls; k++) {
			answer *a = &r->answers[k];
			if (a->call->id.n == 0 || !am_same(a->call->id, m->tool_call_id)) continue;
			known = true;
			if (a->result < 0) free = free != 0 ? free : a;
			else if (synthetic(r->all[a->result].message)) placeholder = a;
		}
		if (free != 0) {
			free->result = i;
		} else if (placeholder != 0 && !synthetic(m)) {
			r->all[placeholder->result].surplus = true;
			placeholder->result = i;
		} else {
			r->all[i].surplus = true;
			r->all[i].orphan = !known;
		}
	}
}

static am_error *read_round(const am_list *messages, int32_t i, round *r) {
	const am_message *head, *m;
	am_error *e = am_message_at(messages, i, &head);
	if (e != AM_OK) return e;
	bool headless = am_eq(head->role, "tool");
	*r = (round){.first = headless ? i : i + 1, .calls = headless ? 0 : head->tool_calls.len};
	r->answers = am_alloc((size_t)r->calls * sizeof(answer));
	for (int32_t k = 0; k < r->calls; k++) r->answers[k] = (answer){&head->tool_calls.items[k], -1};
	for (int32_t k = r->first; k < messages->total; k++) {
		if ((e = am_message_at(messages, k, &m)) != AM_OK) return e;
		if (!am_eq(m->role, "tool")) break;
		r->all = am_grow(r->all, r->results, sizeof(result));
		r->all[r->results++] = (result){.message = m};
	}
	matches(r);
	return AM_OK;
}

/* missing reports whether a call needs an answer. A call without an id cannot be answered. */
static bool missing(const answer *a) { return a->result < 0 && a->call->id.n > 0; }

static am_str why(const result *s) { return s->orphan ? AM_S("orphan") : AM_S("duplicate"); }

/* check returns an error that lists all inconsistencies of the round that begins with message i. */
static am_error *check(const round *r, int32_t i) {
	am_str faults = AM_S(""), at = am_decimal(i);
	for (int32_t k = 0; k < r->calls; k++)
		if (r->answers[k].call->id.n == 0) {
			faults = AM_CAT(AM_S("; message "), at, AM_S(" has a call without an id"));
			break;
		}
	for (int32_t k = 0; k < r->calls; k++) {
		const am_tool_call *c = r->answers[k].call;
		if (missing(&r->answers[k]))
			faults = AM_CAT(faults, AM_S("; the call "), c->function.name, AM_S("#"), c->id, AM_S(" of message "), at, AM_S(" has no result"));
	}
	for (int32_t k = 0; k < r->results; k++) {
		const am_message *m = r->all[k].message;
		if (r->all[k].surplus)
			faults = AM_CAT(faults, AM_S("; message "), am_decimal(r->first + k), AM_S(" is a result of "), m->name, AM_S("#"), m->tool_call_id, AM_S(": "), why(&r->all[k]));
	}
	if (faults.n == 0) return AM_OK;
	faults = (am_str){faults.p + 2, faults.n - 2};
	return am_fail("invalid", AM_CAT(AM_S("the conversation is not sound: "), faults, AM_S("; mend it, or configure without strict")));
}

/* filled fills in the template. Inserted texts are not expanded again. */
static am_str filled(am_str name, am_str id) {
	am_str out = AM_S(""), rest = template;
	for (;;) {
		int32_t at = am_find(rest, AM_S("{"), 0);
		if (at < 0) return AM_CAT(out, rest);
		am_str before = {rest.p, at};
		rest = (am_str){rest.p + at, rest.n - at};
		bool is_name = am_begins(rest, AM_S("{name}")), is_id = am_begins(rest, AM_S("{id}"));
		int32_t n = is_name ? 6 : is_id ? 4 : 1;
		out = AM_CAT(out, before, is_name ? name : is_id ? id : AM_S("{"));
		rest = (am_str){rest.p + n, rest.n - n};
	}
}

/* placeholder answers a call. Its extra marks it as synthetic for later readers of the
 * conversation; models do not see it. */
static am_message placeholder(const am_tool_call *c) {
	am_message m = am_tool_message(c->id, c->function.name, filled(c->function.name, c->id));
	m.extra = AM_S("{\"synthetic\":true}");
	return m;
}

static am_error *tell(am_str event, am_str call, am_str tool, am_str reason) {
	am_str data = AM_CAT(AM_S("{\"call\":"), am_quote(call), AM_S(",\"tool\":"), am_quote(tool));
	if (reason.n > 0) data = AM_CAT(data, AM_S(",\"why\":"), am_quote(reason));
	return am_emit(event, AM_CAT(data, AM_S("}")));
}

/* A late is a result that other messages separate from its call. The host moves it to its call
 * before it calls the model, if the call has no other result. */
typedef struct {
	am_str id; /* of its call */
	int32_t at;
	bool awaited; /* it answers a call of an earlier round */
} late;

static late *lates;
static int32_t late_count;

static bool answers_call(const am_message *head, am_str id) {
	for (int32_t k = 0; head != 0 && k < head->tool_calls.len; k++)
		if (am_same(head->tool_calls.items[k].id, id)) return true;
	return false;
}

/* read_late collects the late results from message i on. */
static am_error *read_late(const am_list *messages, int32_t i) {
	const am_message *head = 0, *m;
	lates = 0;
	late_count = 0;
	for (; i < messages->total; i++) {
		am_error *e = am_message_at(messages, i, &m);
		if (e != AM_OK) return e;
		if (!am_eq(m->role, "tool")) {
			head = m;
		} else if (!answers_call(head, m->tool_call_id) && !synthetic(m)) {
			lates = am_grow(lates, late_count, sizeof(late));
			lates[late_count++] = (late){.id = m->tool_call_id, .at = i};
		}
	}
	return AM_OK;
}

/* await reports whether a result after the round answers the call, and marks that result. */
static bool await(const round *r, am_str id) {
	for (int32_t i = 0; i < late_count; i++) {
		late *l = &lates[i];
		if (l->at < r->first + r->results || !am_same(l->id, id)) continue;
		l->awaited = true;
		return true;
	}
	return false;
}

/* settle corrects the round for late results. A call that a late result answers is not missing a
 * result, and its placeholder is surplus. The late result itself is not surplus. */
static void settle(round *r) {
	for (int32_t i = 0; i < late_count; i++) {
		int32_t k = lates[i].at - r->first;
		if (lates[i].awaited && k >= 0 && k < r->results) r->all[k].surplus = false;
	}
	int32_t left = 0;
	for (int32_t k = 0; k < r->calls; k++) {
		answer a = r->answers[k];
		if ((a.result < 0 || synthetic(r->all[a.result].message)) && await(r, a.call->id)) {
			if (a.result >= 0) r->all[a.result].surplus = true;
		} else {
			r->answers[left++] = a;
		}
	}
	r->calls = left;
}

/* mend inserts a placeholder for each call without a result, before the existing results, and
 * removes surplus placeholders, and surplus results as configured. */
static am_error *mend(const round *r, am_list_patch *patch) {
	am_error *e = AM_OK;
	for (int32_t k = 0; k < r->calls; k++)
		if (missing(&r->answers[k])) am_insert(patch, r->first, placeholder(r->answers[k].call));
	for (int32_t k = 0; k < r->results && e == AM_OK; k++) {
		const result *s = &r->all[k];
		if (!s->surplus || !(synthetic(s->message) || (s->orphan ? remove_orphans : remove_duplicates))) continue;
		am_delete(patch, r->first + k, r->first + k + 1);
		e = tell(AM_S("removed"), s->message->tool_call_id, s->message->name, why(s));
	}
	for (int32_t k = 0; k < r->calls && e == AM_OK; k++) {
		const am_tool_call *c = r->answers[k].call;
		if (missing(&r->answers[k])) e = tell(AM_S("patched"), c->id, c->function.name, AM_S(""));
	}
	return e;
}

/* Processes the rounds of calls and results in order. It starts at the round before the first change
 * since the last step, or at the first message if there are late results. */
AM_HOOK(before_model_rewrite_state) {
	int32_t i;
	am_error *e = begin(&in->messages, &i);
	if (e == AM_OK) e = read_late(&in->messages, i);
	if (e == AM_OK && i > 0 && late_count > 0) {
		i = 0; /* the calls may be in any message */
		e = read_late(&in->messages, 0);
	}
	while (e == AM_OK && i < in->messages.total) {
		round r;
		e = read_round(&in->messages, i, &r);
		if (e == AM_OK && !strict) settle(&r);
		if (e == AM_OK) e = strict ? check(&r, i) : mend(&r, &out->messages);
		i = r.first + r.results;
	}
	if (e != AM_OK) return e;
	return am_local_set(AM_S("looked"), am_decimal(in->messages.revision), AM_ALWAYS);
}

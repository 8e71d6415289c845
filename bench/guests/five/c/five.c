/* five contains the five middlewares in one module, like the module in Go. The
 * configuration of an entry selects one of them. */
#include "../../../../guest-sdk/c/agent_middleware.h"

AM_HOOK(describe) {
	static am_str counted[] = {AM_S("message"), AM_S("tool_result")};
	out->name = AM_S("five");
	out->messages = AM_S("lazy");
	out->events = (am_strs){counted, 2, true};
	return AM_OK;
}

/* configure only checks the configuration: the host decides which hooks an entry has. */
AM_HOOK(configure) {
	am_str use = am_text_or(am_get(am_parse(in->config, 0), "use"), AM_S(""));
	if (am_eq(use, "patch") || am_eq(use, "policy") || am_eq(use, "redact") || am_eq(use, "cache") || am_eq(use, "observe")) return AM_OK;
	return am_fail("invalid", AM_CAT(AM_S("there is no "), am_quote(use)));
}

/* patch adds an answer to each call without one. */
AM_HOOK(before_model_rewrite_state) {
	const am_list *list = &in->messages;
	const am_message **all = am_alloc((size_t)list->total * sizeof(*all));
	int32_t answers = 0;
	for (int32_t i = 0; i < list->total; i++) {
		am_error *e = am_message_at(list, i, &all[i]);
		if (e != AM_OK) return e;
		answers += am_eq(all[i]->role, "tool");
	}
	am_str *answered = am_alloc((size_t)answers * sizeof(am_str));
	for (int32_t i = 0, n = 0; i < list->total; i++)
		if (am_eq(all[i]->role, "tool")) answered[n++] = all[i]->tool_call_id;
	for (int32_t i = 0; i < list->total; i++)
		for (int32_t k = 0; k < all[i]->tool_calls.len; k++) {
			const am_tool_call *call = &all[i]->tool_calls.items[k];
			int32_t n = 0;
			while (n < answers && !am_same(answered[n], call->id)) n++;
			if (n == answers) am_insert(&out->messages, i + 1, am_tool_message(call->id, call->function.name, AM_S("This call was canceled.")));
		}
	return AM_OK;
}

/* policy decides which tools may be called. */
AM_HOOK(gate_tool) {
	if (am_eq(in->call.name, "delete") || am_find(in->call.arguments, AM_S("/etc/"), 0) >= 0) return am_deny(out, AM_S("this is not allowed here"));
	return am_allow(out);
}

static bool is_address(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

/* redacted replaces addresses in a text, and reports whether there were any. */
static bool redacted(am_str *text) {
	int32_t at = am_find(*text, AM_S("@"), 0), behind = 0, n = 0;
	if (at < 0) return false;
	am_str *parts = am_alloc((size_t)text->n * 2 * sizeof(am_str));
	for (; at >= 0; at = am_find(*text, AM_S("@"), behind)) {
		int32_t from = at, to = at + 1;
		while (from > behind && is_address(text->p[from - 1])) from--;
		while (to < text->n && is_address(text->p[to])) to++;
		bool is = from < at && to > at + 1;
		parts[n++] = (am_str){text->p + behind, (is ? from : to) - behind};
		if (is) parts[n++] = AM_S("[address]");
		behind = to;
	}
	bool found = n > 1;
	parts[n++] = (am_str){text->p + behind, text->n - behind};
	*text = am_concat(parts, n);
	return found;
}

/* redact replaces addresses in the stream and in tool results. */
AM_HOOK(on_chunk) {
	bool found = false;
	am_chunk *chunks = am_alloc((size_t)in->chunks.len * sizeof(am_chunk));
	for (int32_t i = 0; i < in->chunks.len; i++) {
		chunks[i] = in->chunks.items[i];
		found |= redacted(&chunks[i].text);
	}
	if (found) out->chunks = (am_chunks){chunks, in->chunks.len, true};
	return AM_OK;
}

AM_HOOK(after_tool) {
	if (in->result == 0) return AM_OK;
	am_str text = am_plain(&in->result->content);
	if (redacted(&text)) {
		in->result->content = am_text(text);
		out->result = in->result;
	}
	return AM_OK;
}

/* cache stores the result of a call in a run-local value. */
AM_HOOK(wrap_tool_call) {
	am_str key = AM_CAT(in->call.name, AM_S(" "), in->call.arguments);
	am_local_value kept;
	am_error *e = am_local_get(key, &kept);
	if (e != AM_OK) return e;
	if (kept.value.n > 0) {
		out->result = AM_NEW(am_result);
		return am_decode(kept.value, &am_type_result, out->result) == 0 ? AM_OK : am_fail("internal", AM_S("what was kept cannot be read"));
	}
	if ((e = am_next_tool(AM_UNCHANGED, &out->result)) != AM_OK) return e;
	return am_local_set(key, am_encode(&am_type_result, out->result), AM_ALWAYS);
}

/* observe counts events by type. */
AM_HOOK(observe) {
	am_local_value kept;
	am_error *e = am_local_get(AM_S("run/counts"), &kept);
	if (e != AM_OK) return e;
	const am_value *before = am_parse(kept.value, 0);
	int64_t messages = am_int_or(am_get(before, "message"), 0), results = am_int_or(am_get(before, "tool_result"), 0);
	for (int32_t i = 0; i < in->events.len; i++) {
		messages += am_eq(in->events.items[i].type, "message");
		results += am_eq(in->events.items[i].type, "tool_result");
	}
	am_json counts = AM_CAT(AM_S("{\"message\":"), am_decimal(messages), AM_S(",\"tool_result\":"), am_decimal(results), AM_S("}"));
	return am_local_set(AM_S("run/counts"), counts, AM_ALWAYS);
}

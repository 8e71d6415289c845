/* A module for the tests of host calls: it makes each call and returns the results in its
 * answer. The modules in Rust and AssemblyScript do the same. */
#include "../../agent_middleware.h"

AM_MIDDLEWARE("probe", "1.0.0", "Makes every host call.")

static am_str said;

static void say(am_str what, am_error *e, am_str value) {
	said = AM_CAT(said, what, AM_S("="), e != AM_OK ? e->code : value, AM_S("; "));
}

AM_HOOK(wrap_model) {
	am_error *e;
	const am_message *m = 0;
	am_local_value value;
	int64_t sum = 0;
	am_response *response = 0;
	am_result *result = 0;
	said = AM_S("");

	const am_list *list = &in->request.messages;
	for (int32_t i = list->total - 1; i >= 0; i--) {
		e = am_message_at(list, i, &m);
		say(AM_S("message"), e, e == AM_OK ? am_plain(&m->content) : said);
		if (e != AM_OK) break;
	}
	e = am_message_at(list, list->total, &m);
	say(AM_S("beyond"), e, AM_S(""));
	say(AM_S("changed"), AM_OK, am_decimal(am_changed_since(list, 5)));

	e = am_local_get(AM_S("k"), &value);
	say(AM_S("local_get"), e, AM_CAT(value.value, AM_S(" "), am_decimal(value.version)));
	e = am_local_get(AM_S("none"), &value);
	say(AM_S("missing"), e, am_decimal(value.version));
	say(AM_S("local_set"), am_local_set(AM_S("k"), AM_S("{\"n\":1}"), 7), AM_S("ok"));
	say(AM_S("local_set"), am_local_set(AM_S("k"), am_quote(AM_S("a\"b")), AM_ALWAYS), AM_S("ok"));
	e = am_local_add(AM_S("c"), -2, &sum);
	say(AM_S("local_add"), e, am_decimal(sum));
	say(AM_S("local_delete"), am_local_delete(AM_S("k")), AM_S("ok"));
	e = am_store_get(AM_S("k"), &value);
	say(AM_S("store_get"), e, AM_CAT(value.value, AM_S(" "), am_decimal(value.version)));
	say(AM_S("store_set"), am_store_set(AM_S("k"), AM_S("1"), 0, 60), AM_S("ok"));
	e = am_store_add(AM_S("c"), 3, &sum);
	say(AM_S("store_add"), e, am_decimal(sum));
	say(AM_S("store_delete"), am_store_delete(AM_S("k")), AM_S("ok"));
	say(AM_S("emit"), am_emit(AM_S("seen"), AM_S("{\"n\":1}")), AM_S("ok"));
	am_log(AM_WARN, AM_S("careful"));

	am_message ask = am_user(AM_S("in short?"));
	am_request_patch own = {.messages = am_whole_list(&ask, 1), .model = AM_S("small")};
	e = am_call_model(&own, &response);
	say(AM_S("model"), e, e == AM_OK ? am_plain(&response->message.content) : said);
	e = am_call_tool(AM_S("time"), AM_S("{}"), &result);
	say(AM_S("tool"), e, e == AM_OK ? am_plain(&result->content) : said);

	am_request_patch patch = {.model = AM_S("large")};
	am_insert(&patch.messages, list->total, am_user(AM_S("one more")));
	e = am_next_model(&patch, &response);
	say(AM_S("next"), e, e == AM_OK ? am_plain(&response->message.content) : said);

	out->response = AM_NEW(am_response);
	out->response->message = am_assistant(said);
	return AM_OK;
}

AM_HOOK(wrap_tool_call) {
	am_error *e = am_next_tool_stream(AM_S("{\"x\":1}"));
	for (am_received got; e == AM_OK;) {
		e = am_recv(&got);
		if (e != AM_OK || (got.end == 0 && got.chunks.len == 0)) break;
		if (got.end != 0) am_log(AM_INFO, am_plain(&got.end->result->content));
		e = am_send(got.chunks.items, got.chunks.len);
	}
	return e;
}

AM_HOOK(on_chunk) {
	for (int32_t i = 0; i < in->chunks.len; i++)
		if (am_eq(in->chunks.items[i].kind, "text")) am_add_chunk(&out->chunks, in->chunks.items[i]);
	if (out->chunks.len == 0) am_drop_chunks(&out->chunks);
	return AM_OK;
}

AM_HOOK(before_agent) {
	out->stop = am_stop_run(AM_S("closed"), AM_S("hours"));
	return AM_OK;
}

AM_HOOK(gate_tool) { return am_ask_for(out, AM_S("may it?"), AM_S("{\"cost\":1}")); }

AM_HOOK(before_tool) {
	am_value *arguments = am_parse(in->call.arguments, 0);
	if (arguments == 0) return am_fail("invalid", AM_S("no arguments"));
	out->arguments = AM_CAT(AM_S("{\"path\":"), am_quote(am_text_or(am_get(arguments, "path"), AM_S("."))), AM_S("}"));
	return AM_OK;
}

/* sentences forwards the model's text sentence by sentence, for a voice that reads it aloud, or a
 * page that should not show partial sentences. */
#include "../../../../guest-sdk/c/agent_middleware.h"

AM_HOOK(describe) {
	out->name = AM_S("sentences");
	out->version = AM_S("1.0.0");
	out->description = AM_S("Hands the model's text on sentence by sentence.");
	out->messages = AM_S("lazy");
	out->config_schema = AM_S("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"longest\":{\"type\":\"integer\","
		"\"description\":\"how many characters are held at most; what is longer is cut between words\"}}}");
	return AM_OK;
}

static int64_t longest;

AM_HOOK(configure) {
	longest = am_int_or(am_get(am_parse(in->config, 0), "longest"), 400);
	if (longest < 1) return am_fail("invalid", AM_CAT(AM_S("config: longest: "), am_decimal(longest), AM_S(" is below 1")));
	return AM_OK;
}

static bool is_space(uint32_t c) {
	return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
		c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool one_of(am_str c, am_str these) { return am_find(these, c, 0) >= 0; }

/* ends returns the end of the first sentence, including the white space after it, or 0 if it is
 * incomplete. A mark ends a sentence only before white space, so 3.14 and "?!" are not split. A
 * sentence longer than the limit is split between words. */
static int32_t ends(am_str held) {
	enum { INSIDE, MARKED, CLOSED } state = INSIDE;
	int32_t word = 0, len;
	int64_t count = 0;
	for (int32_t i = 0; i < held.n; i += len) {
		uint32_t c = am_character(held.p + i, held.n - i, &len);
		am_str text = {held.p + i, len};
		if (state != INSIDE && is_space(c)) state = CLOSED;
		else if (state == CLOSED) return i;
		else if (c == '\n') state = CLOSED;
		else if (one_of(text, AM_S(".!?…"))) state = MARKED;
		else if (one_of(text, AM_S("。！？"))) state = CLOSED; /* no space follows those */
		else if (state != MARKED || !one_of(text, AM_S("\"'”’»)]"))) state = INSIDE;
		if (is_space(c)) word = i + len;
		if (++count > longest) return word > 0 && word <= i ? word : i;
	}
	return 0;
}

static void add_text(am_chunks *to, am_str text) {
	if (text.n > 0) am_add_chunk(to, (am_chunk){.kind = AM_S("text"), .text = text});
}

/* cut moves the complete sentences out of the held text. */
static void cut(am_str *held, am_chunks *to) {
	for (int32_t n; (n = ends(*held)) > 0; *held = (am_str){held->p + n, held->n - n}) add_text(to, (am_str){held->p, n});
}

/* Forwards the answer as it arrives. Chunks other than text and reasoning follow the text before
 * them. */
AM_HOOK(wrap_model) {
	am_response *response;
	if (!in->request.stream) return am_next_model(0, &response); /* there is nobody who could hear it in pieces */
	am_str held = AM_S("");
	am_received got;
	am_error *failed = am_next_model_stream(0), *e;
	while (failed == AM_OK && (failed = am_recv(&got)) == AM_OK && got.chunks.len > 0) {
		am_chunks ready = {0, 0, false};
		for (int32_t i = 0; i < got.chunks.len; i++) {
			const am_chunk *c = &got.chunks.items[i];
			if (am_eq(c->kind, "text")) {
				held = AM_CAT(held, c->text);
				cut(&held, &ready);
				continue;
			}
			if (!am_eq(c->kind, "reasoning")) {
				add_text(&ready, held);
				held = AM_S("");
			}
			am_add_chunk(&ready, *c);
		}
		if ((e = am_send(ready.items, ready.len)) != AM_OK) return e;
	}
	/* Forward the text up to a failure of the model. */
	am_chunks rest = {0, 0, false};
	add_text(&rest, held);
	e = am_send(rest.items, rest.len);
	return e != AM_OK ? e : failed;
}

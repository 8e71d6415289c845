/* redact hides e-mail addresses, card numbers, IP addresses and IBANs in the messages that a run
 * begins with, in requests to the model, in tools' results, and in the model's answers, even where
 * a streamed chunk ends in the middle of an address.
 *
 * Unlike the Go version it has no hashes, custom patterns, tool arguments, IPv6 addresses, or
 * non-ASCII letters in addresses. */
#include "kinds.h"

AM_HOOK(describe) {
	out->name = AM_S("redact");
	out->version = AM_S("1.1.0");
	out->description = AM_S("Hides e-mail addresses, card numbers, IP addresses and IBANs.");
	out->messages = AM_S("lazy");
	out->config_schema = AM_S("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
		"\"detect\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"which of email, credit_card, ip, iban to look for\"},"
		"\"strategy\":{\"type\":\"string\",\"description\":\"what stands in the place of a find: redact or mask\"},"
		"\"input\":{\"type\":\"boolean\",\"description\":\"hide in the user's messages, in requests and in the run's state\"},"
		"\"output\":{\"type\":\"boolean\",\"description\":\"hide in the model's answers\"},"
		"\"tool_results\":{\"type\":\"boolean\",\"description\":\"hide in what tools answer\"}}}");
	return AM_OK;
}

/* State that configure sets is part of the module's memory image. */
static bool detect[KINDS], masks, in_input, in_output, in_results;

static bool flag(const am_value *config, const char *key) {
	const am_value *v = am_get_key(config, am_of(key));
	return v == 0 || v->kind == AM_TRUE;
}

AM_HOOK(configure) {
	const am_value *config = am_parse(in->config, 0), *names = am_get(config, "detect");
	for (int32_t k = 0; k < KINDS; k++) detect[k] = names == 0;
	for (int32_t i = 0; names != 0 && i < names->len; i++) {
		int32_t k = 0;
		while (k < KINDS && !am_same(names->items[i].text, am_of(kind_names[k]))) k++;
		if (k == KINDS)
			return am_fail("invalid", AM_CAT(AM_S("config: detect["), am_decimal(i), AM_S("]: "), am_quote(names->items[i].text),
				AM_S(" is not one of email, credit_card, ip, iban")));
		detect[k] = true;
	}
	am_str strategy = am_text_or(am_get(config, "strategy"), AM_S("redact"));
	masks = am_eq(strategy, "mask");
	if (!masks && !am_eq(strategy, "redact"))
		return am_fail("invalid", AM_CAT(AM_S("config: strategy: "), am_quote(strategy), AM_S(" is not one of redact, mask")));
	in_input = flag(config, "input");
	in_output = flag(config, "output");
	in_results = flag(config, "tool_results");
	return AM_OK;
}

/* The number of matches of each kind. */
typedef struct {
	int32_t of[KINDS];
} finds;

/* tell emits an event with the counts, without the data. */
static am_error *tell(const finds *found, am_str where) {
	am_str list = AM_S("");
	for (int32_t k = 0; k < KINDS; k++)
		if (found->of[k] > 0) list = AM_CAT(list, list.n > 0 ? AM_S(",\"") : AM_S("\""), am_of(kind_names[k]), AM_S("\":"), am_decimal(found->of[k]));
	return list.n > 0 ? am_emit(AM_S("redacted"), AM_CAT(AM_S("{\"in\":\""), where, AM_S("\",\"found\":{"), list, AM_S("}}"))) : AM_OK;
}

/* instead returns the replacement of a match. */
static am_str instead(int32_t kind, am_str found) {
	char *to = am_alloc((size_t)found.n + 32);
	int32_t n = 0, left = 0, keep = kind == CARD || kind == IBAN ? 4 : 0;
	if (!masks) {
		for (const char *c = kind_names[kind]; *c != 0; c++) to[n++] = is_alnum(*c) ? (char)(*c & ~32) : *c;
		return AM_CAT(AM_S("[REDACTED_"), ((am_str){to, n}), AM_S("]"));
	}
	for (int32_t i = 0; i < found.n; i++) left += is_alnum(found.p[i]);
	for (int32_t i = 0; i < found.n; i++) {
		bool plain = is_alnum(found.p[i]);
		to[n++] = plain && left > keep ? '*' : found.p[i];
		left -= plain;
	}
	return (am_str){to, n};
}

/* find_all returns the matches of all kinds, merged where they overlap. */
static spans find_all(am_str text, int32_t from) {
	spans all = {0, 0}, apart = {0, 0};
	for (int32_t k = 0; k < KINDS; k++)
		if (detect[k]) find_kind(k, text, from, &all);
	for (int32_t i = 1; i < all.len; i++) {
		span s = all.items[i];
		int32_t k = i;
		for (; k > 0 && all.items[k - 1].from > s.from; k--) all.items[k] = all.items[k - 1];
		all.items[k] = s;
	}
	for (int32_t i = 0; i < all.len; i++) {
		span *last = apart.len > 0 ? &apart.items[apart.len - 1] : 0;
		if (last != 0 && all.items[i].from < last->to) last->to = most_of(last->to, all.items[i].to);
		else add_span(&apart, all.items[i]);
	}
	return apart;
}

/* cut_at returns the end of the text that more text cannot change. It is never within a match. */
static int32_t cut_at(am_str text, int32_t from, const spans *found) {
	int32_t cut = text.n;
	for (int32_t k = 0; k < KINDS; k++)
		if (detect[k]) cut = least_of(cut, open_kind(k, text, from));
	for (int32_t i = 0; i < found->len; i++)
		if (found->items[i].from < cut && cut < found->items[i].to) return found->items[i].from;
	return cut;
}

/* The end of a text that may still become part of a match. */
typedef struct {
	am_str before; /* the character before it */
	am_str text;
} tail;

/* next appends a piece to a tail and returns the text to release: everything before the first
 * possible match that is still incomplete, with complete matches replaced. With the last piece it
 * returns everything. */
static am_str next(tail *t, am_str piece, bool last, finds *count) {
	am_str text = AM_CAT(t->before, t->text, piece);
	int32_t from = t->before.n, at = from, before;
	spans found = find_all(text, from);
	int32_t cut = last ? text.n : cut_at(text, from, &found), n = 0;
	am_str *parts = am_alloc((size_t)(2 * found.len + 1) * sizeof(am_str));
	for (int32_t i = 0; i < found.len && found.items[i].from < cut; i++) {
		span s = found.items[i];
		parts[n++] = (am_str){text.p + at, s.from - at};
		parts[n++] = instead(s.kind, (am_str){text.p + s.from, s.to - s.from});
		count->of[s.kind]++;
		at = s.to;
	}
	if (at < cut) parts[n++] = (am_str){text.p + at, cut - at};
	for (before = cut; before > 0 && (text.p[--before] & 0xc0) == 0x80;);
	t->before = (am_str){text.p + before, cut - before};
	t->text = (am_str){text.p + cut, text.n - cut};
	return am_concat(parts, n);
}

/* all redacts a complete text. */
static am_str all(am_str text, finds *count) {
	tail t = {0};
	return next(&t, text, true, count);
}

static bool hide_content(am_content *c, finds *count) {
	bool changed = false;
	if (c->kind == AM_CONTENT_TEXT) {
		am_str was = c->text;
		c->text = all(was, count);
		changed = !am_same(was, c->text);
	}
	if (c->kind != AM_CONTENT_PARTS) return changed;
	am_part *parts = am_alloc((size_t)c->parts.len * sizeof(am_part)); /* those that came may be read again */
	for (int32_t i = 0; i < c->parts.len; i++) {
		parts[i] = c->parts.items[i];
		parts[i].text = all(parts[i].text, count);
		changed = changed || !am_same(parts[i].text, c->parts.items[i].text);
	}
	c->parts.items = parts;
	return changed;
}

/* hide_message redacts a message if its role is enabled, and reports whether it changed. */
static bool hide_message(am_message *m, finds *count) {
	if (!(am_eq(m->role, "user") ? in_input : am_eq(m->role, "tool") ? in_results : am_eq(m->role, "assistant") && in_output)) return false;
	am_str reasoning = all(m->reasoning_content, count);
	bool changed = !am_same(reasoning, m->reasoning_content);
	m->reasoning_content = reasoning;
	return hide_content(&m->content, count) || changed;
}

/* hide_list redacts all messages of a list, and emits an event. */
static am_error *hide_list(const am_list *messages, am_list_patch *patch, am_str where) {
	finds found = {0};
	for (int32_t i = 0; i < messages->total; i++) {
		const am_message *m;
		am_error *e = am_message_at(messages, i, &m);
		if (e != AM_OK) return e;
		am_message hidden = *m;
		if (hide_message(&hidden, &found)) am_set(patch, i, hidden);
	}
	return tell(&found, where);
}

/* Changes the run's state, so that the run is stored without the data. */
AM_HOOK(before_agent) { return hide_list(&in->messages, &out->messages, AM_S("input")); }

/* Processes messages that other modules have added. */
AM_HOOK(before_model) { return hide_list(&in->request.messages, &out->request.messages, AM_S("request")); }

/* Processes an answer that did not pass through on_chunk, because a module made it. */
AM_HOOK(after_model_rewrite_state) {
	int32_t last = in->messages.total - 1;
	const am_message *m;
	finds found = {0};
	if (last < 0) return AM_OK;
	am_error *e = am_message_at(&in->messages, last, &m);
	if (e != AM_OK) return e;
	am_message hidden = *m;
	if (hide_message(&hidden, &found)) am_set(&out->messages, last, hidden);
	return tell(&found, AM_S("output"));
}

/* Processes a tool's result or error. */
AM_HOOK(after_tool) {
	finds found = {0};
	if (!in_results) return AM_OK;
	if (in->result != 0 && hide_content(&in->result->content, &found)) out->result = in->result;
	if (in->error != 0) {
		in->error->message = all(in->error->message, &found);
		out->error = in->error;
	}
	return tell(&found, AM_S("tool_result"));
}

/* Processes a final answer that another module has changed. */
AM_HOOK(after_agent) {
	finds found = {0};
	if (in->final != 0 && hide_message(in->final, &found)) out->final = in->final;
	return tell(&found, AM_S("output"));
}

enum { TEXT, REASONING, TOOL_RESULT, STREAMED };

static const char *const streamed[STREAMED] = {"text", "reasoning", "tool_result"};

/* The held text of one text of a stream. */
typedef struct {
	bool known;
	am_str call_id;
	tail now, was;
} held;

static am_str key_of(int32_t kind, int64_t stream) { return AM_CAT(AM_S("stream/"), am_decimal(stream), AM_S("/"), am_of(streamed[kind])); }

static am_error *recall(held *h, int32_t kind, int64_t stream) {
	am_local_value kept;
	if (h->known) return AM_OK;
	am_error *e = am_local_get(key_of(kind, stream), &kept);
	if (e != AM_OK) return e;
	const am_value *v = am_parse(kept.value, 0);
	h->known = true;
	h->call_id = am_text_or(am_get(v, "call_id"), AM_S(""));
	h->now = h->was = (tail){am_text_or(am_get(v, "before"), AM_S("")), am_text_or(am_get(v, "text"), AM_S(""))};
	return AM_OK;
}

static am_error *keep(const held *h, int32_t kind, int64_t stream) {
	if (!h->known || (am_same(h->now.before, h->was.before) && am_same(h->now.text, h->was.text))) return AM_OK;
	return am_local_set(key_of(kind, stream), AM_CAT(AM_S("{\"before\":"), am_quote(h->now.before), AM_S(",\"text\":"), am_quote(h->now.text),
		AM_S(",\"call_id\":"), am_quote(h->call_id), AM_S("}")), AM_ALWAYS);
}

/* Releases text that cannot become part of a match any more. Held text is a run-local value,
 * because the host may discard the module's memory before the next chunk. */
AM_HOOK(on_chunk) {
	held of[STREAMED] = {0};
	finds output = {0}, results = {0};
	am_error *e = AM_OK;
	am_drop_chunks(&out->chunks);
	for (int32_t i = 0; i < in->chunks.len; i++) {
		am_chunk c = in->chunks.items[i];
		finds *found = c.call_id.n > 0 ? &results : &output;
		int32_t k = 0;
		while (k < STREAMED && !am_same(c.kind, am_of(streamed[k]))) k++;
		if (c.part != 0) c.part->text = all(c.part->text, found); /* it is not streamed in pieces */
		if (k < STREAMED && (k == TOOL_RESULT ? in_results : in_output)) {
			am_str was = c.text;
			if ((e = recall(&of[k], k, in->stream)) != AM_OK) return e;
			of[k].call_id = c.call_id;
			c.text = next(&of[k].now, was, false, found);
			if (c.text.n == 0 && was.n > 0) continue;
		}
		am_add_chunk(&out->chunks, c);
	}
	for (int32_t k = 0; k < STREAMED; k++) {
		if (in->final) {
			if ((e = recall(&of[k], k, in->stream)) != AM_OK) return e;
			am_str rest = next(&of[k].now, AM_S(""), true, k == TOOL_RESULT ? &results : &output);
			if (rest.n > 0) am_add_chunk(&out->chunks, (am_chunk){.kind = am_of(streamed[k]), .call_id = of[k].call_id, .text = rest});
		}
		if ((e = keep(&of[k], k, in->stream)) != AM_OK) return e;
	}
	e = tell(&output, AM_S("output"));
	return e != AM_OK ? e : tell(&results, AM_S("tool_result"));
}

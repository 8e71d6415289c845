/* tool-policy decides which tools may be called with which arguments. It is a gate: it judges the
 * exact bytes that the tool would receive, after all other modules.
 *
 * Unlike the Go version it does not decode disguised values: base64, escapes, JSON inside strings,
 * look-alike letters. Keys are compared ignoring the case of ASCII letters, and patterns are those
 * of pattern.h. */
#include "pattern.h"

AM_HOOK(describe) {
	out->name = AM_S("tool-policy");
	out->version = AM_S("1.1.0");
	out->description = AM_S("Allows, denies and asks about tool calls by tool and arguments, as they are spelled.");
	out->messages = AM_S("none");
	out->config_schema = AM_S("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
		"\"rules\":{\"type\":\"array\",\"description\":\"the strictest of those that match a call counts\",\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
		"\"tools\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"names of tools; * matches any characters\"},"
		"\"arguments\":{\"type\":\"array\",\"description\":\"all of them must hold\",\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
		"\"path\":{\"type\":\"string\",\"description\":\"keys separated by dots, * for any key or item\"},"
		"\"pattern\":{\"type\":\"string\",\"description\":\"a regular expression that must match somewhere in the value\"}}}},"
		"\"action\":{\"type\":\"string\",\"description\":\"allow, ask or deny\"},"
		"\"message\":{\"type\":\"string\",\"description\":\"the message about a call that this rule denies, for the model, or that it asks about, for the person\"}}}},"
		"\"default\":{\"type\":\"string\",\"description\":\"what becomes of a call that no rule matches: allow, ask or deny\"}}}");
	return AM_OK;
}

typedef struct {
	am_str path;
	pattern pattern;
} condition;

typedef enum { NONE, ALLOW, ASK, DENY } action; /* from the most lenient on */

typedef struct {
	const am_value *tools;
	condition *conditions;
	int32_t len;
	action action;
	am_str message;
} rule;

/* State that configure computes is part of the module's memory image. */
static rule *rules;
static int32_t rules_len;
static action by_default;

static action action_of(am_str name) { return am_eq(name, "allow") ? ALLOW : am_eq(name, "ask") ? ASK : am_eq(name, "deny") ? DENY : NONE; }

#define INVALID(...) am_fail("invalid", AM_CAT(AM_S("config: "), __VA_ARGS__))

static am_error *read_condition(const am_value *v, am_str at, condition *to) {
	if (v->kind != AM_MAP) return INVALID(at, AM_S(": want an object"));
	to->path = am_text_or(am_get(v, "path"), AM_S(""));
	am_str dotted = AM_CAT(AM_S("."), to->path, AM_S("."));
	if (to->path.n > 0 && am_find(dotted, AM_S(".."), 0) >= 0)
		return INVALID(at, AM_S(".path: "), am_quote(to->path), AM_S(" has an empty key; want keys separated by single dots"));
	am_str text = am_text_or(am_get(v, "pattern"), AM_S(""));
	if (text.n == 0) return INVALID(at, AM_S(".pattern: want a pattern for the value; . matches any value that is not empty"));
	const char *wrong = compile(text, &to->pattern);
	return wrong == 0 ? AM_OK : INVALID(at, AM_S(".pattern: "), am_of(wrong));
}

static am_error *read_rule(const am_value *v, am_str at, rule *to) {
	if (v->kind != AM_MAP) return INVALID(at, AM_S(": want an object"));
	am_str name = am_text_or(am_get(v, "action"), AM_S(""));
	to->action = action_of(name);
	if (to->action == NONE) return INVALID(at, AM_S(".action: "), am_quote(name), AM_S(" is not one of allow, ask, deny"));
	to->tools = am_get(v, "tools");
	if (to->tools == 0 || to->tools->len == 0) return INVALID(at, AM_S(".tools: name at least one tool; * is all of them"));
	for (int32_t i = 0; i < to->tools->len; i++)
		if (to->tools->items[i].text.n == 0) return INVALID(at, AM_S(".tools["), am_decimal(i), AM_S("]: a tool's name is never empty; * is all of them"));
	to->message = am_text_or(am_get(v, "message"), AM_S(""));
	const am_value *conditions = am_get(v, "arguments");
	to->len = conditions != 0 ? conditions->len : 0;
	to->conditions = am_alloc((size_t)to->len * sizeof(condition));
	for (int32_t i = 0; i < to->len; i++) {
		am_error *e = read_condition(&conditions->items[i], AM_CAT(at, AM_S(".arguments["), am_decimal(i), AM_S("]")), &to->conditions[i]);
		if (e != AM_OK) return e;
	}
	return AM_OK;
}

AM_HOOK(configure) {
	const am_value *config = am_parse(in->config, 0), *list = am_get(config, "rules");
	am_str name = am_text_or(am_get(config, "default"), AM_S("allow"));
	by_default = action_of(name);
	if (by_default == NONE) return INVALID(AM_S("default: "), am_quote(name), AM_S(" is not one of allow, ask, deny"));
	rules_len = list != 0 ? list->len : 0;
	rules = am_alloc((size_t)rules_len * sizeof(rule));
	for (int32_t i = 0; i < rules_len; i++) {
		am_str at = AM_CAT(AM_S("rules["), am_decimal(i), AM_S("]"));
		am_error *e = read_rule(&list->items[i], at, &rules[i]);
		if (e != AM_OK) return e;
		if (rules[i].action == ALLOW && by_default == ALLOW)
			return INVALID(at, AM_S(".action: allow has no effect if the default is allow; set default to deny or ask"));
	}
	return AM_OK;
}

/* named reports whether a name matches a pattern. In a pattern, * matches any sequence of
 * characters, including none. */
static bool named(am_str name, am_str with) {
	int32_t i = 0, k = 0, star = -1, back = 0;
	while (i < name.n) {
		if (k < with.n && with.p[k] == '*') {
			star = k++;
			back = i;
		} else if (k < with.n && with.p[k] == name.p[i]) {
			i++;
			k++;
		} else if (star >= 0) {
			k = star + 1;
			i = ++back;
		} else {
			return false;
		}
	}
	while (k < with.n && with.p[k] == '*') k++;
	return k == with.n;
}

/* number returns one spelling for all literals of a number, so that 1e3 does not pass where 1000
 * would not. A number of more than 64 digits, zeros at its end included, of 1e64 or more, or closer to
 * 0 than 1e-10 is returned unchanged. */
static am_str number(am_str literal) {
	char digits[64], out[128];
	int32_t n = 0, point = 0, len = 0;
	int64_t exponent = 0;
	bool negative = false, behind = false;
	for (int32_t i = 0; i < literal.n; i++) {
		char c = literal.p[i];
		if (c == '-') negative = true;
		else if (c == '.') behind = true;
		else if ((c | 32) == 'e') {
			am_str rest = {literal.p + i + 1, literal.n - i - 1};
			if (rest.n > 0 && rest.p[0] == '+') rest = (am_str){rest.p + 1, rest.n - 1};
			if (!am_whole(rest, &exponent)) return literal;
			break;
		} else if (n == 0 && c == '0') {
			if (behind) point--;
		} else if (n == 64) return literal;
		else {
			digits[n++] = c;
			if (!behind) point++;
		}
	}
	while (n > 0 && digits[n - 1] == '0') n--;
	if (n == 0) return AM_S("0");
	if (exponent > 1000000000 || exponent < -1000000000) return literal;
	point += (int32_t)exponent;
	if (point > 64 || point < -9) return literal;
	if (negative) out[len++] = '-';
	if (point <= 0) out[len++] = '0';
	for (int32_t i = 0; i < point; i++) out[len++] = i < n ? digits[i] : '0';
	if (n > point) {
		out[len++] = '.';
		for (int32_t i = point; i < n; i++) out[len++] = i < 0 ? '0' : digits[i];
	}
	char *text = am_alloc((size_t)len);
	memcpy(text, out, (size_t)len);
	return (am_str){text, len};
}

static am_str spelled(const am_value *v) {
	switch (v->kind) {
	case AM_STRING:
		return v->text;
	case AM_NUMBER:
		return number(v->text);
	default:
		return v->kind == AM_TRUE ? AM_S("true") : v->kind == AM_FALSE ? AM_S("false") : AM_S("null");
	}
}

static bool same_key(am_str a, am_str b) {
	bool same = a.n == b.n;
	for (int32_t i = 0; same && i < a.n; i++) same = lowered((unsigned char)a.p[i]) == lowered((unsigned char)b.p[i]);
	return same;
}

/* count counts the values at a path, and those that match. */
static void count(const am_value *v, am_str path, const pattern *p, int32_t *all, int32_t *matching) {
	if (v->kind != AM_MAP && v->kind != AM_ARRAY) {
		if (path.n > 0) return;
		++*all;
		*matching += matches(p, spelled(v));
		return;
	}
	int32_t dot = am_find(path, AM_S("."), 0);
	am_str key = path.n == 0 ? AM_S("*") : dot < 0 ? path : (am_str){path.p, dot};
	am_str rest = dot < 0 ? AM_S("") : (am_str){path.p + dot + 1, path.n - dot - 1};
	for (int32_t i = 0; i < v->len; i++) {
		am_str name = v->kind == AM_MAP ? v->items[i].key : am_decimal(i);
		if (am_eq(key, "*") || same_key(key, name)) count(&v->items[i], rest, p, all, matching);
	}
}

/* about reports whether a rule applies to a call. A rule that denies or asks applies if any value
 * matches, so one good value does not hide a bad one. A rule that allows applies only if all values
 * match. */
static bool about(const rule *r, am_str tool, const am_value *arguments) {
	bool is = false;
	for (int32_t i = 0; i < r->tools->len; i++) is = is || named(tool, r->tools->items[i].text);
	for (int32_t i = 0; is && i < r->len; i++) {
		int32_t all = 0, matching = 0;
		count(arguments, r->conditions[i].path, &r->conditions[i].pattern, &all, &matching);
		is = r->action == ALLOW ? all > 0 && matching == all : matching > 0;
	}
	return is;
}

AM_HOOK(gate_tool) {
	am_str tool = in->call.name;
	const char *wrong;
	const am_value *arguments = am_parse(in->call.arguments.n > 0 ? in->call.arguments : AM_S("{}"), &wrong);
	if (arguments == 0) return am_deny(out, AM_CAT(AM_S("The policy cannot read the arguments of "), tool, AM_S(": "), am_of(wrong)));
	if (arguments->kind != AM_MAP) return am_deny(out, AM_CAT(AM_S("The policy cannot read the arguments of "), tool, AM_S(": want an object")));
	const rule *by = 0;
	for (int32_t i = 0; i < rules_len; i++)
		if (rules[i].action > (by != 0 ? by->action : NONE) && about(&rules[i], tool, arguments)) by = &rules[i];
	am_str message = by != 0 ? by->message : AM_S("");
	switch (by != 0 ? by->action : by_default) {
	case ALLOW:
		return am_allow(out);
	case ASK:
		if (message.n == 0) message = AM_CAT(AM_S("May "), tool, AM_S(" be called with these arguments?"));
		return am_ask_for(out, message, AM_CAT(AM_S("{\"rule\":"), am_decimal(by != 0 ? by - rules : -1), AM_S("}")));
	default:
		if (message.n == 0)
			message = by != 0 ? AM_CAT(AM_S("The policy does not allow calls of "), tool, AM_S(" with these arguments."))
							  : AM_CAT(AM_S("The policy does not allow this call of "), tool, AM_S("."));
		return am_deny(out, message);
	}
}

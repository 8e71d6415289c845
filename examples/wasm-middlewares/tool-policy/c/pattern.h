/* pattern.h: regular expressions for this policy. Matching takes one pass over the text for any
 * pattern, so no pattern makes it slow.
 *
 * The syntax is . [] () | * + ? {n,m} ^ $ \b, the classes \d \w \s and their negations, escapes of
 * punctuation, \t \n \r, and (?i) (?s) at the beginning. Anything else is an error. */
#include "../../../../guest-sdk/c/agent_middleware.h"

typedef enum { CHAR, ANY, SET, SPLIT, JUMP, BEGIN, END, WORD, NOT_WORD, MATCH } op;

/* x and y are a character, the bounds of a set's ranges, or relative jump targets. */
typedef struct {
	op op;
	bool negated;
	int32_t x, y;
} instruction;

typedef struct {
	uint32_t from, to;
} range;

typedef struct {
	instruction *code;
	range *ranges;
	int32_t len, ranges_len;
	bool fold, lines;
} pattern;

enum { MOST = 2000 };

typedef struct {
	pattern *to;
	const char *p, *end;
	const char *wrong;
	int32_t depth;
} pattern_reader;

static void emit(pattern_reader *r, instruction i) {
	pattern *t = r->to;
	if (t->len >= MOST) {
		r->wrong = "it is too long";
		return;
	}
	t->code = am_grow(t->code, t->len, sizeof(instruction));
	t->code[t->len++] = i;
}

/* put inserts an instruction before those emitted from index at on. Jumps are relative, so the
 * moved instructions stay valid. */
static void put(pattern_reader *r, int32_t at, instruction i) {
	emit(r, i);
	if (r->wrong != 0) return;
	for (int32_t k = r->to->len - 1; k > at; k--) r->to->code[k] = r->to->code[k - 1];
	r->to->code[at] = i;
}

static void add_range(pattern *t, uint32_t from, uint32_t to) {
	t->ranges = am_grow(t->ranges, t->ranges_len, sizeof(range));
	t->ranges[t->ranges_len++] = (range){from, to};
}

/* class adds the ranges of \d, \w or \s, or of their negations. */
static bool class(pattern *t, char c) {
	static const range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, spaces[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
	char lower = (char)(c | 32);
	const range *of = lower == 'd' ? digits : lower == 'w' ? words : spaces;
	int32_t n = lower == 'd' ? 1 : lower == 'w' ? 4 : 3;
	if (lower != 'd' && lower != 'w' && lower != 's') return false;
	uint32_t next = 0;
	for (int32_t i = 0; i < n; i++) {
		if (c == lower) add_range(t, of[i].from, of[i].to);
		else if (next < of[i].from) add_range(t, next, of[i].from - 1);
		next = of[i].to + 1;
	}
	if (c != lower) add_range(t, next, 0x10ffff);
	return true;
}

static uint32_t next_character(pattern_reader *r) {
	int32_t len;
	uint32_t c = am_character(r->p, (int32_t)(r->end - r->p), &len);
	r->p += len;
	return c;
}

/* escaped parses the character after a backslash. */
static uint32_t escaped(pattern_reader *r) {
	uint32_t c = r->p < r->end ? next_character(r) : 0;
	if (c == 't' || c == 'n' || c == 'r') return c == 't' ? '\t' : c == 'n' ? '\n' : '\r';
	if (c <= ' ' || c >= 127 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) r->wrong = "there is an escape that it does not know";
	return c;
}

static void set(pattern_reader *r) {
	instruction i = {SET, false, r->to->ranges_len, 0};
	if (r->p < r->end && *r->p == '^') {
		i.negated = true;
		r->p++;
	}
	for (bool first = true; r->wrong == 0; first = false) {
		if (r->p >= r->end) r->wrong = "a ] is missing";
		else if (*r->p == ']' && !first) break;
		else if (r->end - r->p > 1 && *r->p == '\\' && class(r->to, r->p[1])) r->p += 2;
		else if (r->end - r->p > 1 && *r->p == '[' && r->p[1] == ':') r->wrong = "it has a class by name";
		else {
			uint32_t from = next_character(r), to;
			if (from == '\\') from = escaped(r);
			to = from;
			if (r->end - r->p > 1 && *r->p == '-' && r->p[1] != ']') {
				r->p++;
				to = next_character(r);
				if (to == '\\') to = escaped(r);
			}
			if (to < from) r->wrong = "a range is the wrong way round";
			add_range(r->to, from, to);
		}
	}
	r->p++;
	i.y = r->to->ranges_len;
	emit(r, i);
}

static void either(pattern_reader *r);

static void atom(pattern_reader *r) {
	uint32_t c = next_character(r);
	int32_t ranges = r->to->ranges_len;
	switch (c) {
	case '(':
		if (r->end - r->p > 1 && r->p[0] == '?' && r->p[1] == ':') r->p += 2;
		else if (r->p < r->end && *r->p == '?') r->wrong = "it has a group that begins with (?";
		if (++r->depth > 50) r->wrong = "it is nested too deeply";
		if (r->wrong == 0) either(r);
		r->depth--;
		if (r->p >= r->end || *r->p != ')') r->wrong = r->wrong != 0 ? r->wrong : "a ) is missing";
		else r->p++;
		return;
	case '[':
		return set(r);
	case '.':
		return emit(r, (instruction){ANY, false, 0, 0});
	case '^':
		return emit(r, (instruction){BEGIN, false, 0, 0});
	case '$':
		return emit(r, (instruction){END, false, 0, 0});
	case '*':
	case '+':
	case '?':
		r->wrong = "there is nothing to repeat";
		return;
	case '\\':
		if (r->p < r->end && (*r->p == 'b' || *r->p == 'B')) return emit(r, (instruction){*r->p++ == 'b' ? WORD : NOT_WORD, false, 0, 0});
		if (r->p < r->end && class(r->to, *r->p)) {
			r->p++;
			return emit(r, (instruction){SET, false, ranges, r->to->ranges_len});
		}
		c = escaped(r);
	}
	emit(r, (instruction){CHAR, false, (int32_t)c, 0});
}

/* counts parses {n}, {n,} or {n,m}; any other brace is literal. */
static bool counts(pattern_reader *r, int32_t *least, int32_t *most) {
	const char *p = r->p + 1;
	int32_t n[2] = {0, -1}, digits[2] = {0, 0}, which = 0;
	for (; p < r->end && *p != '}'; p++) {
		if (*p == ',' && which == 0) which = 1;
		else if (*p >= '0' && *p <= '9' && digits[which]++ < 4) n[which] = (n[which] < 0 ? 0 : n[which]) * 10 + (*p - '0');
		else return false;
	}
	if (p >= r->end || digits[0] == 0) return false;
	*least = n[0];
	*most = which == 0 ? n[0] : n[1];
	if (*most >= 0 && *most < *least) r->wrong = "a count is the wrong way round";
	r->p = p + 1;
	return true;
}

/* repeated repeats the instructions emitted from index at on. */
static void repeated(pattern_reader *r, int32_t at, int32_t least, int32_t most) {
	int32_t n = r->to->len - at;
	instruction *one = am_alloc((size_t)n * sizeof(instruction));
	memcpy(one, r->to->code + at, (size_t)n * sizeof(instruction));
	r->to->len = at;
	for (int32_t i = 0; i < least; i++)
		for (int32_t k = 0; k < n && r->wrong == 0; k++) emit(r, one[k]);
	if (most < 0) {
		emit(r, (instruction){SPLIT, false, 1, n + 2});
		for (int32_t k = 0; k < n; k++) emit(r, one[k]);
		emit(r, (instruction){JUMP, false, -(n + 1), 0});
	}
	for (int32_t i = least; i < most && r->wrong == 0; i++) {
		emit(r, (instruction){SPLIT, false, 1, n + 1});
		for (int32_t k = 0; k < n; k++) emit(r, one[k]);
	}
}

static void sequence(pattern_reader *r) {
	while (r->wrong == 0 && r->p < r->end && *r->p != '|' && *r->p != ')') {
		int32_t at = r->to->len, least, most;
		atom(r);
		if (r->wrong != 0 || r->p >= r->end) continue;
		char c = *r->p;
		if (c == '*' || c == '+' || c == '?') {
			repeated(r, at, c == '+', c == '?' ? 1 : -1);
			r->p++;
		} else if (c == '{' && counts(r, &least, &most)) {
			repeated(r, at, least, most);
		} else {
			continue;
		}
		if (r->p < r->end && *r->p == '?') r->p++; /* whether it matches does not depend on that */
		if (r->p < r->end && (*r->p == '*' || *r->p == '+' || *r->p == '?' || (*r->p == '{' && counts(r, &least, &most)))) r->wrong = "there is nothing to repeat";
	}
}

static void either(pattern_reader *r) {
	int32_t at = r->to->len;
	sequence(r);
	if (r->wrong != 0 || r->p >= r->end || *r->p != '|') return;
	r->p++;
	put(r, at, (instruction){SPLIT, false, 1, r->to->len - at + 2});
	int32_t jump = r->to->len;
	emit(r, (instruction){JUMP, false, 0, 0});
	either(r);
	if (r->wrong == 0) r->to->code[jump].x = r->to->len - jump;
}

/* compile returns the error in a pattern, or 0. */
static const char *compile(am_str text, pattern *to) {
	pattern_reader r = {to, text.p, text.p + text.n, 0, 0};
	*to = (pattern){0};
	if (am_begins(text, AM_S("(?i)")) || am_begins(text, AM_S("(?s)"))) {
		to->fold = text.p[2] == 'i';
		to->lines = !to->fold;
		r.p += 4;
	}
	either(&r);
	if (r.wrong == 0 && r.p < r.end) r.wrong = "a ( is missing";
	if (r.wrong == 0) emit(&r, (instruction){MATCH, false, 0, 0});
	return r.wrong;
}

typedef struct {
	int32_t *at, len, *seen, turn;
} threads;

static bool is_word(uint32_t c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

/* follow adds an instruction, or those reachable from it without consuming a character. before and
 * after are the adjacent characters, or 0. */
static bool follow(const pattern *p, threads *t, int32_t pc, uint32_t before, uint32_t after, bool begin, bool end) {
	if (t->seen[pc] == t->turn) return false;
	t->seen[pc] = t->turn;
	const instruction *i = &p->code[pc];
	bool border = is_word(before) != is_word(after);
	switch (i->op) {
	case MATCH:
		return true;
	case SPLIT:
		return follow(p, t, pc + i->x, before, after, begin, end) || follow(p, t, pc + i->y, before, after, begin, end);
	case JUMP:
		return follow(p, t, pc + i->x, before, after, begin, end);
	case BEGIN:
	case END:
	case WORD:
	case NOT_WORD:
		if (!(i->op == BEGIN ? begin : i->op == END ? end : i->op == WORD ? border : !border)) return false;
		return follow(p, t, pc + 1, before, after, begin, end);
	default:
		t->at[t->len++] = pc;
		return false;
	}
}

static uint32_t lowered(uint32_t c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; }

static bool takes(const pattern *p, const instruction *i, uint32_t c) {
	if (i->op == ANY) return p->lines || c != '\n';
	if (i->op == CHAR) return (uint32_t)i->x == c || (p->fold && lowered((uint32_t)i->x) == lowered(c));
	bool in = false;
	for (int32_t k = i->x; k < i->y && !in; k++) {
		const range *r = &p->ranges[k];
		uint32_t other = is_word(c) && lowered(c) != '_' && c > '9' ? c ^ 32 : c;
		in = (c >= r->from && c <= r->to) || (p->fold && other >= r->from && other <= r->to);
	}
	return in != i->negated;
}

/* matches reports whether a pattern matches somewhere in a text. */
static bool matches(const pattern *p, am_str text) {
	size_t size = (size_t)p->len * sizeof(int32_t);
	threads now = {am_alloc(size), 0, am_alloc(size), 0}, next = {am_alloc(size), 0, now.seen, 0};
	int32_t turn = 0, len = 0, unused;
	for (int32_t at = 0; at <= text.n; at += len) {
		bool end = at == text.n;
		uint32_t c = end ? 0 : am_character(text.p + at, text.n - at, &len);
		if (at == 0) {
			now.turn = ++turn;
			if (follow(p, &now, 0, 0, c, true, end)) return true;
		}
		if (end) return false;
		uint32_t after = at + len < text.n ? am_character(text.p + at + len, text.n - at - len, &unused) : 0;
		next.len = 0;
		next.turn = ++turn;
		for (int32_t k = 0; k < now.len; k++)
			if (takes(p, &p->code[now.at[k]], c) && follow(p, &next, now.at[k] + 1, c, after, false, at + len == text.n)) return true;
		if (follow(p, &next, 0, c, after, false, at + len == text.n)) return true;
		threads swap = now;
		now = next;
		next = swap;
	}
	return false;
}

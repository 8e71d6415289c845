// A parser for the host's JSON, which takes less work than JS_ParseJSON: it finds keys in a
// cache and copies strings in one piece. It gives up at unpaired surrogates, at invalid text and
// beyond DEPTH levels. JS_ParseJSON then decides.

#define json (&slots->json)

typedef u64 __attribute__((aligned(1))) unaligned;
typedef unsigned __attribute__((aligned(1))) unaligned_word;

enum { DEPTH = 128, ROOM = 4096, MAX_KEPT = 64 << 10, PIECE = 256 };

// Flags of JS_GetOwnPropertyNames: strings, and enumerable ones only.
enum { ENUMERABLE_STRINGS = 1 << 0 | 1 << 4 };

// Flags of JS_DefinePropertyValue.
enum { CONFIGURABLE_WRITABLE_ENUMERABLE = 7 };

static int json_start(void) {
	value undefined = qjs_get_undefined(), null = qjs_get_null(), yes = qjs_get_true(), no = qjs_get_false();
	json->cache = malloc(KEYS * sizeof(struct key));
	if (!undefined || !null || !yes || !no || !json->cache) return 0;
	for (int i = 0; i < KEYS; i++) json->cache[i].length = 0;
	json->context = qjs_get_context_ptr();
	json->undefined = *undefined;
	json->null = *null;
	json->yes = *yes;
	json->no = *no;
	json->exception = JS_Throw(json->context, json->undefined);
	JS_GetException(json->context); // undefined, which need not be freed
	json->top = json->room = json->frozen = 0;
	json->values = 0;
	json->text = 0;
	json->size = json->writing = 0;
	unsigned char *name = json->cache->text; // "toJSON"; the cache is still empty
	*(unaligned *)name = 0x4e4f534a6f74;
	json->to_json = JS_NewAtomLen(json->context, name, 6);
	u64 object = JS_NewObject(json->context), array = JS_NewArrayFrom(json->context, 0, 0);
	json->object_class = JS_GetClassID(object);
	json->array_class = JS_GetClassID(array);
	JS_FreeValue(json->context, object);
	JS_FreeValue(json->context, array);
	slots->cell = undefined;
	qjs_free_value(null);
	qjs_free_value(yes);
	qjs_free_value(no);
	return 1;
}

// json_push adds a value to the stack, which takes it.
static int json_push(u64 v) {
	if (json->top == json->room) {
		int room = json->room ? 2 * json->room : 64;
		u64 *values = realloc(json->values, room * sizeof *values);
		if (!values) {
			JS_FreeValue(json->context, v);
			return 0;
		}
		json->values = values;
		json->room = room;
	}
	json->values[json->top++] = v;
	return 1;
}

static void json_space(void) {
	while (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r') json->at++;
}

// json_plain returns the first byte from p on that ends a string or begins an escape, or that
// a string cannot have.
static unsigned char *json_plain(unsigned char *p) {
	const u64 ones = 0x0101010101010101, high = 0x8080808080808080;
	for (;; p += 8) {
		u64 v = *(unaligned *)p, quote = v ^ ones * '"', escape = v ^ ones * '\\';
		if ((((quote - ones) & ~quote) | ((escape - ones) & ~escape) | ((v - ones * ' ') & ~v)) & high) break;
	}
	while (*p != '"' && *p != '\\' && *p >= ' ') p++;
	return p;
}

// json_hex returns the number that four hexadecimal digits are, or -1.
static int json_hex(unsigned char *p) {
	int n = 0;
	for (int i = 0; i < 4; i++) {
		int c = p[i], lower = c | 0x20;
		if (c >= '0' && c <= '9') n = n << 4 | (c - '0');
		else if (lower >= 'a' && lower <= 'f') n = n << 4 | (lower - 'a' + 10);
		else return -1;
	}
	return n;
}

// json_escape decodes the escape at json->at, writes the character to p, and returns the end of
// it, or 0.
static unsigned char *json_escape(unsigned char *p) {
	int c = json->at[1], low;
	json->at += 2;
	switch (c) {
	case '"': case '\\': case '/': *p++ = c; return p;
	case 'b': *p++ = '\b'; return p;
	case 'f': *p++ = '\f'; return p;
	case 'n': *p++ = '\n'; return p;
	case 'r': *p++ = '\r'; return p;
	case 't': *p++ = '\t'; return p;
	case 'u': break;
	default: return 0;
	}
	if ((c = json_hex(json->at)) < 0) return 0;
	json->at += 4;
	if (c >= 0xd800 && c < 0xe000) {
		if (c >= 0xdc00 || json->at[0] != '\\' || json->at[1] != 'u') return 0;
		low = json_hex(json->at + 2);
		if (low < 0xdc00 || low >= 0xe000) return 0;
		json->at += 6;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c < 0x80) {
		*p++ = c;
		return p;
	}
	if (c < 0x800) {
		*p++ = 0xc0 | c >> 6;
	} else {
		if (c < 0x10000) {
			*p++ = 0xe0 | c >> 12;
		} else {
			*p++ = 0xf0 | c >> 18;
			*p++ = 0x80 | (c >> 12 & 0x3f);
		}
		*p++ = 0x80 | (c >> 6 & 0x3f);
	}
	*p++ = 0x80 | (c & 0x3f);
	return p;
}

// json_text reads the string at json->at and returns its text, whose length it writes to slot 0.
static unsigned char *json_text(void) {
	unsigned char *start = ++json->at;
	json->at = json_plain(start);
	if (*json->at == '"') {
		slots->length[0] = json->at++ - start;
		return start;
	}
	if (!json->unescaped && !(json->unescaped = malloc(json->length))) return 0;
	unsigned char *p = json->unescaped;
	for (;;) {
		memcpy(p, start, json->at - start);
		p += json->at - start;
		if (*json->at == '"') break;
		if (*json->at != '\\' || !(p = json_escape(p))) return 0;
		start = json->at;
		json->at = json_plain(start);
	}
	json->at++;
	slots->length[0] = p - json->unescaped;
	return json->unescaped;
}

// json_key returns the atom of a key, which the caller frees, or 0.
static unsigned json_key(unsigned char *text, int length) {
	if (length == 0 || length > (int)sizeof json->cache->text) return JS_NewAtomLen(json->context, text, length);
	unsigned hash = length;
	for (int i = 0; i < length; i++) hash = hash * 33 ^ text[i];
	struct key *k = &json->cache[(hash ^ hash >> 8) % KEYS];
	if (k->length == length) {
		int i = 0;
		while (i < length && k->text[i] == text[i]) i++;
		if (i == length) return JS_DupAtom(json->context, k->atom);
	}
	unsigned atom = JS_NewAtomLen(json->context, text, length);
	if (!atom) return 0;
	if (k->length) JS_FreeAtom(json->context, k->atom);
	k->atom = atom;
	k->length = length;
	for (int i = 0; i < length; i++) k->text[i] = text[i];
	return JS_DupAtom(json->context, atom);
}

static u64 json_number(void) {
	unsigned char *start = json->at, *p = start;
	int negative = *p == '-';
	p += negative;
	long long n = 0;
	int digits = 0;
	for (; *p >= '0' && *p <= '9'; p++, digits++)
		if (digits < 15) n = n * 10 + (*p - '0');
	if (digits == 0) return json->exception;
	if (digits <= 15 && *p != '.' && *p != 'e' && *p != 'E') {
		json->at = p;
		return JS_NewNumber(json->context, negative ? -(double)n : (double)n);
	}
	while ((*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E' || *p == '+' || *p == '-') p++;
	json->at = p;
	return JS_NewNumber(json->context, strtod(start, 0));
}

static int json_literal(char a, char b, char c, char d) {
	unsigned char *p = json->at;
	return p[0] == a && p[1] == b && p[2] == c && p[3] == d;
}

static u64 json_value(int depth);

// json_more reads the separator after a member and returns 1, or 0 at the end of the object or
// array, or -1 for other text.
static int json_more(int end) {
	json_space();
	int c = *json->at++;
	if (c == end) return 0;
	if (c != ',') return -1;
	json_space();
	return 1;
}

// json_begins reads the first character of an object or array and returns whether it has members.
static int json_begins(int end) {
	json->at++;
	json_space();
	if (*json->at != end) return 1;
	json->at++;
	return 0;
}

// json_member reads a key and its value, and adds them to an object.
static int json_member(u64 object, int depth) {
	if (*json->at != '"') return 0;
	unsigned char *text = json_text();
	unsigned key = text ? json_key(text, slots->length[0]) : 0;
	if (!key) return 0;
	int done = 0;
	json_space();
	if (*json->at++ == ':') {
		json_space();
		u64 v = json_value(depth);
		done = v != json->exception && JS_DefinePropertyValue(json->context, object, key, v, CONFIGURABLE_WRITABLE_ENUMERABLE) >= 0;
	}
	JS_FreeAtom(json->context, key);
	return done;
}

static u64 json_object(int depth) {
	u64 v = JS_NewObject(json->context);
	if (v == json->exception) return v;
	for (int more = json_begins('}'); more; more = json_more('}')) {
		if (more < 0 || !json_member(v, depth)) {
			JS_FreeValue(json->context, v);
			return json->exception;
		}
	}
	return v;
}

static u64 json_array(int depth) {
	int base = json->top;
	for (int more = json_begins(']'); more; more = json_more(']')) {
		if (more < 0) return json->exception;
		u64 v = json_value(depth);
		if (v == json->exception || !json_push(v)) return json->exception;
	}
	int count = json->top - base;
	json->top = base;
	return JS_NewArrayFrom(json->context, count, json->values + base);
}

static u64 json_value(int depth) {
	switch (*json->at) {
	case '"': {
		unsigned char *text = json_text();
		return text ? JS_NewStringLen(json->context, text, slots->length[0]) : json->exception;
	}
	case '{': case '[': {
		if (depth == DEPTH) return json->exception;
		u64 v = *json->at == '{' ? json_object(depth + 1) : json_array(depth + 1);
		if (json->frozen && v != json->exception && JS_FreezeObject(json->context, v) < 0) {
			JS_FreeValue(json->context, v);
			return json->exception;
		}
		return v;
	}
	case 't':
		if (!json_literal('t', 'r', 'u', 'e')) return json->exception;
		json->at += 4;
		return json->yes;
	case 'f':
		json->at++;
		if (!json_literal('a', 'l', 's', 'e')) return json->exception;
		json->at += 4;
		return json->no;
	case 'n':
		if (!json_literal('n', 'u', 'l', 'l')) return json->exception;
		json->at += 4;
		return json->null;
	default:
		return json_number();
	}
}

// json_parse returns the value of a text that ends with a zero byte, or exception if it gave up.
// There is no exception to handle then.
static u64 json_parse(unsigned char *text, int length) {
	json->at = text;
	json->length = length;
	json->unescaped = 0;
	json_space();
	u64 v = json_value(0);
	json_space();
	if (v != json->exception && json->at != text + length) {
		JS_FreeValue(json->context, v);
		v = json->exception;
	}
	if (v == json->exception) {
		while (json->top > 0) JS_FreeValue(json->context, json->values[--json->top]);
		JS_FreeValue(json->context, JS_GetException(json->context));
	}
	free(json->unescaped);
	if (json->room > ROOM) { // made for one large text
		free(json->values);
		json->values = 0;
		json->room = 0;
	}
	return v;
}

// A writer of JSON for answers and the arguments of host calls. JSON.stringify writes each
// character with a call; this copies strings in one piece. It gives up at values that need more
// code, such as those with toJSON, and JSON.stringify decides.

static int json_room(int bytes) {
	if (json->text && json->size - json->used >= bytes) return 1;
	int size = 2 * (json->used + bytes);
	if (size < 1024) size = 1024;
	unsigned char *text = realloc(json->text, size);
	if (!text) return 0;
	json->text = text;
	json->size = size;
	return 1;
}

static int json_put(int c) {
	if (!json_room(1)) return 0;
	json->text[json->used++] = c;
	return 1;
}

// json_control writes the escape of a control character to p and returns its end.
static unsigned char *json_control(unsigned char *p, int c) {
	*p++ = '\\';
	switch (c) {
	case '\n': *p++ = 'n'; return p;
	case '\t': *p++ = 't'; return p;
	case '\r': *p++ = 'r'; return p;
	case '\b': *p++ = 'b'; return p;
	case '\f': *p++ = 'f'; return p;
	}
	*p++ = 'u';
	*p++ = '0';
	*p++ = '0';
	*p++ = '0' + (c >> 4);
	*p++ = (c & 15) < 10 ? '0' + (c & 15) : 'a' - 10 + (c & 15);
	return p;
}

// json_quote writes a string of the engine. It replaces unpaired surrogates, which the engine
// encodes as three bytes each, by U+FFFD. It makes room for one piece at a time, because an escape
// can be six times as long as its character.
static int json_quote(unsigned char *text, int length) {
	unsigned char *end = text + length;
	if (!json_put('"')) return 0;
	while (text < end) {
		unsigned char *piece = end - text > PIECE ? text + PIECE : end;
		if (!json_room(6 * PIECE)) return 0;
		unsigned char *p = json->text + json->used;
		while (text < piece) {
			int c = *text++;
			if (c == 0xed && text[0] >= 0xa0) {
				*p++ = 0xef;
				*p++ = 0xbf;
				*p++ = 0xbd;
				text += 2;
			} else if (c == '"' || c == '\\') {
				*p++ = '\\';
				*p++ = c;
			} else if (c >= ' ') {
				*p++ = c;
			} else {
				p = json_control(p, c);
			}
		}
		json->used = p - json->text;
	}
	return json_put('"');
}

// json_copy writes a string or number of the engine.
static int json_copy(u64 v, int quoted) {
	unsigned char *text = JS_ToCStringLen2(json->context, &slots->length[0], v, 0);
	if (!text) return 0;
	int length = slots->length[0], done;
	if (quoted) {
		done = json_quote(text, length);
	} else if (*text == 'N' || *text == 'I' || text[length - 1] == 'y') { // NaN and infinity
		done = 0;
	} else if ((done = json_room(length))) {
		memcpy(json->text + json->used, text, length);
		json->used += length;
	}
	JS_FreeCString(json->context, text);
	return done;
}

static int json_write(u64 v, int depth);

// json_elements writes the elements of an array.
static int json_elements(u64 array, int depth) {
	if (JS_GetLength(json->context, array, &json->elements) < 0) return 0;
	long long count = json->elements;
	if (!json_put('[')) return 0;
	for (long long i = 0; i < count; i++) {
		if (i > 0 && !json_put(',')) return 0;
		u64 v = JS_GetPropertyUint32(json->context, array, i);
		int done = v != json->exception && v != json->undefined && json_write(v, depth);
		JS_FreeValue(json->context, v);
		if (!done) return 0;
	}
	return json_put(']');
}

// json_fields writes the fields of an object whose names are given.
static int json_fields(u64 object, struct name *names, int count, int depth) {
	if (!json_put('{')) return 0;
	int first = 1;
	for (int i = 0; i < count; i++) {
		u64 v = JS_GetProperty(json->context, object, names[i].atom);
		if (v == json->undefined) continue;
		if (v == json->exception) return 0;
		unsigned char *text = 0;
		int done = (first || json_put(',')) && (text = JS_AtomToCStringLen(json->context, &slots->length[0], names[i].atom))
			&& json_quote(text, slots->length[0]) && json_put(':') && json_write(v, depth);
		first = 0;
		if (text) JS_FreeCString(json->context, text);
		JS_FreeValue(json->context, v);
		if (!done) return 0;
	}
	return json_put('}');
}

// json_composite writes an object or array.
static int json_composite(u64 v, int depth, int array) {
	u64 own = JS_GetProperty(json->context, v, json->to_json);
	if (own != json->undefined) {
		JS_FreeValue(json->context, own);
		return 0;
	}
	if (array) return json_elements(v, depth + 1);
	if (JS_GetOwnPropertyNames(json->context, &json->names, &json->name_count, v, ENUMERABLE_STRINGS) < 0) return 0;
	struct name *names = json->names;
	int count = json->name_count;
	int done = json_fields(v, names, count, depth + 1);
	JS_FreePropertyEnum(json->context, names, count);
	return done;
}

// json_word writes four characters, of which the lowest byte has the first.
static int json_word(unsigned word) {
	if (!json_room(4)) return 0;
	*(unaligned_word *)(json->text + json->used) = word;
	json->used += 4;
	return 1;
}

// json_write writes a value, and returns whether it could.
static int json_write(u64 v, int depth) {
	if (v == json->null) return json_word(0x6c6c756e);
	if (v == json->yes) return json_word(0x65757274);
	if (v == json->no) return json_put('f') && json_word(0x65736c61);
	int class = JS_GetClassID(v);
	if (class == json->object_class || class == json->array_class) {
		return depth < DEPTH && json_composite(v, depth, class == json->array_class);
	}
	if (class) return 0;
	*slots->cell = v;
	int string = qjs_is_string(slots->cell), number = qjs_is_number(slots->cell);
	*slots->cell = json->undefined;
	return (string || number) && json_copy(v, string);
}

// json_encode writes a value to json->text, and returns whether it could. There is no exception
// to handle then. A getter that makes a host call meanwhile gets 0.
static int json_encode(u64 v) {
	if (json->writing) return 0;
	if (json->size > MAX_KEPT) {
		free(json->text);
		json->text = 0;
		json->size = 0;
	}
	json->used = 0;
	json->writing = 1;
	int done = json_write(v, 0);
	json->writing = 0;
	if (!done) JS_FreeValue(json->context, JS_GetException(json->context));
	return done;
}

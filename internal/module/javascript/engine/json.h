// A parser for the host's JSON. It is faster than JS_ParseJSON, because it caches keys and copies
// strings in one piece. It fails at unpaired surrogates, at invalid text and beyond DEPTH levels. The
// caller then uses JS_ParseJSON.

#define json (&slots->json)

typedef u64 __attribute__((aligned(1))) unaligned;
typedef unsigned __attribute__((aligned(1))) unaligned_word;

enum { DEPTH = 128, ROOM = 4096, MAX_KEPT = 64 << 10, PIECE = 256 };

// Flags of JS_GetOwnPropertyNames for the enumerable properties whose names are strings.
enum { ENUMERABLE_STRINGS = 1 << 0 | 1 << 4 };

// Flags of properties.
enum { CONFIGURABLE = 1 << 0, WRITABLE = 1 << 1, ENUMERABLE = 1 << 2, GETSET = 1 << 4 };

// The maximum length of text that the writer writes. Twice this length must fit in an int.
enum { MAX_TEXT = 1 << 29 };

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
	json->size = json->writing = json->input = json->lazies = 0;
	unsigned char *name = (unsigned char *)json->cache->words; // "toJSON"; the cache is still empty
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

// json_push adds a value to the stack, which then owns the value. If there is not enough memory,
// json_push frees the value and returns 0.
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

// json_special searches eight bytes for a byte that ends a string, begins an escape, or must be
// escaped in a string. It returns 0 if there is none. Otherwise the lowest bit of the result is in the
// first such byte.
static u64 json_special(u64 v) {
	const u64 ones = 0x0101010101010101, high = 0x8080808080808080;
	u64 quote = v ^ ones * '"', escape = v ^ ones * '\\';
	return (((quote - ones) & ~quote) | ((escape - ones) & ~escape) | ((v - ones * ' ') & ~v)) & high;
}

// json_plain returns the address of the first byte from p on that ends a string, begins an escape, or
// is invalid in a string.
static unsigned char *json_plain(unsigned char *p) {
	u64 special;
	while (!(special = json_special(*(unaligned *)p))) p += 8;
	return p + __builtin_ctzll(special) / 8;
}

// json_hex returns the value of four hexadecimal digits, or -1 if p has other characters.
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

// json_escape decodes the escape at json->at, writes the character to p, and returns the end of the
// character. It returns 0 if the escape is invalid.
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

// json_text reads the string at json->at and returns its text. It stores the text's length in slot 0.
// It returns 0 if the string is invalid or there is not enough memory.
static unsigned char *json_text(void) {
	unsigned char *start = ++json->at;
	json->at = json_plain(start);
	if (*json->at == '"') {
		slots->length[0] = json->at++ - start;
		return start;
	}
	if (!json->unescaped && !(json->unescaped = malloc(json->length + 8))) return 0;
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

// json_word_at returns the first length bytes at p as a word. It returns at most eight bytes, and its
// other bytes are 0.
static u64 json_word_at(unsigned char *p, int length) {
	u64 v = *(unaligned *)p;
	return length >= 8 ? v : v & (((u64)1 << 8 * length) - 1);
}

// json_key returns the atom of a key, or 0 if there is not enough memory. The caller must free the
// atom.
static unsigned json_key(unsigned char *text, int length) {
	if (length == 0 || length > (int)sizeof json->cache->words) return JS_NewAtomLen(json->context, text, length);
	u64 a = json_word_at(text, length), b = length > 8 ? json_word_at(text + 8, length - 8) : 0;
	u64 c = length > 16 ? json_word_at(text + 16, length - 16) : 0;
	struct key *k = &json->cache[((a ^ b * 3 ^ c * 5) * 0x9e3779b97f4a7c15) >> 56];
	if (k->length == length && k->words[0] == a && k->words[1] == b && k->words[2] == c) return JS_DupAtom(json->context, k->atom);
	unsigned atom = JS_NewAtomLen(json->context, text, length);
	if (!atom) return 0;
	if (k->length) JS_FreeAtom(json->context, k->atom);
	k->atom = atom;
	k->length = length;
	k->words[0] = a;
	k->words[1] = b;
	k->words[2] = c;
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

// json_skip moves json->at to the end of the object or array that begins there. It returns 0 if the
// text ends before.
static int json_skip(void) {
	int depth = 0;
	do {
		switch (*json->at) {
		case 0:
			return 0;
		case '{': case '[':
			depth++;
			break;
		case '}': case ']':
			depth--;
			break;
		case '"':
			json->at = json_plain(json->at + 1);
			while (*json->at == '\\' && json->at[1]) json->at = json_plain(json->at + 2);
			if (*json->at != '"') return 0;
		}
		json->at++;
	} while (depth > 0);
	return 1;
}

// json_lazy adds a lazy. The four values at the address of are its key, the key of its JSON, its
// getter and its setter.
static int json_lazy(value *of) {
	if (json->lazies == LAZIES) return 0;
	struct lazy *l = &json->lazy[json->lazies++];
	l->key = JS_ValueToAtom(json->context, *of[0]);
	l->raw = JS_ValueToAtom(json->context, *of[1]);
	l->getter = JS_DupValue(json->context, *of[2]);
	l->setter = JS_DupValue(json->context, *of[3]);
	return l->key && l->raw;
}

// json_lazy_of returns the lazy with the given key, or 0.
static struct lazy *json_lazy_of(unsigned key) {
	for (int i = 0; i < json->lazies; i++)
		if (json->lazy[i].key == key) return &json->lazy[i];
	return 0;
}

// json_defer adds a member to an input without parsing the member's JSON.
static int json_defer(u64 object, struct lazy *l) {
	unsigned char *start = json->at;
	if (!json_skip()) return 0;
	u64 raw = JS_NewStringLen(json->context, start, json->at - start);
	if (raw == json->exception || JS_DefinePropertyValue(json->context, object, l->raw, raw, CONFIGURABLE) < 0) return 0;
	u64 getter = JS_DupValue(json->context, l->getter), setter = JS_DupValue(json->context, l->setter);
	return JS_DefinePropertyGetSet(json->context, object, l->key, getter, setter, CONFIGURABLE | ENUMERABLE) >= 0;
}

static u64 json_value(int depth);

// json_more reads the character after a member. It returns 1 after a comma, 0 at the end of the
// object or array, and -1 for any other character.
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

// json_define adds a value to an object. It fails if the key already has a frozen value.
static int json_define(u64 object, unsigned key, u64 v) {
	int flags = json->frozen ? ENUMERABLE : CONFIGURABLE | WRITABLE | ENUMERABLE;
	return v != json->exception && JS_DefinePropertyValue(json->context, object, key, v, flags) > 0;
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
		struct lazy *l = json->input && depth == 1 && *json->at == '{' ? json_lazy_of(key) : 0;
		done = l ? json_defer(object, l) : json_define(object, key, json_value(depth));
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
		int object = *json->at == '{';
		u64 v = object ? json_object(depth + 1) : json_array(depth + 1);
		if (!json->frozen || v == json->exception) return v;
		// The members of an object are already frozen.
		if ((object ? JS_PreventExtensions(json->context, v) : JS_FreezeObject(json->context, v)) >= 0) return v;
		JS_FreeValue(json->context, v);
		return json->exception;
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

// json_parse returns the value of a text that ends with a zero byte. If it fails, it returns exception
// and removes the exception from the engine.
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
	if (json->room > ROOM) { // the stack was for one large text
		free(json->values);
		json->values = 0;
		json->room = 0;
	}
	return v;
}

// A writer of JSON for answers and the arguments of host calls. It is faster than JSON.stringify,
// because JSON.stringify writes each character with a call and the writer copies strings in one piece.
// The writer fails at values for which it has no code, such as those with toJSON. The caller then uses
// JSON.stringify.

static int json_room(int bytes) {
	if (json->text && json->size - json->used >= bytes) return 1;
	if (bytes > MAX_TEXT - json->used) return 0;
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

// json_control writes the escape of a control character to p and returns the end of the escape.
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

// json_surrogate returns 0 if no surrogate begins at one of eight bytes, and another number if one may
// begin there.
static u64 json_surrogate(u64 v) {
	const u64 ones = 0x0101010101010101, high = 0x8080808080808080;
	u64 first = v ^ ones * 0xed;
	return (first - ones) & ~first & high;
}

// json_quote writes a string of the engine. It replaces each unpaired surrogate, which the engine
// encodes as three bytes, with U+FFFD. It allocates memory for one piece of the string at a time,
// because an escape can be six times as long as its character.
static int json_quote(unsigned char *text, int length) {
	unsigned char *end = text + length;
	if (!json_put('"')) return 0;
	while (text < end) {
		if (!json_room(6 * PIECE)) return 0;
		unsigned char *p = json->text + json->used, *piece = end - text > PIECE ? text + PIECE : end;
		for (; piece - text >= 8; text += 8, p += 8) {
			u64 v = *(unaligned *)text;
			if (json_special(v) || json_surrogate(v)) break;
			*(unaligned *)p = v;
		}
		piece = piece - text > 8 ? text + 8 : piece;
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

// json_own returns the value of an own property, or exception if the property is missing or has a
// getter. It does not call the getter, because JSON.stringify would call it again.
static u64 json_own(u64 object, unsigned key) {
	struct descriptor *d = &json->descriptor;
	if (JS_GetOwnProperty(json->context, d, object, key) <= 0) return json->exception;
	if (!(d->flags & GETSET)) return d->value;
	JS_FreeValue(json->context, d->getter);
	JS_FreeValue(json->context, d->setter);
	return json->exception;
}

// json_elements writes the elements of an array.
static int json_elements(u64 array, int depth) {
	if (JS_GetLength(json->context, array, &json->elements) < 0) return 0;
	long long count = json->elements;
	if (!json_put('[')) return 0;
	for (long long i = 0; i < count; i++) {
		if (i > 0 && !json_put(',')) return 0;
		u64 v = json_own(array, JS_NewAtomUInt32(json->context, i));
		int done = v != json->exception && v != json->undefined && json_write(v, depth);
		JS_FreeValue(json->context, v);
		if (!done) return 0;
	}
	return json_put(']');
}

// json_fields writes the fields of an object that have the given names.
static int json_fields(u64 object, struct name *names, int count, int depth) {
	if (!json_put('{')) return 0;
	int first = 1;
	for (int i = 0; i < count; i++) {
		u64 v = json_own(object, names[i].atom);
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
	if (JS_HasProperty(json->context, v, json->to_json) != 0) return 0;
	if (array) return json_elements(v, depth + 1);
	if (JS_GetOwnPropertyNames(json->context, &json->names, &json->name_count, v, ENUMERABLE_STRINGS) < 0) return 0;
	struct name *names = json->names;
	int count = json->name_count;
	int done = json_fields(v, names, count, depth + 1);
	JS_FreePropertyEnum(json->context, names, count);
	return done;
}

// json_word writes the four characters in word. The first is in the lowest byte.
static int json_word(unsigned word) {
	if (!json_room(4)) return 0;
	*(unaligned_word *)(json->text + json->used) = word;
	json->used += 4;
	return 1;
}

// json_write writes a value. It returns 0 if it fails.
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

// json_encode writes a value to json->text. If it fails, it returns 0 and removes the exception from
// the engine. It also returns 0 if it is called while it writes a value, for example in a host call of
// a proxy among an object's prototypes.
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

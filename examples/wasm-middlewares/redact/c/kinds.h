/* kinds.h: the kinds of data to find. Each finds matches from an index on; the text before the
 * index has been processed and only provides context. */
#include "../../../../guest-sdk/c/agent_middleware.h"

enum { EMAIL, CARD, IP, IBAN, KINDS };

static const char *const kind_names[KINDS] = {"email", "credit_card", "ip", "iban"};

typedef struct {
	int32_t from, to, kind;
} span;

typedef struct {
	span *items;
	int32_t len;
} spans;

static void add_span(spans *list, span s) {
	list->items = am_grow(list->items, list->len, sizeof(span));
	list->items[list->len++] = s;
}

static int32_t least_of(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most_of(int32_t a, int32_t b) { return a > b ? a : b; }

/* byte_at returns the byte at i, or 0 outside the text. */
static char byte_at(am_str t, int32_t i) { return i >= 0 && i < t.n ? t.p[i] : 0; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alnum(char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z'); }
static bool is_word(char c) { return is_alnum(c) || c == '_'; }
static bool is_separator(char c) { return c == ' ' || c == '-'; }
static bool in_domain(char c) { return is_alnum(c) || c == '.' || c == '-'; }
static bool in_local(char c) { return in_domain(c) || c == '_' || c == '%' || c == '+'; }
static bool in_ip(char c) { return is_digit(c) || c == '.'; }
static bool in_others(char c) { return c != '@'; }

/* back returns the start of the run of bytes of a class that ends at index to; the result is at least least. */
static int32_t back(am_str t, int32_t least, int32_t to, bool (*class)(char)) {
	while (to > least && class(t.p[to - 1])) to--;
	return to;
}

/* local_part returns the start of the local part before the @ at index at, at most 64 bytes. */
static int32_t local_part(am_str t, int32_t least, int32_t at) {
	int32_t begin = back(t, most_of(least, at - 64), at, in_local);
	while (begin < at && t.p[begin] == '.') begin++;
	return begin;
}

/* domain returns the end of the domain that begins at i, or 0. It has at least two labels, and the
 * last begins with a letter. */
static int32_t domain(am_str t, int32_t i) {
	int32_t stop = least_of(t.n, i + 253), end = 0;
	for (int32_t labels = 1;; labels++) {
		int32_t last = i;
		while (last < stop && t.p[last] != '.' && in_domain(t.p[last])) last++;
		int32_t n = last;
		while (n > i && t.p[n - 1] == '-') n--;
		if (n == i || n - i > 63 || t.p[i] == '-') return end;
		if (labels > 1 && !is_digit(t.p[i]) && n - i > 1) end = n;
		if (n < last || last >= stop || t.p[last] != '.') return end;
		i = last + 1;
	}
}

static int32_t email_open(am_str t, int32_t from) {
	/* The domain after an @ may continue. */
	int32_t d = back(t, most_of(from, t.n - 254), t.n, in_domain);
	if (d > from && t.p[d - 1] == '@') {
		int32_t begin = local_part(t, from, d - 1);
		if (begin < d - 1) return begin;
	}
	return local_part(t, from, t.n);
}

enum { MAX_CARD = 19 };

/* luhn reports whether the check digit of a number is valid (ISO/IEC 7812-1). */
static bool luhn(am_str t, int32_t from, int32_t to) {
	int32_t sum = 0;
	bool twice = false;
	for (int32_t i = to - 1; i >= from; i--) {
		if (!is_digit(t.p[i])) continue;
		int32_t d = t.p[i] - '0';
		sum += twice ? d * 2 % 10 + d / 5 : d;
		twice = !twice;
	}
	return sum % 10 == 0;
}

static bool begins_number(am_str t, int32_t i) { return !is_word(byte_at(t, i - 1)) && byte_at(t, i - 1) != '.'; }

/* card returns the end of the longest card number that begins at i, or 0: 13 to 19 digits with a
 * valid check digit, in groups of at least three. */
static int32_t card(am_str t, int32_t i) {
	if (t.p[i] < '2' || t.p[i] > '6' || !begins_number(t, i)) return 0;
	int32_t end = 0, digits = 0;
	for (int32_t p = i, q;; p = q + 1) {
		for (q = p; is_digit(byte_at(t, q)) && q - p <= MAX_CARD;) q++;
		digits += q - p;
		if (q - p < 3 || digits > MAX_CARD) return end;
		if (digits >= 13 && !is_word(byte_at(t, q)) && luhn(t, i, q)) end = q;
		if (!is_separator(byte_at(t, q)) || !is_digit(byte_at(t, q + 1))) return end;
	}
}

/* card_open goes back group by group while a group could begin a card number that more digits would
 * complete. */
static int32_t card_open(am_str t, int32_t from) {
	int32_t open = t.n, end = t.n, digits = 0;
	bool growing = true; /* the last group */
	if (end > from && is_separator(t.p[end - 1])) {
		end--;
		growing = false;
	}
	for (;; growing = false) {
		int32_t begin = back(t, most_of(from, end - MAX_CARD - 1), end, is_digit);
		digits += end - begin;
		if (begin == end || digits > MAX_CARD || (end - begin < 3 && !growing) || !begins_number(t, begin)) return open;
		open = begin;
		if (begin == from || !is_separator(t.p[begin - 1])) return open;
		end = begin - 1;
	}
}

enum { MAX_IP = 16 }; /* with a dot that ends a sentence */

/* ip returns the end of the IPv4 address that begins at i, or 0: four numbers up to 255, not
 * adjacent to word characters. */
static int32_t ip(am_str t, int32_t i) {
	if (!in_ip(t.p[i]) || in_ip(byte_at(t, i - 1)) || is_word(byte_at(t, i - 1))) return 0;
	int32_t end = i, groups = 1, n = 0, digits = 0;
	while (in_ip(byte_at(t, end))) end++;
	if (is_word(byte_at(t, end))) return 0;
	if (t.p[end - 1] == '.') end--;
	for (int32_t k = i; k < end; k++) {
		if (t.p[k] != '.') {
			n = n * 10 + (t.p[k] - '0');
			if (++digits > 3 || n > 255) return 0;
			continue;
		}
		if (digits == 0) return 0;
		groups++;
		n = digits = 0;
	}
	return groups == 4 && digits > 0 ? end : 0;
}

static int32_t ip_open(am_str t, int32_t from) {
	int32_t begin = back(t, most_of(from, t.n - MAX_IP - 1), t.n, in_ip);
	return t.n - begin <= MAX_IP ? begin : t.n;
}

/* Countries and the lengths of their IBANs, from SWIFT's IBAN registry. */
static const char iban_lengths[] =
	"AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 "
	"EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
	"LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 "
	"QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

enum { MAX_IBAN = 33 + 8 };

/* mod97 reports whether the check digits of a number without separators are valid (ISO 7064). */
static bool mod97(const char *compact, int32_t n) {
	int32_t rest = 0;
	for (int32_t i = 0; i < n; i++) {
		char c = compact[(i + 4) % n];
		rest = is_digit(c) ? (rest * 10 + (c - '0')) % 97 : (rest * 100 + (c - 'A') + 10) % 97;
	}
	return rest == 1;
}

/* iban returns the end of the IBAN that begins at i, or 0. It sets *open if more text could change
 * that. */
static int32_t iban(am_str t, int32_t i, bool *open) {
	char compact[MAX_IBAN];
	int32_t length = MAX_IBAN, seen = 0;
	*open = false;
	if (!is_alnum(t.p[i]) || is_digit(t.p[i]) || is_alnum(byte_at(t, i - 1))) return 0;
	for (int32_t p = i;; p++) {
		char c = byte_at(t, p);
		if (p == t.n) {
			*open = true;
			return seen == length && mod97(compact, seen) ? p : 0;
		}
		if (seen == length) return is_alnum(c) || !mod97(compact, seen) ? 0 : p;
		if (is_separator(c) && seen > 0 && seen % 4 == 0 && is_alnum(t.p[p - 1])) continue;
		if (!is_alnum(c) || (seen < 4 && (seen < 2) == is_digit(c))) return 0;
		compact[seen++] = is_digit(c) ? c : (char)(c & ~32);
		if (seen == 2) {
			int32_t at = am_find(am_of(iban_lengths), (am_str){compact, 2}, 0);
			if (at < 0) return 0;
			length = (iban_lengths[at + 2] - '0') * 10 + (iban_lengths[at + 3] - '0');
		}
	}
}

/* find_kind adds the matches of a kind to out. */
static void find_kind(int32_t kind, am_str t, int32_t from, spans *out) {
	bool open;
	for (int32_t i = from, end, begin; i < t.n; i = most_of(end, i + 1)) {
		begin = i;
		end = 0;
		if (kind == CARD) end = card(t, i);
		if (kind == IP) end = ip(t, i);
		if (kind == IBAN && is_digit(byte_at(t, i + 2))) end = iban(t, i, &open);
		if (kind == EMAIL && t.p[i] == '@') {
			begin = local_part(t, back(t, from, i, in_others), i);
			end = begin < i ? domain(t, i + 1) : 0;
		}
		if (end > 0) add_span(out, (span){begin, end, kind});
	}
}

/* open_kind returns the index from which more text could change the result of find_kind; the text's
 * length if there is none. */
static int32_t open_kind(int32_t kind, am_str t, int32_t from) {
	bool open = false;
	if (kind == EMAIL) return email_open(t, from);
	if (kind == CARD) return card_open(t, from);
	if (kind == IP) return ip_open(t, from);
	for (int32_t i = most_of(from, t.n - MAX_IBAN); i < t.n; i++) {
		iban(t, i, &open);
		if (open) return i;
	}
	return t.n;
}

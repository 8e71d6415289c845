package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Limits on the terms of a run.
const (
	// MaxMetadataTerms is the maximum number of members of a run's metadata by which it is found.
	MaxMetadataTerms = 16
	// MaxMetadataValue is the maximum size of the value of such a member, in bytes.
	MaxMetadataValue = 256
	// MaxTitleWords is the number of words of a title by which a run is found.
	MaxTitleWords  = 32
	maxModuleTerms = 64
	// prefixLength is the number of characters of a word that are a term. A run is found by the start
	// of a word, so searches of fewer characters have no term.
	prefixLength = 3
)

// MetadataKey matches the keys of metadata by which runs are found.
var MetadataKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

const (
	faultsTerm  = "f"
	denialsTerm = "n"
)

func metadataTerm(key, text string) string { return "m" + key + "=" + text }

func moduleTerm(digest string) string { return "d" + digest }

func versionTerm(agent string, version int64) string {
	return "v" + strconv.FormatInt(version, 10) + "@" + agent
}

func reasonTerm(reason string) string { return "r" + reason }

// MetadataText returns the text by which a value of metadata is found: a string without its quotes, a number or a
// boolean as in the JSON. It reports false for other values, for text of more than MaxMetadataValue bytes, and for
// text that databases reject.
func MetadataText(value json.RawMessage) (text string, ok bool) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(value)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	default:
		return "", false
	}
	return text, len(text) <= MaxMetadataValue && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// runTerms returns the terms of a new run.
func runTerms(r *journal.Creation, version int64) []string {
	var terms []string
	metadata := map[string]json.RawMessage{}
	_ = json.Unmarshal(r.Metadata, &metadata)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if text, ok := MetadataText(metadata[key]); ok && MetadataKey.MatchString(key) && len(terms) < MaxMetadataTerms {
			terms = append(terms, metadataTerm(key, text))
		}
	}
	terms = append(terms, titleTerms(r.Title)...)
	for i := range r.Modules[:min(len(r.Modules), maxModuleTerms)] {
		if digest := r.Modules[i].Digest; digest != "" {
			terms = append(terms, moduleTerm(digest))
		}
	}
	if version != 0 {
		terms = append(terms, versionTerm(r.Agent, version))
	}
	return unique(terms)
}

func unique(terms []string) []string {
	slices.Sort(terms)
	return slices.Compact(terms)
}

// words returns the words of a text in lower case: letters and digits. Characters of scripts that are
// written without spaces are words of their own.
func words(text string) (words []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range strings.ToLower(text) {
		switch {
		case unspaced(r):
			end()
			words = append(words, string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			word.WriteRune(r)
		default:
			end()
		}
	}
	end()
	return words
}

// unspaced reports whether a character belongs to a script that is written without spaces.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
		unicode.Myanmar)
}

// wordTerm returns the term for a word: "w" and the word's first prefixLength characters, or "w" and the
// word if it is shorter.
func wordTerm(word string) string {
	n := 0
	for i := range word {
		if n == prefixLength {
			return "w" + word[:i]
		}
		n++
	}
	return "w" + word
}

// titleTerms returns the terms of a title.
func titleTerms(title string) (terms []string) {
	all := words(title)
	for _, word := range all[:min(len(all), MaxTitleWords)] {
		terms = append(terms, wordTerm(word))
	}
	return unique(terms)
}

// searchTerms returns the terms that every title has which matches a search.
func searchTerms(search string) (terms []string) {
	for _, word := range words(search) {
		first, _ := utf8.DecodeRuneInString(word)
		if unspaced(first) || utf8.RuneCountInString(word) >= prefixLength {
			terms = append(terms, wordTerm(word))
		}
	}
	return unique(terms)
}

// matchesTitle reports whether each word of a search is the beginning of a word in a title.
func matchesTitle(title string, search []string) bool {
	if len(search) == 0 {
		return true
	}
	all := words(title)
	for _, start := range search {
		if !slices.ContainsFunc(all, func(w string) bool { return strings.HasPrefix(w, start) }) {
			return false
		}
	}
	return true
}

// A termKey identifies a run in the table of terms.
type termKey struct {
	tenant, run string
	createdMS   int64
}

// insert inserts terms of the run.
func (k *termKey) insert(t database.Tx, terms []string) error {
	if len(terms) == 0 {
		return nil
	}
	var rows strings.Builder
	args := []any{k.tenant, k.createdMS, k.run}
	for i, term := range terms {
		if i > 0 {
			rows.WriteString(", ")
		}
		fmt.Fprintf(&rows, "($1, $%d, $2, $3)", len(args)+1)
		args = append(args, term)
	}
	_, err := t.Exec(`INSERT INTO run_terms (tenant, term, created_ms, run) VALUES `+rows.String()+
		` ON CONFLICT (tenant, term, created_ms, run) DO NOTHING`, args...)
	return err
}

// remove deletes terms of the run.
func (k *termKey) remove(t database.Tx, terms []string) error {
	if len(terms) == 0 {
		return nil
	}
	args := []any{k.tenant, k.createdMS, k.run}
	var list strings.Builder
	for i, term := range terms {
		if i > 0 {
			list.WriteString(", ")
		}
		fmt.Fprintf(&list, "$%d", len(args)+1)
		args = append(args, term)
	}
	_, err := t.Exec(`DELETE FROM run_terms WHERE tenant = $1 AND created_ms = $2 AND run = $3 AND term IN (`+
		list.String()+`)`, args...)
	return err
}

// encodeTerms returns terms as in the column terms.
func encodeTerms(terms []string) (string, error) {
	if len(terms) == 0 {
		return "", nil
	}
	return marshal(terms)
}

func decodeTerms(run, column string) (terms []string, err error) {
	if column == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column), &terms); err != nil {
		return nil, database.Corruptf("the terms of run %s: %w", run, err)
	}
	return terms, nil
}

// changeTerms adds terms to a run and removes others.
func changeTerms(t database.Tx, run string, add, remove []string) error {
	k := termKey{run: run}
	var column string
	found, err := database.One(t, `SELECT tenant, created_ms, terms FROM runs WHERE id = $1`, []any{run},
		&k.tenant, &k.createdMS, &column)
	if err != nil || !found {
		return err
	}
	terms, err := decodeTerms(run, column)
	if err != nil {
		return err
	}
	remove = slices.DeleteFunc(slices.Clone(remove), func(term string) bool {
		return slices.Contains(add, term) || !slices.Contains(terms, term)
	})
	add = slices.DeleteFunc(slices.Clone(add), func(term string) bool { return slices.Contains(terms, term) })
	if len(add) == 0 && len(remove) == 0 {
		return nil
	}
	terms = slices.DeleteFunc(terms, func(term string) bool { return slices.Contains(remove, term) })
	if column, err = encodeTerms(unique(append(terms, add...))); err != nil {
		return err
	}
	if _, err := t.Exec(`UPDATE runs SET terms = $2 WHERE id = $1`, run, column); err != nil {
		return err
	}
	if err := k.remove(t, remove); err != nil {
		return err
	}
	return k.insert(t, add)
}

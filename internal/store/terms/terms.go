// Package terms makes and stores the terms by which lists find runs: members of metadata, words of
// titles, digests of modules, versions of agents, and marks of how runs ended. A run has a row in the
// table run_terms for each of its terms, and all of them in its column terms.
package terms

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
	// MaxMetadata is the maximum number of members of a run's metadata by which it is found.
	MaxMetadata = 16
	// MaxMetadataValue is the maximum size of the value of such a member, in bytes.
	MaxMetadataValue = 256
	// MaxTitleWords is the number of words of a title by which a run is found.
	MaxTitleWords = 32
	maxModules    = 64
	// PrefixLength is the number of characters of a word that are a term. A run is found by the start
	// of a word, so searches of fewer characters have no term.
	PrefixLength = 3
)

// MetadataKey matches the keys of metadata by which runs are found.
var MetadataKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// Terms that mark runs.
const (
	Faults  = "f" // runs of which a module failed
	Denials = "n" // runs of which a tool call was denied
)

// Metadata returns the term of a member of metadata with a text as of [MetadataText].
func Metadata(key, text string) string { return "m" + key + "=" + text }

// Module returns the term of runs that use the module with a digest.
func Module(digest string) string { return "d" + digest }

// Version returns the term of runs of a version of an agent.
func Version(agent string, version int64) string {
	return "v" + strconv.FormatInt(version, 10) + "@" + agent
}

// FinishReason returns the term of runs that ended for a reason.
func FinishReason(reason string) string { return "r" + reason }

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

// OfRun returns the terms of a new run of a version of its agent. version is 0 if it has none.
func OfRun(r *journal.Creation, version int64) []string {
	var terms []string
	metadata := map[string]json.RawMessage{}
	_ = json.Unmarshal(r.Metadata, &metadata)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if text, ok := MetadataText(metadata[key]); ok && MetadataKey.MatchString(key) && len(terms) < MaxMetadata {
			terms = append(terms, Metadata(key, text))
		}
	}
	terms = append(terms, OfTitle(r.Title)...)
	for i := range r.Modules[:min(len(r.Modules), maxModules)] {
		if digest := r.Modules[i].Digest; digest != "" {
			terms = append(terms, Module(digest))
		}
	}
	if version != 0 {
		terms = append(terms, Version(r.Agent, version))
	}
	return unique(terms)
}

func unique(terms []string) []string {
	slices.Sort(terms)
	return slices.Compact(terms)
}

// Words returns the words of a text in lower case: letters and digits. Characters of scripts that are
// written without spaces are words of their own.
func Words(text string) (words []string) {
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

// wordTerm returns the term for a word: "w" and the word's first PrefixLength characters, or "w" and the
// word if it is shorter.
func wordTerm(word string) string {
	n := 0
	for i := range word {
		if n == PrefixLength {
			return "w" + word[:i]
		}
		n++
	}
	return "w" + word
}

// OfTitle returns the terms of the first [MaxTitleWords] words of a title.
func OfTitle(title string) (terms []string) {
	all := Words(title)
	for _, word := range all[:min(len(all), MaxTitleWords)] {
		terms = append(terms, wordTerm(word))
	}
	return unique(terms)
}

// OfSearch returns the terms that every title has which matches a search of words. It returns none for
// words that are too short.
func OfSearch(search string) (terms []string) {
	for _, word := range Words(search) {
		first, _ := utf8.DecodeRuneInString(word)
		if unspaced(first) || utf8.RuneCountInString(word) >= PrefixLength {
			terms = append(terms, wordTerm(word))
		}
	}
	return unique(terms)
}

// MatchesTitle reports whether each word of a search, as of [Words], is the beginning of a word in a
// title.
func MatchesTitle(title string, search []string) bool {
	if len(search) == 0 {
		return true
	}
	all := Words(title)
	for _, start := range search {
		if !slices.ContainsFunc(all, func(w string) bool { return strings.HasPrefix(w, start) }) {
			return false
		}
	}
	return true
}

// A Key identifies a run in the table of terms.
type Key struct {
	Tenant, Run string // ids
	CreatedMS   int64  // the run's creation in milliseconds
}

// Insert inserts terms of the run, and ignores those that it has.
func (k *Key) Insert(t database.Tx, terms []string) error {
	if len(terms) == 0 {
		return nil
	}
	var rows strings.Builder
	args := []any{k.Tenant, k.CreatedMS, k.Run}
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

// Remove deletes terms of the run.
func (k *Key) Remove(t database.Tx, terms []string) error {
	if len(terms) == 0 {
		return nil
	}
	args := []any{k.Tenant, k.CreatedMS, k.Run}
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

// Encode returns the text of terms for the column terms of a run. It is empty if there are no terms.
func Encode(terms []string) (string, error) {
	if len(terms) == 0 {
		return "", nil
	}
	b, err := json.Marshal(terms)
	return string(b), err
}

// Decode returns the terms in the column terms of a run. It fails with a [*database.Error] if the
// column is corrupt.
func Decode(run, column string) (terms []string, err error) {
	if column == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column), &terms); err != nil {
		return nil, database.Corruptf("the terms of run %s: %w", run, err)
	}
	return terms, nil
}

// Change adds terms to a run and removes others, in the table and in its column. It does nothing if there
// is no such run.
func Change(t database.Tx, run string, add, remove []string) error {
	k := Key{Run: run}
	var column string
	found, err := database.One(t, `SELECT tenant, created_ms, terms FROM runs WHERE id = $1`, []any{run},
		&k.Tenant, &k.CreatedMS, &column)
	if err != nil || !found {
		return err
	}
	terms, err := Decode(run, column)
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
	if column, err = Encode(unique(append(terms, add...))); err != nil {
		return err
	}
	if _, err := t.Exec(`UPDATE runs SET terms = $2 WHERE id = $1`, run, column); err != nil {
		return err
	}
	if err := k.Remove(t, remove); err != nil {
		return err
	}
	return k.Insert(t, add)
}

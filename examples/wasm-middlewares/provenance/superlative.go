package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A superlative is a way to identify a record of a list by a comparison with the others, as in "the
// largest file".
type superlative struct {
	words  string // words that mean the superlative in requests
	fields string // words in the keys of the compared fields
	most   bool   // the record with the largest value; the smallest otherwise
}

var superlatives = []superlative{
	{"largest biggest longest", "size bytes length count quantity amount total", true},
	{"smallest shortest", "size bytes length count quantity amount total", false},
	{"latest newest last recent", "date time created modified timestamp updated sent received start", true},
	{"oldest earliest first", "date time created modified timestamp updated sent received start", false},
	{"cheapest", "price cost fee amount", false},
	{"highest best top", "rating score rank price amount", true},
	{"lowest worst", "rating score rank price amount", false},
}

// superlative reports whether the request identifies r by a superlative: of all records in the same
// list, r alone has the largest or smallest value of a field. all holds the records of the result.
func (q *identifier) superlative(r *record, all []*record) bool {
	for _, s := range superlatives {
		said := slices.ContainsFunc(strings.Fields(s.words), func(w string) bool { return q.said.phrase([]string{w}) })
		if said && q.means(&s, r, all) {
			return true
		}
	}
	return false
}

// means reports whether r is the one record in its list with the largest or smallest value of a
// field, as s specifies.
func (q *identifier) means(s *superlative, r *record, all []*record) bool {
	if !q.spend(len(r.fields) + 1) {
		return false
	}
	fields := wordSet(s.fields)
	for _, f := range r.fields {
		if !slices.ContainsFunc(nameWords(f.key), func(w string) bool { return fields[w] }) {
			continue
		}
		others, alone := 0, true
		for _, o := range all {
			if o == r || o.parent != r.parent {
				continue
			}
			if !q.spend(len(o.fields) + 1) {
				return false
			}
			for _, g := range o.fields {
				if g.key == f.key {
					others++
					c := compare(f.text, g.text)
					alone = alone && (c > 0 && s.most || c < 0 && !s.most)
				}
			}
		}
		if others > 0 && alone {
			return true
		}
	}
	return false
}

// compare compares a and b as numbers if both are, and otherwise as texts, which orders dates.
func compare(a, b string) int {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err == nil && err2 == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

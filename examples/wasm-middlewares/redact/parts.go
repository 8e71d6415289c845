package main

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// across hides matches that begin in one text part and end in a later one, within sequences of
// adjacent text parts. Matches within a part are already hidden. It reports whether it changed a
// part.
func (s *scanner) across(parts []abi.Part, found finds) (changed bool) {
	for i := 0; i < len(parts); {
		end := i
		for end < len(parts) && parts[end].Type == abi.PartText {
			end++
		}
		if end-i > 1 && s.join(parts[i:end], found) {
			changed = true
		}
		i = max(end, i+1)
	}
	return changed
}

// join hides the matches that span more than one of the given adjacent text parts. It reports
// whether there are any.
func (s *scanner) join(parts []abi.Part, found finds) (changed bool) {
	var whole strings.Builder
	begins := make([]int, len(parts))
	for i := range parts {
		begins[i] = whole.Len()
		whole.WriteString(parts[i].Text)
	}
	text := whole.String()
	spans := s.find(s.views(&tail{}, text, 0, true))
	for j := len(spans) - 1; j >= 0; j-- {
		f := spans[j]
		first := at(begins, f.from)
		last := at(begins, f.to-1)
		if first == last {
			continue
		}
		for i := first; i <= last; i++ {
			t := parts[i].Text
			parts[i].Text = t[:max(f.from-begins[i], 0)] + t[min(f.to-begins[i], len(t)):]
		}
		k := f.from - begins[first]
		parts[first].Text = parts[first].Text[:k] + f.kind.replace(text[f.from:f.to]) + parts[first].Text[k:]
		if f.kind.name != "" {
			found[f.kind.name]++
		}
		changed = true
	}
	return changed
}

// at returns the index of the part that contains byte i of the concatenated text. begins holds
// the offsets of the parts.
func at(begins []int, i int) int {
	part := len(begins) - 1
	for begins[part] > i {
		part--
	}
	return part
}

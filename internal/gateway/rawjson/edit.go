package rawjson

import (
	"bytes"
	"slices"
)

// Edits collects changes of one document. Its zero value, with Doc set, changes nothing.
type Edits struct {
	Doc  []byte
	list []edit
}

type edit struct {
	from, to int
	text     []byte
}

// Replace replaces a value of the document with text. Values that are replaced must not overlap.
func (e *Edits) Replace(v Value, text []byte) {
	e.list = append(e.list, edit{v.At, v.At + len(v.Text), text})
}

// Members replaces the members of an object that change names: a nil text removes a member, and a
// name that the object does not have is added at its end, in the order of names.
func (e *Edits) Members(object Value, change map[string][]byte) {
	if len(change) == 0 {
		return
	}
	members := object.Members()
	removed := slices.ContainsFunc(members, func(m Member) bool {
		text, ok := change[m.Name]
		return ok && text == nil
	})
	known := map[string]bool{}
	for _, m := range members {
		known[m.Name] = true
		if text := change[m.Name]; text != nil && !removed {
			e.Replace(m.Value, text)
		}
	}
	var more []string
	for name, text := range change {
		if !known[name] && text != nil {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	if removed {
		e.rewrite(object, members, change, more)
		return
	}
	if len(more) == 0 {
		return
	}
	var b []byte
	for _, name := range more {
		if len(members) > 0 || len(b) > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, Quote(name)...), ':'), change[name]...)
	}
	end := object.At + len(object.Text) - 1
	e.list = append(e.list, edit{end, end, b})
}

// rewrite replaces object with a new one. The new object has the members of object that change does not remove, with
// their new values, followed by the members that change adds, whose names are in more.
func (e *Edits) rewrite(object Value, members []Member, change map[string][]byte, more []string) {
	var list [][]byte
	for _, m := range members {
		text, changed := change[m.Name]
		switch {
		case !changed:
			start, end := m.from-object.At, m.Value.At+len(m.Value.Text)-object.At
			list = append(list, object.Text[start:end])
		case text != nil:
			list = append(list, slices.Concat(Quote(m.Name), []byte{':'}, text))
		}
	}
	for _, name := range more {
		list = append(list, slices.Concat(Quote(name), []byte{':'}, change[name]))
	}
	e.Replace(object, slices.Concat([]byte{'{'}, bytes.Join(list, []byte{','}), []byte{'}'}))
}

// SetMembers returns the text of an object, which has been parsed before, with changed members. See [Edits.Members].
func SetMembers(text []byte, change map[string][]byte) []byte {
	e := Edits{Doc: text}
	e.Members(Value{Text: text}, change)
	return e.Apply()
}

// Changed reports whether there are changes.
func (e *Edits) Changed() bool { return len(e.list) > 0 }

// Apply returns the document with the changes. Without changes it returns the document itself.
func (e *Edits) Apply() []byte {
	if len(e.list) == 0 {
		return e.Doc
	}
	list := slices.Clone(e.list)
	slices.SortStableFunc(list, func(a, b edit) int { return a.from - b.from })
	out := make([]byte, 0, len(e.Doc))
	at := 0
	for _, c := range list {
		out = append(append(out, e.Doc[at:c.from]...), c.text...)
		at = c.to
	}
	return append(out, e.Doc[at:]...)
}

// Array returns an array of the given elements.
func Array(elements [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(elements, []byte{','}), []byte{']'})
}

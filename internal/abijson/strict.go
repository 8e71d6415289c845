//go:build !wasip1 && !guest

package abijson

import (
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// This file has the generic part of decoding for a host, with the strictness of [Decode]. The code
// for each type is generated. Modules use strict_guest.go instead, because the generated code would
// make a module a third larger.

// A codec encodes and strictly decodes a type of package abi. Most of the methods are
// generated.
type codec interface {
	writeValue(w *jsoncodec.Writer)
	ReadValue(s *jsoncodec.Scanner) error
}

// decodeKnown decodes into v if v has a type of package abi. known reports whether v has such a type. On error, v is
// unchanged.
func decodeKnown(s *jsoncodec.Scanner, v any) (known bool, err error) {
	if codecOf(v) == nil {
		return false, nil
	}
	fresh := reflect.New(reflect.TypeOf(v).Elem())
	if err := s.Whole(codecOf(fresh.Interface())); err != nil || s.Stopped() != nil {
		return true, err
	}
	reflect.ValueOf(v).Elem().Set(fresh.Elem())
	return true, nil
}

// ReadValue reads null, a string or an array of parts.
func (c *Content) ReadValue(s *jsoncodec.Scanner) error {
	*c = Content{}
	switch s.Peek() {
	case 'n':
		return s.Literal("null")
	case '"':
		var text string
		err := jsoncodec.ReadString(s, &text)
		*c = Content(abi.Text(text))
		return err
	case '[':
		var parts []abi.Part
		err := jsoncodec.ReadSlice(s, &parts, readPart)
		*c = Content(abi.Parts(parts...))
		return err
	default:
		return wrongForm(s, "content must be a string, null or an array of parts")
	}
}

// ReadValue reads {"splice": [...]}, an array of messages or null.
func (p *ListPatch) ReadValue(s *jsoncodec.Scanner) error {
	*p = ListPatch{}
	switch s.Peek() {
	case '[':
		p.Whole = true
		return jsoncodec.ReadSlice(s, &p.Replace, readMessage)
	case '{', 'n':
		return s.Fields((*splices)(p))
	default:
		return wrongForm(s, `messages must be {"splice": [...]} or an array of messages`)
	}
}

// splices is a ListPatch with splices instead of a whole list.
type splices ListPatch

func (p *splices) FieldNames() []string { return []string{"splice"} }

func (p *splices) ReadField(s *jsoncodec.Scanner, _ int) error {
	return jsoncodec.ReadSlice(s, &p.Splice,
		func(s *jsoncodec.Scanner, x *abi.Splice) error { return (*Splice)(x).ReadValue(s) })
}

// ReadValue reads {"add": [...], "remove": [...]}, an array of tools or null.
func (p *ToolsPatch) ReadValue(s *jsoncodec.Scanner) error {
	*p = ToolsPatch{}
	switch s.Peek() {
	case '[':
		p.Whole = true
		return jsoncodec.ReadSlice(s, &p.Replace, readTool)
	case '{', 'n':
		return s.Fields((*toolChanges)(p))
	default:
		return wrongForm(s, `tools must be {"add": [...], "remove": [...]} or an array of tools`)
	}
}

// toolChanges is a ToolsPatch that adds and removes tools.
type toolChanges ToolsPatch

func (p *toolChanges) FieldNames() []string { return []string{"add", "remove"} }

func (p *toolChanges) ReadField(s *jsoncodec.Scanner, i int) error {
	if i == 0 {
		return jsoncodec.ReadSlice(s, &p.Add, readTool)
	}
	return jsoncodec.ReadSlice(s, &p.Remove, jsoncodec.ReadString[string])
}

// wrongForm returns the syntax error of the current value or, if the value is valid JSON, an error
// with text.
func wrongForm(s *jsoncodec.Scanner, text string) error {
	if err := s.Value(nil); err != nil {
		return err
	}
	return s.ErrorAt(text)
}

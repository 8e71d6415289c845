package abijson

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// This file has the codecs of the types whose encoding does not follow from their fields.

// Content is an [abi.Content] with its codec.
type Content abi.Content

// ListPatch is an [abi.ListPatch] with its codec.
type ListPatch abi.ListPatch

// ToolsPatch is an [abi.ToolsPatch] with its codec.
type ToolsPatch abi.ToolsPatch

func (c *Content) writeValue(w *jsoncodec.Writer) {
	switch v := (*abi.Content)(c); {
	case v.IsNull():
		w.Null()
	case v.IsParts():
		w.B = append(w.B, '[')
		for i, parts := 0, v.Parts(); i < len(parts); i++ {
			if i > 0 {
				w.B = append(w.B, ',')
			}
			(*Part)(&parts[i]).writeValue(w)
		}
		w.B = append(w.B, ']')
	default:
		w.Text(v.String())
	}
}

func (p *Part) writeValue(w *jsoncodec.Writer) {
	w.B = append(w.B, '{')
	p.writeFields(w)
	if p.Type == abi.PartText && p.Text == "" {
		w.Key(`"text":`)
		w.Text("")
	}
	writeUnknown(w, p.Unknown)
	w.B = append(w.B, '}')
}

func (m *Message) writeValue(w *jsoncodec.Writer) {
	w.B = append(w.B, '{')
	m.writeFields(w)
	writeUnknown(w, m.Unknown)
	w.B = append(w.B, '}')
}

func (c *ToolCall) writeValue(w *jsoncodec.Writer) {
	typed := *c
	if typed.Type == "" {
		typed.Type = "function"
	}
	w.B = append(w.B, '{')
	typed.writeFields(w)
	writeUnknown(w, c.Unknown)
	w.B = append(w.B, '}')
}

func (c *Chunk) writeValue(w *jsoncodec.Writer) {
	w.B = append(w.B, '{')
	if c.Seq != 0 {
		w.Key(`"seq":`)
		w.Int(c.Seq)
	}
	w.Key(`"kind":`)
	w.Text(c.Kind)
	optional := func(key, text string) {
		if text != "" {
			w.Key(key)
			w.Text(text)
		}
	}
	switch c.Kind {
	case abi.ChunkToolCall:
		w.Key(`"index":`)
		w.Int(int64(c.Index))
		optional(`"id":`, c.ID)
		optional(`"name":`, c.Name)
		w.Key(`"arguments":`)
		w.Text(c.Arguments)
	case abi.ChunkPart:
		optional(`"call_id":`, c.CallID)
		w.Key(`"part":`)
		if c.Part == nil {
			w.Null()
		} else {
			(*Part)(c.Part).writeValue(w)
		}
	default:
		optional(`"call_id":`, c.CallID)
		w.Key(`"text":`)
		w.Text(c.Text)
	}
	w.B = append(w.B, '}')
}

func (p *ListPatch) writeValue(w *jsoncodec.Writer) {
	switch {
	case !p.Whole:
		w.B = append(w.B, `{"splice":`...)
		jsoncodec.WriteSlice(w, p.Splice, func(w *jsoncodec.Writer, s *abi.Splice) { (*Splice)(s).writeValue(w) })
		w.B = append(w.B, '}')
	case p.Replace == nil:
		w.B = append(w.B, "[]"...)
	default:
		writeMessages(w, p.Replace)
	}
}

func (p *ToolsPatch) writeValue(w *jsoncodec.Writer) {
	switch {
	case !p.Whole:
		w.B = append(w.B, '{')
		if len(p.Add) > 0 {
			w.Key(`"add":`)
			writeTools(w, p.Add)
		}
		if len(p.Remove) > 0 {
			w.Key(`"remove":`)
			jsoncodec.WriteSlice(w, p.Remove, writeString)
		}
		w.B = append(w.B, '}')
	case p.Replace == nil:
		w.B = append(w.B, "[]"...)
	default:
		writeTools(w, p.Replace)
	}
}

func writeMessages(w *jsoncodec.Writer, list []abi.Message) {
	jsoncodec.WriteSlice(w, list, writeMessage)
}

func writeTools(w *jsoncodec.Writer, list []abi.Tool) {
	jsoncodec.WriteSlice(w, list, writeTool)
}

// writeUnknown writes unknown fields unchanged.
func writeUnknown(w *jsoncodec.Writer, fields abi.Fields) {
	for i := range fields {
		w.Field(fields[i].Name, fields[i].Value)
	}
}

// Keep stores an unknown field of the part. It copies raw.
func (p *Part) Keep(name string, raw []byte) { p.Unknown = with(p.Unknown, name, raw) }

// Keep stores an unknown field of the message. It copies raw.
func (m *Message) Keep(name string, raw []byte) { m.Unknown = with(m.Unknown, name, raw) }

// Keep stores an unknown field of the call. It copies raw.
func (c *ToolCall) Keep(name string, raw []byte) { c.Unknown = with(c.Unknown, name, raw) }

// with appends a field to fields. It copies raw.
func with(fields abi.Fields, name string, raw []byte) abi.Fields {
	return append(fields, abi.Field{Name: name, Value: jsoncodec.Clone(raw)})
}

func (c *Content) fill(t *reader) {
	switch t.Space() {
	case '"':
		*c = Content(abi.Text(t.Text()))
	case '[':
		var parts []abi.Part
		fillSlice(t, &parts, func(t *reader, p *abi.Part) { (*Part)(p).fill(t) })
		*c = Content(abi.Parts(parts...))
	default:
		if !t.Null() {
			t.Fail()
		}
	}
}

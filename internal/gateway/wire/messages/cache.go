package messages

import (
	"bytes"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// CachePrefix returns the parts of a request that the API's prompt cache compares, in the order of
// the cache: tools, system blocks, and the blocks of messages, up to the last breakpoint. It is
// empty if the request has no breakpoint.
func (Protocol) CachePrefix(body []byte) []wire.CacheBlock {
	v, err := rawjson.Parse(body)
	if err != nil {
		return nil
	}
	var out []wire.CacheBlock
	last := 0
	add := func(owner string, v rawjson.Value) {
		text, marked := cacheText(v)
		if out = append(out, wire.CacheBlock{Owner: owner, Text: text}); marked {
			last = len(out)
		}
	}
	for _, tool := range v.Get("tools").Elements() {
		add("tool", tool)
	}
	for _, block := range blocksOf(v.Get("system")) {
		add("system", block)
	}
	for _, m := range v.Get("messages").Elements() {
		role := m.Get("role").String()
		for _, block := range blocksOf(m.Get("content")) {
			add(role, block)
		}
	}
	if !v.Get(cacheControl).IsNull() { // the last block has the breakpoint
		last = len(out)
	}
	return out[:last]
}

// cacheText returns the text of a block that the cache compares, and whether the block has a
// breakpoint, which clients move from request to request. A string is a block of text.
func cacheText(v rawjson.Value) (text []byte, marked bool) {
	if v.IsString() {
		return append([]byte(`"type""text""text"`), v.Text...), false
	}
	// Results of tools have blocks with breakpoints. A quote within a string has a backslash.
	marked = bytes.Contains(v.Text, []byte(`"`+cacheControl+`"`))
	for _, m := range v.Members() {
		if m.Name != cacheControl {
			text = append(append(text, rawjson.Quote(m.Name)...), m.Value.Text...)
		}
	}
	return text, marked
}

// cacheControl is the member of a block with a breakpoint.
const cacheControl = "cache_control"

// blocksOf returns the blocks of a content. A string is one block.
func blocksOf(v rawjson.Value) []rawjson.Value {
	if v.IsString() {
		return []rawjson.Value{v}
	}
	return v.Elements()
}

// Package work implements the work that every benchmarked guest does: it decodes a
// conversation, marks its last message, and encodes it again.
package work

import (
	"encoding/json"
	"strings"
)

// A Message is one message of a conversation.
type Message struct {
	Role    string         `json:"role"`
	Content string         `json:"content"`
	ID      int            `json:"id"`
	Extra   map[string]any `json:"extra"`
}

// Do decodes a conversation, marks its last message and returns the encoded result.
func Do(in []byte) ([]byte, error) {
	var messages []Message
	if err := json.Unmarshal(in, &messages); err != nil {
		return nil, err
	}
	if n := len(messages); n > 0 {
		messages[n-1].Content += " (seen)"
	}
	return json.Marshal(messages)
}

// text has a typical message's length.
var text = strings.Repeat("What is the weather like in the place where I live, and what was it like? ", 6)

// Conversation returns an input for [Do] of about the given number of bytes.
func Conversation(bytes int) []byte {
	var messages []Message
	size := 0
	for i := 0; size < bytes; i++ {
		m := Message{"user", text, i, map[string]any{"a": []any{1, 2.5, nil, true}}}
		b, err := json.Marshal(m)
		if err != nil {
			panic(err) // the message contains only JSON types
		}
		messages, size = append(messages, m), size+len(b)+1
	}
	b, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	return b
}

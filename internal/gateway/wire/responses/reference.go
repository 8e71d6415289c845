package responses

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// addedPrefix begins the IDs of messages that the gateway adds to answers.
const addedPrefix = "msg_gateway_"

// maxAddedText is the maximum size of the text in an ID, in bytes.
const maxAddedText = 8 << 10

// addedID returns the ID of a message that the gateway adds to an answer. A client may later send a reference
// with the ID in place of the message, and the upstream does not store the message, so the ID contains
// the text.
func addedID(text string) string {
	text = truncate.Text(text, maxAddedText)
	return addedPrefix + strings.ToLower(rand.Text()[:8]) + "_" + base64.RawURLEncoding.EncodeToString([]byte(text))
}

// addedText returns the text of a message that the gateway has added to an answer. ok is false if
// id is not the id of such a message.
func addedText(id string) (text string, ok bool) {
	rest, ok := strings.CutPrefix(id, addedPrefix)
	_, encoded, found := strings.Cut(rest, "_")
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	return strings.ToValidUTF8(string(b), "\uFFFD"), ok && found && err == nil
}

// withAdded returns the body of a request without the IDs of messages that the gateway has added to answers, because
// the upstream has not stored these messages. A reference becomes the message, and a message loses its ID. changed
// reports whether the request has such IDs.
func withAdded(body []byte, root rawjson.Value) (next []byte, changed bool) {
	edits := rawjson.Edits{Doc: body}
	for _, v := range root.Get("input").Elements() {
		text, ok := addedText(v.Get("id").String())
		if !ok {
			continue
		}
		switch v.Get("type").String() {
		case "", "item_reference":
			edits.Replace(v, newObject(str("type", "message"), str("role", abi.RoleAssistant),
				field{"content", rawjson.Array([][]byte{newObject(str("type", "output_text"), str("text", text))})}))
		case "message":
			edits.Members(v, map[string][]byte{"id": nil})
		}
	}
	return edits.Apply(), edits.Changed()
}

package replay

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Blob is a byte string. Its JSON is a string if the bytes are UTF-8, and {"base64": "…"}
// otherwise.
type Blob []byte

type base64Blob struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON encodes b as a string or as an object with base64.
func (b Blob) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return abijson.Marshal(string(b))
	}
	return abijson.Marshal(base64Blob{b})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (b *Blob) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var o base64Blob
		err := json.Unmarshal(text, &o)
		*b = o.Base64
		return err
	}
	var s string
	err := json.Unmarshal(text, &s)
	*b = Blob(s)
	return err
}

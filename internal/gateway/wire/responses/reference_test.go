package responses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestReferenceToAdded checks that the upstream gets no ID of a message that the gateway has added, and
// modules and the upstream get the message in place of a reference.
func TestReferenceToAdded(t *testing.T) {
	reason := "[policy denied the call of rm: „files stay“]"
	id, long := addedID(reason), addedID(strings.Repeat("ä", maxAddedText))
	require.NotEqual(t, id, addedID(reason))
	for name, c := range map[string]struct{ item, want, text string }{
		"a reference": {
			`{"type":"item_reference","id":"` + id + `"}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + reason + `"}]}`, reason,
		},
		"a reference without a type": {
			`{"id":"` + id + `"}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + reason + `"}]}`, reason,
		},
		"the message": {
			`{"type":"message","id":"` + id + `","role":"assistant","content":"x", "y":1}`,
			`{"type":"message","role":"assistant","content":"x","y":1}`, "x",
		},
		"a long text": {
			`{"type":"item_reference","id":"` + long + `"}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` +
				strings.Repeat("ä", maxAddedText/2) + `"}]}`, strings.Repeat("ä", maxAddedText/2),
		},
		"no text":             {`{"type":"item_reference","id":"msg_gateway_x"}`, "", ""},
		"text that is broken": {`{"type":"item_reference","id":"msg_gateway_x_!"}`, "", ""},
		"the upstream's":      {`{"type":"item_reference","id":"msg_1"}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m", "input":[{"role":"user","content":"Hi"}, ` + c.item + `]}`
			want := body
			if c.want != "" {
				want = strings.Replace(body, c.item, c.want, 1)
			}
			r, err := Protocol{}.ParseRequest([]byte(body))
			require.NoError(t, err)
			got, err := r.Encode(r.Call())
			require.NoError(t, err)
			require.Equal(t, want, string(got))
			if c.text != "" {
				last := r.Call().Messages[1]
				require.Equal(t, abi.RoleAssistant, last.Role)
				require.Equal(t, c.text, last.Content.String())
			}
		})
	}
}

// TestReferenceOfAnyLength checks that references become messages also if that does not change the size of the request.
func TestReferenceOfAnyLength(t *testing.T) {
	same := 0
	for size := 70; size <= 100; size++ {
		reason := strings.Repeat("x", size)
		reference := `{"type":"item_reference","id":"` + addedID(reason) + `"}`
		message := `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + reason + `"}]}`
		if len(reference) == len(message) {
			same++
		}
		r, err := Protocol{}.ParseRequest([]byte(`{"model":"m","input":[` + reference + `]}`))
		require.NoError(t, err)
		got, err := r.Encode(r.Call())
		require.NoError(t, err)
		require.Equal(t, `{"model":"m","input":[`+message+`]}`, string(got), "%d bytes", size)
		require.Equal(t, reason, r.Call().Messages[0].Content.String())
	}
	require.NotZero(t, same, "a size with which the request keeps its size")
}

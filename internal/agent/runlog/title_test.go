package runlog

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// TestTitle compares Title, which reads only the beginning of a long message, with a function that
// reads the whole message.
func TestTitle(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"", "hi", " a \n\t b  ", strings.Repeat("x", maxTitle), strings.Repeat("x", maxTitle+1),
		strings.Repeat("𝄞", maxTitle), strings.Repeat("𝄞", maxTitle+1), strings.Repeat("€", 1<<20), strings.Repeat("a ", 60),
		strings.Repeat("a ", 61), strings.Repeat(" ", 1<<20) + "late", strings.Repeat("a"+strings.Repeat(" ", 1000), 200),
	} {
		want := []rune(strings.Join(strings.Fields(said), " "))
		if len(want) > maxTitle {
			want = append(want[:maxTitle-1], '…')
		}
		got := Title(
			message.NewList(message.NewRevisions(), []abi.Message{abi.User("before"), abi.User(said), abi.Assistant("no")}),
		)
		require.Equal(t, string(want), got)
		require.True(t, utf8.ValidString(got))
	}
}

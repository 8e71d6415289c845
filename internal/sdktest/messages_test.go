package sdktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A conversation answers host calls about a list of messages. The text of each message begins with
// the prefix of its revision.
type conversation struct {
	begin   string
	same    int // number of messages that did not change since the last revision
	filler  string
	garbled bool
}

func (c *conversation) answer(call Call) (string, *abi.Error) {
	switch call.Import {
	case "changed":
		return fmt.Sprint(c.same), nil
	case "messages":
		var from, to int
		_, _ = fmt.Sscan(call.Args[1], &from)
		_, _ = fmt.Sscan(call.Args[2], &to)
		var list []abi.Message
		for i := from; i < to; i++ {
			list = append(list, abi.User(fmt.Sprintf("%s%d%s", c.begin, i, c.filler)))
		}
		b, _ := json.Marshal(list)
		if c.garbled {
			b = b[:len(b)-1]
		}
		return string(b), nil
	default:
		return lenient(call)
	}
}

// read lets the probe read a list from its end. It returns the messages that the probe read, and
// its host calls up to the first "changed 1 5".
func (c *conversation) read(t *testing.T, h *Host, revision, total int) (seen, calls string) {
	t.Helper()
	h.Answer, h.Calls = c.answer, nil
	output, ok, err := h.Hook(
		t.Context(),
		"wrap_model",
		fmt.Sprintf(
			`{`+envelope+`,"request":{"messages":{"list":1,"revision":%d,"total":%d},"tools":[],"model":"m"}}`,
			revision,
			total,
		),
	)
	require.NoError(t, err)
	require.True(t, ok, output)
	var answer abi.WrapModelAnswer
	_, err = abijson.Decode([]byte(output), &answer)
	require.NoError(t, err)
	seen, _, _ = strings.Cut(answer.Response.Message.Content.String(), "; beyond")
	made := lines(h.Calls)
	for i, call := range made { // other tests check the later calls
		if call == "changed 1 5" {
			made = made[:i]
			break
		}
	}
	return strings.ReplaceAll(seen, "message=", ""), strings.Join(made, "; ")
}

// TestKeptMessages checks that an SDK reads the messages of a list again only if they have changed,
// even after a hook that failed.
func TestKeptMessages(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		c := conversation{begin: "a"}
		seen, calls := c.read(t, h, 9, 6)
		require.Equal(t, "a5; a4; a3; a2; a1; a0", seen)
		require.Equal(t, "messages 1 5 6; messages 1 1 5; messages 1 0 1", calls)

		c.begin = "b"
		seen, calls = c.read(t, h, 9, 6)
		require.Equal(t, "a5; a4; a3; a2; a1; a0", seen)
		require.Empty(t, calls)

		c.same = 4
		seen, calls = c.read(t, h, 12, 8)
		require.Equal(t, "b7; b6; b5; b4; a3; a2; a1; a0", seen)
		require.Equal(t, "changed 1 9; messages 1 7 8; messages 1 4 7", calls, "and not what is known")

		c.begin, c.garbled = "c", true
		seen, calls = c.read(t, h, 13, 9)
		require.Equal(t, "internal", seen)
		require.Equal(t, "changed 1 12; messages 1 8 9", calls)
		c.garbled = false
		seen, _ = c.read(t, h, 13, 9)
		require.Equal(t, "c8; c7; c6; c5; c4; a3; a2; a1; a0", seen)

		c.begin, c.same = "d", 0
		seen, calls = c.read(t, h, 14, 2)
		require.Equal(t, "d1; d0", seen)
		require.Equal(t, "changed 1 13; messages 1 1 2; messages 1 0 1", calls)

		c.begin, c.same = "e", 2
		seen, _ = c.read(t, h, 15, 100)
		require.True(t, strings.HasPrefix(seen, "e99; ") && strings.HasSuffix(seen, "e2; d1; d0"), seen)
	})
}

// TestKeptMemory checks that an SDK does not accumulate messages of old revisions: after 150
// revisions without a common message, the module's memory is below 48 MiB.
func TestKeptMemory(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		c := conversation{filler: strings.Repeat(" 0123456789", 5000)}
		for i := range 150 {
			c.begin = fmt.Sprintf("r%d-", i)
			seen, _ := c.read(t, h, i+1, 6)
			require.True(t, strings.HasPrefix(seen, c.begin+"5 "))
		}
		require.Less(t, h.Memory(), uint32(48<<20))
	})
}

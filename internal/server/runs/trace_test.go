package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
)

// TestLargeTimelineIsReadable checks that a timeline that is larger than maxTrace in JSON loses its
// last spans, and that the rest can be read.
func TestLargeTimelineIsReadable(t *testing.T) {
	t.Parallel()
	const spans = 5000
	line := &api.Timeline{Run: "run_1"}
	for i := range spans {
		line.Spans = append(line.Spans, api.Span{
			ID: i + 1, Parent: i / 2, Kind: "tool",
			Tool: strings.Repeat("<", 128), CallID: strings.Repeat("&", 128),
		})
	}
	whole, err := json.Marshal(line)
	require.NoError(t, err)
	require.Greater(t, len(whole), maxTrace)
	text, err := encodeTimeline(line)
	require.NoError(t, err)
	require.Less(t, len(text), maxTrace)
	require.Greater(t, len(text), maxTrace*3/4)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	got, err := readTimeline(b.Bytes())
	require.NoError(t, err)
	require.Equal(t, spans, got.Dropped+len(got.Spans))
	require.Equal(t, len(got.Spans), got.Spans[len(got.Spans)-1].ID, "the first ones remain")
}

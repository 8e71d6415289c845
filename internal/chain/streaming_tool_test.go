package chain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

// TestStreamOfATool checks that wrappers and on_chunk hooks can change the chunks of a tool's
// result as they arrive, and that a module's tool can send its result in chunks.
func TestStreamOfATool(t *testing.T) {
	t.Parallel()
	upper := &inproc.Middleware{
		WrapToolCall: func(ctx context.Context, c *hook.Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			require.True(t, in.Stream)
			s := c.StreamTool(ctx, abi.CallPatch{})
			for chunk := range s.Chunks() {
				chunk.Text, chunk.CallID = strings.ToUpper(chunk.Text), "of another call"
				if err := c.Send(ctx, chunk); err != nil {
					return nil, err
				}
			}
			return nil, s.End()
		},
	}
	dots := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			for i := range in.Chunks {
				in.Chunks[i].Text += "."
			}
			return &abi.OnChunkAnswer{Chunks: in.Chunks}, nil
		},
	}
	own := &inproc.Middleware{
		CallTool: func(ctx context.Context, c *hook.Call, _ *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			for _, s := range []string{"o", "w", "n"} {
				if err := c.Send(ctx, abi.Chunk{Kind: abi.ChunkToolResult, Text: s}); err != nil {
					return nil, err
				}
			}
			if err := c.Send(ctx, textChunk("no tool's")); !errors.Is(err, &abi.Error{Code: abi.CodeInvalid}) {
				return nil, errors.New("not refused")
			}
			return nil, nil
		},
	}
	image := &abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:,"}`)}
	for name, tc := range map[string]struct {
		entries  []hook.Entry
		owner    string
		sends    []abi.Chunk
		received string
		want     string
		parts    int
	}{
		"as it is":               {sends: []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "a"}, {Kind: abi.ChunkToolResult, Text: "b"}}, received: "ab", want: "ab"},
		"not in pieces":          {entries: []hook.Entry{{Name: "dots", Middleware: dots}}, want: "ab."},
		"changed by a wrapper":   {entries: []hook.Entry{{Name: "louder", Middleware: upper}}, sends: []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "ab"}}, received: "AB", want: "AB"},
		"changed, not in pieces": {entries: []hook.Entry{{Name: "louder", Middleware: upper}}, received: "AB", want: "AB"},
		"changed on its way": {entries: []hook.Entry{{Name: "dots", Middleware: dots}}, sends: []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "a"}, {Kind: abi.ChunkToolResult, Text: "b"}},
			received: "a.b.", want: "a.b."},
		"the result says more": {entries: []hook.Entry{{Name: "dots", Middleware: dots}}, sends: []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "a"}}, received: "a.", want: "ab."},
		"a module's own": {
			entries: []hook.Entry{{Name: "own", Middleware: own}}, owner: "own", received: "own", want: "own",
		},
		"a module's own, changed": {
			entries:  []hook.Entry{{Name: "louder", Middleware: upper}, {Name: "own", Middleware: own}},
			owner:    "own",
			received: "OWN",
			want:     "OWN",
		},
		"with an image": {entries: []hook.Entry{{Name: "louder", Middleware: upper}}, sends: []abi.Chunk{{Kind: abi.ChunkToolResult, Text: "a"}, {Kind: abi.ChunkPart, Part: image}},
			received: "A", want: "A", parts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{}
			o, err := h.open(t, tc.entries...).CallTool(t.Context(), ToolCall{
				Call: abi.Call{
					ID:        "c1",
					Name:      "t",
					Arguments: "{}",
				}, Tool: abi.Tool{Name: "t", Owner: tc.owner}, State: conversation(), Out: h.out,
				Run: func(ctx context.Context, _ abi.Call, _ *abi.Resume, out pipe.Sink) (*abi.Result, error) {
					for _, c := range tc.sends {
						if err := out(ctx, []abi.Chunk{c}, false); err != nil {
							return nil, err
						}
					}
					return abi.TextResult("ab"), nil
				}})
			require.NoError(t, err)
			require.Equal(t, tc.received, h.text())
			require.Equal(t, tc.want, o.Result.Content.String())
			require.Len(t, o.Result.Content.Parts(), max(1, tc.parts))
		})
	}
}

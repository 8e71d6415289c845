package responses

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
)

// TestWeaver plays the streams of the golden cases through a weaver.
func TestWeaver(t *testing.T) {
	for name, c := range map[string]struct {
		text func(string) string // the change of text by modules
		late bool                // whether modules hold all chunks until the end
		deny bool
		args string // the arguments that modules give the calls; empty if they change none
	}{
		"unchanged":         {},
		"late":              {late: true},
		"changed text":      {text: strings.ToUpper},
		"late changed text": {text: strings.ToUpper, late: true},
		"denied calls":      {deny: true},
		"changed calls":     {args: `{"input":"new"}`},
	} {
		t.Run(name, func(t *testing.T) {
			for file, in := range upstreams(t) {
				s := Protocol{}.NewStream("m")
				w := weave.New(s, weave.Options{})
				var out []byte
				var waiting []abi.Chunk
				for _, event := range splitEvents(in) {
					items, err := s.Decode(event)
					require.NoError(t, err)
					var chunks []abi.Chunk
					out, chunks, err = w.Receive(out, items)
					require.NoError(t, err)
					for i := range chunks {
						if c.text != nil {
							chunks[i].Text = c.text(chunks[i].Text)
						}
					}
					if waiting = append(waiting, chunks...); !c.late {
						out, waiting = w.Leave(out, waiting), nil
					}
				}
				out = w.Leave(out, waiting)
				res, denied := s.Response(), map[string]string{}
				res.Message = changedMessage(res.Message, c.text, c.args)
				if c.deny {
					for _, call := range res.Message.ToolCalls {
						denied[call.ID] = "Denied."
					}
				}
				out, err := w.Finish(out, res, denied)
				require.NoError(t, err, file)
				if name == "unchanged" || name == "late" {
					require.Equal(t, string(in), string(out), file)
				}
				again := Protocol{}.NewStream("m")
				_, err = play(again, out, &plan{})
				require.NoError(t, err, file)
				got := again.Response().Message
				if c.deny {
					require.Empty(t, got.ToolCalls, file)
					require.Equal(t, len(denied), strings.Count(got.Content.String(), "Denied."), file)
					continue
				}
				require.Equal(t, res.Message.Content.String(), got.Content.String(), file)
				require.Equal(t, res.Message.ToolCalls, got.ToolCalls, file)
			}
		})
	}
}

// changedMessage returns a message with changed text and arguments.
func changedMessage(m abi.Message, text func(string) string, args string) abi.Message {
	parts := m.Content.Parts()
	for i := range parts {
		if text != nil {
			parts[i].Text = text(parts[i].Text)
		}
	}
	m.Content = abi.Parts(parts...)
	for i := range m.ToolCalls {
		if args != "" {
			m.ToolCalls[i].Function.Arguments = args
		}
	}
	return m
}

// upstreams returns the streams of the golden cases by the names of their files.
func upstreams(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, section := range a.Files {
			if section.Name == "upstream" && len(section.Data) > 0 {
				out[file] = framed(section.Data)
			}
		}
	}
	return out
}

package responses

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

var update = flag.Bool("update", false, "write the expected streams anew")

// A plan lists changes of the blocks of a stream. Blocks without an entry are passed.
type plan struct {
	text   map[int]string // changed
	drop   map[int]bool
	deny   map[int]string
	call   map[int]string // changed arguments
	add    []string       // texts before the end
	finish string
}

func readPlan(t *testing.T, text string) *plan {
	p := &plan{text: map[int]string{}, drop: map[int]bool{}, deny: map[int]string{}, call: map[int]string{}}
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) == 3 && words[0] != "add" {
			block, err := strconv.Atoi(words[1])
			require.NoError(t, err)
			map[string]map[int]string{"text": p.text, "deny": p.deny, "call": p.call}[words[0]][block] = words[2]
			continue
		}
		switch rest := strings.Join(words[1:], " "); words[0] {
		case "drop":
			block, err := strconv.Atoi(rest)
			require.NoError(t, err)
			p.drop[block] = true
		case "add":
			p.add = append(p.add, rest)
		case "finish":
			p.finish = rest
		default:
			t.Fatalf("unknown line of a plan: %q", line)
		}
	}
	return p
}

// splitEvents splits a stream after the blank lines that end its events.
func splitEvents(stream []byte) [][]byte {
	var out [][]byte
	for len(stream) > 0 {
		end := len(stream)
		for _, mark := range []string{"\n\n", "\r\n\r\n"} {
			if i := bytes.Index(stream, []byte(mark)); i >= 0 {
				end = min(end, i+len(mark))
			}
		}
		out = append(out, stream[:end])
		stream = stream[end:]
	}
	return out
}

// play returns the client's stream after the changes of p.
func play(s wire.Stream, stream []byte, p *plan) ([]byte, error) {
	var dst []byte
	var queue, ends []wire.Item
	for _, event := range splitEvents(stream) {
		items, err := s.Decode(event)
		if err != nil {
			return nil, err
		}
		queue = append(queue, items...)
	}
	opened := map[int]wire.Item{}
	for i := range queue {
		it := &queue[i]
		if it.Kind == wire.End {
			ends = append(ends, *it)
			continue
		}
		dst = p.item(dst, s, it, opened)
	}
	for _, text := range p.add {
		dst = s.AddText(dst, abi.ChunkText, text)
	}
	finish := p.finish
	if finish == "" {
		finish = s.Response().FinishReason
	}
	if len(ends) > 0 || len(queue) == 0 {
		dst = s.End(dst, ends, finish)
	}
	return dst, nil
}

func (p *plan) item(dst []byte, s wire.Stream, it *wire.Item, opened map[int]wire.Item) []byte {
	if it.Kind == wire.Other || it.Kind == wire.Ping {
		return s.Pass(dst, it)
	}
	if it.Kind == wire.Open {
		opened[it.Block] = *it
	}
	open := opened[it.Block]
	text, changed := p.text[it.Block]
	reason, denied := p.deny[it.Block]
	args, called := p.call[it.Block]
	switch {
	case it.Kind != wire.Open && (denied || called || p.drop[it.Block]):
		return dst
	case denied || called || p.drop[it.Block]:
		s.Drop(it)
		switch {
		case denied:
			return s.AddText(dst, abi.ChunkText, reason)
		case called:
			c := abi.NewToolCall(it.Chunk.ID, it.Chunk.Name, args)
			return s.AddCall(dst, &c)
		}
		return dst
	case changed && it.Kind == wire.Open:
		return s.Text(s.Pass(dst, it), it, text)
	case changed && it.Kind == wire.Delta:
		return dst
	case changed:
		return s.CloseText(dst, &open, text)
	}
	return s.Pass(dst, it)
}

// framed returns a stream with an event for each of lines, which are the data of the events.
func framed(lines []byte) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e struct{ Type string }
		if json.Unmarshal(line, &e) == nil && e.Type != "" {
			out = fmt.Appendf(out, "event: %s\n", e.Type)
		}
		out = fmt.Appendf(out, "data: %s\n\n", line)
	}
	return out
}

// unframed is the inverse of framed. It replaces the IDs that the gateway made up by stable names.
func unframed(t *testing.T, stream []byte) []byte {
	var out []byte
	for _, event := range splitEvents(stream) {
		e, err := readEvent(event)
		require.NoError(t, err)
		data := e.data.Text
		if e.typ == doneMark {
			data = []byte(doneMark)
		}
		out = append(append(out, data...), '\n')
	}
	names := map[string]string{}
	ids := regexp.MustCompile(`(msg|resp|fc|ctc)_([a-z0-9]{26}|gateway_[a-z0-9]{8}_[\w-]*)`)
	out = ids.ReplaceAllFunc(out, func(id []byte) []byte {
		if names[string(id)] == "" {
			kind, _, _ := strings.Cut(string(id), "_")
			names[string(id)] = fmt.Sprintf("%s_new%d", kind, len(names)+1)
		}
		return []byte(names[string(id)])
	})
	return regexp.MustCompile(`"created_at":\d{10}`).ReplaceAll(out, []byte(`"created_at":0`))
}

func TestStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			sections := map[string][]byte{}
			for _, f := range a.Files {
				sections[f.Name] = f.Data
			}
			in := framed(sections["upstream"])
			same, err := play(Protocol{}.NewStream("m"), in, readPlan(t, ""))
			require.NoError(t, err)
			if len(in) > 0 {
				require.Equal(t, string(in), string(same), "a stream that was not changed must keep every byte")
			}
			s := Protocol{}.NewStream("m")
			out, err := play(s, in, readPlan(t, string(sections["plan"])))
			require.NoError(t, err)
			checkClient(t, out, bytes.Contains(in, []byte("output_item")))
			got := unframed(t, out)
			if *update {
				a.Files = append(a.Files[:2:2], txtar.File{Name: "client", Data: got})
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
			}
			require.Equal(t, string(sections["client"]), string(got))
		})
	}
}

// checkClient checks a stream as a strict client reads it: its events repeat the same texts and calls, and
// their numbers have no gaps. If the upstream sent no events of items, only its last event has some of the items.
func checkClient(t *testing.T, stream []byte, hasItems bool) {
	_, err := play(Protocol{}.NewStream("m"), stream, readPlan(t, ""))
	require.NoError(t, err, "%s", stream)
	sequence, items := int64(0), map[int64]bool{}
	for _, event := range splitEvents(stream) {
		e, err := readEvent(event)
		require.NoError(t, err)
		if v := e.fields["sequence_number"]; v.Exists() {
			require.Equal(t, sequence, v.Int(), "%s", stream)
			sequence++
		}
		if v := e.fields["output_index"]; v.Exists() && !items[v.Int()] {
			if hasItems {
				require.Equal(t, len(items), int(v.Int()), "%s", stream)
			}
			items[v.Int()] = true
		}
	}
}

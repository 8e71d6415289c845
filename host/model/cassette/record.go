package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A recorder is a model that records the answers of another model.
type recorder struct {
	model model.Model
	path  string

	mu       sync.Mutex
	written  []byte // the interactions so far, in file format
	messages [][]byte
	tools    [][]byte
}

// NewRecorder returns a model that answers as m and records the answers in path. The returned
// model should wrap retries and fallbacks, since a replay does not need them. The first answer
// replaces an existing file. NewRecorder fails if path is not writable.
func NewRecorder(path string, m model.Model) (model.Model, error) {
	f, err := temporary(path)
	if err != nil {
		return nil, fmt.Errorf("record to %s: %w", path, err)
	}
	_ = f.Close()
	return &recorder{model: m, path: path}, os.Remove(f.Name())
}

// Generate implements [model.Model]. It writes the answer to the file before it returns. It
// does not record failed calls that the context or the sink ended, nor errors of types
// other than *model.Error. Concurrent calls are recorded in the order in which they end.
func (r *recorder) Generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
) (*abi.Response, error) {
	it := interaction{
		Model:    req.Model,
		Messages: recordedMessages(req.Messages),
		Tools:    recordedTools(req.Tools),
		Params:   req.Params,
	}
	var refused bool
	record := sink
	if sink != nil {
		record = func(c abi.Chunk) error {
			err := sink(c)
			c.Seq = 0
			it.Chunks = append(it.Chunks, c)
			refused = refused || err != nil
			return err
		}
	}
	res, err := r.model.Generate(ctx, req, record)
	var failed *model.Error
	switch {
	case err == nil:
		answer := *res
		answer.Message = recordedMessages([]abi.Message{res.Message})[0]
		it.Response = &answer
	case !refused && ctx.Err() == nil && errors.As(err, &failed):
		it.Error = recordedFailure(failed)
	default:
		return res, err
	}
	if werr := r.write(&it); werr != nil {
		return nil, model.Errorf(abi.CodeInternal, "the answer cannot be recorded in %s: %w", r.path, werr)
	}
	return res, err
}

// write adds an interaction to the file. It replaces the file atomically, so that the file
// is always complete.
func (r *recorder) write(it *interaction) error {
	messages, err := marshalEach(it.Messages)
	if err != nil {
		return err
	}
	tools, err := marshalEach(it.Tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := form{}
	f.begin()
	f.field("model", it.Model)
	same := common(r.messages, messages)
	if same > 0 {
		f.field("same", same)
	}
	f.lines("messages", messages[same:])
	if len(tools) > 0 && len(tools) == len(r.tools) && common(r.tools, tools) == len(tools) {
		f.field("same_tools", true)
	} else if len(tools) > 0 {
		f.lines("tools", tools)
	}
	if len(it.Params) > 0 {
		f.field("params", it.Params)
	}
	if len(it.Chunks) > 0 {
		chunks, err := marshalEach(it.Chunks)
		if err != nil {
			return err
		}
		f.lines("chunks", chunks)
	}
	if it.Response != nil {
		f.field("response", it.Response)
	} else {
		f.field("error", it.Error)
	}
	text, err := f.end()
	if err != nil {
		return err
	}
	written := text
	if r.written != nil {
		written = append(append(r.written[:len(r.written):len(r.written)], ",\n"...), text...)
	}
	doc := fmt.Appendf(nil, "{\n  \"version\": %d,\n  \"interactions\": [\n%s\n  ]\n}\n", version, written)
	if err := replace(r.path, doc); err != nil {
		return err
	}
	r.written, r.messages, r.tools = written, messages, tools
	return nil
}

func marshalEach[T any](list []T) ([][]byte, error) {
	out := make([][]byte, len(list))
	for i := range list {
		var err error
		if out[i], err = abijson.Marshal(list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// common returns the length of the common prefix of a and b.
func common(a, b [][]byte) int {
	n := 0
	for n < len(a) && n < len(b) && bytes.Equal(a[n], b[n]) {
		n++
	}
	return n
}

// replace replaces the file at path atomically.
func replace(path string, b []byte) error {
	f, err := temporary(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// temporary creates a temporary file in the directory of path. It fails if path exists and is
// not a regular file.
func temporary(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("this is not a regular file")
	}
	name := fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
}

// A form formats an interaction field by field, with list elements on separate lines.
type form struct {
	b      bytes.Buffer
	fields int
	err    error
}

func (f *form) begin() { f.b.WriteString("    {") }

func (f *form) name(name string) {
	if f.fields++; f.fields > 1 {
		f.b.WriteByte(',')
	}
	fmt.Fprintf(&f.b, "\n      %q: ", name)
}

func (f *form) field(name string, value any) {
	b, err := abijson.Marshal(value)
	f.err = errors.Join(f.err, err)
	f.name(name)
	f.b.Write(b)
}

func (f *form) lines(name string, lines [][]byte) {
	f.name(name)
	f.b.WriteByte('[')
	for i, line := range lines {
		if i > 0 {
			f.b.WriteByte(',')
		}
		f.b.WriteString("\n        ")
		f.b.Write(line)
	}
	f.b.WriteString("\n      ]")
}

func (f *form) end() ([]byte, error) {
	f.b.WriteString("\n    }")
	return f.b.Bytes(), f.err
}

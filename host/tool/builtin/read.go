package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/host/tool"
)

type readArgs struct {
	Path   string `json:"path"`
	Offset *int   `json:"offset"`
	Limit  *int   `json:"limit"`
}

// Limits of read_file, in addition to maxOutput, and of the detection of text.
const (
	maxLines   = 2000    // lines in a result
	maxLine    = 4 << 10 // bytes of a line; longer lines are truncated
	sniffBytes = 8 << 10 // bytes that are examined to distinguish text from binary data
)

func newReadFile(r *root) tool.Tool {
	return define(nameReadFile, "Reads a text file, or some of its lines.", `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "File, relative to the root directory."},
    "offset": {"type": "integer", "minimum": 1, "description": "Line to begin with, counted from 1."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": "How many lines to read; 2000 if left out."}
  },
  "required": ["path"],
  "additionalProperties": false
}`, func(ctx context.Context, args *readArgs) (string, error) {
		if args.Path == "" {
			return "", errors.New(`the argument "path" is missing`)
		}
		p, err := cleanPath(args.Path)
		if err != nil {
			return "", err
		}
		offset, err := inRange("offset", args.Offset, 1, 1, math.MaxInt32)
		if err != nil {
			return "", err
		}
		limit, err := inRange("limit", args.Limit, maxLines, 1, maxLines)
		if err != nil {
			return "", err
		}
		return r.read(ctx, p, offset, limit)
	})
}

// read returns at most limit lines of a file, starting at line offset, as text for the model.
func (r *root) read(ctx context.Context, p string, offset, limit int) (string, error) {
	dir, err := r.open()
	if err != nil {
		return "", err
	}
	defer dir.Close()
	f, err := openFile(dir, p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines, kind, err := newLineReader(ctx, f)
	if err != nil {
		return "", fileError(dir, p, err)
	}
	if kind != "" {
		return "", fmt.Errorf("%s is not text in UTF-8 but looks like %s; it cannot be read with this tool", show(p), kind)
	}
	text, err := lines.excerpt(offset, limit)
	switch {
	case err != nil:
		return "", fileError(dir, p, err)
	case text == "" && lines.number == 0:
		return fmt.Sprintf("%s is empty", show(p)), nil
	case text == "":
		return "", fmt.Errorf("%s has only %d lines; offset is %d", show(p), lines.number, offset)
	}
	return text, nil
}

// excerpt returns at most limit lines, starting at line offset, with a note if there are more.
func (l *lineReader) excerpt(offset, limit int) (string, error) {
	var b strings.Builder
	for {
		line, more, err := l.next()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		if l.number < offset {
			continue
		}
		if more > 0 {
			line += fmt.Sprintf(" [cut: %d more bytes in this line]", more)
		}
		if l.number-offset >= limit || b.Len()+len(line) > maxOutput {
			fmt.Fprintf(&b, "[cut before line %d; read on with \"offset\": %d]\n", l.number, l.number)
			return b.String(), nil
		}
		b.WriteString(line + "\n")
	}
}

// A lineReader reads a text file line by line, in constant memory.
type lineReader struct {
	ctx    context.Context
	r      *bufio.Reader
	keep   int // maximum number of bytes of a line to return
	number int // number of the last line read
}

// newLineReader starts reading a file. If the file is not text, it returns the kind of content instead.
func newLineReader(ctx context.Context, f *os.File) (l *lineReader, kind string, err error) {
	r := bufio.NewReaderSize(f, sniffBytes)
	head, err := r.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	if !isText(head) {
		kind = http.DetectContentType(head)
		if strings.HasPrefix(kind, "text/") {
			kind = "text in another encoding"
		}
		return nil, kind, nil
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		_, _ = r.Discard(len("\ufeff")) // succeeds, since Peek has read these bytes
	}
	return &lineReader{ctx: ctx, r: r, keep: maxLine}, "", nil
}

// isText reports whether the beginning of a file is UTF-8 without control characters that text does
// not contain. The last rune may be incomplete.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRune(head)
		}
		if r < ' ' && !strings.ContainsRune("\t\n\r\f\b\x1b", r) {
			return false
		}
		head = head[n:]
	}
	return true
}

// next returns the beginning of the next line, without its newline and as valid UTF-8, and the
// number of bytes that it omits. At the end of the file, it fails with io.EOF.
func (l *lineReader) next() (text string, more int, err error) {
	var line, piece []byte
	for piece == nil || errors.Is(err, bufio.ErrBufferFull) {
		if err := l.ctx.Err(); err != nil {
			return "", 0, err
		}
		piece, err = l.r.ReadSlice('\n')
		kept := min(len(piece), l.keep-len(line))
		line = append(line, piece[:kept]...)
		more += len(piece) - kept
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return "", 0, err
	}
	l.number++
	if more > 0 && bytes.HasSuffix(piece, []byte("\n")) {
		more--
	}
	if more > 0 {
		whole := len(line)
		line = withoutHalfRune(line)
		more += whole - len(line)
	} else {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	}
	return strings.ToValidUTF8(string(line), "\ufffd"), more, nil
}

// withoutHalfRune returns b without an incomplete rune at its end.
func withoutHalfRune(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

package main

import (
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Limits of a search result.
const (
	maxHits    = 20
	hitContext = 80 // bytes on either side
)

type readArgs struct {
	ID   string `json:"id" doc:"of the result, as it stands where it was cut or cleared"`
	From int    `json:"from,omitempty" doc:"the byte to begin with"`
	Find string `json:"find,omitempty" doc:"a text to look for, exactly as it is written: says at which bytes it stands, from byte from on"`
}

func (r *reducer) readTool() middleware.Tool {
	t := middleware.NewTool(
		r.Tool,
		middleware.Sprintf(
			"Reads a tool's result that was cut or cleared, %d bytes at once, or looks for a text in it.",
			r.PageBytes,
		),
		r.answer,
	)
	t.Idempotent = true
	return t
}

// answer returns a page of a stored result, or the matches of a search in it.
func (r *reducer) answer(ctx *middleware.Context, args readArgs) (*abi.Result, error) {
	if args.ID == "" || len(args.ID) > 200 {
		return abi.ErrorResult("id: the id of a result that was cut or cleared"), nil
	}
	var about stored
	ok := !strings.Contains(args.ID, "/") // an id with a slash is that of a piece
	if ok {
		var err error
		if about, ok, err = get[stored](ctx, r, textKey(args.ID)); err != nil {
			return nil, err
		}
	}
	if !ok || about.Bytes == 0 {
		return abi.ErrorResult(middleware.Sprintf("no text is stored under the id %q; it may have expired", args.ID)), nil
	}
	if args.From < 0 || args.From >= about.Bytes {
		return abi.ErrorResult(middleware.Sprintf("from: %d is not 0 to %d", args.From, about.Bytes-1)), nil
	}
	var text string
	var err error
	if args.Find == "" {
		text, err = r.page(ctx, args, about)
	} else {
		text, err = r.find(ctx, args, about)
	}
	if err != nil {
		return nil, err
	}
	res := abi.TextResult(text)
	res.Extra = withMark(nil, mark{ID: args.ID})
	return res, nil
}

// page returns a line with offsets, followed by at most PageBytes bytes of stored text. They start
// with the character that contains byte args.From.
func (r *reducer) page(ctx *middleware.Context, args readArgs, about stored) (string, error) {
	text, start, err := r.load(ctx, args.ID, about, args.From, r.PageBytes)
	if err != nil {
		return "", err
	}
	at := args.From - start
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	page := head(text[at:], r.PageBytes)
	from, to := start+at, start+at+len(page)
	if to >= about.Bytes {
		return middleware.Sprintf("[bytes %d to %d of %d, the end]\n%s", from, to, about.Bytes, page), nil
	}
	return middleware.Sprintf("[bytes %d to %d of %d; go on with \"from\": %d]\n%s", from, to, about.Bytes, to, page), nil
}

// find searches stored text for args.Find, starting at byte args.From. It returns the offsets and
// surroundings of the first matches, or a note that there are none.
func (r *reducer) find(ctx *middleware.Context, args readArgs, about stored) (string, error) {
	text, start, err := r.load(ctx, args.ID, about, args.From, about.Bytes)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at, hits := args.From-start, 0
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	for {
		i := strings.Index(text[at:], args.Find)
		if i < 0 {
			break
		}
		if hits++; hits > maxHits || b.Len() > r.PageBytes {
			b.WriteString(middleware.Sprintf("\nthere are more; go on with \"from\": %d", start+at+i))
			break
		}
		i += at
		at = i + len(args.Find)
		b.WriteString(
			middleware.Sprintf("\nbyte %d: …%s…", start+i, tail(text[:i], hitContext)+args.Find+head(text[at:], hitContext)),
		)
	}
	if hits == 0 {
		return middleware.Sprintf("[not found from byte %d on, in %d bytes]", args.From, about.Bytes), nil
	}
	return "[found]" + b.String(), nil
}

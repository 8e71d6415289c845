package main

import (
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// minimum is the minimum number of tokens that clearing a result must free. Smaller results are not
// cleared.
const minimum = 20

func (r *reducer) excluded(tool string) bool {
	return tool == r.Tool || names.Match(r.Exclude, tool)
}

// cut replaces a result's text with a notice and, if configured, a preview of its beginning and
// end. It first stores the whole text, unless Keep is [keepNone]. If that fails, the notice says
// so.
func (r *reducer) cut(ctx *middleware.Context, call *middleware.ToolEnd) error {
	text := call.Result.Content.String()
	id, where := "", "The rest of it is lost."
	result := map[string]any{"tool": call.Name, "call": call.ID, "bytes": len(text)}
	if r.Keep != keepNone {
		var err error
		if id, err = r.save(ctx, call.Name, text); err != nil {
			where = "The rest of it is lost, because it could not be stored: " + err.Error() + "."
			result["error"] = err.Error()
		} else {
			result["id"] = id
			where = "Read all of it, or look for a text in it, with " + r.how(id) + "."
		}
	}
	notice := middleware.Sprintf("[This result was cut: it has %d bytes. %s]", len(text), where)
	if half := r.PreviewBytes / 2; half > 0 {
		notice += middleware.Sprintf("\n\nIts begin:\n%s\n\nIts end:\n%s", head(text, half), tail(text, half))
	}
	call.Result.Content = withText(call.Result.Content, notice)
	call.Result.Extra = withMark(call.Result.Extra, mark{ID: id})
	return ctx.Emit("cut", result)
}

// how describes to the model the tool call that reads the stored text with the given ID.
func (r *reducer) how(id string) string { return middleware.Sprintf(`%s {"id":%q}`, r.Tool, id) }

// withText returns c with its text replaced. Other parts remain, after the text.
func withText(c abi.Content, text string) abi.Content {
	if !c.IsParts() {
		return abi.Text(text)
	}
	parts := []abi.Part{{Type: abi.PartText, Text: text}}
	for _, p := range c.Parts() {
		if p.Type != abi.PartText {
			parts = append(parts, p)
		}
	}
	return abi.Parts(parts...)
}

// A found is an old result that can be cleared.
type found struct {
	at    int
	tool  string
	frees int
}

// clear replaces old results with one line each, unless that would free fewer tokens than
// ClearAtLeast. It first stores their texts, unless Keep is [keepNone], and stops at the first one
// that cannot be stored.
func (r *reducer) clear(ctx *middleware.Context, messages *middleware.Messages) error {
	old, frees := r.old(messages), 0
	for _, f := range old {
		frees += f.frees
	}
	if len(old) == 0 || frees < r.ClearAtLeast {
		return nil
	}
	cleared := 0
	frees = 0
	for _, f := range old {
		m := messages.At(f.at)
		stored := markOf(m.Extra)
		if stored.ID == "" && r.Keep != keepNone {
			var err error
			if stored.ID, err = r.save(ctx, f.tool, m.Content.String()); err != nil {
				// Stop here: results that are too long are better than results that are lost.
				return r.result(ctx, cleared, frees, err)
			}
		}
		m.Content = abi.Text(r.line(f.tool, stored))
		stored.Cleared = true
		m.Extra = withMark(m.Extra, stored)
		messages.Set(f.at, m)
		cleared++
		frees += f.frees
	}
	return r.result(ctx, cleared, frees, nil)
}

// result emits an event with the number of cleared results and of freed tokens. err is the error that
// ended the clearing early, or nil.
func (r *reducer) result(ctx *middleware.Context, cleared, frees int, err error) error {
	data := map[string]any{"results": cleared, "tokens": frees}
	if err != nil {
		data["error"] = "others could not be stored, and remain: " + err.Error()
	}
	return ctx.Emit("cleared", data)
}

// line returns the text that replaces a cleared result. It tells the model how to read the stored
// text, if there is one.
func (r *reducer) line(tool string, stored mark) string {
	if stored.ID == "" {
		return middleware.Sprintf("[This old result of %s was cleared.]", tool)
	}
	return middleware.Sprintf("[This old result of %s was cleared. Read it with %s.]", tool, r.how(stored.ID))
}

// old returns the results that can be cleared, oldest first: text-only results of tools that are
// not excluded, if they precede the last KeepRounds rounds of calls, are not cleared yet, and would
// free at least minimum tokens.
func (r *reducer) old(messages *middleware.Messages) []found {
	end, rounds := messages.Len(), 0
	for i, m := range messages.Backward() {
		if len(m.ToolCalls) > 0 {
			end = i
			if rounds++; rounds == r.KeepRounds {
				break
			}
		}
	}
	if rounds < r.KeepRounds {
		return nil
	}
	var out []found
	var calls []abi.ToolCall
	for i := range end {
		m := messages.At(i)
		if m.Role != abi.RoleTool {
			calls = m.ToolCalls
			continue
		}
		tool := m.Name
		for _, c := range calls {
			if c.ID == m.ToolCallID {
				tool = c.Function.Name
			}
		}
		stored := markOf(m.Extra)
		if stored.Cleared || hasOther(m.Content) || names.Match(r.Exclude, tool) {
			continue
		}
		// Assume the size of an id that is not assigned yet.
		frees := tokens.Content(m.Content) - tokens.Text(r.line(tool, mark{ID: "r99999"}))
		if frees >= minimum {
			out = append(out, found{i, tool, frees})
		}
	}
	return out
}

// hasOther reports whether content has parts other than text.
func hasOther(c abi.Content) bool {
	if c.IsParts() {
		for _, p := range c.Parts() {
			if p.Type != abi.PartText {
				return true
			}
		}
	}
	return false
}

// head returns the beginning of s: whole characters of at most n bytes.
func head(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tail returns the end of s: whole characters of at most n bytes.
func tail(s string, n int) string {
	i := max(0, len(s)-n)
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

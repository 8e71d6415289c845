package abi

import (
	"math/bits"
	"unsafe"
)

// usualCommon reads what all inputs begin with, as the host mostly writes it: the run
// and the name of the entry, which is a third of all keys that hooks are given. They are
// always the same, so they are not looked for, only compared. It goes on from where it
// came to, which may be the begin: what is not as usual is read by the shapes.
func (t *trusted) usualCommon(in *place) {
	b, c, i := t.b[:len(t.b)+Pad], (*Common)(in.p), t.i
	if !isText(b, i, `,"run":{"id":"`) {
		return
	}
	id := i + len(`,"run":{"id":"`)
	idEnd := textEnd(b, id)
	if !isText(b, idEnd, `","agent":"`) {
		return
	}
	agent := idEnd + len(`","agent":"`)
	agentEnd := textEnd(b, agent)
	if !isText(b, agentEnd, `","step":`) {
		return
	}
	i = agentEnd + len(`","step":`)
	step, n := digits(word(b, i))
	if i += n; !isText(b, i, `,"step_id":"`) {
		return
	}
	stepID := i + len(`,"step_id":"`)
	stepIDEnd := textEnd(b, stepID)
	if !isText(b, stepIDEnd, `","max_steps":`) {
		return
	}
	i = stepIDEnd + len(`","max_steps":`)
	maxSteps, n := digits(word(b, i))
	if i += n; !isText(b, i, `,"usage":{"promp`) || !isText(b, i+16, `t_tokens":`) {
		return
	}
	i += len(`,"usage":{"prompt_tokens":`)
	prompt, n := digits(word(b, i))
	if i += n; !isText(b, i, `,"completion_tok`) || !isText(b, i+13, `tokens":`) {
		return
	}
	i += len(`,"completion_tokens":`)
	completion, n := digits(word(b, i))
	if i += n; !isText(b, i, `,"total_tokens":`) {
		return
	}
	i += len(`,"total_tokens":`)
	total, n := digits(word(b, i))
	if i += n; byteOf(b, i) != '}' {
		return
	}
	i++
	r := &c.Run
	setText(unsafe.Pointer(&r.ID), b, id, idEnd-id)
	setText(unsafe.Pointer(&r.Agent), b, agent, agentEnd-agent)
	setText(unsafe.Pointer(&r.StepID), b, stepID, stepIDEnd-stepID)
	r.Step, r.MaxSteps = int(step), int(maxSteps)
	r.Usage = Usage{PromptTokens: int64(prompt), CompletionTokens: int64(completion), TotalTokens: int64(total)}
	t.i = i
	if isText(b, i, `,"now_ms":`) {
		i += len(`,"now_ms":`)
		high, n := digits(word(b, i))
		low, m := digits(word(b, i+8))
		i += 8 + m
		if entry := i + len(`},"entry":"`); n == 8 && m == 5 && isText(b, i, `},"entry":"`) {
			if end := textEnd(b, entry); byteOf(b, end) == '"' && byteOf(b, end+1) != '"' {
				r.NowMS = int64(high*100_000 + low)
				setText(unsafe.Pointer(&c.Entry), b, entry, end-entry)
				t.i, in.field = end+1, 2*fieldSize
				return
			}
		}
	}
	in.field = fieldSize
	run := &t.places[t.depth]
	t.depth++
	run.s, run.p, run.field, run.list, run.outer = in.s.fields[0].of, unsafe.Pointer(r), usualFields*fieldSize, nil, false
}

// usualFields are how many fields of a run usualCommon has read at least.
const usualFields = 6

// isText reports whether a key of 8 to 16 bytes stands at i.
func isText(b []byte, i int, key string) bool {
	return word(b, i) == wordOf(key, 0) && word(b, i+len(key)-8) == wordOf(key, len(key)-8)
}

// textEnd is where the text from i on ends, or where it has something else in it that is
// not usual.
func textEnd(b []byte, i int) int {
	found := mayEnd(word(b, i)) & highs
	for ; found == 0; found = mayEnd(word(b, i)) & highs {
		i += 8
	}
	return i + bits.TrailingZeros64(found)>>3
}

// digits reads the number that eight bytes begin with, and says how many digits it has,
// at most eight.
func digits(w uint64) (v uint64, n int) {
	w ^= zeros
	n = bits.TrailingZeros64(((w+0x76*ones)|w)&highs) >> 3
	w <<= (64 - 8*n) & 63
	v = (w*10 + w>>8) & 0x00ff00ff00ff00ff
	v = (v*100 + v>>16) & 0x0000ffff0000ffff
	return (v*10_000 + v>>32) & 0xffffffff, n
}

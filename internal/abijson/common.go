package abijson

import (
	"math/bits"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/word"
)

// fastCommon is the fast path for the fields with which every input begins: the run and the name of
// the entry. They are a third of all keys that hooks receive. fastCommon compares the text with the
// host's usual encoding instead of searching for keys. If the text differs, fastCommon stops there,
// possibly before the first key, and the object shapes read the rest.
func (t *reader) fastCommon(in *place) {
	b, c, i := t.B[:len(t.B)+Pad], (*abi.Common)(in.p), t.I
	if !hasKeyAt(b, i, `,"run":{"id":"`) {
		return
	}
	id := i + len(`,"run":{"id":"`)
	idEnd := textEnd(b, id)
	if !hasKeyAt(b, idEnd, `","agent":"`) {
		return
	}
	agent := idEnd + len(`","agent":"`)
	agentEnd := textEnd(b, agent)
	if !hasKeyAt(b, agentEnd, `","step":`) {
		return
	}
	i = agentEnd + len(`","step":`)
	step, n := digits(word.Load(b, i))
	if i += n; !hasKeyAt(b, i, `,"step_id":"`) {
		return
	}
	stepID := i + len(`,"step_id":"`)
	stepIDEnd := textEnd(b, stepID)
	if !hasKeyAt(b, stepIDEnd, `","max_steps":`) {
		return
	}
	i = stepIDEnd + len(`","max_steps":`)
	maxSteps, n := digits(word.Load(b, i))
	if i += n; !hasKeyAt(b, i, `,"usage":{"promp`) || !hasKeyAt(b, i+16, `t_tokens":`) {
		return
	}
	i += len(`,"usage":{"prompt_tokens":`)
	prompt, n := digits(word.Load(b, i))
	if i += n; !hasKeyAt(b, i, `,"completion_tok`) || !hasKeyAt(b, i+13, `tokens":`) {
		return
	}
	i += len(`,"completion_tokens":`)
	completion, n := digits(word.Load(b, i))
	if i += n; !hasKeyAt(b, i, `,"total_tokens":`) {
		return
	}
	i += len(`,"total_tokens":`)
	total, n := digits(word.Load(b, i))
	if i += n; word.Byte(b, i) != '}' {
		return
	}
	i++
	r := &c.Run
	word.StoreString(unsafe.Pointer(&r.ID), b, id, idEnd-id)
	word.StoreString(unsafe.Pointer(&r.Agent), b, agent, agentEnd-agent)
	word.StoreString(unsafe.Pointer(&r.StepID), b, stepID, stepIDEnd-stepID)
	r.Step, r.MaxSteps = int(step), int(maxSteps)
	r.Usage = abi.Usage{PromptTokens: int64(prompt), CompletionTokens: int64(completion), TotalTokens: int64(total)}
	t.I = i
	if hasKeyAt(b, i, `,"now_ms":`) {
		i += len(`,"now_ms":`)
		high, n := digits(word.Load(b, i))
		low, m := digits(word.Load(b, i+8))
		i += 8 + m
		if entry := i + len(`},"entry":"`); n == 8 && m == 5 && hasKeyAt(b, i, `},"entry":"`) {
			if end := textEnd(b, entry); word.Byte(b, end) == '"' && word.Byte(b, end+1) != '"' {
				r.NowMS = int64(high*100_000 + low)
				word.StoreString(unsafe.Pointer(&c.Entry), b, entry, end-entry)
				t.I, in.field = end+1, 2*fieldSize
				return
			}
		}
	}
	in.field = fieldSize
	run := &t.places[t.depth]
	t.depth++
	run.s, run.p, run.field = in.s.fields[0].of, unsafe.Pointer(r), minFastFields*fieldSize
	run.list, run.outer = nil, false
}

// minFastFields is the minimum number of a run's fields that fastCommon must read to succeed.
const minFastFields = 6

// hasKeyAt reports whether b contains key at i. The key must have 8 to 16 bytes.
func hasKeyAt(b []byte, i int, key string) bool {
	return word.Load(b, i) == word.LoadString(key, 0) && word.Load(b, i+len(key)-8) == word.LoadString(key, len(key)-8)
}

// textEnd returns the index of the first byte at or after i that may end the string or begin an
// escape. See [word.MayEnd].
func textEnd(b []byte, i int) int {
	found := word.MayEnd(word.Load(b, i)) & word.Highs
	for ; found == 0; found = word.MayEnd(word.Load(b, i)) & word.Highs {
		i += 8
	}
	return i + bits.TrailingZeros64(found)>>3
}

// digits parses the decimal number at the start of w and returns its value and its number
// of digits, at most eight.
func digits(w uint64) (v uint64, n int) {
	w ^= word.Zeros
	n = bits.TrailingZeros64(((w+0x76*word.Ones)|w)&word.Highs) >> 3
	w <<= (64 - 8*n) & 63
	v = (w*10 + w>>8) & 0x00ff00ff00ff00ff
	v = (v*100 + v>>16) & 0x0000ffff0000ffff
	return (v*10_000 + v>>32) & 0xffffffff, n
}

package hostile

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/agent-runner/agent-runner/internal/contract"
)

// A randomPlugin is an Extism plug-in that makes random calls with random offsets, many of them
// of existing or freed blocks.
type randomPlugin struct {
	*rand.Rand
	*guest
	all []randomCall
}

type randomCall struct {
	index          int
	params, result string
}

func newRandomPlugin(r *rand.Rand) *randomPlugin {
	p := &randomPlugin{Rand: r, guest: newGuest()}
	for _, name := range slices.Sorted(maps.Keys(extismTypes)) {
		t := extismTypes[name]
		p.all = append(p.all, randomCall{p.extism(name), t[0], t[1]})
	}
	for _, name := range slices.Sorted(maps.Keys(userCalls)) {
		p.all = append(p.all, randomCall{p.use(extismUser, name, userCalls[name], "I"), userCalls[name], "I"})
	}
	hooks := contract.Hooks()
	r.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
	for _, h := range hooks[:1+r.IntN(4)] {
		if h != contract.HookDescribe || r.IntN(4) == 0 { // otherwise few would be configured and run
			p.export(string(h), p.function("", "i", p.statements(3+r.IntN(30), 0), i32(r.IntN(5)/4)))
		}
	}
	return p
}

// statements generates n statements. Each is a loop, a new block with a string, or a call.
func (p *randomPlugin) statements(n, depth int) (code []byte) {
	for range n {
		switch k := p.IntN(12); {
		case k == 0 && depth < 2:
			counter := depth
			code = join(code, i32(0), setLocal(counter), count(counter, 1<<p.IntN(14), p.statements(1+p.IntN(3), depth+1)))
		case k < 4: // a block with a string in it
			text := goodTexts[p.IntN(len(goodTexts))]
			code = append(code, p.passing(text[:min(len(text), 40)], p.place())...)
		default:
			code = append(code, p.call()...)
		}
	}
	return code
}

func (p *randomPlugin) place() int { return place0 + p.IntN(2) }

func (p *randomPlugin) call() (code []byte) {
	c := p.all[p.IntN(len(p.all))]
	for _, t := range c.params {
		if t == 'i' {
			code = append(code, i32(p.IntN(256))...)
		} else {
			code = append(code, p.offset()...)
		}
	}
	code = append(code, call(c.index)...)
	switch {
	case c.result == "":
	case c.result == "I" && p.IntN(3) > 0:
		code = append(code, setLocal(p.place())...)
	default:
		code = append(code, drop...)
	}
	return code
}

// offset returns code that pushes an offset, usually of a block or near one, or a length.
func (p *randomPlugin) offset() []byte {
	switch p.IntN(24) {
	case 0:
		return i64([]int64{0, 1, 8, 1 << 10, 1 << 20, 7 << 20, 1 << 40, -1, -1 << 63}[p.IntN(9)])
	case 1:
		return i64(int64(p.IntN(64)))
	case 2:
		return join(local(p.place()), i64(int64(p.IntN(40)-8)), []byte{0x7c})
	default:
		return local(p.place())
	}
}

package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxProgram is the maximum number of instructions of a pattern. Each byte of text may cost as
// many steps.
const maxProgram = 2000

// custom finds matches of a regular expression. Package regexp cannot report which part at the
// end of a string may still become a match, so custom runs the compiled program itself, on the
// last bytes of the string only.
type custom struct {
	pattern *regexp.Regexp
	program *syntax.Prog
}

func newCustom(pattern string) (*custom, error) {
	if pattern == "" {
		return nil, errors.New("say what to look for")
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if re.MatchString("") {
		return nil, errors.New("it matches the empty text, and so everything")
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, errors.New("it is too large; use a shorter expression, or fewer repetitions")
	}
	return &custom{re, program}, nil
}

// mayFind implements [detector].
func (c *custom) mayFind(*survey) bool { return true }

// find implements [detector].
func (c *custom) find(v *view) []span {
	var out []span
	for _, m := range c.pattern.FindAllStringIndex(v.text, -1) {
		// A match that began before from exceeded the limit of held text.
		if m[0] = max(m[0], v.from); m[0] < m[1] {
			out = append(out, span{from: m[0], to: m[1]})
		}
	}
	return out
}

// open implements [detector]. It runs the program over the end of the text, with a thread from each
// index. A match may begin at the start of the oldest thread that could continue past the end of
// the text.
func (c *custom) open(text string, from int) int {
	i := max(from, len(text)-maxTail)
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	before := rune(-1)
	if i > 0 {
		before, _ = utf8.DecodeLastRuneInString(text[:i])
	}
	s := search{program: c.program, seen: make([]int, len(c.program.Inst))}
	var threads []thread
	for i < len(text) {
		char, size := utf8.DecodeRuneInString(text[i:])
		s.at(syntax.EmptyOpContext(before, char))
		for _, t := range append(threads, thread{c.program.Start, i}) {
			s.follow(t)
		}
		threads = threads[:0]
		for _, t := range s.reading {
			if inst := &c.program.Inst[t.pc]; inst.MatchRune(char) {
				threads = append(threads, thread{int(inst.Out), t.from})
			}
		}
		before = char
		i += size
	}
	s.at(syntax.EmptyOpContext(before, -1))
	for _, t := range threads {
		if s.canContinue(t.pc, false) {
			return t.from
		}
	}
	return len(text)
}

// A thread is a position in the program and the index in the text at which it started.
// Lists of threads are sorted by that index.
type thread struct{ pc, from int }

// A search is the state of a program at one position in the text.
type search struct {
	program *syntax.Prog
	flags   syntax.EmptyOp // conditions that hold at this position
	seen    []int          // the last round that reached each instruction
	round   int
	reading []thread // threads that consume a character next
}

// at moves the search to the next position, at which the conditions in flags hold.
func (s *search) at(flags syntax.EmptyOp) {
	s.flags, s.reading = flags, s.reading[:0]
	s.round++
}

// follow advances a thread to the instructions that consume a character. Of two threads at
// the same instruction, it drops the newer one.
func (s *search) follow(t thread) {
	if s.seen[t.pc] == s.round {
		return
	}
	s.seen[t.pc] = s.round
	inst := &s.program.Inst[t.pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		s.follow(thread{int(inst.Out), t.from})
		s.follow(thread{int(inst.Arg), t.from})
	case syntax.InstCapture, syntax.InstNop:
		s.follow(thread{int(inst.Out), t.from})
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(inst.Arg)&^s.flags == 0 {
			s.follow(thread{int(inst.Out), t.from})
		}
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		s.reading = append(s.reading, t)
	}
}

// canContinue reports whether the outcome of a thread at the end of the text depends on more text:
// whether the thread consumes a character or tests if one follows. unsure is true after such a test.
func (s *search) canContinue(pc int, unsure bool) bool {
	// Skip instructions that an unsure thread has already reached.
	if s.seen[pc] == -s.round || s.seen[pc] == s.round && !unsure {
		return false
	}
	if s.seen[pc] = s.round; unsure {
		s.seen[pc] = -s.round
	}
	inst := &s.program.Inst[pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return s.canContinue(int(inst.Out), unsure) || s.canContinue(int(inst.Arg), unsure)
	case syntax.InstCapture, syntax.InstNop:
		return s.canContinue(int(inst.Out), unsure)
	case syntax.InstEmptyWidth:
		const known = syntax.EmptyBeginLine | syntax.EmptyBeginText // these only look back
		need := syntax.EmptyOp(inst.Arg)
		return need&known&^s.flags == 0 && s.canContinue(int(inst.Out), unsure || need&^known != 0)
	case syntax.InstMatch:
		return unsure
	case syntax.InstFail:
		return false
	default:
		return true
	}
}

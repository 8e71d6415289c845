package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxProgram is how many instructions a pattern may have: each byte of a text
// may cost as many steps.
const maxProgram = 2000

// custom finds what a regular expression matches. What package regexp does not
// tell, which end of a text may still grow into a match, it finds out by
// running the expression's program itself, on the last bytes only.
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
		return nil, errors.New("it is too large; look for less, or repeat less")
	}
	return &custom{re, program}, nil
}

func (c *custom) find(text string, from int) []span {
	var out []span
	for _, m := range c.pattern.FindAllStringIndex(text, -1) {
		// One that began before from was longer than what is held back.
		if m[0] = max(m[0], from); m[0] < m[1] {
			out = append(out, span{from: m[0], to: m[1]})
		}
	}
	return out
}

// open runs the program over the end of the text with a thread from each
// index. The oldest that could still go on when the text ends is where a match
// may begin.
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
		if s.mayGoOn(t.pc, false) {
			return t.from
		}
	}
	return len(text)
}

// A thread is a place in the program, and where in the text it set out. Lists
// of them are sorted by that.
type thread struct{ pc, from int }

// A search is one run of a program, at one place in the text.
type search struct {
	program *syntax.Prog
	flags   syntax.EmptyOp // what holds at this place
	seen    []int          // the round in which an instruction was met last
	round   int
	reading []thread // those that read a character next
}

func (s *search) at(flags syntax.EmptyOp) {
	s.flags, s.reading = flags, s.reading[:0]
	s.round++
}

// follow takes a thread to where it reads a character. Of two at the same
// instruction the older one stands for both.
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

// mayGoOn reports whether a thread at the text's end depends on what comes: it
// reads a character, or has to know whether one is there. unsure says that it
// has passed such a place.
func (s *search) mayGoOn(pc int, unsure bool) bool {
	// An instruction met by an unsure thread need not be met again.
	if s.seen[pc] == -s.round || s.seen[pc] == s.round && !unsure {
		return false
	}
	if s.seen[pc] = s.round; unsure {
		s.seen[pc] = -s.round
	}
	inst := &s.program.Inst[pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return s.mayGoOn(int(inst.Out), unsure) || s.mayGoOn(int(inst.Arg), unsure)
	case syntax.InstCapture, syntax.InstNop:
		return s.mayGoOn(int(inst.Out), unsure)
	case syntax.InstEmptyWidth:
		const known = syntax.EmptyBeginLine | syntax.EmptyBeginText // they only look back
		need := syntax.EmptyOp(inst.Arg)
		return need&known&^s.flags == 0 && s.mayGoOn(int(inst.Out), unsure || need&^known != 0)
	case syntax.InstMatch:
		return unsure
	case syntax.InstFail:
		return false
	default:
		return true
	}
}

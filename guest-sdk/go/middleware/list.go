package middleware

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// maxBlock is how many messages one host call pulls at most.
const maxBlock = 64

// A listCache keeps the messages of a list that were pulled, across hooks of
// one run. It is only a cache: without it everything is pulled again.
type listCache struct {
	run      string
	revision int64
	known    []*abi.Message // by index; nil: not pulled
	pulled   int            // how many of known are there
}

// A shown is a list as it was shown to one hook call.
type shown struct {
	abi.List
	run   string
	host  Host
	cache *listCache
	ready bool

	from, to, block int // what was pulled last
}

// messages returns the cache's messages, brought to the revision shown.
func (s *shown) messages() []*abi.Message {
	if s.ready {
		return s.cache.known
	}
	c, keep := s.cache, 0
	if c.run == s.run && c.pulled > 0 {
		keep = len(c.known)
		if c.revision != s.Revision {
			first, err := s.host.Changed(s.List.List, c.revision)
			if err != nil {
				first = 0
			}
			keep = min(keep, max(first, 0))
		}
	}
	keep = min(keep, s.Total)
	known := make([]*abi.Message, s.Total)
	copy(known, c.known[:keep])
	*c = listCache{run: s.run, revision: s.Revision, known: known}
	for i := range s.Items {
		if i < s.Total {
			known[i] = &s.Items[i]
		}
	}
	for _, m := range known {
		if m != nil {
			c.pulled++
		}
	}
	s.ready = true
	return known
}

// at returns message i of the list as shown. A miss pulls a block that grows
// while the reading goes on in one direction.
func (s *shown) at(i int) *abi.Message {
	known := s.messages()
	if known[i] != nil {
		return known[i]
	}
	switch {
	case s.block > 0 && i == s.to:
		s.block = min(s.block*4, maxBlock)
		s.pull(i, min(i+s.block, s.Total))
	case s.block > 0 && i == s.from-1:
		s.block = min(s.block*4, maxBlock)
		s.pull(max(i-s.block+1, 0), i+1)
	default:
		s.block = 1
		s.pull(i, i+1)
	}
	return known[i]
}

// need pulls what is missing in [from, to), each gap at once.
func (s *shown) need(from, to int) {
	known := s.messages()
	for i := from; i < to; {
		if known[i] != nil {
			i++
			continue
		}
		end := i + 1
		for end < to && end-i < maxBlock && known[end] == nil {
			end++
		}
		s.pull(i, end)
		i = end
	}
}

// pull gets the messages of [from, to), less those at either end that are
// known already.
func (s *shown) pull(from, to int) {
	known := s.cache.known
	for from < to && known[from] != nil {
		from++
	}
	for to > from && known[to-1] != nil {
		to--
	}
	if from == to {
		return
	}
	b, err := s.host.Messages(s.List.List, from, to)
	if err != nil {
		panic(hostFailure{fmt.Errorf("read messages %d to %d: %w", from, to, err)})
	}
	var got []abi.Message
	if got, err = abi.ReadMessages(b); err != nil {
		panic(hostFailure{fmt.Errorf("read messages %d to %d: %w", from, to, err)})
	}
	if len(got) != to-from {
		panic(hostFailure{fmt.Errorf("read messages %d to %d: the host gave %d", from, to, len(got))})
	}
	for i := range got {
		if known[from+i] == nil {
			s.cache.pulled++
		}
		known[from+i] = &got[i]
	}
	s.from, s.to = from, to
}

// knows returns message i of the list as shown if it is there without asking.
func (s *shown) knows(i int) *abi.Message {
	if !s.ready {
		return nil
	}
	return s.cache.known[i]
}

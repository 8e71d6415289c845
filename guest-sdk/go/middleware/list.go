package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// maxBlock is the maximum number of messages fetched in one host call.
const maxBlock = 64

// A listCache caches the fetched messages of a list across the hooks of one run.
type listCache struct {
	run      string
	revision int64
	length   int             // only messages with smaller indices are cached
	blocks   []*messageBlock // indexed by message index/maxBlock; nil if nothing is cached
	pulled   bool            // whether anything is cached
}

// A messageBlock caches up to maxBlock messages with consecutive indices. Blocks are allocated when
// they are needed: a list is as long as the conversation, but most hooks read little of it.
type messageBlock [maxBlock]*abi.Message

// get returns message i, or nil if it is not cached.
func (c *listCache) get(i int) *abi.Message {
	if b := c.blocks[i/maxBlock]; b != nil {
		return b[i%maxBlock]
	}
	return nil
}

// set caches m as message i.
func (c *listCache) set(i int, m *abi.Message) {
	b := c.blocks[i/maxBlock]
	if b == nil {
		b = &messageBlock{}
		c.blocks[i/maxBlock] = b
	}
	b[i%maxBlock], c.pulled = m, true
}

// resize evicts all messages except those with an index below keep, and makes room for a list whose
// length is total. It does not touch memory after the previous length: clearing a pointer is
// expensive while the garbage collector marks, even if the pointer is nil.
func (c *listCache) resize(keep, total int) {
	last := (keep + maxBlock - 1) / maxBlock
	if len(c.blocks) > last {
		clear(c.blocks[last:])
	}
	if in := keep % maxBlock; in > 0 && keep < c.length && c.blocks[last-1] != nil {
		clear(c.blocks[last-1][in:])
	}
	n := (total + maxBlock - 1) / maxBlock
	if n > cap(c.blocks) {
		c.blocks = append(make([]*messageBlock, 0, n+n/4+1), c.blocks[:last]...)
	}
	c.blocks, c.length = c.blocks[:n], total
}

// shown is a list of messages as it is in the input of one hook call, before the hook's edits.
type shown struct {
	abi.List
	run   string
	host  Host
	cache *listCache
	ready bool

	from, to, block int // indices and block size of the last fetch
}

// messages returns the cache, updated to the revision of s.
func (s *shown) messages() *listCache {
	c := s.cache
	if s.ready {
		return c
	}
	keep := 0
	if c.run == s.run && c.pulled {
		keep = c.length
		if c.revision != s.Revision {
			first, err := s.host.Changed(s.List.List, c.revision)
			if err != nil {
				first = 0
			}
			keep = min(keep, max(first, 0))
		}
	}
	keep = min(keep, s.Total)
	c.resize(keep, s.Total)
	c.run, c.revision, c.pulled = s.run, s.Revision, keep > 0
	for i := range s.Items {
		if i < s.Total {
			c.set(i, &s.Items[i])
		}
	}
	s.ready = true
	return c
}

// at returns message i of the list in the input. A cache miss fetches a block, whose size
// grows while messages are read in one direction.
func (s *shown) at(i int) *abi.Message {
	known := s.messages()
	if m := known.get(i); m != nil {
		return m
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
	return known.get(i)
}

// need fetches the missing messages with indices in [from, to), with one call per gap of at most
// maxBlock messages.
func (s *shown) need(from, to int) {
	known := s.messages()
	for i := from; i < to; {
		if known.get(i) != nil {
			i++
			continue
		}
		end := i + 1
		for end < to && end-i < maxBlock && known.get(end) == nil {
			end++
		}
		s.pull(i, end)
		i = end
	}
}

// copy sets the elements of out to copies of the input's messages, starting with the message at
// index from.
func (s *shown) copy(out []abi.Message, from int) {
	s.need(from, from+len(out))
	known := s.cache
	for i := range out {
		clone.CopyMessage(&out[i], known.get(from+i))
	}
}

// reading returns a phrase for errors that describes the fetch of the messages [from, to).
func reading(from, to int) string {
	return "read messages " + strconv.Itoa(from) + " to " + strconv.Itoa(to)
}

// pull fetches the messages in [from, to), without those at either end that are cached. It panics
// with a hostError if the host does not return them.
func (s *shown) pull(from, to int) {
	known := s.cache
	for from < to && known.get(from) != nil {
		from++
	}
	for to > from && known.get(to-1) != nil {
		to--
	}
	if from == to {
		return
	}
	b, err := s.host.Messages(s.List.List, from, to)
	if err != nil {
		panic(hostError{jsoncodec.Wrap(reading(from, to), err)})
	}
	var got []abi.Message
	if got, err = abijson.ReadMessages(b, to-from); err != nil {
		panic(hostError{jsoncodec.Wrap(reading(from, to), err)})
	}
	if len(got) != to-from {
		panic(hostError{errors.New(reading(from, to) + ": the host gave " + strconv.Itoa(len(got)))})
	}
	for i := range got {
		known.set(from+i, &got[i])
	}
	s.from, s.to = from, to
}

// cached returns message i of the list in the input if it is cached, and nil otherwise.
func (s *shown) cached(i int) *abi.Message {
	if !s.ready {
		return nil
	}
	return s.cache.get(i)
}

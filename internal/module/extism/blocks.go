package extism

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// blocks are the memory in which an Extism plug-in and its host hand bytes to
// each other. It lies on the host's side, and an offset in it is a number that
// the host has given out: no offset is given out twice in a call, so that one
// which is not valid any more is found out.
type blocks struct {
	list  []block // ascending; those that were freed stay for a while
	freed int     // how many of them
	last  int     // where the last access was: the next one is mostly there too
	next  uint64  // the next offset
	bytes int     // of all that are live
	most  int     // of them
	spare []byte  // of a large block that was freed, for the next one
}

// A block is a part of that memory. It is never empty while it is live.
type block struct {
	at     uint64
	data   []byte // nil: it was freed
	shared bool   // data must not be changed: it is an input or a reply
}

const (
	// firstBlock is the offset of the first block. 0 stands for none.
	firstBlock = 1 << 10
	// blockGap is at least between two blocks, so that an access that begins in
	// one and passes its end is in none.
	blockGap = 16
	// maxBlocks is how many may be live in one call. Honest plug-ins have some
	// for each host call, and some language's kits free none.
	maxBlocks = 1 << 16
	// leastSpare is from which size on a block's memory is used again: a plug-in
	// could let the host make gigabytes a second, which a collector that all share
	// would have to find.
	leastSpare = 64 << 10
	// clearBytes is what is cleared at once, some 20 us.
	clearBytes = 256 << 10
)

// room tells why a block of n bytes cannot be had, if so.
func (s *blocks) room(n uint64) error {
	switch {
	case n > uint64(s.most-s.bytes):
		return &policy.LimitError{Limit: "block_bytes", Max: s.most, What: fmt.Sprintf("a block of %d bytes beside others of %d", n, s.bytes),
			Fix: "free blocks that are not needed any more; it is as much as memory_bytes, and at most four times the largest of input_bytes, output_bytes and reply_bytes"}
	case len(s.list)-s.freed >= maxBlocks:
		return &policy.LimitError{Limit: "blocks", Max: maxBlocks, What: fmt.Sprintf("%d blocks at once", maxBlocks+1), Fix: "free blocks that are not needed any more"}
	}
	return nil
}

// fresh returns n zeros, in the memory of a block that was freed if that is of
// about the size: small blocks must not hold what large ones had. It asks look
// whether there is time for more, now and then.
func (s *blocks) fresh(n uint64, look func()) []byte {
	if uint64(len(s.spare)) < n || uint64(len(s.spare)) > 2*n {
		return make([]byte, n)
	}
	b := s.spare[:n:n]
	s.spare = nil
	for at := 0; at < len(b); at += clearBytes {
		clearPiece(b[at:min(at+clearBytes, len(b))])
		look()
	}
	return b
}

// clearPiece must be a call: there the collector, for which everybody waits, can
// interrupt what clears a large block.
//
//go:noinline
func clearPiece(b []byte) { clear(b) }

// retire keeps the memory of a block that nothing looks at any more.
func (s *blocks) retire(data []byte) {
	if len(data) >= leastSpare && len(data) > len(s.spare) {
		s.spare = data
	}
}

// add adds a block, which there must be room for, and returns its offset; 0 for
// an empty one.
func (s *blocks) add(data []byte, shared bool) uint64 {
	if len(data) == 0 {
		return 0
	}
	if s.next == 0 {
		s.next = firstBlock
	}
	at := s.next
	s.next += (uint64(len(data)) + 2*blockGap - 1) / blockGap * blockGap
	s.list = append(s.list, block{at, data, shared})
	s.last = len(s.list) - 1
	s.bytes += len(data)
	return at
}

// in returns the live block in which an offset lies, or nil. What it points to
// is valid until a block is added or freed.
func (s *blocks) in(at uint64) *block {
	if s.last < len(s.list) {
		// Below the block's own offset the difference is larger than any length.
		if b := &s.list[s.last]; at-b.at < uint64(len(b.data)) {
			return b
		}
	}
	i, found := slices.BinarySearchFunc(s.list, at, func(b block, at uint64) int {
		switch {
		case b.at < at:
			return -1
		case b.at > at:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || at-s.list[i].at >= uint64(len(s.list[i].data)) {
		return nil
	}
	s.last = i
	return &s.list[i]
}

// at returns the live block that begins at an offset, or nil.
func (s *blocks) at(offset uint64) *block {
	if b := s.in(offset); b != nil && b.at == offset {
		return b
	}
	return nil
}

// part returns n bytes at an offset, or nil if they do not lie in one live block.
func (s *blocks) part(at, n uint64) []byte {
	b := s.in(at)
	if b == nil || n > uint64(len(b.data))-(at-b.at) {
		return nil
	}
	return b.data[at-b.at:][:n:n]
}

// free frees the block that begins at an offset, and tells whether there was one.
func (s *blocks) free(at uint64) bool {
	b := s.at(at)
	if b == nil {
		return false
	}
	s.bytes -= len(b.data)
	b.data = nil
	if s.freed++; s.freed > 64 && s.freed > len(s.list)/2 {
		s.list = slices.DeleteFunc(s.list, func(b block) bool { return b.data == nil })
		s.freed, s.last = 0, 0
	}
	return true
}

// load64 reads eight bytes as WebAssembly does; what is missing is 0.
func load64(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

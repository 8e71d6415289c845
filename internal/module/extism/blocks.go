package extism

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// blocks is the memory through which an Extism plug-in and the host exchange bytes. It is memory of
// the host, outside of the plug-in's linear memory. Offsets are not reused within a call, so that
// the use of a freed block is detected.
type blocks struct {
	list  []block // ascending by offset; freed blocks remain until most are freed
	freed int     // number of freed blocks in list
	last  int     // index in list of the block that was accessed last, and is likely to be accessed next
	next  uint64  // next offset
	bytes int     // total size of live blocks
	limit int     // maximum value of bytes
	spare []byte  // memory of a large freed block, for reuse
}

// A block is a contiguous part of the memory of [blocks]. A live block is never empty.
type block struct {
	at     uint64
	data   []byte // the block's bytes; nil if the block was freed
	shared bool   // whether data is read-only: it is an input or a reply
}

const (
	// firstBlock is the offset of the first block. Offset 0 means no block.
	firstBlock = 1 << 10
	// blockGap is the minimum distance between blocks. An access that runs past the end of one
	// block therefore does not reach the next block.
	blockGap = 16
	// maxBlocks is the maximum number of live blocks of one call. Ordinary plug-ins use a few
	// blocks per host call, and the SDKs of some languages free none.
	maxBlocks = 1 << 16
	// minSpare is the minimum size of a block whose memory is reused. Without reuse, a plug-in
	// could make the host allocate gigabytes per second, and the garbage collector would slow every
	// other run.
	minSpare = 64 << 10
	// clearBytes is the number of bytes that are cleared between two checks of the time. Clearing
	// them takes about 20 µs.
	clearBytes = 256 << 10
)

// checkSize returns an error if a block of n bytes would exceed a limit.
func (s *blocks) checkSize(n uint64) error {
	switch {
	case n > uint64(s.limit-s.bytes):
		return &policy.LimitError{
			Limit: "block_bytes",
			Max:   s.limit,
			What:  fmt.Sprintf("a block of %d bytes in addition to others of %d", n, s.bytes),
			Fix:   "free blocks that are no longer needed; the limit is memory_bytes, but at most four times the largest of input_bytes, output_bytes and reply_bytes",
		}
	case len(s.list)-s.freed >= maxBlocks:
		return &policy.LimitError{
			Limit: "blocks",
			Max:   maxBlocks,
			What:  fmt.Sprintf("%d blocks at once", maxBlocks+1),
			Fix:   "free blocks that are no longer needed",
		}
	}
	return nil
}

// fresh returns n zero bytes. It reuses the memory of the spare block if the spare block has n to
// 2n bytes. It does not reuse a larger one, because a small block would keep all of that memory
// alive. While fresh clears reused memory, it calls look after every clearBytes bytes, so that look
// can check the time.
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

// clearPiece clears b. It must not be inlined, because the garbage collector can interrupt the
// clearing of a large block only at a function call.
//
//go:noinline
func clearPiece(b []byte) { clear(b) }

// retire keeps the memory of a freed block for reuse, if it has at least minSpare bytes and is
// larger than the spare block.
func (s *blocks) retire(data []byte) {
	if len(data) >= minSpare && len(data) > len(s.spare) {
		s.spare = data
	}
}

// add appends a block and returns its offset, or 0 if data is empty. The caller must have called
// checkSize.
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

// in returns the live block that contains the offset. It returns nil if no live block does. The
// pointer is valid until a block is added or freed.
func (s *blocks) in(at uint64) *block {
	if s.last < len(s.list) {
		// For a smaller offset the unsigned difference exceeds any length.
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

// at returns the live block that starts at the offset, or nil if none does.
func (s *blocks) at(offset uint64) *block {
	if b := s.in(offset); b != nil && b.at == offset {
		return b
	}
	return nil
}

// part returns the n bytes at an offset. It returns nil if no single live block contains them all.
func (s *blocks) part(at, n uint64) []byte {
	b := s.in(at)
	if b == nil || n > uint64(len(b.data))-(at-b.at) {
		return nil
	}
	return b.data[at-b.at:][:n:n]
}

// free frees the block that starts at the offset. It returns whether there was such a block.
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

// load64 reads a little-endian number of eight bytes. Bytes that are missing in b are 0.
func load64(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

package sandbox

import (
	"bytes"

	"github.com/tetratelabs/wazero/experimental"
)

// memory is the linear memory of one instance.
type memory struct {
	size    uint64
	pages   pages
	refused bool // growth beyond the limit was asked for since this was last cleared
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// Allocate makes m the memory of the instance that is being made.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate returns nil, which memory.grow tells the guest as -1, if size is
// beyond the limit or there is no more memory. It is never asked for less than
// before.
func (m *memory) Reallocate(size uint64) []byte {
	b := m.pages.resize(size)
	if b == nil {
		m.refused = true
		return nil
	}
	m.size = size
	return b
}

// Free leaves the pages alone: wazero calls it when a module is closed, at a
// time of its own. The owner of the memory frees them when nothing can touch
// them any more.
func (m *memory) Free() {}

// pages are where the bytes of a memory lie.
type pages interface {
	// resize makes the memory that large, never smaller than before, with zeros
	// at the end. It returns nil if it cannot.
	resize(size uint64) []byte
	// reset makes the first bytes those of the image again, and returns how many
	// bytes are the memory's own and not shared with the image.
	reset() int64
	// free gives the bytes back. Whoever touches them then ends the process.
	free()
}

// imagePages are pages that began with an image.
type imagePages interface {
	pages
	// written calls each for stretches of so much of the memory, in their order and of
	// whole pages, outside of which it is the image, with zeros behind it.
	written(length uint64, each func(from, to uint64))
	// keep makes reset restore so much, which is what there is, with zeros behind the
	// image. It reports false if it cannot.
	keep(length uint64) bool
}

// pageImage is the content that memories begin with.
type pageImage interface {
	// size is a whole number of pages of 64 KiB.
	size() uint64
	// bytes is how much memory the image takes.
	bytes() int64
	// open returns pages that begin with the image, have zeros up to length, which is
	// no less than its size, and may grow to limit.
	open(length, limit uint64) (imagePages, error)
	// method says how memories are reset, for people.
	method() string
	// close frees the image. No pages of it may be open.
	close()
}

// wholeImage is one that needs no other.
type wholeImage interface {
	pageImage
	// shown is the content, whole pages that must not be changed; zeros follow it.
	shown() []byte
}

// eachPart calls do with b, which lies in a memory at an offset, and what an image of
// that content has there: the content, and zeros behind it.
func eachPart(b, content []byte, at uint64, do func(b, was []byte)) {
	for len(b) > 0 {
		was := blank[:]
		if at < uint64(len(content)) {
			was = content[at:]
		}
		n := min(len(b), len(was), pieceBytes)
		do(b[:n], was[:n])
		b, at = b[n:], at+uint64(n)
	}
}

// restore makes b that of an image again.
func restore(b, content []byte, at uint64) {
	eachPart(b, content, at, func(b, was []byte) { copyPiece(b, was) })
}

// shows reports whether b is still that of an image.
func shows(b, content []byte, at uint64) bool {
	same := true
	eachPart(b, content, at, func(b, was []byte) { same = same && bytes.Equal(b, was) })
	return same
}

// blank is a page of zeros.
var blank [pageBytes]byte

// newPages are pages without an image: all zeros.
func newPages(limit uint64, portable bool) pages {
	if !portable && canMap() {
		if p, err := mapPages(limit); err == nil {
			return p
		}
	}
	return &heapPages{limit: limit}
}

// newPageImage makes an image of a copy of b.
func newPageImage(b []byte, portable bool) (wholeImage, error) {
	if len(b) > copyAtMost && !portable && canMap() {
		return mapImage(b)
	}
	return &copiedImage{append(make([]byte, 0, len(b)), b...), portable}, nil
}

// copyAtMost is the size up to which copying an image back is quicker than
// finding out which pages changed.
const copyAtMost = 256 << 10

// copiedImage is an image that works everywhere: each memory is a copy in Go's
// heap, and is copied back as a whole.
type copiedImage struct {
	content  []byte
	portable bool
}

func (i *copiedImage) size() uint64  { return uint64(len(i.content)) }
func (i *copiedImage) bytes() int64  { return int64(len(i.content)) }
func (i *copiedImage) shown() []byte { return i.content }
func (i *copiedImage) close()        {}

func (i *copiedImage) method() string {
	if len(i.content) <= copyAtMost {
		return "copies all of it back, since that is little"
	}
	return "copies all of it back, since this system does not tell what was written to"
}

func (i *copiedImage) open(length, limit uint64) (imagePages, error) {
	p := &copiedPages{image: i, limit: limit, buf: make([]byte, length)}
	copyPieces(p.buf, i.content)
	return p, nil
}

// copiedPages are a copy of an image. When they grow they move to empty pages:
// these are mapped where that is possible, while Go's heap would clear up to the
// limit, and copy what was there, in one piece that no deadline ends.
type copiedPages struct {
	image *copiedImage
	limit uint64
	buf   []byte
	moved pages // nil until they grow
}

func (p *copiedPages) resize(size uint64) []byte {
	switch {
	case p.moved != nil:
		return p.moved.resize(size)
	case size <= uint64(len(p.buf)):
		return p.buf[:size]
	}
	moved := newPages(p.limit, p.image.portable)
	b := moved.resize(size)
	if b == nil {
		moved.free()
		return nil
	}
	copyPieces(b, p.buf)
	p.moved, p.buf = moved, nil
	return b
}

// reset is for pages that did not grow.
func (p *copiedPages) reset() int64 {
	restore(p.buf, p.image.content, 0)
	return int64(len(p.buf))
}

// written implements [imagePages].
func (p *copiedPages) written(length uint64, each func(from, to uint64)) { each(0, length) }

// keep implements [imagePages].
func (p *copiedPages) keep(length uint64) bool { return p.moved == nil && length == uint64(len(p.buf)) }

// free leaves what is in Go's heap to the garbage collector.
func (p *copiedPages) free() {
	if p.moved != nil {
		p.moved.free()
	}
	p.buf = nil
}

// heapPages are empty pages that work everywhere. They grow by doubling within
// the limit, so that a guest that grows page by page makes no quadratic garbage.
type heapPages struct {
	limit uint64
	buf   []byte
}

func (p *heapPages) resize(size uint64) []byte {
	if size > p.limit {
		return nil
	}
	if size > uint64(cap(p.buf)) {
		bigger := make([]byte, size, min(p.limit, max(size, 2*uint64(cap(p.buf)))))
		copyPieces(bigger, p.buf)
		p.buf = bigger
	}
	p.buf = p.buf[:max(size, uint64(len(p.buf)))]
	return p.buf[:size]
}

func (p *heapPages) reset() int64 {
	clear(p.buf)
	return int64(cap(p.buf))
}

// free leaves the rest to the garbage collector.
func (p *heapPages) free() { p.buf = nil }

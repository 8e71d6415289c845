package image

// MaxCopied is the size in bytes up to which an image is copied: restoring all of it is
// faster than determining which pages changed.
const MaxCopied = 256 << 10

// copiedImage is an image for every system. Each memory is a copy on Go's heap and is
// restored as a whole.
type copiedImage struct {
	content  []byte
	portable bool
}

func (i *copiedImage) size() uint64  { return uint64(len(i.content)) }
func (i *copiedImage) bytes() int64  { return int64(len(i.content)) }
func (i *copiedImage) shown() []byte { return i.content }
func (i *copiedImage) close()        {}

func (i *copiedImage) method() string {
	if len(i.content) <= MaxCopied {
		return "copies all of it back, since that is little"
	}
	return "copies all of it back, since this system does not report which pages were written to"
}

func (i *copiedImage) open(length, limit uint64) (imagePages, error) {
	p := &copiedPages{image: i, limit: limit, buf: make([]byte, length)}
	Copy(p.buf, i.content)
	return p, nil
}

// copiedPages are a copy of an image. When they grow, their bytes move to new pages, which are mapped
// where possible: growing a Go slice would clear and copy the whole memory, and again each time it
// grows.
type copiedPages struct {
	image *copiedImage
	limit uint64
	buf   []byte
	moved pages // the pages that the bytes have moved to; nil until they grow
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
	Copy(b, p.buf)
	p.moved, p.buf = moved, nil
	return b
}

// reset copies the image back over the pages, which must not have grown.
func (p *copiedPages) reset() int64 {
	restore(p.buf, p.image.content, 0)
	return int64(len(p.buf))
}

func (p *copiedPages) changed(length uint64, each func(from, to uint64)) { each(0, length) }

func (p *copiedPages) extendImage(length uint64) bool {
	return p.moved == nil && length == uint64(len(p.buf))
}

// free frees the pages that the bytes have moved to. Bytes that have not moved are on Go's heap, and the garbage
// collector frees them.
func (p *copiedPages) free() {
	if p.moved != nil {
		p.moved.free()
	}
	p.buf = nil
}

// heapPages are empty pages for every system. They grow by doubling within the limit, so
// that a guest that grows page by page does not cause quadratic garbage.
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
		Copy(bigger, p.buf)
		p.buf = bigger
	}
	p.buf = p.buf[:max(size, uint64(len(p.buf)))]
	return p.buf[:size]
}

func (p *heapPages) reset() int64 {
	clear(p.buf)
	return int64(cap(p.buf))
}

// free leaves the bytes to the garbage collector.
func (p *heapPages) free() { p.buf = nil }

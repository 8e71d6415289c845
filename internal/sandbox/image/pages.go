package image

import "bytes"

// pages hold the bytes of one memory.
type pages interface {
	// resize returns the first size bytes of the memory. If the memory is smaller, resize adds
	// zeros at its end. It never shrinks the memory. It returns nil if it fails.
	resize(size uint64) []byte
	// reset restores the image and returns the number of bytes that the memory does not
	// share with it.
	reset() int64
	// free releases the bytes. Accesses may crash the process afterwards.
	free()
}

// imagePages are pages that start from an image.
type imagePages interface {
	pages
	// changed calls each, in ascending order, with ranges of whole pages. Outside of them
	// the first length bytes are those of the image, with zeros after it.
	changed(length uint64, each func(from, to uint64))
	// extendImage makes reset restore length bytes, the current size, with zeros after the
	// image. It reports false if it cannot.
	extendImage(length uint64) bool
}

// pageImage is the content that memories start from.
type pageImage interface {
	// size returns the size in bytes, which is a whole number of pages of 64 KiB.
	size() uint64
	// bytes returns the number of bytes that the image occupies.
	bytes() int64
	// open returns pages that start with the image, continue with zeros up to length, which
	// is at least the image's size, and can grow to limit.
	open(length, limit uint64) (imagePages, error)
	// method describes for people how memories are reset.
	method() string
	// close frees the image. No pages of it may be open.
	close()
}

// wholeImage is an image that does not depend on another one.
type wholeImage interface {
	pageImage
	// shown returns the content of the image, a whole number of pages, which must not be modified.
	// Memories that start from the image have zeros after it.
	shown() []byte
}

// compareRange calls do with consecutive parts of b and the bytes of an image at the same offsets. b starts at offset
// at of a memory. The image consists of content and zeros after it.
func compareRange(b, content []byte, at uint64, do func(b, was []byte)) {
	for len(b) > 0 {
		was := zeroPage[:]
		if at < uint64(len(content)) {
			was = content[at:]
		}
		n := min(len(b), len(was), pieceBytes)
		do(b[:n], was[:n])
		b, at = b[n:], at+uint64(n)
	}
}

// restore copies the corresponding bytes of an image to b, which starts at this offset of a memory.
func restore(b, content []byte, at uint64) {
	compareRange(b, content, at, func(b, was []byte) { copyPiece(b, was) })
}

// equals reports whether b, which starts at this offset of a memory, equals the corresponding bytes
// of the image.
func equals(b, content []byte, at uint64) bool {
	same := true
	compareRange(b, content, at, func(b, was []byte) { same = same && bytes.Equal(b, was) })
	return same
}

var zeroPage [pageBytes]byte

// newPages returns empty pages without an image, which can grow to limit bytes. If portable is set,
// they are on Go's heap.
func newPages(limit uint64, portable bool) pages {
	if !portable && CanMap() {
		if p, err := mapPages(limit); err == nil {
			return p
		}
	}
	return &heapPages{limit: limit}
}

// newWholeImage returns an image of a copy of b.
func newWholeImage(b []byte, portable bool) (wholeImage, error) {
	if len(b) > MaxCopied && !portable && CanMap() {
		return mapImage(b)
	}
	return &copiedImage{append(make([]byte, 0, len(b)), b...), portable}, nil
}

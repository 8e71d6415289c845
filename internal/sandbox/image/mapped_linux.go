package image

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanMap reports whether images can be mapped: whether this kernel reports which pages of
// a mapping were written to. It checks that once, with an image.
var CanMap = sync.OnceValue(func() bool {
	if osPage != 4096 || openPagemap() == nil {
		return false
	}
	const size = pageBytes
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i)
	}
	image, err := mapImage(want)
	if err != nil {
		return false
	}
	defer image.close()
	p, err := image.open(size, size)
	if err != nil {
		return false
	}
	defer p.free()
	b := p.resize(size)
	_ = b[0] // present, but shared
	b[5*osPage], b[6*osPage+1] = 0xff, 0xff
	return p.reset() == 2*int64(osPage) && string(b) == string(want)
})

// mappedImage is an image in an in-memory file that every memory maps privately. Memories
// share the pages that they do not write to. The kernel tracks which pages a memory has written to,
// so that a reset restores only those.
//
// Long runs of zeros are not mapped from the file: the first write to such a page would take twice
// as long as the first write to an anonymous page. It would also add a page of zeros to the file,
// which would stay there and would not be accounted for.
type mappedImage struct {
	fd      int
	content []byte      // a read-only mapping of the image
	stored  []byteRange // the image's ranges that are in the file; the rest is zeros
}

// mapImage returns an image of b.
func mapImage(b []byte) (wholeImage, error) {
	fd, err := unix.MemfdCreate("sandbox-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("sandbox: make image: %w", err)
	}
	image := &mappedImage{fd: fd, stored: withoutGaps(b)}
	if err := image.write(b); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("sandbox: make image: %w", err)
	}
	content, err := mapAt(-1, 0, nil, uintptr(len(b)), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		image.content = content
		err = image.mapOver(content, unix.PROT_READ)
	}
	if err != nil {
		image.close()
		return nil, fmt.Errorf("sandbox: map image: %w", err)
	}
	return image, nil
}

// write writes the stored ranges of b to the file and seals it.
func (i *mappedImage) write(b []byte) error {
	if err := unix.Ftruncate(i.fd, int64(len(b))); err != nil {
		return err
	}
	// Pages of zeros are not written. The kernel maps existing pages of a file together with their neighbors, and a
	// reset has to examine each mapped page.
	zeros := make([]byte, osPage)
	for _, r := range i.stored {
		for at := r.from; at < r.to; at += osPage {
			page := b[at : at+osPage]
			if string(page) == string(zeros) {
				continue
			}
			if n, err := unix.Pwrite(i.fd, page, int64(at)); err != nil {
				return err
			} else if n != len(page) {
				return unix.EIO
			}
		}
	}
	// If the file shrank, the next access would crash the process.
	_, err := unix.FcntlInt(uintptr(i.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	return err
}

// mapOver maps the stored ranges over the beginning of space, which is zeros.
func (i *mappedImage) mapOver(space []byte, prot int) error {
	for _, r := range i.stored {
		at, size := unsafe.Pointer(&space[r.from]), uintptr(r.to-r.from)
		if _, err := mapAt(i.fd, int64(r.from), at, size, prot, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return err
		}
	}
	return nil
}

func (i *mappedImage) size() uint64   { return uint64(len(i.content)) }
func (i *mappedImage) shown() []byte  { return i.content }
func (i *mappedImage) method() string { return "copies back the pages it wrote to" }

// bytes counts all stored ranges, because reading a page makes the file allocate it.
func (i *mappedImage) bytes() (sum int64) {
	for _, r := range i.stored {
		sum += int64(r.to - r.from)
	}
	return sum
}

func (i *mappedImage) close() {
	if i.content != nil {
		unmap(i.content)
	}
	_ = unix.Close(i.fd)
}

// mappings returns the number of mappings of pages with the image: its stored ranges, the
// gaps between them, the usable bytes after it, and the addresses reserved for growth.
func (i *mappedImage) mappings() int64 {
	n, at := int64(emptyMappings), 0
	for _, r := range i.stored {
		if r.from > at {
			n++
		}
		n, at = n+1, r.to
	}
	return n
}

// open returns pages of length bytes that begin with the image and can grow to limit bytes.
func (i *mappedImage) open(length, limit uint64) (imagePages, error) {
	p, err := mapCounted(limit, i.mappings())
	if err != nil {
		return nil, err
	}
	p.image, p.length = i, length
	if p.resize(length) == nil {
		err = unix.ENOMEM
	} else {
		err = i.mapOver(p.space, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		p.free()
		return nil, fmt.Errorf("sandbox: map image: %w", err)
	}
	return p, nil
}

// mappedPages are a private mapping of an image, if there is one, and empty pages after
// it. Their addresses are reserved up to the limit, so that growing moves nothing.
type mappedPages struct {
	image   *mappedImage
	length  uint64 // length of the memory that a reset restores: the image, and zeros after it
	space   []byte
	usable  uint64 // number of usable bytes, from the beginning of space
	entries []byte // buffer for the pagemap; nil if the kernel has PAGEMAP_SCAN
	counted int64  // number of mappings that the variable mappings counts for these pages
}

// reservePages returns pages without an image, of which no byte is usable yet. It reserves
// addresses for limit bytes.
func reservePages(limit uint64) (*mappedPages, error) {
	space, err := mapAt(-1, 0, nil, uintptr(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("sandbox: reserve memory: %w", err)
	}
	// With huge pages a thousand instances would take 2 MB each for their first byte, and a
	// guest that touches a byte in each 2 MB would stop the world while the kernel clears
	// them. Kernels without huge pages reject this call.
	_ = unix.Madvise(space, unix.MADV_NOHUGEPAGE)
	return &mappedPages{space: space}, nil
}

func (p *mappedPages) resize(size uint64) []byte {
	if size > uint64(len(p.space)) {
		return nil
	}
	if size > p.usable {
		if unix.Mprotect(p.space[p.usable:size], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		p.usable = size
	}
	return p.space[:size:size]
}

// reset copies back the pages that the kernel copied when they were written to. They stay
// the memory's own, because returning them would cost a page fault at the next write.
func (p *mappedPages) reset() (own int64) {
	p.changed(p.length, func(from, to uint64) {
		own += int64(to - from)
		// A pagemap entry does not show whether a page in a gap was only read. Writing to
		// it would make it the memory's own.
		if b := p.space[from:to]; canScan() || !equals(b, p.image.content, from) {
			restore(b, p.image.content, from)
		}
	})
	return own
}

func (p *mappedPages) extendImage(length uint64) bool {
	p.length = length
	return true
}

func (p *mappedPages) free() {
	unmap(p.space)
	mappings.Add(-p.counted)
	p.space, p.counted = nil, 0
}

// mapAt maps a file from an offset, or anonymous memory if fd is -1. Unlike unix.Mmap, it
// takes an address and does not keep a list of mappings under a lock.
func mapAt(fd int, offset int64, addr unsafe.Pointer, length uintptr, prot, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, offset, addr, length, prot, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), length), nil
}

// unmap unmaps memory that mapAt returned. This cannot fail.
func unmap(b []byte) { _ = unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))) }

package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedImage is an image in a file in memory that every memory maps privately:
// what an instance does not touch is shared by all of them, and what it wrote
// to is known to the kernel, so that a reset copies only that back.
//
// Where the image is nothing but zeros for long, nothing of the file is mapped: the
// first write to such a page would give the file a page of zeros too, which stays
// there and is counted nowhere, and take twice as long.
type mappedImage struct {
	fd      int
	content []byte    // the image, never written to
	written []stretch // of it, that the file has; the rest are zeros that take no memory
}

// canMap finds out once whether this kernel tells about pages what a reset needs
// to know.
var canMap = sync.OnceValue(func() bool {
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
	_ = b[0] // present, and not its own
	b[5*osPage], b[6*osPage+1] = 0xff, 0xff
	return p.reset() == 2*int64(osPage) && string(b) == string(want)
})

var osPage = os.Getpagesize()

// openPagemap opens the kernel's table of this process's pages, one 64-bit entry
// for each; see https://docs.kernel.org/admin-guide/mm/pagemap.html.
var openPagemap = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageShared  = 1 << 61 // of a file, or shared: not the process's own copy
)

// scanPages asks the kernel for stretches of pages of a kind, instead of an entry for
// each page; since Linux 6.7. It is struct pm_scan_arg of linux/fs.h.
type scanPages struct {
	size, flags, start, end, stopped uint64
	found, room, most                uint64
	inverted, all, any, tell         uint64
}

const (
	pagemapScan = 0xc0606610 // ioctl
	scanFile    = 1 << 2
	scanPresent = 1 << 3
	scanSwapped = 1 << 4
	scanZero    = 1 << 5 // the one that all share who have only read zeros
)

// pageRegion is what the kernel finds: some pages next to each other, by their
// addresses.
type pageRegion struct{ start, end, kinds uint64 }

// rooms are for what the kernel finds. It is told as a number where they lie, which
// nobody corrects when a stack moves: so they are never on one.
var rooms = sync.Pool{New: func() any { return new([64]pageRegion) }}

// scans reports whether this kernel has pagemapScan.
var scans = sync.OnceValue(func() bool {
	found := rooms.Get().(*[64]pageRegion)
	defer rooms.Put(found)
	_, _, err := ownPages(make([]byte, 2*osPage), 0, found)
	return err == nil
})

// ownPages finds those of the pages of space, from an offset on, of which the process
// has a copy of its own, or the page of zeros, which kinds tells. It returns how many
// regions there are, and up to where it looked. What is found is one of the rooms.
func ownPages(space []byte, from uint64, found *[64]pageRegion) (n int, upTo uint64, err error) {
	begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(space)))) &^ uint64(osPage-1)
	arg := scanPages{start: begin + from, end: begin + uint64(len(space)), found: uint64(uintptr(unsafe.Pointer(found))), room: uint64(len(found)),
		inverted: scanFile, all: scanFile, any: scanPresent | scanSwapped, tell: scanZero}
	arg.size = uint64(unsafe.Sizeof(arg))
	got, _, errno := unix.Syscall(unix.SYS_IOCTL, openPagemap().Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
	runtime.KeepAlive(found)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), arg.stopped - begin, nil
}

// mapImage makes an image of b. Long stretches of zeros take no memory.
func mapImage(b []byte) (wholeImage, error) {
	fd, err := unix.MemfdCreate("sandbox-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("sandbox: make image: %w", err)
	}
	image := &mappedImage{fd: fd, written: withoutGaps(b)}
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

func (i *mappedImage) write(b []byte) error {
	if err := unix.Ftruncate(i.fd, int64(len(b))); err != nil {
		return err
	}
	// Pages of zeros are left to whoever touches them: those that are there are mapped
	// together with their neighbours, and a reset has to look at each.
	zeros := make([]byte, osPage)
	for _, s := range i.written {
		for at := s.from; at < s.to; at += osPage {
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
	// A file that shrank would end the process at the next access.
	_, err := unix.FcntlInt(uintptr(i.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	return err
}

// mapOver maps what the file has over the beginning of space, which is zeros.
func (i *mappedImage) mapOver(space []byte, prot int) error {
	for _, s := range i.written {
		if _, err := mapAt(i.fd, int64(s.from), unsafe.Pointer(&space[s.from]), uintptr(s.to-s.from), prot, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return err
		}
	}
	return nil
}

func (i *mappedImage) size() uint64   { return uint64(len(i.content)) }
func (i *mappedImage) shown() []byte  { return i.content }
func (i *mappedImage) method() string { return "copies back the pages it wrote to" }

// bytes is all that is mapped of the file: whoever reads a page of it makes it take
// memory.
func (i *mappedImage) bytes() (sum int64) {
	for _, s := range i.written {
		sum += int64(s.to - s.from)
	}
	return sum
}

func (i *mappedImage) close() {
	if i.content != nil {
		unmap(i.content)
	}
	_ = unix.Close(i.fd)
}

// mappings is how many pages with the image have: the image around its gaps, what is
// empty behind it, and addresses that they may grow to.
func (i *mappedImage) mappings() int64 {
	n, at := int64(emptyMappings), 0
	for _, s := range i.written {
		if s.from > at {
			n++
		}
		n, at = n+1, s.to
	}
	return n
}

// open maps the image at the beginning of new pages.
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

// mappedPages are a private mapping of an image, if there is one, and empty
// pages behind it. Their addresses are reserved up to the limit, so that growing
// moves nothing.
type mappedPages struct {
	image   *mappedImage
	length  uint64 // of what a reset restores: the image, and zeros behind it
	space   []byte
	usable  uint64 // of space, from the beginning
	entries []byte // of the kernel's table, kept for the next time; nil where it has pagemapScan
	counted int64  // in mappings
}

// mappings counts those of all pages that there are. Instances have most of a process's,
// and leave some to everybody else.
var mappings atomic.Int64

// emptyMappings are those of pages without an image: what is usable, and what is not yet.
const emptyMappings = 2

// crowded reports whether pages have so many mappings that none are kept for later.
func crowded() bool { return mappings.Load() > maxMappings()/4*3 }

// errMappings is what pages are refused with.
var errMappings = errors.New("sandbox: instances have as many mappings as the system lets this process have; let fewer run at once, or raise vm.max_map_count")

func mapPages(limit uint64) (*mappedPages, error) { return mapCounted(limit, emptyMappings) }

func mapCounted(limit uint64, count int64) (p *mappedPages, err error) {
	if mappings.Add(count) > maxMappings()/8*7 {
		err = errMappings
	} else if p, err = reservePages(limit); err == nil {
		p.counted = count
		return p, nil
	}
	mappings.Add(-count)
	return nil, err
}

func reservePages(limit uint64) (*mappedPages, error) {
	space, err := mapAt(-1, 0, nil, uintptr(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("sandbox: reserve memory: %w", err)
	}
	// Where the system gives 2 MB to whoever touches a byte, a thousand instances would
	// take that each, and a guest that touches a byte of each 2 MB would hold up the
	// world while they are cleared. Kernels that have no such pages refuse this.
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

// reset copies back the pages of which the kernel made a copy when they were
// written to. They stay the memory's own: giving them back would cost a page
// fault each time they are written to again.
func (p *mappedPages) reset() (own int64) {
	p.written(p.length, func(from, to uint64) {
		own += int64(to - from)
		// An entry does not tell whether its page was only read, in a gap. To write to
		// it would make it the memory's own.
		if b := p.space[from:to]; scans() || !shows(b, p.image.content, from) {
			restore(b, p.image.content, from)
		}
	})
	return own
}

// keep implements [imagePages].
func (p *mappedPages) keep(length uint64) bool {
	p.length = length
	return true
}

// written implements [imagePages].
func (p *mappedPages) written(length uint64, each func(from, to uint64)) {
	if !p.writtenRegions(length, each) && !p.writtenEntries(length, each) {
		each(0, length)
	}
}

// writtenRegions tells of the pages that the kernel finds. It reports false, and told of
// none, if the kernel finds none.
func (p *mappedPages) writtenRegions(length uint64, each func(from, to uint64)) bool {
	if !scans() {
		return false
	}
	found := rooms.Get().(*[64]pageRegion)
	defer rooms.Put(found)
	begin := uint64(uintptr(unsafe.Pointer(&p.space[0])))
	for from := uint64(0); from < length; {
		n, upTo, err := ownPages(p.space[:length], from, found)
		if err != nil && from == 0 {
			return false
		}
		if err != nil {
			each(from, length)
			return true
		}
		for _, s := range found[:n] {
			at, to := s.start-begin, s.end-begin
			if s.kinds&scanZero != 0 && shows(p.space[at:to], p.image.content, at) {
				continue // only read, in a gap
			}
			each(at, to)
		}
		from = upTo
	}
	return true
}

// writtenEntries tells of the pages whose entries in the kernel's table say so. It
// reports false, and told of none, if that cannot be read.
func (p *mappedPages) writtenEntries(length uint64, each func(from, to uint64)) bool {
	size := uint64(osPage)
	if n := int(length / size * 8); n != len(p.entries) {
		p.entries = make([]byte, n)
	}
	at := int64(uintptr(unsafe.Pointer(&p.space[0]))) / int64(osPage) * 8
	if _, err := openPagemap().ReadAt(p.entries, at); err != nil {
		return false
	}
	for page := uint64(0); page < length; page += size {
		entry := binary.NativeEndian.Uint64(p.entries[page/size*8:])
		if entry&(pagePresent|pageSwapped) != 0 && entry&pageShared == 0 {
			each(page, page+size)
		}
	}
	return true
}

func (p *mappedPages) free() {
	unmap(p.space)
	mappings.Add(-p.counted)
	p.space, p.counted = nil, 0
}

// mapAt maps a file from an offset on, or nothing. Unlike unix.Mmap it keeps no list
// of mappings under a lock, and takes an address.
func mapAt(fd int, offset int64, addr unsafe.Pointer, length uintptr, prot, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, offset, addr, length, prot, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), length), nil
}

// unmap cannot fail on what mapAt returned.
func unmap(b []byte) { _ = unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))) }

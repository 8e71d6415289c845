package image

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

var osPage = os.Getpagesize()

// openPagemap opens the kernel's table of this process's pages, which has one 64-bit entry
// for each; see https://docs.kernel.org/admin-guide/mm/pagemap.html.
var openPagemap = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

// Bits of an entry of the pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageShared  = 1 << 61 // the page belongs to a file or is shared: it is not the process's own copy
)

// pmScanArg is struct pm_scan_arg of linux/fs.h, the argument of the ioctl PAGEMAP_SCAN. The ioctl
// finds ranges of pages of a category, which is faster than reading an entry for each page. It
// exists since Linux 6.7.
type pmScanArg struct {
	size, flags, start, end, walkEnd                              uint64
	vec, vecLen, maxPages                                         uint64
	categoryInverted, categoryMask, categoryAnyOfMask, returnMask uint64
}

const (
	pagemapScan   = 0xc0606610 // the ioctl's number
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsZero    = 1 << 5 // the kernel's zero page, which all untouched pages share after a read
)

// pageRegion is struct page_region of linux/fs.h: adjacent pages, by their addresses.
type pageRegion struct{ start, end, categories uint64 }

// regionBuffers contains buffers for the kernel's output. They must never be on a stack: the kernel gets their
// address as a number, which is not updated when a stack moves.
var regionBuffers = sync.Pool{New: func() any { return new([64]pageRegion) }}

// canScan reports whether this kernel has PAGEMAP_SCAN.
var canScan = sync.OnceValue(func() bool {
	found := regionBuffers.Get().(*[64]pageRegion)
	defer regionBuffers.Put(found)
	_, _, err := scanPages(make([]byte, 2*osPage), 0, found)
	return err == nil
})

// scanPages finds the pages of space, starting at offset from, that are the process's own copies or the zero page. It
// stores their regions in found, which is one of the regionBuffers. The categories of a region distinguish own copies
// from the zero page. scanPages returns the number of regions and the offset at which it stopped.
func scanPages(space []byte, from uint64, found *[64]pageRegion) (n int, upTo uint64, err error) {
	begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(space)))) &^ uint64(osPage-1)
	arg := pmScanArg{
		start:             begin + from,
		end:               begin + uint64(len(space)),
		vec:               uint64(uintptr(unsafe.Pointer(found))),
		vecLen:            uint64(len(found)),
		categoryInverted:  pageIsFile,
		categoryMask:      pageIsFile,
		categoryAnyOfMask: pageIsPresent | pageIsSwapped,
		returnMask:        pageIsZero,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	got, _, errno := unix.Syscall(unix.SYS_IOCTL, openPagemap().Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
	runtime.KeepAlive(found)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), arg.walkEnd - begin, nil
}

// changed implements [imagePages].
func (p *mappedPages) changed(length uint64, each func(from, to uint64)) {
	if !p.changedRegions(length, each) && !p.changedEntries(length, each) {
		each(0, length)
	}
}

// changedRegions reports the changed ranges with PAGEMAP_SCAN. If the kernel lacks it or the first
// scan fails, changedRegions reports nothing and returns false. If a later scan fails, it reports
// the rest of the memory as changed and returns true.
func (p *mappedPages) changedRegions(length uint64, each func(from, to uint64)) bool {
	if !canScan() {
		return false
	}
	found := regionBuffers.Get().(*[64]pageRegion)
	defer regionBuffers.Put(found)
	begin := uint64(uintptr(unsafe.Pointer(&p.space[0])))
	for from := uint64(0); from < length; {
		n, upTo, err := scanPages(p.space[:length], from, found)
		if err != nil && from == 0 {
			return false
		}
		if err != nil {
			each(from, length)
			return true
		}
		for _, r := range found[:n] {
			at, to := r.start-begin, r.end-begin
			if r.categories&pageIsZero != 0 && equals(p.space[at:to], p.image.content, at) {
				continue // only read, in a gap
			}
			each(at, to)
		}
		from = upTo
	}
	return true
}

// changedEntries reports the changed pages by their entries in the pagemap. If the pagemap cannot be read,
// changedEntries reports nothing and returns false.
func (p *mappedPages) changedEntries(length uint64, each func(from, to uint64)) bool {
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

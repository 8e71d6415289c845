package image

import "sync/atomic"

// A Snapshot is everything that a module can change about itself if it can be reset: its
// memory and its mutable globals. It counts its references and is freed with the last one.
type Snapshot struct {
	// Globals are the values of the mutable globals, in the order of their exports.
	Globals []uint64

	image pageImage
	refs  atomic.Int32
	freed func() // called after the snapshot was freed; may be nil
}

// Capture returns a snapshot of m, whose content is given. The instance must not run. If m did not start from a
// snapshot, the content is compared with near, which may be nil. If portable is set, the snapshot is on Go's heap on
// every system. The caller has the only reference to the result.
func (m *Memory) Capture(content []byte, near *Snapshot, portable bool) (*Snapshot, error) {
	changed := entireMemory
	if m.snapshot != nil {
		near, changed = m.snapshot, imagePagesOf(m.pages).changed
	}
	s := &Snapshot{}
	s.refs.Store(1)
	if near != nil {
		if d := newDifference(near, changed, content, portable); d != nil {
			s.image = d
			return s, nil
		}
	}
	whole, err := newWholeImage(content, portable)
	if err != nil {
		return nil, err
	}
	s.image = whole
	return s, nil
}

// Adopt makes s, which was captured from m, the snapshot that m started from, so that m can
// be reset to it. The caller's reference to s becomes the memory's. Adopt reports false,
// and leaves everything unchanged, if m cannot be reset to s.
func (m *Memory) Adopt(s *Snapshot) bool {
	d, ok := s.image.(*difference)
	if !ok || m.snapshot == nil {
		return false
	}
	p := imagePagesOf(m.pages)
	if !p.extendImage(d.length) {
		return false
	}
	m.pages = &differencePages{p, d}
	m.snapshot.Release()
	m.snapshot = s
	return true
}

// Size returns the size of the memory in bytes, a whole number of pages of 64 KiB.
func (s *Snapshot) Size() uint64 { return s.image.size() }

// Bytes returns the number of bytes that the image occupies.
func (s *Snapshot) Bytes() int64 { return s.image.bytes() }

// Method describes for people how memories are reset to the snapshot.
func (s *Snapshot) Method() string { return s.image.method() }

// OnFree sets the function that is called after the snapshot was freed.
func (s *Snapshot) OnFree(freed func()) { s.freed = freed }

// Retain adds a reference.
func (s *Snapshot) Retain() { s.refs.Add(1) }

// Release removes a reference and frees the snapshot with the last one. It does nothing if
// s is nil.
func (s *Snapshot) Release() {
	if s == nil || s.refs.Add(-1) > 0 {
		return
	}
	s.image.close()
	if s.freed != nil {
		s.freed()
	}
}

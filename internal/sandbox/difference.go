package sandbox

import "bytes"

// A difference is an image that is little else than another one, as that of a module
// which has read its configuration is: the bytes in which they differ are all that it
// keeps. Its memories begin with the other image, of which they share what they do not
// write to, and have these bytes written into them.
type difference struct {
	base    *state // whose image it differs from, and which it is a user of
	whole   wholeImage
	length  uint64
	places  []place // in their order
	content []byte  // of all places, one after the other
}

// A place is where bytes lie, or differ.
type place struct{ at, length uint32 }

const (
	// mostDiffering is how many pages may differ. Each memory has a copy of its own of
	// them, while those of a whole image are shared until they are written to.
	mostDiffering = 128

	// differingPage is what mostDiffering counts, in bytes, and differingPiece what is
	// compared and kept as one.
	differingPage  = 4 << 10
	differingPiece = 32
)

// newDifference makes an image of b, which differs from base in what written tells, as
// that of [imagePages] does. It returns nil if a whole image is better.
func newDifference(base *state, written func(length uint64, each func(from, to uint64)), b []byte, portable bool) *difference {
	d := &difference{base: base, length: uint64(len(b))}
	if other, ok := base.pages.(*difference); ok {
		d.base = other.base
	}
	d.whole = d.base.pages.(wholeImage)
	if _, copied := d.whole.(*copiedImage); copied && !portable && len(b) > copyAtMost {
		return nil // memories that were copied grew so large that they had better be mapped
	}
	if d.length < d.whole.size() || !d.find(written, b) {
		return nil
	}
	d.base.retain()
	return d
}

// anywhere tells of all that may differ where nothing is known.
func anywhere(length uint64, each func(from, to uint64)) { each(0, length) }

// imagePagesOf are the pages of the whole image.
func imagePagesOf(p pages) imagePages {
	if p, ok := p.(*differingPages); ok {
		return p.imagePages
	}
	return p.(imagePages)
}

// find finds the places in which b differs from the whole image. It reports false if
// there are too many.
func (d *difference) find(written func(length uint64, each func(from, to uint64)), b []byte) bool {
	n := 0
	written(d.length, func(from, to uint64) {
		for at := from; at < to && n <= mostDiffering; at += differingPage {
			if d.findIn(b[at:at+differingPage], at) {
				n++
			}
		}
	})
	d.content = bytes.Clone(d.content) // without the room to grow
	return n <= mostDiffering
}

// findIn finds the places in a page, and reports whether there are any.
func (d *difference) findIn(page []byte, at uint64) bool {
	was := blank[:differingPage]
	if shown := d.whole.shown(); at < uint64(len(shown)) {
		was = shown[at : at+differingPage]
	}
	if bytes.Equal(page, was) {
		return false
	}
	for i := 0; i < differingPage; i += differingPiece {
		piece := page[i : i+differingPiece]
		if bytes.Equal(piece, was[i:i+differingPiece]) {
			continue
		}
		here := uint32(at) + uint32(i)
		if last := len(d.places) - 1; last >= 0 && d.places[last].at+d.places[last].length == here {
			d.places[last].length += differingPiece
		} else {
			d.places = append(d.places, place{here, differingPiece})
		}
		d.content = append(d.content, piece...)
	}
	return true
}

func (d *difference) size() uint64   { return d.length }
func (d *difference) bytes() int64   { return int64(len(d.content) + 8*cap(d.places)) }
func (d *difference) method() string { return d.whole.method() }
func (d *difference) close()         { d.base.release() }

func (d *difference) open(length, limit uint64) (imagePages, error) {
	p, err := d.whole.open(length, limit)
	if err != nil {
		return nil, err
	}
	d.write(p)
	return &differingPages{p, d}, nil
}

// write makes pages of the whole image those of the difference.
func (d *difference) write(p pages) {
	b, content := p.resize(d.length), d.content
	for _, place := range d.places {
		content = content[copy(b[place.at:place.at+place.length], content):]
	}
}

// differingPages are pages of a whole image, into which a difference is written.
type differingPages struct {
	imagePages
	difference *difference
}

func (p *differingPages) reset() int64 {
	own := p.imagePages.reset()
	p.difference.write(p.imagePages)
	return own
}

package image

import "bytes"

// A difference is an image that stores the bytes in which it differs from another one, such
// as the image of a module that has read its configuration. Its memories start from the
// other image, share the pages that they do not write to, and have these bytes written into
// them.
type difference struct {
	base    *Snapshot // the snapshot that it differs from; the difference holds a reference to it
	whole   wholeImage
	length  uint64
	places  []Place // in ascending order
	content []byte  // content of all places, concatenated
}

const (
	// maxDifferentPages bounds the pages that may differ. Each memory has its own copy of
	// them, whereas the pages of a whole image are shared until they are written to.
	maxDifferentPages = 128

	// differencePage is the size in bytes of the pages that maxDifferentPages counts.
	// differenceUnit is the size in bytes of the units that are compared and stored.
	differencePage = 4 << 10
	differenceUnit = 32
)

// newDifference returns an image of b, which differs from base at most in the ranges that
// changed reports; see [imagePages]. It returns nil if a whole image is better.
func newDifference(
	base *Snapshot,
	changed func(length uint64, each func(from, to uint64)),
	b []byte,
	portable bool,
) *difference {
	d := &difference{base: base, length: uint64(len(b))}
	if other, ok := base.image.(*difference); ok {
		d.base = other.base
	}
	d.whole = d.base.image.(wholeImage)
	if _, copied := d.whole.(*copiedImage); copied && !portable && len(b) > MaxCopied {
		return nil // the memory has grown so large that mapping it is better
	}
	if d.length < d.whole.size() || !d.find(changed, b) {
		return nil
	}
	d.base.Retain()
	return d
}

// entireMemory reports the whole memory as changed. It replaces imagePages.changed where the
// changed ranges are unknown.
func entireMemory(length uint64, each func(from, to uint64)) { each(0, length) }

// imagePagesOf returns p, or the pages of the whole image if p are pages with a difference.
func imagePagesOf(p pages) imagePages {
	if p, ok := p.(*differencePages); ok {
		return p.imagePages
	}
	return p.(imagePages)
}

// find finds the places in which b differs from the whole image. It reports false if more than maxDifferentPages
// pages differ.
func (d *difference) find(changed func(length uint64, each func(from, to uint64)), b []byte) bool {
	n := 0
	changed(d.length, func(from, to uint64) {
		for at := from; at < to && n <= maxDifferentPages; at += differencePage {
			if d.findIn(b[at:at+differencePage], at) {
				n++
			}
		}
	})
	d.content = bytes.Clone(d.content) // without spare capacity
	return n <= maxDifferentPages
}

// findIn adds the places in which a page, which starts at this offset, differs from the whole
// image. It reports whether there are any.
func (d *difference) findIn(page []byte, at uint64) bool {
	was := zeroPage[:differencePage]
	if shown := d.whole.shown(); at < uint64(len(shown)) {
		was = shown[at : at+differencePage]
	}
	if bytes.Equal(page, was) {
		return false
	}
	for i := 0; i < differencePage; i += differenceUnit {
		unit := page[i : i+differenceUnit]
		if bytes.Equal(unit, was[i:i+differenceUnit]) {
			continue
		}
		here := uint32(at) + uint32(i)
		if last := len(d.places) - 1; last >= 0 && d.places[last].At+d.places[last].Length == here {
			d.places[last].Length += differenceUnit
		} else {
			d.places = append(d.places, Place{here, differenceUnit})
		}
		d.content = append(d.content, unit...)
	}
	return true
}

func (d *difference) size() uint64   { return d.length }
func (d *difference) bytes() int64   { return int64(len(d.content) + 8*cap(d.places)) }
func (d *difference) method() string { return d.whole.method() }
func (d *difference) close()         { d.base.Release() }

func (d *difference) open(length, limit uint64) (imagePages, error) {
	p, err := d.whole.open(length, limit)
	if err != nil {
		return nil, err
	}
	d.write(p)
	return &differencePages{p, d}, nil
}

// write writes the difference into pages of the whole image.
func (d *difference) write(p pages) {
	b, content := p.resize(d.length), d.content
	for _, place := range d.places {
		content = content[copy(b[place.At:place.At+place.Length], content):]
	}
}

// differencePages are pages of a whole image with a difference written into them.
type differencePages struct {
	imagePages
	difference *difference
}

func (p *differencePages) reset() int64 {
	own := p.imagePages.reset()
	p.difference.write(p.imagePages)
	return own
}

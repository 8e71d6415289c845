package image

import "slices"

// A byteRange is a range of offsets in an image.
type byteRange struct{ from, to int }

const (
	// minGap is the length in bytes of the shortest run of zeros that is not mapped. A
	// shorter one is not worth a mapping.
	minGap = 256 << 10
	// maxGaps bounds the number of these runs. Each adds two mappings to every instance, and a
	// process can have few mappings; see maxMappings. The output of compilers has one such run.
	maxGaps = 2
)

// withoutGaps returns the ranges of an image, whole pages of 64 KiB, that remain without
// its longest runs of zeros.
func withoutGaps(b []byte) []byteRange {
	gaps := slices.DeleteFunc(zeroRanges(b), func(r byteRange) bool { return r.to-r.from < minGap })
	slices.SortStableFunc(gaps, func(a, b byteRange) int { return (b.to - b.from) - (a.to - a.from) })
	gaps = gaps[:min(len(gaps), maxGaps)]
	slices.SortFunc(gaps, func(a, b byteRange) int { return a.from - b.from })
	var rest []byteRange
	from := 0
	for _, gap := range append(gaps, byteRange{len(b), len(b)}) {
		if gap.from > from {
			rest = append(rest, byteRange{from, gap.from})
		}
		from = gap.to
	}
	return rest
}

// zeroRanges returns the ranges of pages of 4 KiB that contain only zeros. Adjacent pages form one
// range.
func zeroRanges(b []byte) []byteRange {
	const page = 4 << 10
	var all []byteRange
	zeros := string(make([]byte, page))
	for at := 0; at < len(b); at += page {
		if string(b[at:at+page]) != zeros {
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].to == at {
			all[last].to += page
		} else {
			all = append(all, byteRange{at, at + page})
		}
	}
	return all
}

package sandbox

import "slices"

// A stretch is a part of an image, from one offset to another.
type stretch struct{ from, to int }

const (
	// leastGap is how long zeros are to be to make a gap: less is not worth a mapping
	// of its own.
	leastGap = 256 << 10
	// mostGaps bounds how many there are. Each makes two mappings more of every
	// instance, of which a process has few, see maxMappings. What compilers make has one.
	mostGaps = 2
)

// withoutGaps returns the stretches of an image, of whole pages of 64 KiB, that are
// left without its longest gaps of zeros.
func withoutGaps(b []byte) []stretch {
	gaps := slices.DeleteFunc(zeros(b), func(s stretch) bool { return s.to-s.from < leastGap })
	slices.SortStableFunc(gaps, func(a, b stretch) int { return (b.to - b.from) - (a.to - a.from) })
	gaps = gaps[:min(len(gaps), mostGaps)]
	slices.SortFunc(gaps, func(a, b stretch) int { return a.from - b.from })
	var rest []stretch
	from := 0
	for _, gap := range append(gaps, stretch{len(b), len(b)}) {
		if gap.from > from {
			rest = append(rest, stretch{from, gap.from})
		}
		from = gap.to
	}
	return rest
}

// zeros are the stretches of whole pages that hold nothing else, each as long as it
// can be.
func zeros(b []byte) []stretch {
	const page = 4 << 10
	var all []stretch
	nothing := string(make([]byte, page))
	for at := 0; at < len(b); at += page {
		if string(b[at:at+page]) != nothing {
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].to == at {
			all[last].to += page
		} else {
			all = append(all, stretch{at, at + page})
		}
	}
	return all
}

package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
)

// A bar holds the label and the value of one bar of a plot.
type bar struct {
	name  string
	value float64
}

// plot writes an SVG file to path with horizontal bars on a logarithmic scale. The first bar is
// highlighted.
func plot(path, title, unit string, bars []bar) error {
	const left, width, height, top = 250, 460, 26, 40
	least, most := math.Inf(1), 0.0
	for _, b := range bars {
		least, most = min(least, b.value), max(most, b.value)
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	x := func(v float64) float64 { return left + width*(math.Log10(v)-from)/(to-from) }
	var w bytes.Buffer
	bottom := top + height*len(bars)
	fmt.Fprintf(
		&w,
		`<svg xmlns="http://www.w3.org/2000/svg" width="800" height="%d" font-family="sans-serif" font-size="13">`+"\n",
		bottom+40,
	)
	fmt.Fprintf(
		&w,
		`<rect width="100%%" height="100%%" fill="#fff"/><text x="10" y="22" font-size="15">%s</text>`+"\n",
		html.EscapeString(title),
	)
	for e := from; e <= to; e++ {
		at := x(math.Pow(10, e))
		fmt.Fprintf(
			&w,
			`<line x1="%.0f" y1="%d" x2="%.0f" y2="%d" stroke="#ddd"/><text x="%.0f" y="%d" text-anchor="middle" fill="#666">%g</text>`+"\n",
			at,
			top,
			at,
			bottom,
			at,
			bottom+18,
			math.Pow(10, e),
		)
	}
	fmt.Fprintf(
		&w,
		`<text x="%d" y="%d" text-anchor="middle" fill="#666">%s</text>`+"\n",
		left+width/2,
		bottom+34,
		html.EscapeString(unit),
	)
	for i, b := range bars {
		y := top + i*height
		fill := "#9db4c8"
		if i == 0 {
			fill = "#2a6fb0"
		}
		fmt.Fprintf(
			&w,
			`<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%.0f</text>`+"\n",
			left-8,
			y+17,
			html.EscapeString(b.name),
			left,
			y+4,
			x(b.value)-left,
			height-8,
			fill,
			x(b.value)+5,
			y+17,
			b.value,
		)
	}
	w.WriteString("</svg>\n")
	return os.WriteFile(path, w.Bytes(), 0o644)
}

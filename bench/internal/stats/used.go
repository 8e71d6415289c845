package stats

import (
	"syscall"
	"time"
)

// A Moment is when something was. Unlike the clock, what a process used of the
// processors hardly depends on what else the machine does.
type Moment struct {
	At   time.Time
	Used time.Duration // of the processors, by this process so far
}

// Now is this moment.
func Now() (Moment, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return Moment{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano())}, err
}

// A Span is what lies between two moments, of each of so many things, in
// microseconds.
type Span struct{ Wall, Used float64 }

// Since tells what each of n things took that were done since an earlier moment.
func (m Moment) Since(began Moment, n int) Span {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
	return Span{us(m.At.Sub(began.At)), us(m.Used - began.Used)}
}

// MedianSpan is the median of each.
func MedianSpan(list []Span) Span {
	walls, useds := make([]float64, len(list)), make([]float64, len(list))
	for i, s := range list {
		walls[i], useds[i] = s.Wall, s.Used
	}
	return Span{Median(walls), Median(useds)}
}

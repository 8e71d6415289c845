package stats

import (
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/process"
)

// A Moment is a point in wall time and in the processor time of this process. Unlike wall time,
// processor time hardly depends on the machine's other load.
type Moment struct {
	At   time.Time
	Used time.Duration // processor time of this process so far
}

// Now returns the current moment.
func Now() Moment { return Moment{time.Now(), process.Used()} }

// A Span is the wall time and the processor time per item between two moments, in microseconds.
type Span struct{ Wall, Used float64 }

// Since returns the time per item of n items that were processed between began and m.
func (m Moment) Since(began Moment, n int) Span {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
	return Span{us(m.At.Sub(began.At)), us(m.Used - began.Used)}
}

// MedianSpan returns the median of the wall times and that of the processor times.
func MedianSpan(list []Span) Span {
	walls, used := make([]float64, len(list)), make([]float64, len(list))
	for i, s := range list {
		walls[i], used[i] = s.Wall, s.Used
	}
	return Span{Median(walls), Median(used)}
}

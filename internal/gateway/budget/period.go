package budget

import (
	"cmp"
	"slices"
	"time"
)

// A Period is the time for which a budget is given. Periods begin at a full hour, day, Monday or month of
// UTC.
type Period string

// The periods.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

var periods = []Period{Hour, Day, Week, Month}

// Name returns the period, or the default if p is empty.
func (p Period) Name() string { return string(cmp.Or(p, Month)) }

func (p Period) valid() bool { return slices.Contains(periods, p) }

// Start returns the beginning of the period in which t is.
func (p Period) Start(t time.Time) time.Time {
	t = t.UTC()
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	switch p {
	case Hour:
		return t.Truncate(time.Hour)
	case Day:
		return day
	case Week:
		return day.AddDate(0, 0, -(int(t.Weekday())+6)%7)
	default:
		return day.AddDate(0, 0, 1-t.Day())
	}
}

// End returns the end of the period in which t is.
func (p Period) End(t time.Time) time.Time {
	start := p.Start(t)
	switch p {
	case Hour:
		return start.Add(time.Hour)
	case Day:
		return start.AddDate(0, 0, 1)
	case Week:
		return start.AddDate(0, 0, 7)
	default:
		return start.AddDate(0, 1, 0)
	}
}

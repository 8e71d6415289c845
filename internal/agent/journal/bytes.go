package journal

import "fmt"

// DefaultMaxBytes is the default of Options.MaxBytes, in bytes.
const DefaultMaxBytes = 64 << 20

// LimitBytes is the name of a run's limit of journal bytes.
const LimitBytes = "journal_bytes"

// rowBytes is the overhead, in bytes, that is counted for each row of a journal.
const rowBytes = 128

// Bytes returns the number of journal bytes that limits and quotas count for the new run.
func (r *Creation) Bytes() int64 {
	n := 2*rowBytes + len(r.Log) + len(r.Spec) + len(r.Title) + len(r.ID) + len(r.Agent) + len(r.Metadata)
	for _, p := range r.Modules {
		n += len(p.Entry) + len(p.Ring) + len(p.Digest)
	}
	return int64(n)
}

// Bytes returns the number of journal bytes that limits and quotas count for the commit.
func (c *Commit) Bytes() int64 {
	n := len(c.Log) + len(c.Events)
	if c.Log != nil {
		n += rowBytes
	}
	if c.Last >= c.First {
		n += rowBytes
	}
	return int64(n)
}

// A FullError ends a run that exceeded a limit or quota of journal bytes, or a quota of a token.
type FullError struct {
	// Limit is LimitBytes, or the name of the tenant's quota if Quota is set.
	Limit string
	Max   int64
	Used  int64
	Quota bool // the limit is a quota of the run's tenant
	Token bool // the limit is a quota of the token of the run's end user, and not of bytes
}

// Error names the limit and says what to do about it.
func (e *FullError) Error() string {
	if e.Token {
		return fmt.Sprintf(
			"the run ended because the quota %s of its token is used up: %d of %d; start another run with a new token",
			e.Limit,
			e.Used,
			e.Max,
		)
	}
	if e.Quota {
		return fmt.Sprintf(
			"the run ended because the tenant's quota %s is used up: %d of %d bytes; delete runs that are not needed, or ask the operator for more",
			e.Limit,
			e.Used,
			e.Max,
		)
	}
	return fmt.Sprintf(
		"the run wrote %d bytes to its journal, and its limit is %d; see in its events which module writes so much, or raise limits.journal_bytes",
		e.Used,
		e.Max,
	)
}

package gateway

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// cacheBreak is the name of the event that reports that modules changed a request in front of a prompt-cache
// breakpoint, so that the upstream cannot use its cache. Its data is a cacheBreakData.
const cacheBreak = "cache_break"

type cacheBreakData struct {
	Tokens int64 `json:"tokens"` // estimated, from the first change to the last breakpoint
}

// CacheBreakOf returns the tokens that an event reports as lost for the upstream's prompt cache, or 0.
func CacheBreakOf(e *abi.Event) int64 {
	var data cacheBreakData
	if e.Type != abi.EventCustom || e.Entry != "" || e.Name != cacheBreak || json.Unmarshal(e.Data, &data) != nil {
		return 0
	}
	return data.Tokens
}

// reportCacheBreak emits a cache_break event if modules changed a cached part of the request, unless they made the
// same change in an earlier request.
func (x *exchange) reportCacheBreak() {
	p, ok := x.endpoint.protocol.(wire.Cacher)
	if !ok || x.sent == nil || bytes.Equal(x.body, x.sent) {
		return
	}
	n := tokensOf(int(x.g.changes.broken(p.CachePrefix(x.body), p.CachePrefix(x.sent))))
	if n == 0 {
		return
	}
	data, err := json.Marshal(cacheBreakData{n})
	if err == nil {
		x.announce(abi.Event{Type: abi.EventCustom, Name: cacheBreak, Data: data})
	}
}

// DefaultMaxChanges is the default of Options.MaxChanges.
const DefaultMaxChanges = 1 << 15

// A changeLog records how modules changed texts. A change that modules repeat in the next request of a conversation
// does not invalidate the upstream's cache. It is safe for concurrent use.
type changeLog struct {
	seed maphash.Seed
	max  int // limits each of the two maps

	mu       sync.Mutex
	now, old map[uint64]uint64 // from the hash of the client's blocks up to a changed one to that of the sent blocks
}

func newChangeLog(limit int) *changeLog {
	return &changeLog{seed: maphash.MakeSeed(), max: limit, now: map[uint64]uint64{}}
}

// broken compares the blocks of the client's request with those after the modules, and records all changes. It
// returns the number of bytes of before from the first new change to the end.
func (l *changeLog) broken(before, after []wire.CacheBlock) (n int64) {
	var was, is maphash.Hash
	was.SetSeed(l.seed)
	is.SetSeed(l.seed)
	l.mu.Lock()
	defer l.mu.Unlock()
	isBroken := false
	for i := range before {
		write(&was, &before[i])
		same := false
		if i < len(after) {
			write(&is, &after[i])
			same = before[i].Owner == after[i].Owner && bytes.Equal(before[i].Text, after[i].Text)
		}
		if !same && !l.repeats(was.Sum64(), is.Sum64()) {
			isBroken = true
		}
		if isBroken {
			n += int64(len(before[i].Text))
		}
	}
	return n
}

func write(h *maphash.Hash, b *wire.CacheBlock) {
	_, _ = h.WriteString(b.Owner)
	_ = h.WriteByte(0)
	_, _ = h.Write(b.Text)
	_ = h.WriteByte(0)
}

// repeats reports whether the last recorded change of the blocks with the hash from resulted in blocks with
// the hash to. It then records this change.
func (l *changeLog) repeats(from, to uint64) bool {
	known, ok := l.now[from]
	if !ok {
		known, ok = l.old[from]
	}
	if len(l.now) == l.max {
		l.now, l.old = map[uint64]uint64{}, l.now
	}
	l.now[from] = to
	return ok && known == to
}

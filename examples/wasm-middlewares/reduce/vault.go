package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// pieceBytes is the size in bytes of the pieces of stored text. Reading a page loads only the
// pieces that the page needs.
const pieceBytes = 32 << 10

// A stored describes the stored text of a result. The pieces of the text have separate keys.
type stored struct {
	Tool   string `json:"tool"`
	Bytes  int    `json:"bytes"`
	Starts []int  `json:"starts"` // offsets of the pieces
}

// saved counts the results that the run stored. It makes their ids unique even if calls have
// equal ids.
const saved = middleware.Counter("saved")

func textKey(id string) string         { return "text/" + id }
func pieceKey(id string, i int) string { return middleware.Sprintf("text/%s/%d", id, i) }

// save stores text under a new id and returns the id. If it fails, it removes the pieces that it
// has stored.
func (r *reducer) save(ctx *middleware.Context, tool, text string) (id string, err error) {
	n, err := saved.Add(ctx, 1)
	if err != nil {
		return "", err
	}
	id = "r" + strconv.FormatInt(n, 10)
	if r.Keep == keepStore {
		id = ctx.Run.ID + "." + id // all runs share the store
	}
	about := stored{Tool: tool, Bytes: len(text)}
	for rest := text; rest != ""; {
		piece := head(rest, pieceBytes)
		if err := put(ctx, r, pieceKey(id, len(about.Starts)), piece); err != nil {
			r.drop(ctx, id, len(about.Starts))
			return "", err
		}
		about.Starts = append(about.Starts, len(text)-len(rest))
		rest = rest[len(piece):]
	}
	if err := put(ctx, r, textKey(id), about); err != nil {
		r.drop(ctx, id, len(about.Starts))
		return "", err
	}
	return id, nil
}

// put stores a value under an unused key. It fails if the key has a value.
func put[T any](ctx *middleware.Context, r *reducer, key string, value T) error {
	var ok bool
	var err error
	if r.Keep == keepStore {
		ok, err = middleware.Stored[T](key).CompareAndSet(ctx, value, 0, time.Duration(r.KeepHours)*time.Hour)
	} else {
		ok, err = middleware.Local[T](key).CompareAndSet(ctx, value, 0)
	}
	if err == nil && !ok {
		err = middleware.Errorf("there is something under %q already", key)
	}
	return err
}

// get returns the value of a key, and whether there is one, from the place that Keep selects.
func get[T any](ctx *middleware.Context, r *reducer, key string) (T, bool, error) {
	if r.Keep == keepStore {
		return middleware.Stored[T](key).Get(ctx)
	}
	return middleware.Local[T](key).Get(ctx)
}

// drop removes the pieces of text that could not be stored completely.
func (r *reducer) drop(ctx *middleware.Context, id string, pieces int) {
	for i := range pieces {
		var err error
		if r.Keep == keepStore {
			err = middleware.Stored[string](pieceKey(id, i)).Delete(ctx)
		} else {
			err = middleware.Local[string](pieceKey(id, i)).Delete(ctx)
		}
		if err != nil {
			ctx.Warnf("a piece of a text that found no room stays: %v", err)
		}
	}
}

// load returns stored text that includes the n bytes at offset from, or fewer at the end of the
// text. Since load reads whole pieces, the returned text may begin earlier, at offset start.
func (r *reducer) load(
	ctx *middleware.Context,
	id string,
	about stored,
	from, n int,
) (text string, start int, err error) {
	first, exact := slices.BinarySearch(about.Starts, from)
	if !exact && first > 0 {
		first--
	}
	for i := first; i < len(about.Starts) && (i == first || about.Starts[i] < from+n); i++ {
		piece, ok, err := get[string](ctx, r, pieceKey(id, i))
		if err != nil {
			return "", 0, err
		}
		if !ok {
			return "", 0, middleware.Errorf("piece %d of %q is gone", i, id)
		}
		text += piece
	}
	return text, about.Starts[first], nil
}

package chain

import (
	"bytes"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// The source of an answer is who said what it says: an entry that hands on
// what it got leaves it, one that says something else is the source itself.

// sourceOf is the source of what an entry's wrapper answered with, which may
// be one of the replies that its next gave.
func (x *exchange[Q, P, R]) sourceOf(res *R, entry string, replies []reply[R]) string {
	i := slices.IndexFunc(replies, func(rep reply[R]) bool { return x.kind.same(res, rep.res) })
	if i < 0 {
		return entry
	}
	return replies[i].source
}

// same reports whether two results say the same.
func (k *toolKind) same(a, b *abi.Result) bool { return sameJSON(a, b) }

// same reports whether two responses say the same, whatever their ids.
func (k *modelKind) same(a, b *abi.Response) bool { return sameMessage(&a.Message, &b.Message) }

// sameMessage compares messages without what is the host's.
func sameMessage(a, b *abi.Message) bool {
	x, y := *a, *b
	x.ID, x.Origin, y.ID, y.Origin = "", "", "", ""
	return sameJSON(&x, &y)
}

// sameJSON compares two values as they are written.
func sameJSON(a, b any) bool {
	x, errX := abi.Marshal(a)
	y, errY := abi.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

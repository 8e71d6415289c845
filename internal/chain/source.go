package chain

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
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
func (k *toolKind) same(a, b *abi.Result) bool { return message.SameJSON(a, b) }

// same reports whether two responses say the same, whatever their ids.
func (k *modelKind) same(a, b *abi.Response) bool { return message.Same(&a.Message, &b.Message) }
